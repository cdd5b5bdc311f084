// Statements of a long piece of work: it must not end because one call of thousands got no answer.

import { setTimeout as wait } from "node:timers/promises";
import { CloudflareApiError } from "../cloudflare/account.ts";
import { messageOf } from "../lib/io.ts";

/** Doubled after each attempt: 20 s in total. More: a dead connection is reported later; fewer: a short outage ends the work. */
const FIRST_DELAY_MS = 10;
const ATTEMPTS = 12;

/** Errors of the statement itself: it would fail again. */
const OWN_FAULT = /SQLITE_(?!BUSY)|D1_TYPE_ERROR/;

/** Runs statements that have no effect when repeated, and tries again while the database can't be reached. */
export async function patiently<Result>(run: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      if (attempt === ATTEMPTS || !isTransient(error)) throw error;
      await wait(FIRST_DELAY_MS * 2 ** (attempt - 1));
    }
  }
}

function isTransient(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  // 429: Cloudflare's API allows four calls a second.
  if (cause instanceof CloudflareApiError) return cause.status >= 500 || cause.status === 429;
  return !OWN_FAULT.test(messageOf(error));
}
