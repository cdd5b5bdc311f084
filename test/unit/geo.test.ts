// The arithmetic of npm run bench -- geo.

import { expect, it } from "vitest";
import { dollarsPerMillion, NO_COUNTS, sum } from "../../bench/geo/counts.ts";
import { REGIONS } from "../../bench/geo/regions.ts";
import { mean, percentile } from "../../bench/measure/statistics.ts";

it("a percentile is the nearest rank, in any order", () => {
  const values = Array.from({ length: 100 }, (_, index) => 100 - index);
  expect([0.5, 0.95, 0.951, 1].map((share) => percentile(values, share))).toEqual([50, 95, 96, 100]);
  expect([percentile([], 0.5), mean([])]).toEqual([Number.NaN, Number.NaN]);
});

it("the cost per million requests is each operation's price times its count per request, over all isolates", () => {
  const one = { workerRequests: 100, objectRequests: 200, rowsWritten: 50, rowsRead: 2_000 };
  expect(dollarsPerMillion(sum([one, NO_COUNTS, one]))).toBeCloseTo(0.3 + 0.3 + 0.5 + 0.02, 9);
});

it("a round trip between two regions differs by less than 10 % from that in the other direction", () => {
  for (const [from, { toObjectsMs, toReplicaMs }] of REGIONS.entries()) {
    expect(toObjectsMs).toHaveLength(REGIONS.length);
    expect(toObjectsMs[from]).toBe(toReplicaMs);
    const back = REGIONS.map((region) => region.toObjectsMs[from] ?? Number.NaN);
    for (const [to, ms] of toObjectsMs.entries()) expect(ms / (back[to] ?? 0)).toBeLessThan(1.1);
  }
});
