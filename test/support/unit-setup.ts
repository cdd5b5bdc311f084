// In each test, Math.random() begins with the seed: also what clients and isolates draw. Files run one after the other in one process, so
// each ends with what it has replaced.

import { afterAll, beforeEach, vi } from "vitest";
import { Random } from "../simulation/random.ts";
import { SEED } from "./seed.ts";

beforeEach(() => {
  const random = new Random(SEED);
  Math.random = () => random.next();
});

afterAll(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});
