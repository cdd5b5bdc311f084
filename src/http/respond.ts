// Makes every response from the headers that modules have collected. Setting the ten headers of a list one by one on a finished
// response would cost almost twice as much processor time.

import type { HttpEnv } from "./request-context.ts";

/** The part of Hono's context that is needed here. */
type HasHeaders = { get(name: "headers"): HttpEnv["Variables"]["headers"] };

/** A response with the headers in `c.get("headers")`. Throws TypeError if one has an invalid value. */
export function respond(c: HasHeaders, body: string | null, status: number): Response {
  return new Response(body, { status, headers: c.get("headers") });
}

/** A response with a JSON text. */
export function respondJson(c: HasHeaders, text: string, status: number): Response {
  c.get("headers")["Content-Type"] = "application/json";
  return respond(c, text, status);
}
