// The response header Server-Timing (W3C Server Timing), for requests that ask for it with `Prefer: server-timing` (RFC 7240): "Server
// timing" in the guide. A request that does not ask has no recorder, and everything that would record does nothing.

import type { Context, MiddlewareHandler } from "hono";
import { timedDatabase } from "../d1/timed-database.ts";
import { HEADER } from "./header-names.ts";
import type { HttpEnv } from "./request-context.ts";
import { Timing } from "./timing.ts";

/** The preference that asks for the header. */
export const PREFERENCE = "server-timing";

/** One that is not closed reaches to the end. */
const QUOTED_STRING = /"(?:[^"\\]|\\.?)*(?:"|$)/g;
/** An element of the list, with a value or parameters or without. */
const ELEMENT = new RegExp(String.raw`(?:^|,)[ \t]*${PREFERENCE}[ \t]*(?:[,;=]|$)`, "i");

/** Whether a header Prefer asks for the timing. Other preferences are ignored. */
export function prefersTiming(prefer: string): boolean {
  return ELEMENT.test(prefer.replace(QUOTED_STRING, ""));
}

/** Sets `timing` and the header, if the request asks for it. */
export const serverTiming: MiddlewareHandler<HttpEnv> = (c, next) => {
  const prefer = c.req.header(HEADER.prefer);
  return prefer !== undefined && prefersTiming(prefer) ? timed(c, next) : next();
};

async function timed(c: Context<HttpEnv>, next: () => Promise<void>): Promise<void> {
  const timing = new Timing(c.get("nowMs"));
  c.set("timing", timing);
  const database = timedDatabase(c.env.PETS_DB, (work) => timing.time("pets", work));
  // The bindings themselves belong to other requests too.
  c.env = { ...c.env, PETS_DB: database };
  await next();
  c.res.headers.set(HEADER.serverTiming, timing.header());
}
