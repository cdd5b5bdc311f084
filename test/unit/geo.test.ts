// The arithmetic and the workload of npm run bench:geo. The simulation itself does not run here.

import { expect, it } from "vitest";
import { dollarsPerMillion, NO_COUNTS, sum } from "../../bench/geo/counts.ts";
import { drawWorkload, LIMITS } from "../../bench/geo/workload.ts";
import { mean, percentile } from "../../bench/measure/statistics.ts";

it("a percentile is the nearest rank, in any order", () => {
  const values = Array.from({ length: 100 }, (_, index) => 100 - index);
  expect([0.5, 0.95, 0.951, 1].map((share) => percentile(values, share))).toEqual([50, 95, 96, 100]);
  expect([percentile([], 0.5), mean([])]).toEqual([Number.NaN, Number.NaN]);
});

it("the cost per million requests is each operation's price times its count per request, over all isolates", () => {
  const one = { workerRequests: 100, objectRequests: 200, rowsWritten: 50, rowsRead: 2_000 };
  const dollars = dollarsPerMillion(sum([one, NO_COUNTS, one]), 200);
  const rounded = Object.entries(dollars).map(([name, value]) => [name, Number(value.toFixed(9))]);
  const operations = { workerRequests: 0.3, objectRequests: 0.3, rowsWritten: 0.5, rowsRead: 0.02 };
  expect(Object.fromEntries(rounded)).toEqual({ ...operations, total: 1.12 });
});

it("the workload has the same requests for a seed, in all regions, in their order, below the limits", () => {
  const extent = { regions: 6, pets: 10_000, seconds: 60 };
  const tasks = drawWorkload(1, extent);
  expect(drawWorkload(1, extent)).toEqual(tasks);
  expect(drawWorkload(2, extent)).not.toEqual(tasks);
  expect(tasks).toEqual(tasks.toSorted((a, b) => a.atMs - b.atMs));
  expect(new Set(tasks.map(({ region }) => region)).size).toBe(6);

  // Created pets are read in another region.
  const writers = tasks.filter(({ client }) => client === "writer");
  expect(new Set(writers.map(({ otherRegion }) => otherRegion)).size).toBe(6);
  expect(writers.filter(({ region, otherRegion }) => otherRegion === region)).toEqual([]);

  // Near the limit, a request would wait for leases of other isolates.
  const requests = { poller: 1, crawler: 10, integrator: 1, writer: 3 };
  const sent = new Map<string, number>();
  for (const { key, client } of tasks) sent.set(key, (sent.get(key) ?? 0) + requests[client]);
  for (const { key, client } of tasks) expect(sent.get(key)).toBeLessThan(LIMITS[client].minute / 2);
});
