import { describe, expect, it, vi } from "vitest";
import { poll, SingleFlight } from "../../src/lib/single-flight.ts";

describe("poll", () => {
  /** Polls on virtual time for a condition that holds from `doneMs` on. */
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

  it("looks at once, then after a fifth of the time waited, so it is late by a fifth at most", async () => {
    expect(await polled(0, 100)).toEqual({ pausesMs: [], nowMs: 0 });
    expect((await polled(20, 100)).pausesMs).toEqual([...Array(10).fill(1), 2, 2, 2, 3, 3]);
    for (const doneMs of [50, 1_000, 10_000]) {
      const { nowMs, pausesMs } = await polled(doneMs, 20_000);
      expect([nowMs >= doneMs, nowMs <= 1.2 * doneMs, pausesMs.length < 60]).toEqual([true, true, true]);
    }
  });

  it("gives up after the longest time", async () => {
    const { nowMs } = await polled(1_000, 100);
    expect([nowMs >= 100, nowMs < 120]).toEqual([true, true]);
  });
});

describe("a single flight", () => {
  /** Runs that wait for the work of one name, and the works that they have begun. */
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

  it("gives the result of one work to all that ask meanwhile, and works anew after it", async () => {
    const { works, run } = newFlight();
    const all = [run(), run(), run()];
    works[0]?.resolve(1);
    expect(await Promise.all(all)).toEqual([1, 1, 1]);
    const next = run();
    works[1]?.resolve(2);
    expect(await next).toBe(2);
  });

  it("rejects for all if the work fails", async () => {
    const { works, run } = newFlight();
    const all = [run(), run()];
    works[0]?.reject(new Error("down"));
    const outcomes = await Promise.allSettled(all);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });

  it("begins one other work, not one for each that waits, after the first was cut off", async () => {
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
    // A result that comes too late reaches only the request that has waited for it.
    works[0]?.resolve(1);
    expect(await all[0]).toBe(1);
  });
});
