// The log: one line of JSON for each request, which the platform indexes by field. Of the client's input, a line has only the
// method and a validated request ID: no secret, other header, body or path. Where the request comes from is Cloudflare's word.

import type { Context, MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import { DEPLOYED_BUILD } from "../lib/build.ts";
import type { Failure, HttpEnv } from "./request-context.ts";

const MIGRATE =
  "a table or column is missing in the database: run ./petstore migrate (production: ./petstore migrate --remote, previews: ./petstore migrate --preview NAME)";

/** An airport, which names a data center, and a country, or `T1` for Tor. Another Worker that is bound to this one may send anything. */
const COLO = /^[A-Z]{3}$/;
const COUNTRY = /^[A-Z][A-Z\d]$/;

/** Adds a failure to the request's log line, with the stack if it is an internal error. */
export function logFailure<E extends HttpEnv>(c: Context<E>, event: Failure["event"], error: unknown): void {
  const stack = event === "internal_error" && error instanceof Error ? error.stack : undefined;
  const cause = causes(error);
  const hint = /no such (table|column)|has no column named/.test(cause) ? MIGRATE : undefined;
  const log = c.get("log");
  log.failures = [...(log.failures ?? []), { event, cause, hint, stack }];
}

export const logRequest: MiddlewareHandler<HttpEnv> = async (c, next) => {
  await next();
  const { failures, ...fields } = c.get("log");
  const line = {
    event: "request",
    requestId: c.get("requestId"),
    method: c.req.method,
    route: matchedRoutes(c).findLast(({ method }) => method !== "ALL")?.path,
    status: c.res.status,
    ms: Date.now() - c.get("nowMs"),
    ...location(c.req.raw.cf ?? {}),
    ...fields,
    // A field of its own, because the platform can't group lines by a field within a list.
    failure: failures?.[0]?.event,
    failures,
  };
  write(failures === undefined ? "log" : "error", line);
};

/** The data center that has received the request, and the country of the client's address, where Cloudflare says them. */
function location({ colo, country }: Record<string, unknown>) {
  return { colo: matching(COLO, colo), country: matching(COUNTRY, country) };
}

function matching(form: RegExp, value: unknown): string | undefined {
  return typeof value === "string" && form.test(value) ? value : undefined;
}

/** Logs what happens outside of a request. */
export function logRun(event: string, fields: Record<string, unknown>): void {
  write("log", { event, ...fields });
}

function write(level: "log" | "error", line: Record<string, unknown>): void {
  // Cloudflare adds the time to each line; written here too, it would be a tenth of the log's bytes.
  const timed = DEPLOYED_BUILD === undefined ? { time: new Date().toISOString(), ...line } : line;
  // biome-ignore lint/suspicious/noConsole: the console is the log of a Worker
  console[level](JSON.stringify(timed));
}

/** An error and its causes as one line. */
function causes(error: unknown): string {
  if (!(error instanceof Error)) return `${error}`;
  return error.cause === undefined ? `${error}` : `${error}; caused by ${causes(error.cause)}`;
}
