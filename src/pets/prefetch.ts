// Reads the page of a list while the key's object counts the request, so that the two hops overlap. A refused request's page is
// discarded. A key that is new to the isolate may be made up: then the page is read from the nearest instance only, and the handler
// reads it from the primary if that is not enough.

import { waitUntil } from "cloudflare:workers";
import type { MiddlewareHandler } from "hono";
import type { KeysEnv, Limiter } from "../keys/limiter.ts";
import type { PageCache, Reading } from "./page-cache.ts";
import { PageQuery } from "./schema.ts";
import type { Page } from "./store.ts";

export interface PetsEnv extends KeysEnv {
  Variables: KeysEnv["Variables"] & {
    /** The requested page. Set by `prefetch` for a valid key. */
    page?: Promise<Page>;
    /** What `get` of the page cache may use. Set by `prefetch` for a key that is new to the isolate. */
    ahead?: Promise<Reading | undefined>;
  };
}

/** Concurrent prefetches per key. More concurrent requests may be a flood, most of which is refused. */
const MAX_CONCURRENT = 20;

/**
 * Sets `page` if the query is valid, and the key's object will be asked about the request. Not if the request will probably be refused:
 * then a flood does not reach the database.
 */
export function prefetch(pages: PageCache, limiter: Limiter): MiddlewareHandler<PetsEnv> {
  /** The number of running prefetches, by key id. */
  const reading = new Map<string, number>();
  return function prefetch(c, next) {
    const called = limiter.expectsCall(c);
    const id = c.get("keyRequest")?.credential.id;
    if (called === undefined || id === undefined) return next();
    const { data: query } = PageQuery.safeParse(c.req.query());
    if (query === undefined) return next();
    const others = reading.get(id) ?? 0;
    const isNew = called === "new";
    // Requests with one unknown secret share one call, so they share one page too.
    if (others >= (isNew ? 1 : MAX_CONCURRENT)) return next();
    const page = isNew ? undefined : pages.get(c.env.PETS_DB, query);
    const ahead = isNew ? pages.readAhead(c.env.PETS_DB, query) : undefined;
    reading.set(id, others + 1);
    const finish = () => {
      const left = (reading.get(id) ?? 1) - 1;
      if (left > 0) reading.set(id, left);
      else reading.delete(id);
    };
    // The handler awaits the page and so gets a failure; after a refusal it doesn't matter.
    waitUntil(Promise.allSettled([page, ahead]).then(finish));
    c.set("page", page);
    c.set("ahead", ahead);
    return next();
  };
}
