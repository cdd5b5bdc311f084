// Statements on a local database that other processes write to: which wait, and for how long.

import { expect, it, vi } from "vitest";
import { patient } from "../../scripts/cloudflare/patient.ts";

vi.mock(import("node:timers/promises"), async (original) => {
  const wait = async (ms: number) => void vi.setSystemTime(Date.now() + ms);
  return { ...(await original()), setTimeout: wait as Awaited<ReturnType<typeof original>>["setTimeout"] };
});

/** Runs a statement and a batch, both of which fail with `message` for a time. Returns the results, or the errors. */
async function outcomes(message: string, lockedMs: number): Promise<string[]> {
  vi.useFakeTimers({ toFake: ["Date"] });
  const untilMs = Date.now() + lockedMs;
  const run = async () => {
    if (Date.now() < untilMs) throw new Error(message);
    return "done";
  };
  const one = { bind: () => one, run };
  const database = patient({ prepare: () => one, batch: run } as unknown as D1Database);
  const statement = database.prepare("").bind(1);
  const all = [statement.run(), database.batch([statement])] as Promise<unknown>[];
  return Promise.all(all.map((each) => each.then(String, (error: Error) => error.message)));
}

it("wait for a locked file, and for one that can't be opened yet, but not as long as the deadline of a statement", async () => {
  for (const message of ["D1_ERROR: database is locked: SQLITE_BUSY", "internal error; reference = 4711"]) {
    expect(await outcomes(message, 4_000)).toEqual(["done", "done"]);
    expect(await outcomes(message, 5_000)).toEqual(Array(2).fill("another process has locked it for 4.5 s"));
  }
  const other = "D1_ERROR: no such table: pets: SQLITE_ERROR";
  expect(await outcomes(other, 1)).toEqual([other, other]);
});
