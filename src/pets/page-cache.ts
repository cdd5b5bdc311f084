// Pages of pets: from the isolate's memory, the nearest replica, or the primary.
//
// A page that has a next page never changes, because ids only grow and pets never change (immutable.ts). So any
// instance may serve it, and it may be cached. The last page grows: each request reads it from the primary, so a client sees
// every pet, and no page of a walk is older than the page before.
//
// An operator's changes to the table, or a restore, show within FRESH_MS after the replicas have caught up.

import { ignoreFailure, nearest, type ReadSession } from "../d1/replicas.ts";
import { Cache } from "../lib/cache.ts";
import { RUNTIME } from "../lib/workers-runtime.ts";
import type { IfPetsNeverChange } from "./immutable.ts";
import { pageQueryText as cacheKey, type PageQuery } from "./schema.ts";
import { findPage, type Page } from "./store.ts";

/** An operator's change by hand shows so long after the replicas have it. Longer: fewer reads; shorter: earlier. */
export const FRESH_MS = 30_000;
/** From this age on, a page in use is read again in the background, so that no request waits for it. */
const REVALIDATE_MS = 20_000;

/** Of the 128 MB that an isolate has; about 3,000 pages of 20 pets. */
const MAX_BYTES = 16 * 1024 * 1024;

/** An upper bound for the entry itself, its key and its numbers. */
const ENTRY_BYTES = 500;

/** JavaScript stores a character in at most two bytes. */
const BYTES_PER_CHARACTER = 2;

type PageRequest = { database: D1Database; query: PageQuery };

/** A page whose read began at `beganMs` (Unix time). `isOfPrimary`: the primary certainly has the same. */
export type Reading = { page: Page; beganMs: number; isOfPrimary: boolean };

export class PageCache {
  /** Pages that have a next page. */
  readonly #pages: Cache<Page | undefined, PageRequest>;

  constructor(maxBytes = MAX_BYTES) {
    this.#pages = new Cache({
      runtime: RUNTIME,
      load: async (_key, { database, query }) => cacheable((await findPage(nearest(database), query)).page),
      freshMs: FRESH_MS,
      revalidateMs: REVALIDATE_MS,
      maxSize: maxBytes,
      sizeOf: (page) => ENTRY_BYTES + (page?.petsJson.length ?? 0) * BYTES_PER_CHARACTER,
    });
  }

  /**
   * The page from memory; a stale one is reloaded from a replica. A page that is not in memory, or has no next page any more, is read
   * from the primary, unless `ahead` has it. Throws DatabaseUnavailable.
   */
  async get(database: D1Database, query: PageQuery, ahead?: Promise<Reading | undefined>): Promise<Page> {
    const key = cacheKey(query);
    if (this.#pages.has(key)) {
      const full = await this.#pages.get(key, { database, query }).catch(ignoreFailure);
      if (full !== undefined) return full;
    }
    const { page, beganMs } = (await ahead) ?? (await read(database, query));
    this.#pages.set(key, cacheable(page), beganMs);
    return page;
  }

  /**
   * Reads ahead for a request whose key may be made up: from the nearest instance, so that the primary has no work. Undefined if only the
   * primary has the page, or if it is in memory. `get` stores it, because a made-up key must not evict pages. Throws DatabaseUnavailable.
   */
  async readAhead(database: D1Database, query: PageQuery): Promise<Reading | undefined> {
    const key = cacheKey(query);
    if (this.#pages.has(key)) {
      await this.#pages.get(key, { database, query }).catch(ignoreFailure);
      return undefined;
    }
    const reading = await read(nearest(database), query).catch(ignoreFailure);
    return reading?.isOfPrimary ? reading : undefined;
  }
}

async function read(session: ReadSession, query: PageQuery): Promise<Reading> {
  const beganMs = Date.now();
  const { page, fromPrimary = false } = await findPage(session, query);
  return { page, beganMs, isOfPrimary: fromPrimary || page.nextCursor !== undefined };
}

/** The page if it has a next page, because only that may be cached. */
function cacheable(page: Page): IfPetsNeverChange<Page> | undefined {
  return page.nextCursor === undefined ? undefined : page;
}
