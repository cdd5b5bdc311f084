// The faked clock, and `setTimeout` by it.

import { onTestFinished, vi } from "vitest";

/** Advances the clock. */
export function pass(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
}

/** Begins a minute in which no test has sent an unknown key: they all share the isolate, whose throttle counts those of all addresses. */
export function beginMinute(): void {
  latestMinuteMs = Math.max(latestMinuteMs, Date.now() - (Date.now() % 60_000)) + 60_000;
  vi.setSystemTime(latestMinuteMs + 20_500);
}
let latestMinuteMs = 0;

/** Lets all code run that needs no further event, however slow the machine is: also a faked timeout that is due. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await scheduler.wait(1);
}

/** Whether a promise settles without further events. */
export async function hasSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const note = () => (settled = true);
  promise.then(note, note);
  await turns();
  return settled;
}

/**
 * Until mocks are restored, `setTimeout` is by the faked clock. vitest's own fake runs all callbacks on behalf of the test, but the platform
 * lets an object do I/O only in its own.
 */
export function fakeTimeouts(): void {
  const timers = new Set<object>();
  onTestFinished(() => timers.clear());
  const set = (callback: () => void, ms = 0) => {
    const timer = {};
    timers.add(timer);
    const atMs = Date.now() + ms;
    const run = async () => {
      while (timers.has(timer) && Date.now() < atMs) await scheduler.wait(1);
      if (timers.delete(timer)) callback();
    };
    void run();
    return timer;
  };
  vi.spyOn(globalThis, "setTimeout").mockImplementation(set as never);
  const clear = (timer: object) => void timers.delete(timer);
  vi.spyOn(globalThis, "clearTimeout").mockImplementation(clear as never);
}

/** Until mocks are restored, pauses before another attempt take no time. Deadlines, which are longer, stay. */
export function skipPauses(): void {
  const shortened = (ms = 0) => (ms < 1_000 ? 1 : ms);
  const [wait, set] = [scheduler.wait.bind(scheduler), setTimeout];
  vi.spyOn(scheduler, "wait").mockImplementation((ms, options) => wait(shortened(ms), options));
  const setShortened = (callback: () => void, ms?: number) => set(callback, shortened(ms));
  vi.spyOn(globalThis, "setTimeout").mockImplementation(setShortened as never);
}
