// How statements reach D1: again after a fault if that can do no harm, and not for longer than a deadline.
// A fault that is not the statement's own becomes DatabaseUnavailable, whatever it was.
//
// In production D1 has no second writer, and repeats reads by itself; on a laptop the command line writes into the same
// file while the service runs, and SQLite then calls the database locked.

import { withDeadline } from "../lib/deadline.ts";

/** D1 gives up a query after 30 s; no client waits that long. */
const DEADLINE_MS = 5_000;

/** Three tenths of a second together. */
const RETRY_DELAYS_MS = [5, 10, 20, 40, 75, 150];

/** Nothing was written. */
const LOCKED = /SQLITE_BUSY/;

/** Passing faults after which a statement may have been run, or not. Never "overloaded": that would add to it. */
const INTERRUPTED =
  /SQLITE_BUSY|internal error|Network connection lost|object to be reset|reset because its code was updated|Cannot resolve D1 DB/i;

/** SQLite's words, and D1's for a database and for an account. Nothing was written. */
const FULL = /SQLITE_FULL|Exceeded maximum DB size|maximum account storage limit/i;

/** What SQLite says of a statement that is wrong, or forbidden by the schema: that is no matter of the database's health. */
const OWN_FAULT = /SQLITE_(ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG|MISUSE|AUTH)|D1_TYPE_ERROR/;

/** The database can't be reached, or does not answer. After a write, whether that was done is unknown. */
export class DatabaseUnavailable extends Error {
  readonly wasWriting: boolean;

  constructor(cause: unknown, wasWriting: boolean) {
    super(`the database can't be reached: ${cause instanceof Error ? cause.message : cause}`, { cause });
    this.name = "DatabaseUnavailable";
    this.wasWriting = wasWriting;
  }
}

/** The database, or all storage of the account, is full: nothing was written, and nothing will be until an operator makes room. */
export class DatabaseFull extends DatabaseUnavailable {
  constructor(cause: unknown) {
    super(cause, false);
    this.name = "DatabaseFull";
  }
}

/** Runs a reading statement. Throws DatabaseUnavailable, or what is the statement's own fault. */
export function read<Result>(run: () => Promise<Result>): Promise<Result> {
  return reach(run, INTERRUPTED, false);
}

/** Runs a writing statement, again only if nothing was written. Throws like `read`. */
export function write<Result>(run: () => Promise<Result>): Promise<Result> {
  return reach(run, LOCKED, true);
}

/** Runs a writing statement that does nothing the second time. Throws like `read`. */
export function writeIdempotent<Result>(run: () => Promise<Result>): Promise<Result> {
  return reach(run, INTERRUPTED, true);
}

async function reach<Result>(
  run: () => Promise<Result>,
  passing: RegExp,
  isWriting: boolean,
): Promise<Result> {
  let tries = 0;
  const runOnce = () => {
    tries += 1;
    return run();
  };
  try {
    return await withDeadline("the database", DEADLINE_MS, () => retry(runOnce, passing));
  } catch (error) {
    // After another try it is unknown whether that one wrote.
    if (tries === 1 && error instanceof Error && FULL.test(error.message)) throw new DatabaseFull(error);
    if (error instanceof Error && OWN_FAULT.test(error.message)) throw error;
    throw new DatabaseUnavailable(error, isWriting);
  }
}

async function retry<Result>(run: () => Promise<Result>, passing: RegExp): Promise<Result> {
  for (const delayMs of RETRY_DELAYS_MS) {
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof Error && passing.test(error.message))) throw error;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
  }
  return run();
}
