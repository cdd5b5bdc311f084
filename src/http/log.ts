// The only place that writes to the log: one JSON object a line, which the platform can search by field, and one line
// for each request. What a client chose is not in it, but for a request id of harmless characters: no key, no header, no
// body, no path.

import type { Context, MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import type { AppEnv } from "../env.ts";
import { left, namedWindow } from "../rate-limit/headers.ts";

/** What can fail on our side while a request is served, whether its client notices or not. */
export type FailureEvent =
  | "internal_error"
  | "limiter_unavailable"
  | "database_unavailable"
  | "database_full";

export interface Failure {
  event: FailureEvent;
  cause: string;
  /** What an operator should do. */
  hint?: string | undefined;
  stack?: string | undefined;
}

const MIGRATE =
  "a table or column is missing in the database: run npm run migrate (production: npm run migrate -- --remote, previews: npm run migrate -- --preview NAME)";

/** Has a failure written into the line of its request. The stack is kept for what nobody expected. */
export function noteFailure(c: Context<AppEnv>, event: FailureEvent, error: unknown): void {
  const stack = event === "internal_error" && error instanceof Error ? error.stack : undefined;
  const cause = causes(error);
  const hint = /no such (table|column)|has no column named/.test(cause) ? MIGRATE : undefined;
  c.set("failures", [...(c.var.failures ?? []), { event, cause, hint, stack }]);
}

/** Writes the line of each request when its response is made. */
export function logRequest(): MiddlewareHandler<AppEnv> {
  return async function logRequest(c, next) {
    await next();
    const caller = c.get("caller");
    const decision = c.get("decision");
    const failures = c.get("failures");
    const window = decision && namedWindow(decision);
    // The clock is read again, because this is how long it took.
    const line = {
      event: "request",
      requestId: c.get("requestId"),
      method: c.req.method,
      route: matchedRoutes(c).findLast(({ method }) => method !== "ALL")?.path,
      status: c.res.status,
      ms: Date.now() - c.get("nowMs"),
      keyId: caller?.keyId,
      plan: caller?.key?.plan,
      window,
      remaining: window && left(decision, window),
      code: c.get("errorCode"),
      // By itself, because the platform can't group lines by what is within a list.
      failure: failures?.[0]?.event,
      failures,
    };
    write(failures === undefined ? "log" : "error", line);
  };
}

/** Writes the line of a run of the cron trigger. */
export function logRun(event: string, fields: Record<string, unknown>): void {
  write("log", { event, ...fields });
}

function write(level: "log" | "error", line: Record<string, unknown>): void {
  // biome-ignore lint/suspicious/noConsole: the console is the log of a Worker
  console[level](JSON.stringify(line));
}

/** An error and what it came from, in one line. */
function causes(error: unknown): string {
  if (!(error instanceof Error)) return `${error}`;
  return error.cause === undefined ? `${error}` : `${error}; caused by ${causes(error.cause)}`;
}
