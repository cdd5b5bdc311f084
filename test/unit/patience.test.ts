// How long a backup waits for a database that does not answer.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { patiently } from "../../scripts/backup/patience.ts";
import { CloudflareApiError } from "../../scripts/cloudflare/account.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The attempts within a time, and the outcome by then. */
async function attempts(error: Error, failing: number, withinMs: number) {
  let count = 0;
  const work = async () => {
    count += 1;
    if (count <= failing) throw error;
    return "done";
  };
  let outcome = "waits";
  patiently(work).then(
    (result) => (outcome = result),
    ({ message }: Error) => (outcome = message),
  );
  await vi.advanceTimersByTimeAsync(withinMs);
  return [count, outcome];
}

const refusal = (status: number) => new CloudflareApiError(status, status, "refused");
const REFUSED = (status: number) => refusal(status).message;

it("tries for 20 seconds", async () => {
  expect(await attempts(refusal(502), 11, 20_470)).toEqual([12, "done"]);
  expect(await attempts(refusal(502), 12, 20_470)).toEqual([12, REFUSED(502)]);
});

it.each([
  ["a refused statement", refusal(400), 1],
  ["a wrong statement", new Error("D1_ERROR: no such table: x: SQLITE_ERROR"), 1],
  ["a locked database", new Error("D1_ERROR: database is locked: SQLITE_BUSY"), 12],
  ["a refusal as the cause", new Error("unavailable", { cause: refusal(400) }), 1],
])("after %s, tries only if that can help", async (_, error, expected) => {
  expect(await attempts(error, 100, 60_000)).toEqual([expected, error.message]);
});
