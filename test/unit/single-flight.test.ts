// Waiting for a result: how often poll looks, and that one request works for all that wait.

import { beforeEach, expect, it, vi } from "vitest";
import { poll } from "../../src/lib/runtime.ts";
import { SingleFlight } from "../../src/lib/single-flight.ts";

beforeEach(() => void vi.useFakeTimers());

/** When `poll` looks whether a condition holds that does from `doneMs` on, and when it ends. */
async function polled(doneMs: number, maxMs = 60_000) {
  const startMs = Date.now();
  const looksMs: number[] = [];
  const isDone = () => looksMs.push(Date.now() - startMs) > 0 && Date.now() - startMs >= doneMs;
  const end = poll(isDone, maxMs).then(() => Date.now() - startMs);
  await vi.runAllTimersAsync();
  return { looksMs, endMs: await end };
}

it("poll looks at once, then after pauses of a fifth of the time waited, until the maximum time", async () => {
  expect(await polled(0)).toEqual({ looksMs: [0], endMs: 0 });
  expect((await polled(20)).looksMs).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 19, 22]);
  expect((await polled(10_000)).endMs).toBeLessThanOrEqual(12_000);
  expect((await polled(1_000, 100)).endMs).toBe(100);
});

/** A flight with one name, and the works that its runs have started. */
function newFlight() {
  const flight = new SingleFlight<number>();
  const works: PromiseWithResolvers<number>[] = [];
  const run = () => {
    const work = Promise.withResolvers<number>();
    return flight.run("name", () => {
      works.push(work);
      return work.promise;
    });
  };
  /** The outcomes of runs when all have ended; fails if one waits for longer than work can take. */
  const outcomesOf = (runs: Promise<number>[]) => {
    const outcomes = runs.map((each) => each.catch((error: Error) => error.message));
    const late = vi.advanceTimersByTimeAsync(11_000).then(() => "still waiting");
    return Promise.race([Promise.all(outcomes), late]);
  };
  return { flight, works, run, outcomesOf };
}

it("a single flight shares the outcome of one work with concurrent runs, and starts a new one afterwards", async () => {
  const { works, run, outcomesOf } = newFlight();
  const first = [run(), run(), run()];
  works[0]?.resolve(1);
  expect(await outcomesOf(first)).toEqual([1, 1, 1]);
  const second = [run(), run()];
  works[1]?.reject(new Error("down"));
  expect(await outcomesOf(second)).toEqual(["down", "down"]);
  expect(works).toHaveLength(2);
});

it.each([
  [11_999, 12_000],
  [-11_999, -12_100],
])(
  "a single flight waits for a work after %i ms, and starts another for all waiting runs after %i",
  async (...steps) => {
    const { flight, works, run, outcomesOf } = newFlight();
    const all = Array.from({ length: 5 }, run);
    const startMs = Date.now();
    const isUnderway = steps.map((ms) => {
      vi.setSystemTime(startMs + ms);
      return flight.isUnderway("name");
    });
    expect(isUnderway).toEqual([true, false]);
    await vi.advanceTimersByTimeAsync(10);
    // A late result reaches only the run that started it, and does not end the other work.
    works[0]?.resolve(1);
    expect(await all[0]).toBe(1);
    const others = [...all.slice(1), run()];
    works[1]?.resolve(2);
    expect(await outcomesOf(others)).toEqual([2, 2, 2, 2, 2]);
    expect(works).toHaveLength(2);
  },
);
