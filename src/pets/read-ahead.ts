// Reads the page of a list while the request is still being counted, so that it makes the two hops at the same time. What
// was read is nobody's before the count has let the request in: whoever is refused gets nothing of it.

import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { seemsUsedUp } from "../rate-limit/key-meters.ts";
import { queryReader } from "../validation.ts";
import { pageOf } from "./pages.ts";
import { PageQuery } from "./schema.ts";

export const READS_AHEAD: boolean = true;

/**
 * Begins to read the page that a request asks for, as `page`. Not for whoever will be refused: without a valid key, with
 * a query that is wrong, or with nothing left, as far as is known here, so that a flood does not reach the database.
 */
export function readAhead(): MiddlewareHandler<AppEnv> {
  const readQuery = queryReader(PageQuery);
  return function readAhead(c, next) {
    const key = c.get("caller")?.key;
    const nowMs = c.get("nowMs");
    if (!READS_AHEAD || key === undefined || seemsUsedUp(key, nowMs)) return next();
    const query = readQuery(c.req);
    if (query === undefined) return next();
    const page = pageOf(c.env.DB, query, nowMs);
    // Whoever waits for it learns of a failure; if nobody does, it is none.
    if (page instanceof Promise) page.catch(() => {});
    c.set("page", page);
    return next();
  };
}
