// Statements of a long piece of work: it must not end because one call of thousands got no answer.

import { apiErrorOf } from "../cloudflare/account.ts";
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
      const apiError = apiErrorOf(error);
      const isOwnFault = apiError ? !apiError.mayHaveHappened : OWN_FAULT.test(messageOf(error));
      if (attempt === ATTEMPTS || isOwnFault) throw error;
      await new Promise((resolve) => setTimeout(resolve, FIRST_DELAY_MS * 2 ** (attempt - 1)));
    }
  }
}
