import { expect, it, vi } from "vitest";
import { poll } from "../../src/lib/poll.ts";

/** Polls on a clock of its own for something that is so from `doneMs` on. */
async function polled(doneMs: number, maxMs: number) {
  let nowMs = 0;
  const pausesMs: number[] = [];
  const wait = async (ms: number) => {
    pausesMs.push(ms);
    nowMs += ms;
  };
  vi.stubGlobal("scheduler", { wait });
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
