// Reads the page of a list while the request is counted, so that the two hops overlap. A refused request's page is discarded.

import { waitUntil } from "cloudflare:workers";
import type { MiddlewareHandler } from "hono";
import { queryReader } from "../http/query.ts";
import type { RateLimitEnv } from "../rate-limit/middleware.ts";
import type { LimitedKey } from "../rate-limit/protocol.ts";
import type { PageCache } from "./page-cache.ts";
import { PageQuery } from "./schema.ts";
import type { Page } from "./store.ts";

export interface PetsEnv extends RateLimitEnv {
  Variables: RateLimitEnv["Variables"] & {
    /** The valid key. Set by `requireKey`. */
    key: LimitedKey;
    /** The requested page. Set by `prefetch`. */
    page?: Page | Promise<Page>;
  };
}

/** Concurrent prefetches per key. More concurrent requests may be a flood, most of which is refused. */
const MAX_CONCURRENT = 20;

export const readPageQuery = queryReader(PageQuery);

/**
 * Sets `page` if the key and the query are valid. `skipIf` says whether the request will probably be refused: then a flood does
 * not reach the database.
 */
export function prefetch(
  pages: PageCache,
  { skipIf }: { skipIf(key: LimitedKey): boolean },
): MiddlewareHandler<PetsEnv> {
  /** The number of running prefetches, by key id. */
  const reading = new Map<string, number>();
  return function prefetch(c, next) {
    const key = c.get("caller")?.key;
    if (key === undefined || skipIf(key)) return next();
    const query = readPageQuery(c);
    if (!query.success) return next();
    const others = reading.get(key.id) ?? 0;
    if (others >= MAX_CONCURRENT) return next();
    const page = pages.get(c.env.DB, query.data);
    if (page instanceof Promise) {
      reading.set(key.id, others + 1);
      const finish = () => {
        const left = (reading.get(key.id) ?? 1) - 1;
        if (left > 0) reading.set(key.id, left);
        else reading.delete(key.id);
      };
      // The handler awaits the page and so gets a failure; after a refusal it doesn't matter.
      waitUntil(page.then(finish, finish));
    }
    c.set("page", page);
    return next();
  };
}
