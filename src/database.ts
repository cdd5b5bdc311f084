// How statements reach D1: as they are, and again after a fault that is known to have changed nothing. In production
// D1 has no second writer, and repeats reads by itself; on a laptop the command line writes into the same file while
// the service runs, and SQLite then calls the database locked.

/** Three tenths of a second together. */
const RETRY_DELAYS_MS = [5, 10, 20, 40, 75, 150];

/** Runs a reading statement, again on the faults that are known to pass: a read changes nothing. */
export function read<Result>(run: () => Promise<Result>): Promise<Result> {
  return retry(run, /SQLITE_BUSY|internal error/);
}

/** Runs a writing statement, again only on the fault that says that nothing was written. */
export function write<Result>(run: () => Promise<Result>): Promise<Result> {
  return retry(run, /SQLITE_BUSY/);
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
