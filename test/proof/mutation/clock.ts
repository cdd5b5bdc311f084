// For tests that run in Node here: the clock that test/setup.ts gives them inside the runtime.

import { afterEach, beforeEach, vi } from "vitest";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: new Date("2026-11-20T12:34:20.500Z") });
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});
