import { expect, it } from "vitest";
import { poll } from "../../src/poll.ts";

/** Polls on a clock of its own for something that is so from `doneMs` on. */
async function polled(doneMs: number, maxMs: number) {
  let nowMs = 0;
  const pausesMs: number[] = [];
  const wait = async (ms: number) => {
    pausesMs.push(ms);
    nowMs += ms;
  };
  return { isDone: await poll(() => nowMs >= doneMs, maxMs, wait), pausesMs, nowMs };
}

it("looks at once, then after a fifth of the time waited, so it is late by a fifth at most", async () => {
  expect(await polled(0, 100)).toEqual({ isDone: true, pausesMs: [], nowMs: 0 });
  expect((await polled(20, 100)).pausesMs).toEqual([...Array(10).fill(1), 2, 2, 2, 3, 3]);
  for (const doneMs of [50, 1_000, 10_000]) {
    const { isDone, nowMs, pausesMs } = await polled(doneMs, 20_000);
    expect([isDone, nowMs <= 1.2 * doneMs, pausesMs.length < 60]).toEqual([true, true, true]);
  }
});

it("gives up after the longest time", async () => {
  const { isDone, nowMs } = await polled(1_000, 100);
  expect([isDone, nowMs >= 100, nowMs < 120]).toEqual([false, true, true]);
});
