// Pages in the isolate's memory. Only a page that has a next page is kept: pets are never changed or deleted through the
// service, and ids only grow, so nothing can get into it any more. The last page, which grows, is never kept.
//
// An operator can change the table by hand, or restore it: so a page is read again after 30 s, at any replica. Such a change is
// seen everywhere 30 s after the replicas have caught up. Memory is bounded in bytes.

import { isBelieved, isDue } from "../lib/freshness.ts";
import type { PageQuery } from "./schema.ts";
import type { Page } from "./store.ts";

export const PAGES_ARE_KEPT: boolean = true;

/** Of the 128 MB that an isolate has: some 3,000 pages of 20 pets. */
const MAX_BYTES = 16 * 1024 * 1024;

/** For the entry itself, its name and the numbers in it. */
const ENTRY_BYTES = 500;

/** In the isolate's memory a text has one byte a character, or two. */
const BYTES_PER_CHARACTER = 2;

interface KeptPage {
  page: Page;
  readAtMs: number;
  bytes: number;
}

/** What is kept for a query. Two queries with the same name ask for the same page. */
export function nameOf({ limit, status, cursor }: PageQuery): string {
  return `${limit} ${status} ${cursor}`;
}

/** The oldest pages make room for new ones. Times are Unix time. */
export class KeptPages {
  readonly #pages = new Map<string, KeptPage>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number = MAX_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** The page of this name, if it may be believed. */
  get(name: string, nowMs: number): Page | undefined {
    const kept = this.#pages.get(name);
    return kept !== undefined && isBelieved(kept.readAtMs, nowMs) ? kept.page : undefined;
  }

  /** Whether the page of this name has had a next page, however long ago that was. */
  hadNext(name: string): boolean {
    return this.#pages.has(name);
  }

  /** Whether it is time to read the page again. */
  isDue(name: string, nowMs: number): boolean {
    const kept = this.#pages.get(name);
    return kept !== undefined && isDue(kept.readAtMs, nowMs);
  }

  /** Keeps a page that was read at `readAtMs`, if it has a next one. If it no longer has, forgets that it had. */
  set(name: string, page: Page, readAtMs: number): void {
    const before = this.#pages.get(name);
    if (before !== undefined) this.#forget(name, before);
    if (!PAGES_ARE_KEPT || page.nextCursor === undefined) return;
    const bytes = ENTRY_BYTES + page.petsJson.length * BYTES_PER_CHARACTER;
    this.#pages.set(name, { page, readAtMs, bytes });
    this.#bytes += bytes;
    for (const [oldest, kept] of this.#pages) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#forget(oldest, kept);
    }
  }

  #forget(name: string, { bytes }: KeptPage): void {
    this.#pages.delete(name);
    this.#bytes -= bytes;
  }
}
