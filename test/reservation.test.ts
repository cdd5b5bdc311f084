// What of a meter is stored, when, and what a crash burns. Pure functions; time is a number.

import { expect, it } from "vitest";
import { decide, type Take, UNUSED_METER, type Verdict } from "../src/rate-limit/meter.ts";
import { burn, isExact, mustStore, type Reservation, reserve } from "../src/rate-limit/reservation.ts";
import type { Limits } from "../src/rate-limit/window.ts";

const BUSINESS = { minute: 1_000, day: 100_000 };

const MINUTE_MS = Date.UTC(2026, 10, 20, 12, 34);

const UNUSED: Reservation = { meter: UNUSED_METER, ahead: 0, burnt: [0, 0] };

/** A key's object without its storage: what it stores is the row of the moment. */
function newObject(limits: Limits = BUSINESS) {
  let takes = 0;
  let stored = UNUSED;
  let meter = UNUSED_METER;
  const object = {
    rows: [] as Reservation[],
    used: () => meter.windows.map(({ used }) => used),
    take(nowMs: number, rest: Partial<Take> = {}): Verdict {
      takes += 1;
      const take = { id: `${takes}`.padStart(10, "0"), unreported: [], bannedUntilMs: 0, ...rest };
      const decided = decide(meter, limits, take, nowMs);
      if (decided.meter !== meter && mustStore(decided.meter, stored, take, nowMs)) {
        stored = reserve(decided.meter, limits, stored, take, nowMs);
        object.rows.push(stored);
      }
      meter = decided.meter;
      return decided.verdict;
    },
    crash(): void {
      stored = burn(stored);
      ({ meter } = stored);
    },
  };
  return object;
}

it("a slow key is stored with every request, and loses nothing by a crash", () => {
  const object = newObject();
  for (let request = 0; request < 5; request += 1) {
    object.take(MINUTE_MS + request * 1_000);
    object.crash();
  }
  expect([object.rows.length, object.used()]).toEqual([5, [5, 5]]);
});

it("a fast key is stored ever further ahead, so that few of its requests write", () => {
  const object = newObject();
  for (let request = 0; request < 200; request += 1) object.take(MINUTE_MS + request);
  expect(object.rows.map(({ ahead }) => ahead)).toEqual([0, 1, 3, 7, 15, 31, 50, 50, 50]);
});

it("what is stored covers everybody who was let in, and what was leased", () => {
  const object = newObject();
  for (let request = 0; request < 300; request += 1) {
    object.take(MINUTE_MS + request, { wish: { size: request % 7, forMs: 100 } });
    const stored = object.rows.at(-1)?.meter.windows.map(({ used }) => used) ?? [];
    for (const [index, used] of object.used().entries()) expect(stored[index]).toBeGreaterThanOrEqual(used);
  }
});

it("crashes and evictions of one window burn a twentieth of it together, and no more", () => {
  const object = newObject();
  let requests = 0;
  for (let crash = 0; crash < 40; crash += 1) {
    for (let request = 0; request < 10; request += 1) {
      requests += 1;
      object.take(MINUTE_MS + requests);
    }
    object.crash();
  }
  const burnt = (object.used()[0] ?? 0) - requests;
  expect(burnt).toBeGreaterThan(0);
  expect(burnt).toBeLessThanOrEqual(50);
});

it("what was burnt in one minute may be burnt again in the next, but not in the day", () => {
  const limits = { minute: 100, day: 120 };
  const object = newObject(limits);
  let requests = 0;
  for (let minute = 0; minute < 4; minute += 1) {
    for (let crash = 0; crash < 5; crash += 1) {
      for (let request = 0; request < 2; request += 1) {
        requests += 1;
        object.take(MINUTE_MS + minute * 60_000 + requests);
      }
      object.crash();
    }
  }
  // A twentieth of a minute is 5, of the day 6.
  expect((object.used()[1] ?? 0) - requests).toBe(6);
});

it("nothing is stored ahead of a limit that is so small that a twentieth of it is none", () => {
  const object = newObject({ minute: 19, day: 1_000 });
  for (let request = 0; request < 19; request += 1) object.take(MINUTE_MS + request);
  expect(object.rows.map(({ ahead }) => ahead)).toEqual(Array.from({ length: 19 }, () => 0));
});

it("what comes back of a lease that is stored is stored before anybody can use it", () => {
  const object = newObject();
  for (let request = 0; request < 30; request += 1) object.take(MINUTE_MS + request);
  const rows = object.rows.length;
  // As many as make a new row necessary, which then has the lease.
  for (let request = 0; object.rows.length === rows; request += 1)
    object.take(MINUTE_MS + 30 + request, { id: "withalease", wish: { size: 60, forMs: 100 } });
  const used = object.used();
  object.take(MINUTE_MS + 200, { requests: 0, unused: [{ id: "withalease", count: 40 }] });
  expect(object.used()).toEqual(used.map((before) => before - 40));
  object.crash();
  object.take(MINUTE_MS + 201, { requests: 0, unused: [{ id: "withalease", count: 40 }] });
  // Not given back once more.
  expect(object.used()[0]).toBeGreaterThanOrEqual((used[0] ?? 0) - 40);
});

it("a ban, and the first request of a minute, are stored at once", () => {
  const object = newObject();
  for (let request = 0; request < 30; request += 1) object.take(MINUTE_MS + 59_900 + request);
  const rows = object.rows.length;
  object.take(MINUTE_MS + 60_000);
  expect(object.rows).toHaveLength(rows + 1);
  object.take(MINUTE_MS + 60_001, { requests: 0, bannedUntilMs: MINUTE_MS + 600_000 });
  expect(object.rows).toHaveLength(rows + 2);
});

it("a key whose clock has stepped back is not taken for a fast one", () => {
  const object = newObject();
  for (let request = 0; request < 5; request += 1) object.take(MINUTE_MS + 100 - request);
  expect(object.rows).toHaveLength(5);
});

it("no more is stored ahead than there is left, so what is stored never exceeds the limit", () => {
  const limits = { minute: 1_000, day: 60 };
  const object = newObject(limits);
  for (let request = 0; request < 70; request += 1) object.take(MINUTE_MS + request);
  expect(object.rows.map(({ meter }) => meter.windows[1]?.used)).toSatisfy((used: number[]) =>
    used.every((each) => each <= limits.day),
  );
  expect(object.rows.map(({ ahead }) => ahead)).toContain(3);
});

it("the end of a burst is stored as it is, so that idleness burns nothing", () => {
  const object = newObject();
  for (let request = 0; request < 30; request += 1) object.take(MINUTE_MS + request);
  object.take(MINUTE_MS + 30, { id: "withalease", wish: { size: 8, forMs: 100 } });
  object.take(MINUTE_MS + 90, { requests: 0, unused: [{ id: "withalease", count: 0 }] });
  const used = object.used();
  object.crash();
  expect(object.used()).toEqual(used);
});

it("a row is used up to the last request before the next is written", () => {
  const object = newObject();
  for (let request = 0; request < 100; request += 1) object.take(MINUTE_MS + request);
  expect(object.rows.map(({ meter }) => meter.windows[0]?.used)).toEqual([1, 3, 7, 15, 31, 63, 114]);
});

it("requests of one millisecond are fast, and those 900 ms after the last row are slow", () => {
  const aheadAfter = (ms: number) => {
    const object = newObject();
    object.take(MINUTE_MS);
    object.take(MINUTE_MS + ms);
    return object.rows.at(-1)?.ahead;
  };
  expect([0, 899, 900].map(aheadAfter)).toEqual([1, 1, 0]);
});

it("a fast key that has become slow is stored exactly again", () => {
  const object = newObject();
  for (let request = 0; request < 33; request += 1) object.take(MINUTE_MS + request);
  object.take(MINUTE_MS + 5_000);
  object.crash();
  expect(object.used()).toEqual([34, 34]);
});

it("asking for the next lease does not end a burst", () => {
  const object = newObject();
  for (let request = 0; request < 33; request += 1) object.take(MINUTE_MS + request);
  const rows = object.rows.length;
  object.take(MINUTE_MS + 40, { requests: 0, wish: { size: 8, forMs: 100 } });
  expect(object.rows).toHaveLength(rows);
});

it("a ban that is heard of with a request of a fast key is stored at once", () => {
  const object = newObject();
  for (let request = 0; request < 33; request += 1) object.take(MINUTE_MS + request);
  const rows = object.rows.length;
  object.take(MINUTE_MS + 40, { bannedUntilMs: MINUTE_MS + 600_000 });
  expect(object.rows).toHaveLength(rows + 1);
});

it("what comes back is stored at once if any of it is of a lease in the row, and only then", () => {
  const rowsAfter = (...ids: string[]) => {
    const object = newObject();
    object.take(MINUTE_MS, { id: "firstlease", wish: { size: 8, forMs: 100 } });
    object.take(MINUTE_MS + 1, { id: "secondleas", wish: { size: 8, forMs: 100 } });
    for (let request = 0; request < 33; request += 1) object.take(MINUTE_MS + 2 + request);
    object.take(MINUTE_MS + 70, { id: "notinarow1", wish: { size: 8, forMs: 100 } });
    const rows = object.rows.length;
    const unused = ids.map((id) => ({ id, count: 1 }));
    object.take(MINUTE_MS + 80, { requests: 0, wish: { size: 1, forMs: 100 }, unused });
    return object.rows.length - rows;
  };
  expect(rowsAfter("notinarow1")).toBe(0);
  expect(rowsAfter("firstlease")).toBe(1);
  expect(rowsAfter("notinarow1", "secondleas")).toBe(1);
});

it("what is stored ahead is burnt with the meter's life, in both windows", () => {
  const meter = UNUSED_METER;
  expect(burn({ meter, ahead: 3, burnt: [1, 2], atMs: MINUTE_MS })).toEqual({
    meter,
    ahead: 0,
    burnt: [4, 5],
  });
});

it("nothing is burnt yet of a window that begins", () => {
  const object = newObject();
  for (let request = 0; request < 10; request += 1) object.take(MINUTE_MS + request);
  object.crash();
  object.take(MINUTE_MS + 20);
  object.take(MINUTE_MS + 60_000);
  expect(object.rows.slice(-2).map(({ burnt }) => burnt)).toEqual([
    [7, 7],
    [0, 7],
  ]);
});

it("totals are exact only if both windows are stored as they are", () => {
  const meter = (used: number, dayUsed: number, refused: number) => ({
    ...UNUSED_METER,
    windows: UNUSED_METER.windows.map((window, index) => ({
      ...window,
      used: index === 0 ? used : dayUsed,
      refused: index === 0 ? 0 : refused,
    })),
  });
  const stored = { ...UNUSED, meter: meter(3, 5, 2) };
  expect(isExact(meter(3, 5, 2), stored)).toBe(true);
  expect([meter(2, 5, 2), meter(3, 4, 2)].map((each) => isExact(each, stored))).toEqual([false, false]);
});
