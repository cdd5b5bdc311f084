// The totals of days, by themselves. quota.test.ts has how calls and reports change them.

import { expect, it } from "vitest";
import { addToTotals, type Charge, daysOf, NO_TOTALS } from "../../src/limits/object/totals.ts";
import { unused } from "../../src/limits/windows.ts";

const COUNTS = unused({ burst: 10, hour: 3_600, day: 86_400 });
const AT_MS = Date.UTC(2026, 10, 20, 12);
const DAY_MS = 86_400_000;

const after = (...changes: (Charge & { atMs: number })[]) =>
  daysOf(changes.reduce((all, { atMs, ...change }) => addToTotals(all, COUNTS, atMs, change), NO_TOTALS));

it("the busiest windows of a day have all of their requests, also those that are reported a window later", () => {
  const byWindow = new Map<string, number>();
  const changes = Array.from({ length: 300 }, (_, index) => {
    // Three requests in each 10 s, of which some are reported up to 10 s later than the next ones.
    const atMs = AT_MS + Math.floor(index / 3 - Math.random()) * 10_000;
    const admitted = Math.floor(Math.random() * 9);
    const refused = Math.floor(Math.random() * 9);
    for (const length of [18, 13]) {
      const window = new Date(atMs).toISOString().slice(0, length);
      byWindow.set(window, (byWindow.get(window) ?? 0) + admitted + refused);
    }
    return { atMs, charged: 1, admitted, refusedBy: { hour: refused } };
  });
  const most = (length: number) =>
    Math.max(...[...byWindow].filter(([window]) => window.length === length).map(([, requests]) => requests));
  expect(after(...changes)).toMatchObject([{ admitted: 300, busiest: { burst: most(18), hour: most(13) } }]);
});

it("a window that is older than the last two with requests is complete", () => {
  const burst = (number: number, admitted: number) => ({ atMs: AT_MS + number * 10_000, admitted });
  const busiest = (...changes: Parameters<typeof after>) => after(...changes)[0]?.busiest;
  expect(busiest(burst(0, 5), burst(1, 3), burst(0, 4))).toEqual({ burst: 9, hour: 12 });
  expect(busiest(burst(0, 5), burst(1, 3), burst(2, 1), burst(0, 4))).toEqual({ burst: 5, hour: 13 });
  expect(busiest(burst(0, 5), burst(2, 3), burst(1, 4), burst(0, 9))).toEqual({ burst: 5, hour: 21 });
  const late = busiest(burst(0, 5), burst(2, 3), burst(1, 1), burst(3, 1), burst(2, 4));
  expect(late).toEqual({ burst: 7, hour: 14 });
  // What is taken back was not requested, and neither was a lease.
  expect(busiest(burst(0, 5), burst(1, 9), burst(1, -9))).toEqual({ burst: 5, hour: 5 });
  const lease = { atMs: AT_MS + 20_000, charged: 8 };
  expect(busiest(burst(0, 5), burst(1, 3), lease, burst(0, 4))).toEqual({ burst: 9, hour: 12 });
});

it("requests count on their own day", () => {
  const [first, second, ...others] = after(
    { atMs: AT_MS, admitted: 3 },
    { atMs: AT_MS + DAY_MS, admitted: 2 },
    { atMs: AT_MS, admitted: 1 },
  );
  expect([first, second]).toMatchObject([
    { date: "2026-11-21", busiest: { burst: 2, hour: 2 } },
    { date: "2026-11-20", busiest: { burst: 4, hour: 4 } },
  ]);
  expect(others).toEqual([]);
});

it("the time of the last request of each kind never goes back, and nothing else changes it", () => {
  const lastOf = (...changes: Parameters<typeof after>) => {
    const [{ lastAdmittedMs = 0, lastRefusedMs = 0 } = {}] = after(...changes);
    return [lastAdmittedMs - AT_MS, lastRefusedMs - AT_MS];
  };
  const admitted = { atMs: AT_MS + 5_000, admitted: 1 };
  const refused = { atMs: AT_MS + 6_000, refusedBy: { burst: 1 } };
  expect(lastOf(admitted, refused)).toEqual([5_000, 6_000]);
  const earlier = { atMs: AT_MS, admitted: 1, refusedBy: { hour: 1 } };
  expect(lastOf(admitted, refused, earlier)).toEqual([5_000, 6_000]);
  // A lease, and what is taken back.
  const later = { atMs: AT_MS + 9_000, charged: 7 };
  expect(lastOf(admitted, refused, later)).toEqual([5_000, 6_000]);
  const takenBack = { ...later, admitted: -1, refusedBy: { burst: -1 } };
  expect(lastOf(admitted, refused, takenBack)).toEqual([5_000, 6_000]);
  expect(lastOf(admitted, refused, { ...later, admitted: 1, lastMs: AT_MS + 8_000 })).toEqual([8_000, 6_000]);
});

it("of the days with requests, those of the last 30 days are kept, however late a report is", () => {
  const on = (day: number) => ({ atMs: AT_MS + day * DAY_MS, charged: 1 });
  const dates = (...days: number[]) =>
    after(...days.map(on)).map(({ date }) => (Date.parse(date) + DAY_MS / 2 - AT_MS) / DAY_MS);
  expect(dates(0, 1, 30).sort()).toEqual([1, 30]);
  expect(dates(30, 0, 1).sort()).toEqual([1, 30]);
  expect(dates(0, 29).sort()).toEqual([0, 29]);
});
