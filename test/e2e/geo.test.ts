// The parts of npm run bench:geo that figures are made with. The bench itself does not run here.

import { describe, expect, it } from "vitest";
import { dollarsPerMillion, NOTHING, sum } from "../../bench/geo/counts.ts";
import { mean, percentile } from "../../bench/geo/percentile.ts";
import { milliseconds, svg } from "../../bench/geo/svg.ts";
import { drawVisits, LIMITS } from "../../bench/geo/visits.ts";

describe("a percentile", () => {
  it.each([
    [0.5, 50],
    [0.95, 95],
    [0.951, 96],
    [1, 100],
  ])("of 1 to 100 in any order, %d of them, is %d", (share, expected) => {
    const values = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(percentile(values, share)).toBe(expected);
  });

  it("of nothing is no number, and neither is a mean", () => {
    expect([percentile([], 0.5), mean([])]).toEqual([Number.NaN, Number.NaN]);
  });
});

describe("what a million requests cost", () => {
  it("is each operation's price, as often as it was counted for a request", () => {
    const counts = { workerRequests: 200, objectRequests: 400, rowsWritten: 100, rowsRead: 4_000 };
    const { workerRequests, objectRequests, rowsWritten, rowsRead, total } = dollarsPerMillion(counts, 200);
    expect(
      [workerRequests, objectRequests, rowsWritten, rowsRead, total].map((each) => each.toFixed(4)),
    ).toEqual(["0.3000", "0.3000", "0.5000", "0.0200", "1.1200"]);
  });

  it("counts what all isolates did", () => {
    const one = { ...NOTHING, workerRequests: 1, rowsRead: 3 };
    expect(sum([one, NOTHING, one])).toEqual({ ...NOTHING, workerRequests: 2, rowsRead: 6 });
  });
});

describe("the visits", () => {
  const extent = { regions: 6, pets: 10_000, seconds: 60 };
  const visits = drawVisits(1, extent);

  it("are the same for the same seed, and others for another", () => {
    expect(drawVisits(1, extent)).toEqual(visits);
    expect(drawVisits(2, extent)).not.toEqual(visits);
  });

  it("are in the order of their time, in all regions, and the integrators' 20 a second", () => {
    const times = visits.map(({ atMs }) => atMs);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(new Set(visits.map(({ region }) => region)).size).toBe(6);
    const integrators = visits.filter(({ habit }) => habit === "integrator").length;
    expect(Math.abs(integrators / (6 * 60) - 20)).toBeLessThan(1);
  });

  it("look after each creation in another region, and in each at some time", () => {
    const others = visits.filter(({ habit }) => habit === "writer").map(({ otherRegion }) => otherRegion);
    expect(new Set(others).size).toBe(6);
    expect(visits.filter((each) => each.habit === "writer" && each.otherRegion === each.region)).toEqual([]);
  });

  it("bring no key to its limit, with the requests that each leads to", () => {
    const requests = { poller: 1, walker: 10, integrator: 1, writer: 3 };
    const sent = new Map<string, number>();
    for (const { key, habit } of visits) sent.set(key, (sent.get(key) ?? 0) + requests[habit]);
    // A lease is a sixteenth of what is left, and is missing elsewhere: nobody may come near the limit.
    for (const { key, habit } of visits) expect(sent.get(key)).toBeLessThan(LIMITS[habit].minute / 2);
  });
});

describe("the picture", () => {
  const bars = [
    { p50Ms: 1.24, p95Ms: 100 },
    { p50Ms: 400, p95Ms: 1_000 },
  ] as const;
  const picture = svg({
    title: "A < B & C",
    legend: ["one", "other"],
    groups: [{ name: "here", bars }],
    notes: ["below"],
  });

  it("has bars as long as the times, but none that can't be seen", () => {
    const widths = Array.from(
      picture.matchAll(/<rect class="(?:first|second).*?width="([\d.]+)" height="13"/g),
    );
    expect(widths.map(([, width]) => width)).toEqual(["41", "2", "410", "164"]);
  });

  it("names the times, and escapes what it says", () => {
    expect(picture).toContain(">1.2, 100<");
    expect(picture).toContain(">A &lt; B &amp; C<");
  });

  it("gives milliseconds with a decimal below ten only", () => {
    expect([0.04, 9.94, 9.95, 123.4].map(milliseconds)).toEqual(["0.0", "9.9", "10", "123"]);
  });
});
