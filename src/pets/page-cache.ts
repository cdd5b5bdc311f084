// Pages of pets: from the isolate's memory, the nearest replica, or the primary.
//
// A page that has a next page never changes: ids only grow, and the service neither changes nor deletes pets. So it is the same
// wherever it is read, and may be cached. The last page grows: it is always read at the primary, by each request for itself, so
// a client sees every pet that is there, and no page of a walk is older than the one before.
//
// An operator can change the table by hand, or restore it. Such a change shows within 30 s after the replicas have caught up.

import { FRESH_MS, REVALIDATE_MS } from "../d1/freshness.ts";
import { ignoreFailure, nearest } from "../d1/replicas.ts";
import { Cache } from "../lib/cache.ts";
import type { Optimizations } from "../lib/optimizations.ts";
import type { PageQuery } from "./schema.ts";
import { findPage, type Page } from "./store.ts";

/** Of the 128 MB that an isolate has: some 3,000 pages of 20 pets. */
const MAX_BYTES = 16 * 1024 * 1024;

/** For the entry itself, its key and its numbers. */
const ENTRY_BYTES = 500;

/** A string takes one or two bytes a character. */
const BYTES_PER_CHARACTER = 2;

/** A page that is to be read. */
interface PageRequest {
  database: D1Database;
  query: PageQuery;
}

export class PageCache {
  /** Pages that have a next page. */
  readonly #pages: Cache<Page | undefined, PageRequest>;

  constructor({ pageCache, replicas, revalidation }: Optimizations, maxBytes = MAX_BYTES) {
    const lifetime = {
      freshMs: FRESH_MS,
      revalidateMs: revalidation ? REVALIDATE_MS : FRESH_MS,
      staleIfErrorMs: 0,
    };
    this.#pages = new Cache({
      async load(_key, { database, query }) {
        return ifFull(await findPage(replicas ? nearest(database) : database, query));
      },
      lifetimeOf: () => lifetime,
      maxSize: pageCache ? maxBytes : 0,
      sizeOf: (page) => ENTRY_BYTES + (page?.petsJson.length ?? 0) * BYTES_PER_CHARACTER,
    });
  }

  /** The page of a query, at once if it is in memory. Throws DatabaseUnavailable. */
  get(database: D1Database, query: PageQuery): Page | Promise<Page> {
    const key = cacheKey(query);
    const cached = this.#pages.has(key) ? this.#pages.get(key, { database, query }) : undefined;
    return cached === undefined || cached instanceof Promise
      ? this.#read(key, database, query, cached)
      : cached;
  }

  /** The page that a replica had, or else the primary has: at most `limit` + 1 rows. */
  async #read(
    key: string,
    database: D1Database,
    query: PageQuery,
    cached?: Promise<Page | undefined>,
  ): Promise<Page> {
    const full = await cached?.catch(ignoreFailure);
    if (full !== undefined) return full;
    const beganMs = Date.now();
    const page = await findPage(database, query);
    this.#pages.set(key, ifFull(page), beganMs);
    return page;
  }
}

/** The page if it has a next page. */
function ifFull(page: Page): Page | undefined {
  return page.nextCursor === undefined ? undefined : page;
}

/** Two queries with the same key have the same page. */
export function cacheKey({ limit, status, cursor }: PageQuery): string {
  return `${limit} ${status} ${cursor}`;
}
