// Runs D1 statements with a deadline, and retries them where that is safe. A fault that the statement did not cause becomes
// DatabaseUnavailable.
//
// In production D1 retries reads itself and has no second writer. Locally the command line writes to the same file while the
// service runs, so SQLite may report that the database is locked.

import { withDeadline } from "../lib/deadline.ts";

/** D1's own limit is 30 s; no client waits that long. */
const DEADLINE_MS = 5_000;
let hasDeadline = true;

/** 0.3 s in total. */
const RETRY_DELAYS_MS = [5, 10, 20, 40, 75, 150];

/** Errors after which nothing was written. */
const LOCKED = /SQLITE_BUSY/;

/** Transient errors after which a statement may have run. Not "overloaded": a retry would add to the load. */
const INTERRUPTED =
  /SQLITE_BUSY|internal error|Network connection lost|object to be reset|reset because its code was updated|Cannot resolve D1 DB/i;

/** Errors of SQLite and of D1, for a database and for an account. Nothing was written. */
const FULL = /SQLITE_FULL|Exceeded maximum DB size|maximum account storage limit/i;

/** Errors of a statement that is wrong or violates the schema: they say nothing about the database's health. */
const OWN_FAULT = /SQLITE_(ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG|MISUSE|AUTH)|D1_TYPE_ERROR/;

/** The database can't be reached or does not answer. A write may or may not have happened. */
export class DatabaseUnavailable extends Error {
  readonly wasWriting: boolean;

  constructor(cause: unknown, wasWriting: boolean) {
    super(`the database can't be reached: ${cause instanceof Error ? cause.message : cause}`, { cause });
    this.name = "DatabaseUnavailable";
    this.wasWriting = wasWriting;
  }
}

/** The database or the account's storage is full: nothing was written, and an operator has to make room. */
export class DatabaseFull extends DatabaseUnavailable {
  constructor(cause: unknown) {
    super(cause, false);
    this.name = "DatabaseFull";
    this.message = "the database is full: nothing was written";
  }
}

/** Does work whose statements may take longer, because what executes them has a deadline of its own. */
export async function withoutDeadline<Result>(work: () => Promise<Result>): Promise<Result> {
  hasDeadline = false;
  try {
    return await work();
  } finally {
    hasDeadline = true;
  }
}

/** Runs a read. Throws DatabaseUnavailable, or an error of the statement itself. */
export function read<Result>(run: () => Promise<Result>): Promise<Result> {
  return runStatement(run, INTERRUPTED, false);
}

/** Runs a write, and retries only if nothing was written. Throws like `read`. */
export function write<Result>(run: () => Promise<Result>): Promise<Result> {
  return runStatement(run, LOCKED, true);
}

/** Runs a write that has no effect when repeated. Throws like `read`. */
export function writeIdempotent<Result>(run: () => Promise<Result>): Promise<Result> {
  return runStatement(run, INTERRUPTED, true);
}

async function runStatement<Result>(run: () => Promise<Result>, transient: RegExp, isWriting: boolean) {
  let attempts = 0;
  let mayHaveWritten = false;
  const attempt = async (): Promise<Result> => {
    const delayMs = RETRY_DELAYS_MS[attempts];
    attempts += 1;
    try {
      return await run();
    } catch (error) {
      if (delayMs === undefined || !transient.test(messageOf(error))) throw error;
      mayHaveWritten ||= !LOCKED.test(messageOf(error));
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      return attempt();
    }
  };
  try {
    return await (hasDeadline ? withDeadline("the database", DEADLINE_MS, attempt) : attempt());
  } catch (error) {
    if (!mayHaveWritten && FULL.test(messageOf(error))) throw new DatabaseFull(error);
    if (OWN_FAULT.test(messageOf(error)) || error instanceof DatabaseUnavailable) throw error;
    throw new DatabaseUnavailable(error, isWriting);
  }
}

/** Empty for a thrown value that is not an Error: it says nothing about the database. */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : "";
}
