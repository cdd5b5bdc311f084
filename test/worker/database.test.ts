// Retries of statements.

import { expect, it, vi } from "vitest";
import { read, write, writeIdempotent } from "../../src/d1/statements.ts";

const LOCKED = new Error("D1_ERROR: database is locked: SQLITE_BUSY");
const INTERNAL = new Error("D1_ERROR: internal error; reference = 4711");
const LOST = new Error("D1_ERROR: Network connection lost.");
const WRONG = new Error("D1_ERROR: no such table: pets: SQLITE_ERROR");

/** A statement that fails `times` times and counts its runs. */
function failing(times: number, error: unknown) {
  const statement = async () => {
    statement.runs += 1;
    if (statement.runs <= times) throw error;
    return "rows";
  };
  statement.runs = 0;
  return statement;
}

it.each([
  ["a read of a locked database", read, LOCKED],
  ["a read after an internal error", read, INTERNAL],
  ["a write to a locked database", write, LOCKED],
  ["an idempotent write after an internal error", writeIdempotent, INTERNAL],
  ["an idempotent write after a lost connection", writeIdempotent, LOST],
])("retries %s", async (_, run, error) => {
  const statement = failing(3, error);
  expect(await run(statement)).toBe("rows");
  expect(statement.runs).toBe(4);
});

it.each([
  // The first try may have written: a retry could create a second pet.
  ["a write after an internal error", write, INTERNAL],
  ["a write after a lost connection", write, LOST],
  // A retry would add to the load.
  ["a read of an overloaded database", read, new Error("D1 DB is overloaded. Requests queued for too long.")],
  ["a read that throws a non-error", read, "SQLITE_BUSY"],
])("does not retry %s, and throws DatabaseUnavailable", async (_, run, error) => {
  const statement = failing(1, error);
  await expect(run(statement)).rejects.toMatchObject({
    name: "DatabaseUnavailable",
    cause: error,
    wasWriting: run === write,
  });
  expect(statement.runs).toBe(1);
});

it.each([
  ["an invalid write", write],
  ["an invalid read", read],
])("does not retry %s, and rethrows the error of SQLite", async (_, run) => {
  const statement = failing(1, WRONG);
  await expect(run(statement)).rejects.toBe(WRONG);
  expect(statement.runs).toBe(1);
});

it.each([
  "D1_ERROR: database or disk is full: SQLITE_FULL",
  "D1_ERROR: Exceeded maximum DB size.",
  "D1_ERROR: Your account has exceeded D1's maximum account storage limit, please contact Cloudflare to raise your limit",
])("throws DatabaseFull, because nothing was written, after: %s", async (message) => {
  const statement = failing(1, new Error(message));
  await expect(writeIdempotent(statement)).rejects.toMatchObject({ name: "DatabaseFull", wasWriting: false });
  expect(statement.runs).toBe(1);
});

it("throws DatabaseUnavailable for a full database if an earlier try may have written", async () => {
  const statement = failing(1, new Error("D1_ERROR: Network connection lost."));
  const full = async () => {
    await statement();
    throw new Error("D1_ERROR: Exceeded maximum DB size.");
  };
  await expect(writeIdempotent(full)).rejects.toMatchObject({
    name: "DatabaseUnavailable",
    wasWriting: true,
  });
});

it("gives up after seven tries", async () => {
  const statement = failing(100, LOCKED);
  await expect(write(statement)).rejects.toMatchObject({ name: "DatabaseUnavailable", cause: LOCKED });
  expect(statement.runs).toBe(7);
});

it.each([
  "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.",
  "D1_ERROR: D1 DB reset because its code was updated.",
  "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.",
  "D1_ERROR: Internal error while starting up D1 DB storage.",
])("retries a read after: %s", async (message) => {
  const statement = failing(1, new Error(message));
  expect(await read(statement)).toBe("rows");
  expect(statement.runs).toBe(2);
});

it.each([
  "D1_TYPE_ERROR: Type 'undefined' not supported for value 'undefined'",
  "D1_ERROR: CHECK constraint failed: plan: SQLITE_CONSTRAINT",
  "D1_ERROR: datatype mismatch: SQLITE_MISMATCH",
])("rethrows an error that a retry can't fix: %s", async (message) => {
  const error = new Error(message);
  await expect(read(failing(1, error))).rejects.toBe(error);
});

it("limits all tries together to 5 seconds", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
  const slow = () => new Promise((_, reject) => setTimeout(() => reject(LOST), 1_500));
  const given = read(slow).catch((error: Error) => `${error.cause}`);
  await vi.advanceTimersByTimeAsync(5_000);
  // The wait only ends a test that fails.
  expect(await Promise.race([given, scheduler.wait(300)])).toBe(
    "DeadlineExceeded: the database did not answer within 5000 ms",
  );
});
