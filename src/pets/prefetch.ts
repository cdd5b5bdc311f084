// Reads the page of a list while the request is still being counted, so that it makes the two hops at the same time. What
// was read is nobody's before the count has let the request in: whoever is refused gets nothing of it.

import { waitUntil } from "cloudflare:workers";
import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { queryReader } from "../http/query.ts";
import { isExhausted } from "../rate-limit/isolate/limiter-clients.ts";
import { pageOf } from "./pages.ts";
import { PageQuery } from "./schema.ts";

export const READS_AHEAD: boolean = true;

/** So many pages of one key are read ahead at a time: those who come beside them may be a flood, most of which is refused. */
const MAX_AT_A_TIME = 20;

/** How many are read ahead just now, by the id of the key. */
const readings = new Map<string, number>();

/** Reads the query of a list. */
export const readPageQuery = queryReader(PageQuery);

/**
 * Begins to read the page that a request asks for, as `page`. Not for whoever will be refused: without a valid key, with
 * a query that is wrong, or with nothing left, as far as is known here, so that a flood does not reach the database.
 */
export function readAhead(): MiddlewareHandler<AppEnv> {
  return function readAhead(c, next) {
    const key = c.get("caller")?.key;
    const nowMs = c.get("nowMs");
    if (!READS_AHEAD || key === undefined || isExhausted(key)) return next();
    const query = readPageQuery(c.req);
    if (query === undefined) return next();
    const before = readings.get(key.id) ?? 0;
    if (before >= MAX_AT_A_TIME) return next();
    const page = pageOf(c.env.DB, query, nowMs);
    if (page instanceof Promise) {
      readings.set(key.id, before + 1);
      // Whoever waits for it learns of a failure; if nobody does, it is none.
      waitUntil(page.catch(() => {}).then(() => forget(key.id)));
    }
    c.set("page", page);
    return next();
  };
}

function forget(keyId: string): void {
  const left = (readings.get(keyId) ?? 1) - 1;
  if (left > 0) readings.set(keyId, left);
  else readings.delete(keyId);
}
