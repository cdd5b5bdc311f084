// Waiting for a result: how often a request looks whether it is there, and that one request works for all that wait.

import { beforeEach, expect, it, vi } from "vitest";
import { nextPauseMs } from "../../src/lib/runtime.ts";
import { SingleFlight } from "../../src/lib/single-flight.ts";
import { RUNTIME } from "../../src/lib/workers-runtime.ts";

beforeEach(() => void vi.useFakeTimers());

it("a request that waits looks again after a fifth of the time waited, at least 1 ms, at last at the maximum time", () => {
  expect([0, 9, 10, 100, 1_000].map((waitedMs) => nextPauseMs(waitedMs, 1_050))).toEqual([1, 1, 2, 20, 50]);
});

/** A flight with one name, and the works that its runs have started. */
function newFlight() {
  const flight = new SingleFlight<number>(RUNTIME);
  const works: PromiseWithResolvers<number>[] = [];
  const start = () => {
    works.push(Promise.withResolvers<number>());
    return works.at(-1)?.promise as Promise<number>;
  };
  return { flight, works, run: () => flight.run("name", start) };
}

/** The results and errors of runs, which must not take as long as work can. */
async function outcomesOf(...runs: Promise<number>[]) {
  const outcomes = Promise.all(runs.map((each) => each.catch((error: string) => error)));
  await vi.advanceTimersByTimeAsync(11_000);
  return outcomes;
}

it("a single flight shares the outcome of one work with concurrent runs, and starts a new one afterwards", async () => {
  const { works, run } = newFlight();
  const first = [run(), run(), run()];
  works[0]?.resolve(1);
  expect(await outcomesOf(...first)).toEqual([1, 1, 1]);
  const second = [run(), run()];
  works[1]?.reject("down");
  expect(await outcomesOf(...second)).toEqual(["down", "down"]);
  expect(works).toHaveLength(2);
});

it.each([
  [11_999, 12_000],
  [-11_999, -12_100],
])("a work is under way after %i ms; after %i, another starts for all waiting runs", async (ms, overMs) => {
  const { flight, works, run } = newFlight();
  const [leader, ...waiting] = [run(), run(), run()];
  const startMs = Date.now();
  vi.setSystemTime(startMs + ms);
  expect(flight.isUnderway("name")).toBe(true);
  vi.setSystemTime(startMs + overMs);
  expect(flight.isUnderway("name")).toBe(false);
  await vi.advanceTimersByTimeAsync(10);
  // A late result reaches only the run that started the work, and does not end the other work.
  works[0]?.resolve(1);
  const later = run();
  works[1]?.resolve(2);
  expect(await outcomesOf(leader as Promise<number>, ...waiting, later)).toEqual([1, 2, 2, 2]);
  expect(works).toHaveLength(2);
});
