// GET /version: which build answers, for whoever deploys or is called at night. It is beside the interface, so it needs no key,
// counts for nobody and asks no other part: it answers while all of them are away.

import { Hono } from "hono";
import type { HttpEnv } from "./request-context.ts";

/** The version of the interface (contract, section 9). It changes with the interface, a build with every deployment. */
export const INTERFACE_VERSION = "1.0.0";

/** Written into the code by a deployment (scripts/deploy/deployment.ts), so that it can't be told of other code. */
declare const BUILD: string | undefined;

export const version = new Hono<HttpEnv>().get("/", (c) => {
  const build = typeof BUILD === "undefined" ? "development" : BUILD;
  return c.json({ interface: INTERFACE_VERSION, build }, 200, { "Cache-Control": "no-store" });
});
