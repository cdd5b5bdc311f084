// Waiting for a result: how often poll looks, and that one request works for all that wait.

import { describe, expect, it, vi } from "vitest";
import { poll, SingleFlight } from "../../src/lib/single-flight.ts";

describe("poll", () => {
  /** Polls on a fake clock for a condition that holds from `doneMs` on. */
  async function polled(doneMs: number, maxMs: number) {
    let nowMs = 0;
    const pausesMs: number[] = [];
    vi.spyOn(scheduler, "wait").mockImplementation(async (ms) => {
      pausesMs.push(ms);
      nowMs += ms;
    });
    await poll(() => nowMs >= doneMs, maxMs);
    return { pausesMs, nowMs };
  }

  it("checks at once, then after pauses of a fifth of the time waited", async () => {
    expect(await polled(0, 100)).toEqual({ pausesMs: [], nowMs: 0 });
    expect((await polled(20, 100)).pausesMs).toEqual([...Array(10).fill(1), 2, 2, 2, 3, 3]);
    for (const doneMs of [50, 1_000, 10_000]) {
      const { nowMs, pausesMs } = await polled(doneMs, 20_000);
      expect([nowMs >= doneMs, nowMs <= 1.2 * doneMs, pausesMs.length < 60]).toEqual([true, true, true]);
    }
  });

  it("gives up after the maximum time", async () => {
    const { nowMs } = await polled(1_000, 100);
    expect(nowMs).toBe(100);
  });
});

describe("a single flight", () => {
  /** A flight with one name, and the works that its runs have started. */
  function newFlight() {
    const flight = new SingleFlight<number>();
    const works: PromiseWithResolvers<number>[] = [];
    const run = () =>
      flight.run("name", () => {
        const work = Promise.withResolvers<number>();
        works.push(work);
        return work.promise;
      });
    return { flight, works, run };
  }

  it("shares the result of one work with concurrent runs, and starts a new one afterwards", async () => {
    const { works, run } = newFlight();
    const all = [run(), run(), run()];
    works[0]?.resolve(1);
    expect(await Promise.all(all)).toEqual([1, 1, 1]);
    const next = run();
    works[1]?.resolve(2);
    expect(await next).toBe(2);
  });

  it("rejects all runs if the work fails", async () => {
    const { works, run } = newFlight();
    const all = [run(), run()];
    works[0]?.reject(new Error("down"));
    const outcomes = await Promise.allSettled(all);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });

  it("starts one other work for all waiting runs after the first was cut off", async () => {
    const { flight, works, run } = newFlight();
    const all = Array.from({ length: 5 }, run);
    vi.setSystemTime(Date.now() + 11_999);
    expect(flight.isUnderway("name")).toBe(true);
    vi.setSystemTime(Date.now() + 1);
    expect(flight.isUnderway("name")).toBe(false);
    while (works.length < 2) await scheduler.wait(1);
    works[1]?.resolve(2);
    expect(await Promise.all(all.slice(1))).toEqual([2, 2, 2, 2]);
    expect(works).toHaveLength(2);
    // A late result reaches only the run that started it.
    works[0]?.resolve(1);
    expect(await all[0]).toBe(1);
  });
});
