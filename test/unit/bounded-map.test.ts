import { expect, it } from "vitest";
import { BoundedMap } from "../../src/lib/bounded-map.ts";

it("keeps the newest entries, and what is set again is new again", () => {
  const map = new BoundedMap<number, number>(10);
  for (let key = 0; key < 1_000; key += 1) map.set(key, key);
  map.set(990, -1);
  map.set(1_000, 1_000);
  const kept = Array.from({ length: 1_001 }, (_, key) => map.get(key)).filter((value) => value !== undefined);
  expect(kept).toEqual([-1, 992, 993, 994, 995, 996, 997, 998, 999, 1_000]);
});
