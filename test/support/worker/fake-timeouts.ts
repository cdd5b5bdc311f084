// `setTimeout` by the faked clock, for tests of deadlines. vitest's own fake runs all callbacks on behalf of the test, but the platform
// lets an object do I/O only in callbacks of its own.

import { onTestFinished, vi } from "vitest";

type Timer = { atMs: number; isOver: boolean };

/** Returns a function that ends all timers, and restores the real ones; so does the end of the test. */
export function fakeTimeouts(): () => void {
  const timers = new Set<Timer>();
  const run = async (timer: Timer, callback: () => void) => {
    while (!timer.isOver && Date.now() < timer.atMs) await scheduler.wait(1);
    if (!timer.isOver) callback();
  };
  const set = (callback: () => void, ms = 0) => {
    const timer = { atMs: Date.now() + ms, isOver: false };
    timers.add(timer);
    void run(timer, callback);
    return timer;
  };
  const clear = (timer: Timer) => {
    timer.isOver = true;
  };
  const spies = [
    vi.spyOn(globalThis, "setTimeout").mockImplementation(set as never),
    vi.spyOn(globalThis, "clearTimeout").mockImplementation(clear as never),
  ];
  const restore = () => {
    for (const timer of timers) timer.isOver = true;
    for (const spy of spies) spy.mockRestore();
  };
  onTestFinished(restore);
  return restore;
}
