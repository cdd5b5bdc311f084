import { expect, it } from "vitest";
import { BoundedMap } from "../../src/lib/bounded-map.ts";

it("keeps the newest entries, and what is set again is new again", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1);
  map.set("b", 2);
  map.set("a", 3);
  map.set("c", 4);
  expect([map.get("a"), map.get("b"), map.get("c")]).toEqual([3, undefined, 4]);
});

it("stays within its bound under a flood of keys", () => {
  const map = new BoundedMap<number, number>(10);
  for (let key = 0; key < 1_000; key += 1) map.set(key, key);
  const kept = Array.from({ length: 1_000 }, (_, key) => map.get(key)).filter((value) => value !== undefined);
  expect(kept).toEqual(Array.from({ length: 10 }, (_, index) => 990 + index));
});
