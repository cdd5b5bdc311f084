// Arithmetic of windows, whatever their lengths, and the rate-limit headers of a decision.

import { expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { AddressCounter } from "../../src/limits/address-counter.ts";
import { headersOf, left, tighterWindow } from "../../src/limits/headers.ts";
import * as Windows from "../../src/limits/windows.ts";
import fc from "../support/fast-check.ts";

const NOON_MS = Date.UTC(2026, 10, 20, 12);
const DAY_MS = 86_400_000;
const MIDNIGHT_MS = NOON_MS + DAY_MS / 2;
const LENGTHS = { minute: 60, hour: 3_600, day: 86_400 };
const BAN_MS = 600_000;

function windowOf(seconds: number, limit: number, used: number, nowMs = NOON_MS): Windows.Window {
  return { seconds, startMs: Windows.startOfWindowMs(seconds, nowMs), used, limit };
}
const threeOf = (minute: number, hour: number, day: number, nowMs = NOON_MS) => ({
  minute: windowOf(60, 5, minute, nowMs),
  hour: windowOf(3_600, 9, hour, nowMs),
  day: windowOf(86_400, 99, day, nowMs),
});
/** A decision at `nowMs`. A ban is relative to it. */
const outlookOf = (windows: Windows.Windows, banMs?: number, nowMs = NOON_MS): Windows.Outlook => ({
  admitted: Windows.room(windows) > 0 && banMs === undefined,
  nowMs,
  windows,
  ...(banMs !== undefined && { bannedUntilMs: nowMs + banMs }),
});

it("a window begins again at a multiple of its length, but not when the clock steps back", () => {
  const at = (ms: number) => {
    const all = Object.values(Windows.rollOver<Windows.Window>(threeOf(5, 6, 9), NOON_MS + ms));
    return all.flatMap(({ startMs, used }) => [startMs - NOON_MS, used]);
  };
  expect([-DAY_MS, 0, 59_999].map(at)).toEqual(Array(3).fill([0, 5, 0, 6, -DAY_MS / 2, 9]));
  expect(at(60_000)).toEqual([60_000, 0, 0, 6, -DAY_MS / 2, 9]);
  expect(at(DAY_MS / 2)).toEqual([DAY_MS / 2, 0, DAY_MS / 2, 0, DAY_MS / 2, 0]);
});

it.each([
  [{}, "there is no window"],
  [{ blink: 9, day: 86_400 }, "blink of 9 s"],
  // A multiple of the shortest, but not at its place.
  [{ minute: 60, day: 86_400, hour: 3_600 }, "hour of 3600 s"],
  [{ minute: 60, half: 90 }, "half of 90 s"],
  [{ minute: 60, other: 60 }, "other of 60 s"],
  [{ Minute: 60 }, "Minute of 60 s"],
  [{ minute: 60, "an hour": 3_600 }, "an hour of 3600 s"],
  [{ constructor: 60 }, "constructor of 60 s"],
  // A multiple of the shortest, but not of the one before: the shorter of the two could reset last.
  [{ minute: 60, hour: 3_600, other: 5_400 }, "other of 5400 s"],
  [{ minute: 60, week: 604_800, month: 2_592_000 }, "month of 2592000 s"],
  // The totals of days have too few.
  [{ minute: 60, month: 2_678_400 }, "month of 2678400 s"],
  // Its windows would straddle days.
  [{ prime: 11 }, "prime of 11 s"],
  [{ minute: Number.NaN }, "minute of NaN s"],
])("%j is refused", (lengths, problem) => {
  expect(() => Windows.unused(lengths)).toThrow(problem);
  expect(() => Windows.unused(lengths)).toThrow(RangeError);
});

it("the shortest may last 10 s, the longest 30 days, and a name may have digits, _ and -", () => {
  const lengths = { "burst-10_s": 10, month: 2_592_000 };
  expect(Object.keys(Windows.unused(lengths))).toEqual(["burst-10_s", "month"]);
});

it("the first is the shortest, and the last the longest, also if there is only one", () => {
  const { minute, hour, day } = threeOf(1, 2, 3);
  const ends = [{ minute, hour, day }, { hour }].map((all) => [Windows.shortest(all), Windows.longest(all)]);
  expect(ends).toEqual([
    [minute, day],
    [hour, hour],
  ]);
});

it.each([
  ["shortest", () => Windows.shortest({})],
  ["longest", () => Windows.longest({})],
  ["tighter", () => tighterWindow(outlookOf({}))],
])("without windows there is no %s one", (_, find) => {
  expect(find).toThrow(new RangeError("there is no window"));
});

it("a window without a limit admits all", () => {
  const windows = Windows.withLimits(Windows.unused(LENGTHS), { minute: 5, day: 99 });
  expect([Object.keys(windows), Windows.room(windows)]).toEqual([["minute", "day"], 5]);
});

it("windows that are missing come at their place", () => {
  const { hour, ...others } = threeOf(1, 2, 3);
  const all = Windows.complete(others, { ...threeOf(4, 5, 6), hour });
  expect(Object.entries(all)).toEqual(Object.entries(threeOf(1, 2, 3)));
  // Also if it is the others that lack one between theirs: another release may have added it.
  const { hour: added, ...known } = threeOf(4, 5, 6);
  expect(Object.entries(Windows.complete({ hour: added }, known))).toEqual(Object.entries(threeOf(4, 5, 6)));
});

it("nothing is completed if no window is missing", () => {
  const { hour, ...others } = threeOf(4, 5, 6);
  const all = { ...threeOf(1, 2, 3), hour };
  expect(Windows.complete(all, others)).toBe(all);
});

it.each([
  ["the longest of two that are full", threeOf(1, 9, 99), "day", 0],
  ["the longer of two that are full, with room in a longer one,", threeOf(5, 9, 50), "hour", 0],
  ["one between others", threeOf(1, 9, 50), "hour", 0],
  ["the longest, with room in the others,", threeOf(1, 2, 99), "day", 0],
  ["the shortest if none is full", threeOf(1, 2, 3), "minute", 4],
])("%s refuses", (_, windows, name, room) => {
  expect([Windows.refusingWindow(windows), Windows.room(windows)]).toEqual([name, room]);
});

it("all windows of a refusal have as many requests more as the tightest has room for", () => {
  const full = Windows.fullWindows(threeOf(4, 9, 20), { minute: 3, hour: 2 });
  expect(Object.values(full).map(({ used }) => used)).toEqual([3, 9, 22]);
  expect(Windows.refusingWindow(full)).toBe("hour");
  // Nothing is leased of a window that has no number.
  expect(Windows.fullWindows(threeOf(1, 9, 20), {})).toEqual(threeOf(1, 9, 20));
});

it("the address counter evicts the addresses that it has not counted for longest", () => {
  const addresses = new AddressCounter();
  for (let address = 0; address < 10_000; address += 1) addresses.count(`${address}`, NOON_MS);
  for (const address of ["0", "next"]) addresses.count(address, NOON_MS);
  const remaining = (address: string) => Windows.room(addresses.peek(address, NOON_MS).windows);
  // A sixteenth is evicted at once.
  expect(["0", "1", "626", "627", "next"].map(remaining)).toEqual([58, 60, 60, 59, 59]);
});

it("the headers of an address name no day", () => {
  const { RateLimit, [HEADER.rateLimitPolicy]: policy } = headersOf(new AddressCounter().count("a", NOON_MS));
  expect([RateLimit, policy]).toEqual(['"minute";r=59;t=60', '"minute";q=60;w=60']);
});

const LATE_MS = NOON_MS + 20_500;

// Limit, Remaining, Reset in seconds from noon on, Retry-After, and RateLimit.
it.each<[string, Windows.Outlook, unknown[], string]>([
  [
    "an admitted request",
    outlookOf(threeOf(1, 8, 20)),
    ["9", "1", 3_600],
    "r=4;t=60 r=1;t=3600 r=79;t=43200",
  ],
  [
    "a refusal",
    outlookOf(threeOf(5, 2, 3, LATE_MS), undefined, LATE_MS),
    ["5", "0", 60, "40"],
    "r=0;t=40 r=7;t=3580 r=96;t=43180",
  ],
  [
    "a lowered limit",
    outlookOf(threeOf(5, 12, 20)),
    ["9", "0", 3_600, "3600"],
    "r=0;t=60 r=0;t=3600 r=79;t=43200",
  ],
  ["a ban", outlookOf(threeOf(1, 2, 3), BAN_MS), ["5", "0", 600, "600"], "r=0;t=600 r=0;t=600 r=0;t=600"],
  [
    "a ban beside a full hour",
    outlookOf(threeOf(5, 9, 20), BAN_MS),
    ["9", "0", 3_600, "3600"],
    "r=0;t=600 r=0;t=3600 r=0;t=600",
  ],
])("the headers of %s have all windows, and name the tightest", (_, decision, values, rateLimit) => {
  const headers = headersOf(decision, { Vary: "Origin" });
  const [minute, hour, day] = rateLimit.split(" ");
  const [limit, remaining, resetSeconds, retryAfter] = values;
  expect(headers).toEqual({
    Vary: "Origin",
    [HEADER.rateLimitLimit]: limit,
    [HEADER.rateLimitRemaining]: remaining,
    [HEADER.rateLimitReset]: `${NOON_MS / 1_000 + Number(resetSeconds)}`,
    [HEADER.rateLimitPolicy]: '"minute";q=5;w=60, "hour";q=9;w=3600, "day";q=99;w=86400',
    [HEADER.rateLimit]: `"minute";${minute}, "hour";${hour}, "day";${day}`,
    ...(retryAfter !== undefined && { [HEADER.retryAfter]: retryAfter }),
  });
});

it("Retry-After is the smallest number of seconds after which a request is admitted, and Reset no earlier", () => {
  const now = fc.integer({ min: MIDNIGHT_MS - 3_900_000, max: MIDNIGHT_MS - 1 });
  const used = fc.tuple(
    ...[6, 10, 100].map((max) => fc.oneof(fc.constant(max), fc.integer({ min: 0, max }))),
  );
  const ban = fc.option(fc.integer({ min: 1, max: BAN_MS }), { nil: undefined });
  fc.assert(
    fc.property(now, used, ban, (nowMs, [minute = 0, hour = 0, day = 0], banMs) => {
      const decision = outlookOf(threeOf(minute, hour, day, nowMs), banMs, nowMs);
      const { [HEADER.retryAfter]: retryAfter, [HEADER.rateLimitReset]: reset } = headersOf(decision);
      expect(retryAfter === undefined).toBe(decision.admitted);
      if (retryAfter === undefined) return;
      expect(left(decision, tighterWindow(decision))).toBe(0);
      const isAdmittedAt = (atMs: number) =>
        atMs >= (decision.bannedUntilMs ?? 0) &&
        Windows.room(Windows.rollOver<Windows.Window>(decision.windows, atMs)) > 0;
      const endMs = nowMs + Number(retryAfter) * 1_000;
      expect([endMs - 1_000, endMs, Number(reset) * 1_000].map(isAdmittedAt)).toEqual([false, true, true]);
    }),
    { numRuns: 1_000 },
  );
});

const BEFORE_MIDNIGHT_MS = MIDNIGHT_MS - 30_000;
const FIVE_TO_ONE_MS = NOON_MS + 55 * 60_000;
it.each([
  ["the one with the fewest requests left", "minute", outlookOf(threeOf(3, 5, 20))],
  ["the longer of two that are tied", "hour", outlookOf(threeOf(2, 6, 20))],
  [
    "the longest if all are tied, and end together",
    "day",
    outlookOf(threeOf(1, 5, 95, BEFORE_MIDNIGHT_MS), undefined, BEFORE_MIDNIGHT_MS),
  ],
  ["one that is tighter than two that are tied", "minute", outlookOf(threeOf(4, 6, 96))],
  ["the shortest during a ban", "minute", outlookOf(threeOf(5, 2, 3), BAN_MS)],
  ["one between others that is used up beyond a ban", "hour", outlookOf(threeOf(1, 9, 20), BAN_MS)],
  ["the longest of two that are used up beyond a ban", "day", outlookOf(threeOf(1, 9, 99), BAN_MS)],
  [
    "the shortest if a ban ends after the one between others",
    "minute",
    outlookOf(threeOf(1, 9, 20, FIVE_TO_ONE_MS), BAN_MS, FIVE_TO_ONE_MS),
  ],
  ["the only one", "hour", outlookOf({ hour: windowOf(3_600, 9, 8) })],
])("headers name %s: the %s", (_, name, decision) => {
  expect(tighterWindow(decision)).toBe(name);
});

it.each([
  ["of the shortest window", [9, 5, 7], 9],
  ["of the next one, if that has none", [Windows.MAX_LIMIT, 5, 7], 5],
  ["of none", Array(3).fill(Windows.MAX_LIMIT), Windows.MAX_LIMIT],
])("reservations and bans go by a limit %s", (_, [burst = 0, hour = 0, day = 0], limit) => {
  const windows = {
    burst: windowOf(10, burst, 0),
    hour: windowOf(3_600, hour, 0),
    day: windowOf(86_400, day, 0),
  };
  expect(Windows.shortestLimit(windows)).toBe(limit);
});
