// The arithmetic of windows, by properties: whatever the limits, whenever requests come.

import fc from "fast-check";
import { expect, it } from "vitest";
import { headersOf, namedWindow } from "../src/rate-limit/headers.ts";
import {
  type Decision,
  type Limits,
  peek,
  remaining,
  resetMs,
  take,
  unusedWindow,
  WINDOW_SECONDS,
  type Window,
} from "../src/rate-limit/window.ts";

fc.configureGlobal({ numRuns: 500 });

const limitsArbitrary = fc.record({
  minute: fc.integer({ min: 1, max: 8 }),
  day: fc.integer({ min: 1, max: 40 }),
});

const startArbitrary = fc.integer({ min: 1_790_000_000_000, max: 1_800_000_000_000 });

/** Steps of a clock: mostly bursts, now and then a minute, an hour, or most of a day. */
const stepsArbitrary = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 5_000 }) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 90_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 50_000_000 }) },
  ),
  { maxLength: 120 },
);

function fresh(limits: Limits): Window[] {
  return [unusedWindow("minute", limits.minute), unusedWindow("day", limits.day)];
}

/** Takes once at each time; returns what was decided. */
function takeAt(limits: Limits, timesMs: number[]): Decision[] {
  let windows = fresh(limits);
  return timesMs.map((nowMs) => {
    const decision = take(windows, nowMs);
    windows = decision.windows;
    return decision;
  });
}

function timesFrom(startMs: number, steps: number[]): number[] {
  let nowMs = startMs;
  return [startMs, ...steps.map((step) => (nowMs += step))];
}

it("admits a request exactly if fewer than the limit were admitted in its minute and in its day", () => {
  fc.assert(
    fc.property(limitsArbitrary, startArbitrary, stepsArbitrary, (limits, startMs, steps) => {
      const admittedIn = new Map<string, number>();
      for (const { admitted, nowMs } of takeAt(limits, timesFrom(startMs, steps))) {
        const minute = `minute ${Math.floor(nowMs / 60_000)}`;
        const day = `day ${Math.floor(nowMs / 86_400_000)}`;
        const room = (admittedIn.get(minute) ?? 0) < limits.minute && (admittedIn.get(day) ?? 0) < limits.day;
        expect(admitted).toBe(room);
        if (admitted) for (const name of [minute, day]) admittedIn.set(name, (admittedIn.get(name) ?? 0) + 1);
      }
    }),
  );
});

it("consumes one of both windows or nothing of either", () => {
  fc.assert(
    fc.property(limitsArbitrary, startArbitrary, stepsArbitrary, (limits, startMs, steps) => {
      let windows = fresh(limits);
      for (const nowMs of timesFrom(startMs, steps)) {
        const before = peek(windows, nowMs).windows;
        const decision = take(windows, nowMs);
        const consumed = decision.windows.map(({ used }, index) => used - (before[index]?.used ?? 0));
        expect(consumed).toEqual(decision.admitted ? [1, 1] : [0, 0]);
        windows = decision.windows;
      }
    }),
  );
});

it("names a reset that lies ahead, by at most the window, on a whole second, and a remaining of 0 or more", () => {
  fc.assert(
    fc.property(limitsArbitrary, startArbitrary, stepsArbitrary, (limits, startMs, steps) => {
      for (const decision of takeAt(limits, timesFrom(startMs, steps))) {
        for (const window of decision.windows) {
          expect(resetMs(window)).toBeGreaterThan(decision.nowMs);
          expect(resetMs(window) - decision.nowMs).toBeLessThanOrEqual(WINDOW_SECONDS[window.name] * 1000);
          expect(resetMs(window) % 1000).toBe(0);
          expect(remaining(window)).toBeGreaterThanOrEqual(0);
          expect(remaining(window)).toBeLessThanOrEqual(window.limit);
        }
        const headers = headersOf(decision);
        const resetSeconds = Number(headers["X-RateLimit-Reset"]);
        // Waiting out Retry-After must never end before the reset that the same response names.
        const retryAfter = Number(headers["Retry-After"] ?? Number.POSITIVE_INFINITY);
        expect(decision.nowMs + retryAfter * 1000).toBeGreaterThanOrEqual(resetSeconds * 1000);
        expect(decision.admitted || (Number.isInteger(retryAfter) && retryAfter >= 1)).toBe(true);
      }
    }),
  );
});

it("lets a refused client in after Retry-After, always", () => {
  fc.assert(
    fc.property(limitsArbitrary, startArbitrary, stepsArbitrary, (limits, startMs, steps) => {
      let windows = fresh(limits);
      for (const nowMs of timesFrom(startMs, steps)) {
        const decision = take(windows, nowMs);
        windows = decision.windows;
        if (decision.admitted) continue;
        const waitMs = Number(headersOf(decision)["Retry-After"]) * 1000;
        expect(take(windows, nowMs + waitMs).admitted).toBe(true);
      }
    }),
  );
});

it("never admits more than the limit between two resets, though the clock steps back", () => {
  const wildSteps = fc.array(fc.integer({ min: -200_000, max: 200_000 }), { maxLength: 120 });
  fc.assert(
    fc.property(limitsArbitrary, startArbitrary, wildSteps, (limits, startMs, steps) => {
      const admittedUntil = new Map<string, number>();
      for (const { admitted, windows } of takeAt(limits, timesFrom(startMs, steps))) {
        if (!admitted) continue;
        for (const window of windows) {
          const name = `${window.name} ${resetMs(window)}`;
          const count = (admittedUntil.get(name) ?? 0) + 1;
          expect(count).toBeLessThanOrEqual(window.limit);
          admittedUntil.set(name, count);
        }
      }
    }),
  );
});

it("rolls over at the exact millisecond", () => {
  const limits = { minute: 1, day: 3 };
  const minuteEndMs = Date.UTC(2026, 10, 20, 12, 35);
  const dayEndMs = Date.UTC(2026, 10, 21);
  const admitted = takeAt(limits, [
    minuteEndMs - 2, // admitted
    minuteEndMs - 1, // the minute is used up
    minuteEndMs, // admitted
    dayEndMs - 1, // admitted, the day's last
    dayEndMs, // admitted: a new day
  ]).map((decision) => decision.admitted);
  expect(admitted).toEqual([true, false, true, true, true]);

  const lastOfDay = takeAt({ minute: 9, day: 1 }, [dayEndMs - 60_000, dayEndMs - 1, dayEndMs]);
  expect(lastOfDay.map((decision) => decision.admitted)).toEqual([true, false, true]);
});

it("knows no negative remaining when a limit is lowered below what was used", () => {
  const nowMs = Date.now();
  const [, , , third] = takeAt({ minute: 5, day: 9 }, [nowMs, nowMs, nowMs, nowMs]);
  const lowered = (third?.windows ?? []).map((window) => ({ ...window, limit: 2 }));
  const decision = take(lowered, nowMs);
  expect(decision.admitted).toBe(false);
  expect(decision.windows.map(remaining)).toEqual([0, 0]);
});

it("names the window with less remaining, the day if both have the same", () => {
  const nowMs = Date.now();
  const named = (limits: Limits) => namedWindow(take(fresh(limits), nowMs)).name;
  expect(named({ minute: 60, day: 1000 })).toBe("minute");
  expect(named({ minute: 60, day: 30 })).toBe("day");
  expect(named({ minute: 30, day: 30 })).toBe("day");
});

it("names the refusing window, and the one that frees last if both refuse", () => {
  const nowMs = Date.now();
  const refusedBy = (limits: Limits) => {
    const decisions = takeAt(limits, [nowMs, nowMs, nowMs]);
    const last = decisions[2];
    if (last === undefined || last.admitted) throw new Error("the third request was to be refused");
    return namedWindow(last).name;
  };
  expect(refusedBy({ minute: 2, day: 9 })).toBe("minute");
  expect(refusedBy({ minute: 9, day: 2 })).toBe("day");
  expect(refusedBy({ minute: 2, day: 2 })).toBe("day");
});

it("writes the headers of a decision", () => {
  const nowMs = Date.UTC(2026, 10, 20, 12, 34, 20, 500);
  const [first, second] = takeAt({ minute: 1, day: 1000 }, [nowMs, nowMs]);
  if (first === undefined || second === undefined) throw new Error("two decisions were taken");
  expect(headersOf(first)).toEqual({
    "X-RateLimit-Limit": "1",
    "X-RateLimit-Remaining": "0",
    "X-RateLimit-Reset": `${Date.UTC(2026, 10, 20, 12, 35) / 1000}`,
    "RateLimit-Policy": '"minute";q=1;w=60, "day";q=1000;w=86400',
    RateLimit: '"minute";r=0;t=40, "day";r=999;t=41140',
  });
  expect(headersOf(second)).toEqual({ ...headersOf(first), "Retry-After": "40" });
});

it("names the day in its last minute, when both windows have the same left and end together", () => {
  const nowMs = Date.UTC(2026, 10, 20, 23, 59, 30);
  const windows = [
    { ...unusedWindow("minute", 9), startMs: Date.UTC(2026, 10, 20, 23, 59), used: 3 },
    { ...unusedWindow("day", 9), startMs: Date.UTC(2026, 10, 20), used: 3 },
  ];
  expect(namedWindow({ admitted: true, nowMs, windows }).name).toBe("day");
});

it("names a ban's end while nothing is used up beyond it, and else the day", () => {
  const nowMs = Date.UTC(2026, 10, 20, 12, 34, 20, 500);
  const dayEndMs = Date.UTC(2026, 10, 21);
  const banned = (minuteUsed: number, dayUsed: number, bannedUntilMs = nowMs + 600_000) =>
    headersOf({
      admitted: false,
      nowMs,
      bannedUntilMs,
      windows: [
        { ...unusedWindow("minute", 60), startMs: Date.UTC(2026, 10, 20, 12, 34), used: minuteUsed },
        { ...unusedWindow("day", 1_000), startMs: Date.UTC(2026, 10, 20), used: dayUsed },
      ],
    });
  const inBan = {
    "X-RateLimit-Limit": "60",
    "X-RateLimit-Remaining": "0",
    // The ban ends half a second earlier.
    "X-RateLimit-Reset": `${Date.UTC(2026, 10, 20, 12, 44, 21) / 1000}`,
    "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
    RateLimit: '"minute";r=0;t=600, "day";r=0;t=600',
    "Retry-After": "600",
  };
  expect(banned(60, 100)).toEqual(inBan);
  // One is left of each.
  expect(banned(59, 999)).toEqual(inBan);
  const beyond = {
    ...inBan,
    "X-RateLimit-Limit": "1000",
    "X-RateLimit-Reset": `${dayEndMs / 1000}`,
    RateLimit: '"minute";r=0;t=600, "day";r=0;t=41140',
    "Retry-After": "41140",
  };
  expect(banned(60, 1_000)).toEqual(beyond);
  // Also if it is used up for a millisecond longer.
  expect(banned(60, 1_000, dayEndMs - 1)["X-RateLimit-Limit"]).toBe("1000");
});

it("counts an admission as used and a refusal as refused, in both windows", () => {
  const nowMs = Date.now();
  const counts = takeAt({ minute: 1, day: 9 }, [nowMs, nowMs, nowMs]).map(({ windows }) =>
    windows.map(({ used, refused }) => [used, refused]),
  );
  expect(counts).toEqual([
    [
      [1, 0],
      [1, 0],
    ],
    [
      [1, 1],
      [1, 1],
    ],
    [
      [1, 2],
      [1, 2],
    ],
  ]);
});
