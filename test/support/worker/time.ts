// The faked clock, and `setTimeout` by it.

import { onTestFinished, vi } from "vitest";

/** Advances the clock. */
export function pass(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
}

/** Whether a promise settles without further events. */
export async function hasSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const note = () => (settled = true);
  promise.then(note, note);
  for (let turn = 0; turn < 5; turn += 1) await scheduler.wait(0);
  return settled;
}

/**
 * From now on, `setTimeout` is by the faked clock. Returns a function that ends all timers, and restores the real ones; so does the end of
 * the test. vitest's own fake runs all callbacks on behalf of the test, but the platform lets an object do I/O only in its own.
 */
export function fakeTimeouts(): () => void {
  const timers = new Set<{ isOver: boolean }>();
  const set = (callback: () => void, ms = 0) => {
    const timer = { isOver: false };
    const atMs = Date.now() + ms;
    timers.add(timer);
    const run = async () => {
      while (!timer.isOver && Date.now() < atMs) await scheduler.wait(1);
      if (!timer.isOver) callback();
    };
    void run();
    return timer;
  };
  const clear = (timer: { isOver: boolean }) => {
    timer.isOver = true;
  };
  const spies = [
    vi.spyOn(globalThis, "setTimeout").mockImplementation(set as never),
    vi.spyOn(globalThis, "clearTimeout").mockImplementation(clear as never),
  ];
  const restore = () => {
    timers.forEach(clear);
    for (const spy of spies) spy.mockRestore();
  };
  onTestFinished(restore);
  return restore;
}
