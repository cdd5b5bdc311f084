// Makes every response from the headers that modules have collected. Setting the ten headers of a list one by one on a finished
// response would cost almost twice as much processor time.

import type { TypedResponse } from "hono";
import type { HttpEnv } from "./request-context.ts";

/** The type of a value in a TypeScript client, where every JSON number is a `number`. Above 2^53 clients must use the text. */
export type Json<Value> = Value extends bigint
  ? number
  : Value extends object
    ? { [Key in keyof Value]: Json<Value[Key]> }
    : Value;

/** The part of Hono's context that is needed here. */
type HasHeaders = { get(name: "headers"): HttpEnv["Variables"]["headers"] };

/** A response with the headers in `c.get("headers")`. Throws TypeError if one has an invalid value. */
export function respond(c: HasHeaders, body: string | null, status: number): Response {
  return new Response(body, { status, headers: c.get("headers") });
}

/** A response with a JSON text, typed for Hono's client as `Value`. */
export function respondJson<Value, Status extends 200 | 201>(c: HasHeaders, text: string, status: Status) {
  c.get("headers")["Content-Type"] = "application/json";
  return respond(c, text, status) as Response & TypedResponse<Json<Value>, Status, "json">;
}
