// Statements: which failures are retried, and what the others become.

import { beforeEach, expect, it, vi } from "vitest";
import { read, write, writeIdempotent } from "../../src/d1/statements.ts";

const LOCKED = "D1_ERROR: database is locked: SQLITE_BUSY";
const INTERNAL = "D1_ERROR: internal error; reference = 4711";
const LOST = "D1_ERROR: Network connection lost.";
const DISK_FULL = "D1_ERROR: database or disk is full: SQLITE_FULL";

beforeEach(() => void vi.useFakeTimers());

/** Runs a statement that fails with these errors first. Returns its rows or the error, its runs, and the time that it took. */
async function outcomeOf(run: typeof read, failures: string[]) {
  const startMs = Date.now();
  const statement = vi.fn(async () => "rows");
  for (const message of failures) statement.mockRejectedValueOnce(new Error(message));
  const outcome = run(statement).catch((error: Error & { wasWriting?: boolean }) => error);
  const tookMs = outcome.then(() => Date.now() - startMs);
  await vi.runAllTimersAsync();
  return { outcome: await outcome, runs: statement.mock.calls.length, tookMs: await tookMs };
}

it("a statement is tried seven times, within 0.3 s", async () => {
  const failures = Array(6).fill(LOCKED);
  expect(await outcomeOf(read, failures)).toEqual({ outcome: "rows", runs: 7, tookMs: 300 });
});

/** Names of errors. A statement's own fault is rethrown. */
const [UNAVAILABLE, FULL, OWN_FAULT] = ["DatabaseUnavailable", "DatabaseFull", "Error"];

it.each([
  ["read", LOCKED, 7, UNAVAILABLE],
  ["read", INTERNAL, 7, UNAVAILABLE],
  ["read", LOST, 7, UNAVAILABLE],
  ["read", "D1 DB storage operation exceeded timeout which caused object to be reset.", 7, UNAVAILABLE],
  ["read", "D1_ERROR: D1 DB reset because its code was updated.", 7, UNAVAILABLE],
  ["read", "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.", 7, UNAVAILABLE],
  // A retry would add to the load.
  ["read", "D1 DB is overloaded. Requests queued for too long.", 1, UNAVAILABLE],
  ["read", "D1_ERROR: disk I/O error: SQLITE_IOERR", 1, UNAVAILABLE],
  ["read", "D1_ERROR: no such table: pets: SQLITE_ERROR", 1, OWN_FAULT],
  ["write", LOCKED, 7, UNAVAILABLE],
  // The first try may have written: a retry could create a second pet.
  ["write", INTERNAL, 1, UNAVAILABLE],
  ["write", LOST, 1, UNAVAILABLE],
  ["write", "D1_TYPE_ERROR: Type 'undefined' not supported for value 'undefined'", 1, OWN_FAULT],
  ["write", "D1_ERROR: CHECK constraint failed: plan: SQLITE_CONSTRAINT", 1, OWN_FAULT],
  ["write", "D1_ERROR: datatype mismatch: SQLITE_MISMATCH", 1, OWN_FAULT],
  ["writeIdempotent", INTERNAL, 7, UNAVAILABLE],
  ["writeIdempotent", DISK_FULL, 1, FULL],
  ["writeIdempotent", "D1_ERROR: Exceeded maximum DB size.", 1, FULL],
  ["writeIdempotent", "Your account has exceeded D1's maximum account storage limit", 1, FULL],
] as const)("%s: after %s it is tried %i times, then there is a %s", async (name, message, tries, error) => {
  const { outcome, runs } = await outcomeOf({ read, write, writeIdempotent }[name], Array(7).fill(message));
  const wasWriting = name !== "read" && error !== FULL;
  const thrown = error === OWN_FAULT ? { message } : { name: error, cause: { message }, wasWriting };
  expect([outcome, runs]).toMatchObject([thrown, tries]);
});

it("if the database is full, nothing was written unless an earlier try may have", async () => {
  const { outcome } = await outcomeOf(writeIdempotent, [LOST, DISK_FULL]);
  expect(outcome).toMatchObject({ name: UNAVAILABLE, wasWriting: true });
  expect((await outcomeOf(write, [LOCKED, DISK_FULL])).outcome).toMatchObject({ name: FULL });
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
