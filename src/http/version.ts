// GET /version: the build that answers. It needs no key, is not counted, and works while other parts fail.

import { Hono } from "hono";
import { DEPLOYED_BUILD } from "../lib/build.ts";
import type { HttpEnv } from "./request-context.ts";
import { respondJson } from "./respond.ts";

/** The version of the interface, which the document has too. A deployment does not change it. */
export const INTERFACE_VERSION = "1.0.0";

export const version = new Hono<HttpEnv>().get("/", (c) => {
  c.get("headers")["Cache-Control"] = "no-store";
  const build = DEPLOYED_BUILD ?? "development";
  return respondJson(c, JSON.stringify({ interface: INTERFACE_VERSION, build }), 200);
});
