// How many requests isolates admit together while none of them can ask the object: each its share.

import { expect, it } from "vitest";
import { admittedInOutage } from "./outage.ts";

const PRO = 300;

it.each([1.5, 3])("one isolate alone admits exactly the limit, with %d times the requests", async (rate) => {
  expect(await admittedInOutage({ limit: PRO, isolates: 1, rate, seed: 1 })).toEqual([PRO, PRO, PRO]);
});

it.each([
  [3, "an equal part", undefined],
  [3, "70 %", 0.7],
  [10, "an equal part", undefined],
  [10, "70 %", 0.7],
  [50, "an equal part", undefined],
  [50, "70 %", 0.7],
])(
  "%i isolates, the first of which has %s of the requests, admit 0.8 to 1.2 times the limit together",
  async (isolates, _, firstShare) => {
    for (const [rate, seed] of [
      [1.5, 1],
      [3, 2],
    ] as const) {
      const setting = { limit: PRO, isolates, rate, seed, ...(firstShare && { firstShare }) };
      const [first = 0, second = 0, after] = await admittedInOutage(setting);
      expect(Math.min(first, second)).toBeGreaterThanOrEqual(0.8 * PRO);
      expect(Math.max(first, second)).toBeLessThanOrEqual(1.2 * PRO);
      expect(after).toBe(PRO);
    }
  },
);

it("each isolate that knew nothing of the key before adds at most a tenth of the limit", async () => {
  const setting = { limit: PRO, isolates: 10, cold: 4, rate: 3, seed: 1 };
  const [first = 0, second = 0, after] = await admittedInOutage(setting);
  expect(Math.max(first, second)).toBeLessThanOrEqual((1.2 + 4 / 10) * PRO);
  expect(Math.min(first, second)).toBeGreaterThanOrEqual(0.8 * PRO);
  expect(after).toBe(PRO);
});
