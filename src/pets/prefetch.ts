// Reads the page of a list while the key's object counts the request, so that the two hops overlap. A refused request's page is
// discarded.

import { waitUntil } from "cloudflare:workers";
import type { MiddlewareHandler } from "hono";
import type { KeysEnv } from "../keys/identify.ts";
import type { Caller, KeyRequest } from "../keys/isolate/caller.ts";
import type { KnownKeys } from "../keys/isolate/known-keys.ts";
import type { PageCache } from "./page-cache.ts";
import { PageQuery } from "./schema.ts";
import type { Page } from "./store.ts";

export interface PetsEnv extends KeysEnv {
  Variables: KeysEnv["Variables"] & {
    /** The requested page. Set by `prefetch`. */
    page?: Promise<Page>;
  };
}

/** Concurrent prefetches per key. More concurrent requests may be a flood, most of which is refused. */
const MAX_CONCURRENT = 20;

/**
 * Sets `page` if the query is valid, and the key's object will be asked about the request. Not if the request will probably be refused:
 * then a flood does not reach the database.
 */
export function prefetch(pages: PageCache, keys: KnownKeys): MiddlewareHandler<PetsEnv> {
  /** The number of running prefetches, by key id. */
  const reading = new Map<string, number>();
  return function prefetch(c, next) {
    const request = c.get("keyRequest");
    if (request === undefined || !mayRead(keys, request, c.get("caller"))) return next();
    const { data: query } = PageQuery.safeParse(c.req.query());
    if (query === undefined) return next();
    const { id } = request.credential;
    const others = reading.get(id) ?? 0;
    // Requests with one unknown secret share one call, so they share one page too.
    if (others >= (c.get("caller") === undefined ? 1 : MAX_CONCURRENT)) return next();
    const page = pages.get(c.env.PETS_DB, query);
    reading.set(id, others + 1);
    const finish = () => {
      const left = (reading.get(id) ?? 1) - 1;
      if (left > 0) reading.set(id, left);
      else reading.delete(id);
    };
    // The handler awaits the page and so gets a failure; after a refusal it doesn't matter.
    waitUntil(page.then(finish, finish));
    c.set("page", page);
    return next();
  };
}

function mayRead(keys: KnownKeys, request: KeyRequest, caller: Caller | undefined): boolean {
  if (caller === undefined) return keys.isNew(request);
  return caller.key !== undefined && keys.needsCall(caller.keyId);
}
