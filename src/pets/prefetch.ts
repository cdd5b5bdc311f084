// Reads the page of a list while the request is still being counted, so that the two hops overlap. If the request is refused, the
// page is discarded.

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
    /** The valid key. Set by the authentication. */
    key: LimitedKey;
    /** The page that a list asks for. Set by `prefetch`. */
    page?: Page | Promise<Page>;
  };
}

/** Pages of one key that are read ahead at a time. More requests at once may be a flood, most of which is refused. */
const MAX_AT_A_TIME = 20;

/** Reads the query of a list. */
export const readPageQuery = queryReader(PageQuery);

/**
 * Begins to read the page that a list request asks for, and sets `page`. Does nothing without a valid key or query, and if
 * `skipIf` says that the key's request will probably be refused, so that a flood does not reach the database.
 */
export function prefetch(
  pages: PageCache,
  { skipIf }: { skipIf(key: LimitedKey): boolean },
): MiddlewareHandler<PetsEnv> {
  /** How many pages are being read, by key id. */
  const reading = new Map<string, number>();
  return function prefetch(c, next) {
    const key = c.get("caller")?.key;
    const query = key === undefined || skipIf(key) ? undefined : readPageQuery(c.req);
    if (key === undefined || query === undefined) return next();
    const others = reading.get(key.id) ?? 0;
    if (others >= MAX_AT_A_TIME) return next();
    const page = pages.get(c.env.DB, query);
    if (page instanceof Promise) {
      reading.set(key.id, others + 1);
      const finish = () => {
        const left = (reading.get(key.id) ?? 1) - 1;
        if (left > 0) reading.set(key.id, left);
        else reading.delete(key.id);
      };
      // The handler learns of a failure; after a refusal nobody needs to.
      waitUntil(page.then(finish, finish));
    }
    c.set("page", page);
    return next();
  };
}
