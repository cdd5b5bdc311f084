// Where a page comes from: this isolate's memory, the nearest replica, or the primary.
//
// A page that has a next page is the same wherever it is read: a replica has the commits of some moment, ids are given in
// the order of commits, and the page ends before the last of those. What looks like the last page of a list is asked of
// the primary, so nobody ever misses a pet that is there, and no page of a walk is older than the one before.

import { waitUntil } from "cloudflare:workers";
import { ignoreFailure, nearest } from "../d1/replicas.ts";
import { SingleFlight } from "../lib/single-flight.ts";
import { KeptPages, nameOf } from "./page-cache.ts";
import type { PageQuery } from "./schema.ts";
import { findPage, type Page } from "./store.ts";

const kept = new KeptPages();

/** The pages with a next page that are being read. */
const flights = new SingleFlight<Page | undefined>();

/** The page of a list as of `nowMs` (Unix time): at once if it is in memory. Throws DatabaseUnavailable. */
export function pageOf(database: D1Database, query: PageQuery, nowMs: number): Page | Promise<Page> {
  const name = nameOf(query);
  const page = kept.get(name, nowMs);
  if (page === undefined) return readPage(database, query, nowMs);
  if (kept.isDue(name, nowMs) && !flights.isUnderway(name)) {
    waitUntil(readFullPage(database, query, nowMs).catch(() => {}));
  }
  return page;
}

/** Reads the page: at most `limit` + 1 rows. */
async function readPage(database: D1Database, query: PageQuery, nowMs: number): Promise<Page> {
  const name = nameOf(query);
  const full = kept.hadNext(name) ? await readFullPage(database, query, nowMs) : undefined;
  if (full !== undefined) return full;
  const page = await findPage(database, query);
  kept.set(name, page, nowMs);
  return page;
}

/** Reads a page from any instance, if it has a next page there. Requests at the same time read it together. */
function readFullPage(database: D1Database, query: PageQuery, nowMs: number): Promise<Page | undefined> {
  const name = nameOf(query);
  return flights.run(name, async () => {
    const page = await findPage(nearest(database), query).catch(ignoreFailure);
    if (page !== undefined) kept.set(name, page, nowMs);
    return page?.nextCursor === undefined ? undefined : page;
  });
}
