// When a statement is tried again, and when it must not be.

import { expect, it, vi } from "vitest";
import { read, write, writeIdempotent } from "../../src/d1/statements.ts";

const LOCKED = new Error("D1_ERROR: database is locked: SQLITE_BUSY");
const INTERNAL = new Error("D1_ERROR: internal error; reference = 4711");
const LOST = new Error("D1_ERROR: Network connection lost.");
const WRONG = new Error("D1_ERROR: no such table: pets: SQLITE_ERROR");

/** A statement that fails so many times, and counts its runs. */
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
  ["a write that does nothing the second time, after an internal error", writeIdempotent, INTERNAL],
  ["such a write after a lost connection", writeIdempotent, LOST],
])("tries %s again", async (_, run, error) => {
  const statement = failing(3, error);
  expect(await run(statement)).toBe("rows");
  expect(statement.runs).toBe(4);
});

it.each([
  // It may have been written: a second try could make a second pet.
  ["a write after an internal error", write, INTERNAL],
  ["a write after a lost connection", write, LOST],
  // It would add to the load.
  ["a read of an overloaded database", read, new Error("D1 DB is overloaded. Requests queued for too long.")],
  ["what is no error at all", read, "SQLITE_BUSY"],
])("does not try %s again, and calls the database unavailable", async (_, run, error) => {
  const statement = failing(1, error);
  await expect(run(statement)).rejects.toMatchObject({
    name: "DatabaseUnavailable",
    cause: error,
    wasWriting: run === write,
  });
  expect(statement.runs).toBe(1);
});

it.each([
  ["a write that is wrong", write],
  ["a read that is wrong", read],
])("does not try %s again, and passes on what SQLite says", async (_, run) => {
  const statement = failing(1, WRONG);
  await expect(run(statement)).rejects.toBe(WRONG);
  expect(statement.runs).toBe(1);
});

it.each([
  "D1_ERROR: database or disk is full: SQLITE_FULL",
  "D1_ERROR: Exceeded maximum DB size.",
  "D1_ERROR: Your account has exceeded D1's maximum account storage limit, please contact Cloudflare to raise your limit",
])("knows that nothing was written after: %s", async (message) => {
  const statement = failing(1, new Error(message));
  await expect(writeIdempotent(statement)).rejects.toMatchObject({ name: "DatabaseFull", wasWriting: false });
  expect(statement.runs).toBe(1);
});

it("does not know that if an earlier try may have written", async () => {
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

it("gives up in the end", async () => {
  const statement = failing(100, LOCKED);
  await expect(write(statement)).rejects.toMatchObject({ name: "DatabaseUnavailable", cause: LOCKED });
  expect(statement.runs).toBe(7);
});

it.each([
  "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.",
  "D1_ERROR: D1 DB reset because its code was updated.",
  "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.",
  "D1_ERROR: Internal error while starting up D1 DB storage.",
])("reads again after: %s", async (message) => {
  const statement = failing(1, new Error(message));
  expect(await read(statement)).toBe("rows");
  expect(statement.runs).toBe(2);
});

it.each([
  "D1_TYPE_ERROR: Type 'undefined' not supported for value 'undefined'",
  "D1_ERROR: CHECK constraint failed: plan: SQLITE_CONSTRAINT",
  "D1_ERROR: datatype mismatch: SQLITE_MISMATCH",
])("takes no fault of ours for one of the database: %s", async (message) => {
  const error = new Error(message);
  await expect(read(failing(1, error))).rejects.toBe(error);
});

it("gives all tries together 5 seconds", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
  const slow = () => new Promise((_, reject) => setTimeout(() => reject(LOST), 1_500));
  const given = read(slow).catch((error: Error) => `${error.cause}`);
  await vi.advanceTimersByTimeAsync(5_000);
  // A third of a second is for nothing but to end a test that fails.
  expect(await Promise.race([given, scheduler.wait(300)])).toBe(
    "DeadlineExceeded: the database did not answer within 5000 ms",
  );
});
