// Reads the page of a list while the request is counted, so that the two hops overlap. A refused request's page is discarded.

import { waitUntil } from "cloudflare:workers";
import type { HonoRequest, MiddlewareHandler } from "hono";
import type { KeysEnv } from "../keys/identify.ts";
import type { Caller, KeyRequest } from "../keys/isolate/caller.ts";
import type { KnownKeys } from "../keys/isolate/known-keys.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
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

/** Parsed queries by their URLs, together about 1 MB of the 128 that an isolate has: parsing takes 6 % of a hot request's processor time. */
const MAX_QUERIES = 1_000;
const MAX_URL_LENGTH = 300;

/**
 * Sets `page` if the query is valid, and the key is valid or new to the isolate. Not if the request will probably be refused: then a
 * flood does not reach the database.
 */
export function prefetch(pages: PageCache, keys: KnownKeys): MiddlewareHandler<PetsEnv> {
  /** The number of running prefetches, by key id. */
  const reading = new Map<string, number>();
  const queries = new BoundedMap<string, PageQuery>(MAX_QUERIES);
  /** A valid query. */
  const queryOf = (url: string, request: HonoRequest) => {
    const known = queries.get(url);
    if (known !== undefined) return known;
    const { data } = PageQuery.safeParse(request.query());
    if (data !== undefined && url.length <= MAX_URL_LENGTH) queries.set(url, data);
    return data;
  };
  return function prefetch(c, next) {
    const request = c.get("keyRequest");
    if (request === undefined || !mayRead(keys, request, c.get("caller"))) return next();
    const query = queryOf(c.get("url"), c.req);
    // A page in memory needs no hop.
    if (query === undefined || pages.isFresh(query)) return next();
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
  return caller.key !== undefined && !keys.isExhausted(caller.keyId);
}
