// The growth of a database by its recorded sizes, and when it is full: by hand.

import { expect, it } from "vitest";
import { daysUntil, growthOf } from "../../scripts/status/read.ts";

const sizesOf = (bytes: Record<string, number>) =>
  Object.entries(bytes).map(([day, each]) => ({ day: `2026-${day}`, bytes: each }));

it.each([
  [{ "11-27": 100, "11-28": 350 }, 250, 1],
  // What is between does not count.
  [{ "10-31": 1_000, "11-01": 9_000, "11-29": 3_900 }, 100, 29],
  // Days are missing, and summer time ends.
  [{ "10-20": 1_000, "10-21": 1_000, "10-30": 6_000 }, 500, 10],
  [{ "11-01": 900, "11-03": 100 }, -400, 2],
  [{ "11-01": 900, "11-02": 950, "11-03": 900 }, 0, 2],
  [{ "11-01": 900 }, undefined, undefined],
  [{}, undefined, undefined],
])("the growth of %j is %s a day, of %s days", (bytes, bytesPerDay, days) => {
  expect(growthOf(sizesOf(bytes))).toEqual(days && { bytesPerDay, days });
});

it.each([
  // 9,400 bytes are left: 23 days of 400, and half a day.
  [10_000, 600, 400, 23],
  [10_000, 600, 9_400, 1],
  [10_000, 600, 9_401, 0],
  [10_000, 10_000, 0, 0],
  [10_000, 10_001, -5, 0],
  [10_000, 600, 0, null],
  [10_000, 600, -400, null],
])("until %i bytes, a database of %i that grows by %i a day has %s days", (max, bytes, perDay, days) => {
  expect(daysUntil(max, bytes, perDay)).toBe(days);
});
