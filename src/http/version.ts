// GET /version: the build that answers. It needs no key, is not counted, and works while other parts fail.

import { Hono } from "hono";
import type { HttpEnv } from "./request-context.ts";
import { respondJson } from "./respond.ts";

/** The version of the interface, which the document has too. A deployment does not change it. */
export const INTERFACE_VERSION = "1.0.0";

/** A deployment compiles this into the code (scripts/deploy.ts, scripts/preview.ts). */
declare const BUILD: string | undefined;

export const version = new Hono<HttpEnv>().get("/", (c) => {
  const build = typeof BUILD === "undefined" ? "development" : BUILD;
  c.get("headers")["Cache-Control"] = "no-store";
  return respondJson(c, JSON.stringify({ interface: INTERFACE_VERSION, build }), 200);
});
