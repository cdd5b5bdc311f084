// Statements of a long piece of work: it must not end because one call of thousands got no answer.

import { CloudflareApiError } from "../cloudflare/account.ts";
import { messageOf } from "../lib/io.ts";

/** Doubled after each attempt: 20 s in total. More: a dead connection is reported later; fewer: a short outage ends the work. */
const FIRST_DELAY_MS = 10;
const ATTEMPTS = 12;

/** After 1,200 calls in five minutes, Cloudflare's API refuses all calls for this long. */
const REFUSED_MS = 5 * 60_000;

/** Errors of the statement itself: it would fail again. */
const OWN_FAULT = /SQLITE_(?!BUSY)|D1_TYPE_ERROR/;

/** Runs statements that have no effect when repeated, and tries again while the database can't be reached. */
export async function patiently<Result>(run: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      const cause = error instanceof Error ? (error.cause ?? error) : error;
      const status = cause instanceof CloudflareApiError ? cause.status : undefined;
      const isOwnFault = status === undefined ? OWN_FAULT.test(messageOf(error)) : status < 500;
      if (attempt === ATTEMPTS || (isOwnFault && status !== 429)) throw error;
      const delayMs = status === 429 ? REFUSED_MS : FIRST_DELAY_MS * 2 ** (attempt - 1);
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
  }
}
