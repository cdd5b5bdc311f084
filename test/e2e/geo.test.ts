// The arithmetic, the workload and the chart of npm run bench:geo. The simulation itself does not run here.

import { describe, expect, it } from "vitest";
import { dollarsPerMillion, NO_COUNTS, sum } from "../../bench/geo/counts.ts";
import { milliseconds, svg } from "../../bench/geo/svg.ts";
import { drawWorkload, LIMITS } from "../../bench/geo/workload.ts";
import { mean, percentile } from "../../bench/measure/statistics.ts";

describe("percentile", () => {
  it.each([
    [0.5, 50],
    [0.95, 95],
    [0.951, 96],
    [1, 100],
  ])("takes the nearest rank: %d of 1 to 100, in any order, is %d", (share, expected) => {
    const values = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(percentile(values, share)).toBe(expected);
  });

  it("is NaN without values, and so is the mean", () => {
    expect([percentile([], 0.5), mean([])]).toEqual([Number.NaN, Number.NaN]);
  });
});

describe("cost", () => {
  it("per million requests is the price of each operation times its count per request", () => {
    const counts = { workerRequests: 200, objectRequests: 400, rowsWritten: 100, rowsRead: 4_000 };
    const { workerRequests, objectRequests, rowsWritten, rowsRead, total } = dollarsPerMillion(counts, 200);
    expect(
      [workerRequests, objectRequests, rowsWritten, rowsRead, total].map((each) => each.toFixed(4)),
    ).toEqual(["0.3000", "0.3000", "0.5000", "0.0200", "1.1200"]);
  });

  it("includes the operations of all isolates", () => {
    const one = { ...NO_COUNTS, workerRequests: 1, rowsRead: 3 };
    expect(sum([one, NO_COUNTS, one])).toEqual({ ...NO_COUNTS, workerRequests: 2, rowsRead: 6 });
  });
});

describe("workload", () => {
  const extent = { regions: 6, pets: 10_000, seconds: 60 };
  const tasks = drawWorkload(1, extent);

  it("is the same for the same seed, and different for another", () => {
    expect(drawWorkload(1, extent)).toEqual(tasks);
    expect(drawWorkload(2, extent)).not.toEqual(tasks);
  });

  it("is chronological, uses all regions, and averages 20 integrator requests a second in each", () => {
    const times = tasks.map(({ atMs }) => atMs);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(new Set(tasks.map(({ region }) => region)).size).toBe(6);
    const integrators = tasks.filter(({ client }) => client === "integrator").length;
    expect(Math.abs(integrators / (6 * 60) - 20)).toBeLessThan(1);
  });

  it("reads each created pet in another region, and uses every region for that", () => {
    const writers = tasks.filter(({ client }) => client === "writer");
    expect(new Set(writers.map(({ otherRegion }) => otherRegion)).size).toBe(6);
    expect(writers.filter(({ region, otherRegion }) => otherRegion === region)).toEqual([]);
  });

  it("keeps every key below half of its limit", () => {
    const requests = { poller: 1, crawler: 10, integrator: 1, writer: 3 };
    const sent = new Map<string, number>();
    for (const { key, client } of tasks) sent.set(key, (sent.get(key) ?? 0) + requests[client]);
    // Near the limit, a request waits for leases of other isolates.
    for (const { key, client } of tasks) expect(sent.get(key)).toBeLessThan(LIMITS[client].minute / 2);
  });
});

describe("chart", () => {
  const bars = [
    { p50Ms: 1.24, p95Ms: 100 },
    { p50Ms: 400, p95Ms: 1_000 },
  ] as const;
  const chart = svg({
    title: "A < B & C",
    legend: ["one", "other"],
    groups: [{ name: "here", bars }],
    notes: ["below"],
  });

  it("draws bars in proportion to the times, with a minimum width", () => {
    const widths = Array.from(
      chart.matchAll(/<rect class="(?:first|second).*?width="([\d.]+)" height="13"/g),
    );
    expect(widths.map(([, width]) => width)).toEqual(["41", "2", "410", "164"]);
  });

  it("shows the times and escapes text", () => {
    expect(chart).toContain(">1.2, 100<");
    expect(chart).toContain(">A &lt; B &amp; C<");
  });

  it("shows a decimal only below ten milliseconds", () => {
    expect([0.04, 9.94, 9.95, 123.4].map(milliseconds)).toEqual(["0.0", "9.9", "10", "123"]);
  });
});
