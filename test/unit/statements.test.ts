// Statements: which failures are retried, and what the others become.

import { beforeEach, expect, it, vi } from "vitest";
import { read, write, writeIdempotent } from "../../src/d1/statements.ts";

const LOCKED = "D1_ERROR: database is locked: SQLITE_BUSY";
const INTERNAL = "D1_ERROR: internal error; reference = 4711";
const LOST = "D1_ERROR: Network connection lost.";

beforeEach(() => void vi.useFakeTimers());

/** Runs a statement that fails with these errors first. Returns its rows or the error, its runs, and the time that it took. */
async function outcomeOf(run: typeof read, ...failures: unknown[]) {
  const startMs = Date.now();
  let runs = 0;
  const statement = async () => {
    const failure = failures[runs];
    runs += 1;
    if (failure !== undefined) throw typeof failure === "string" ? new Error(failure) : failure;
    return "rows";
  };
  const outcome = run(statement).catch((error: Error & { wasWriting?: boolean }) => error);
  const tookMs = outcome.then(() => Date.now() - startMs);
  await vi.runAllTimersAsync();
  return { outcome: await outcome, runs, tookMs: await tookMs };
}

it.each([
  ["a read", read, LOCKED],
  ["a read", read, INTERNAL],
  ["a read", read, LOST],
  ["a read", read, "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset."],
  ["a read", read, "D1_ERROR: D1 DB reset because its code was updated."],
  ["a read", read, "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node."],
  ["a write", write, LOCKED],
  ["an idempotent write", writeIdempotent, INTERNAL],
])("$0 is retried: $2", async (_, run, message) => {
  const failures = Array(6).fill(message);
  expect(await outcomeOf(run, ...failures)).toEqual({ outcome: "rows", runs: 7, tookMs: 300 });
  const { outcome, runs } = await outcomeOf(run, ...failures, message);
  expect([outcome, runs]).toMatchObject([{ name: "DatabaseUnavailable", cause: { message } }, 7]);
});

it.each([
  // The first try may have written: a retry could create a second pet.
  ["a write", write, INTERNAL],
  ["a write", write, LOST],
  // A retry would add to the load.
  ["a read", read, "D1 DB is overloaded. Requests queued for too long."],
  ["a read", read, "D1_ERROR: disk I/O error: SQLITE_IOERR"],
])("$0 is not retried, and the database counts as unavailable: $2", async (_, run, message) => {
  const { outcome, runs } = await outcomeOf(run, message);
  const error = { name: "DatabaseUnavailable", cause: { message }, wasWriting: run === write };
  expect([outcome, runs]).toMatchObject([error, 1]);
});

it.each([
  "D1_ERROR: no such table: pets: SQLITE_ERROR",
  "D1_TYPE_ERROR: Type 'undefined' not supported for value 'undefined'",
  "D1_ERROR: CHECK constraint failed: plan: SQLITE_CONSTRAINT",
  "D1_ERROR: datatype mismatch: SQLITE_MISMATCH",
])("a statement's own fault is rethrown without a retry: %s", async (message) => {
  for (const run of [read, write]) {
    const error = new Error(message);
    expect(await outcomeOf(run, error)).toMatchObject({ outcome: error, runs: 1 });
  }
});

it.each([
  "D1_ERROR: database or disk is full: SQLITE_FULL",
  "D1_ERROR: Exceeded maximum DB size.",
  "D1_ERROR: Your account has exceeded D1's maximum account storage limit, please contact Cloudflare to raise your limit",
])("nothing was written if the database is full at the first try: %s", async (message) => {
  const { outcome, runs } = await outcomeOf(writeIdempotent, message);
  expect([outcome, runs]).toMatchObject([{ name: "DatabaseFull", wasWriting: false }, 1]);
  // An earlier try may have written.
  const later = await outcomeOf(writeIdempotent, LOST, message);
  expect(later.outcome).toMatchObject({ name: "DatabaseUnavailable", wasWriting: true });
});

it("all tries together take at most 5 s", async () => {
  const slow = () => new Promise((_, reject) => setTimeout(reject, 1_500, new Error(LOST)));
  const outcome = read(slow).catch((error: Error) => `${error.cause}`);
  await vi.advanceTimersByTimeAsync(5_000);
  // The second value is only for a test that fails.
  expect(await Promise.race([outcome, "still running"])).toBe(
    "DeadlineExceeded: the database did not answer within 5000 ms",
  );
});
