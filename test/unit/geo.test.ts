// The arithmetic of npm run bench -- geo.

import { expect, it } from "vitest";
import { mean, percentile } from "../../bench/measure/statistics.ts";
import { dollarsPerMillion } from "../../bench/simulation/counts.ts";
import { provenanceOf } from "../../bench/simulation/hops.ts";
import { REGIONS } from "../../bench/simulation/regions.ts";

it("a percentile is the nearest rank, in any order", () => {
  const values = Array.from({ length: 100 }, (_, index) => 100 - index);
  expect([0.5, 0.95, 0.951, 1].map((share) => percentile(values, share))).toEqual([50, 95, 96, 100]);
  expect([percentile([], 0.5), mean([])]).toEqual([Number.NaN, Number.NaN]);
});

it("the cost per million requests is each operation's price times its count per request", () => {
  const one = { workerRequests: 100, objectRequests: 200, rowsWritten: 50, rowsRead: 2_000 };
  expect(dollarsPerMillion(one)).toBeCloseTo(0.3 + 0.3 + 0.5 + 0.02, 9);
});

it.each([
  ["limiter;desc=lease;dur=0, total;dur=0", 0, "lease"],
  ["limiter;desc=object;dur=50, pets;start=0;dur=20, object;start=0;dur=50, total;dur=50", 1, "object"],
  ["limiter;desc=object;dur=50, object;start=0;dur=50, record;dur=30, pets;start=0;dur=60", 2, "object"],
  ["limiter;desc=object;dur=50, object;start=0;dur=50, record;dur=30, pets;start=50;dur=20", 3, "object"],
  ["limiter;desc=local;dur=4, object;start=0;dur=3, keys;start=3;dur=2, pets;start=4;dur=9", 2, "local"],
  // It has waited for a hop of another request.
  ["limiter;desc=lease;dur=0, total;dur=14", 1, "lease"],
  ["limiter;desc=lease;dur=40, pets;start=40;dur=90, total;dur=130", 2, "lease"],
  ["pets;start=0;dur=9, object;start=9;dur=9, object;start=18;dur=9, pets;start=27;dur=9", 4, undefined],
])("sequential hops of %s: %i", (serverTiming, hops, by) => {
  expect(provenanceOf(serverTiming)).toEqual({ hops, by });
});

it("a round trip between two regions differs by less than 10 % from that in the other direction", () => {
  for (const [from, { toObjectsMs, toReplicaMs }] of REGIONS.entries()) {
    expect(toObjectsMs).toHaveLength(REGIONS.length);
    expect(toObjectsMs[from]).toBe(toReplicaMs);
    const back = REGIONS.map((region) => region.toObjectsMs[from] ?? Number.NaN);
    for (const [to, ms] of toObjectsMs.entries()) expect(ms / (back[to] ?? 0)).toBeLessThan(1.1);
  }
});
