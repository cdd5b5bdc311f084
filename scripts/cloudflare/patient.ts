// A local database is a file that the service and several commands write to at the same time. Each of its statements waits while
// another process writes.

import { setTimeout as wait } from "node:timers/promises";
import { messageOf } from "../lib/io.ts";

/** Less than the deadline of a statement (src/d1/statements.ts), so nothing is written after a failure was reported. */
const PATIENCE_MS = 4_500;
/** The mean of pauses. They are random, or processes that meet once would meet again. */
const PAUSE_MS = 50;

/** Nothing was written. The internal error is that of a file that could not be opened, because workerd writes when it opens one. */
const LOCKED = /SQLITE_BUSY|internal error/;

type Statement = { each: D1PreparedStatement };

export function patient(database: D1Database): D1Database {
  const statement = (each: D1PreparedStatement): Statement & Partial<D1PreparedStatement> => ({
    each,
    bind: (...values) => statement(each.bind(...values)) as unknown as D1PreparedStatement,
    all: () => untilUnlocked(() => each.all()),
    run: () => untilUnlocked(() => each.run()),
    first: (...column: [string?]) => untilUnlocked(() => each.first(...(column as [string]))),
  });
  const patientOne = {
    prepare: (sql: string) => statement(database.prepare(sql)),
    batch: (all: Statement[]) => untilUnlocked(() => database.batch(all.map(({ each }) => each))),
  };
  return patientOne as unknown as D1Database;
}

async function untilUnlocked<Result>(run: () => Promise<Result>): Promise<Result> {
  const untilMs = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!LOCKED.test(messageOf(error))) throw error;
      if (Date.now() >= untilMs) throw new Error(`another process has locked it for ${PATIENCE_MS / 1000} s`);
      await wait(2 * PAUSE_MS * Math.random());
    }
  }
}
