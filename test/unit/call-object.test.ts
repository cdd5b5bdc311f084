// A call of an object that fails is repeated once, in the time that it has.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { RUNTIME } from "../../src/lib/workers-runtime.ts";
import { callObject } from "../../src/limits/isolate/call-object.ts";

beforeEach(() => void vi.useFakeTimers({ now: 0 }));
afterEach(() => void vi.useRealTimers());

it.each([
  ["250 ms", 2_000, 250],
  ["a quarter of the time left, if that is less", 289, 72],
])("a failed call is repeated after %s, and both end in time", async (_, maxMs, pauseMs) => {
  const calledMs: number[] = [];
  const call = async () => {
    if (calledMs.push(Date.now()) === 1) throw new Error("lost");
    await new Promise(() => {});
  };
  const endedMs = callObject(RUNTIME, maxMs, call).catch(() => Date.now());
  await vi.advanceTimersByTimeAsync(maxMs);
  expect([calledMs, await endedMs]).toEqual([[0, pauseMs], maxMs]);
});
