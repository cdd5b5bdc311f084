// What an isolate may do with a lease, and what the object takes back. The object is its arithmetic; time stands still
// until a test moves it on.

import { expect, it } from "vitest";
import { KeyMeter } from "../src/rate-limit/key-meter.ts";
import { grant, HeldLeases, LEASE_MS, LEASE_SHARE } from "../src/rate-limit/lease.ts";
import { decide, type Meter, type Take, UNUSED_METER } from "../src/rate-limit/meter.ts";
import type { Limits, Window } from "../src/rate-limit/window.ts";
import { newClock } from "./virtual-clock.ts";

const PRO = { minute: 320, day: 10_000 };

const MINUTE_MS = Date.UTC(2026, 10, 20, 12, 34);

let takes = 0;

/** A take, with what else it says. */
function take(rest: Partial<Take> = {}): Take {
  takes += 1;
  return { id: `${takes}`.padStart(10, "0"), unreported: [], bannedUntilMs: 0, ...rest };
}

const wishFor = (size: number) => ({ size, forMs: LEASE_MS });

const usedOf = ({ windows }: { windows: Window[] }) => windows.map(({ used }) => used);

/** One isolate, and the object that it asks; an answer is on its way for `answerMs`. */
function newIsolate(limits: Limits = PRO) {
  const clock = newClock();
  const objectClock = newClock();
  const asked: Take[] = [];
  const state = { meter: UNUSED_METER, answerMs: 1, losesAnswers: false };
  const isolate = new KeyMeter({ ...clock, keepAlive: () => {} }, 4_000);
  const ask = async (request: Take) => {
    asked.push(request);
    const { verdict, meter } = decide(state.meter, limits, request, objectClock.now());
    state.meter = meter;
    await clock.wait(state.answerMs);
    if (state.losesAnswers) throw new Error("lost");
    return verdict;
  };
  const pass = async (ms: number) => {
    await objectClock.pass(ms);
    await clock.pass(ms);
  };
  const send = () => isolate.take(limits, ask, clock.now(), () => {});
  const request = async () => {
    const decision = send();
    await pass(state.answerMs);
    return decision;
  };
  return { asked, state, pass, send, request, step: clock.step, stepObject: objectClock.step };
}

it("a lease is a part of what is left, and none if that is less than two requests", () => {
  const windows = (limit: number): Window[] => [
    { name: "minute", limit, startMs: MINUTE_MS, used: 0, refused: 0 },
  ];
  const sizes = [0, 1, 2, 2 * LEASE_SHARE - 1, 2 * LEASE_SHARE, 10 * LEASE_SHARE, 10_000];
  expect(sizes.map((left) => grant("id", wishFor(20), windows(left), MINUTE_MS)?.size)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
    2,
    10,
    20,
  ]);
  expect(grant("id", wishFor(1), windows(10_000), MINUTE_MS)).toBeUndefined();
});

it("a lease is all in its minute, or there is none", () => {
  const windows: Window[] = [{ name: "minute", limit: 1_000, startMs: MINUTE_MS, used: 0, refused: 0 }];
  const granted = (atMs: number, forMs: number) =>
    grant("id", { size: 8, forMs }, windows, MINUTE_MS + atMs)?.forMs;
  expect([granted(0, 9_999), granted(59_195, 800), granted(59_196, 800), granted(59_196, 799)]).toEqual([
    LEASE_MS,
    800,
    undefined,
    799,
  ]);
});

it("the wish is for half of the time that is left of a minute, and for none if that is hardly any", () => {
  const wished = (leftMs: number) => new HeldLeases().wish(MINUTE_MS, 1, leftMs);
  expect([60_000, 1_605, 1_604, 105, 15, 14].map((leftMs) => wished(leftMs).forMs)).toEqual([
    800, 800, 799, 50, 5, 0,
  ]);
  expect(wished(14).size).toBe(0);
});

it("a lease is counted in both windows when it is granted", () => {
  const { verdict, meter } = decide(UNUSED_METER, PRO, take({ wish: wishFor(8) }), MINUTE_MS);
  expect(verdict.lease?.size).toBe(8);
  expect([usedOf(verdict), usedOf(meter)]).toEqual([
    [9, 9],
    [9, 9],
  ]);
});

/** The meter of a key of which one request was counted, and a lease of 8 granted. */
function leased(atMs: number): { meter: Meter; id: string } {
  const first = take({ wish: wishFor(8) });
  return { meter: decide(UNUSED_METER, PRO, first, atMs).meter, id: first.id };
}

it("what was left of a lease is taken back once, and never more than it was", () => {
  const { meter: before, id } = leased(MINUTE_MS);
  const unused = [{ id, count: 99 }];
  const { meter } = decide(before, PRO, take({ requests: 0, unused }), MINUTE_MS + 1);
  expect(usedOf(meter)).toEqual([1, 1]);
  expect(decide(meter, PRO, take({ requests: 0, unused }), MINUTE_MS + 2).meter).toBe(meter);
});

it("what was left of a lease of the minute before is taken back in the day alone", () => {
  const { meter: before, id } = leased(MINUTE_MS + 59_000);
  const { meter } = decide(before, PRO, take({ unused: [{ id, count: 5 }] }), MINUTE_MS + 60_000);
  expect(usedOf(meter)).toEqual([1, 5]);
});

it("a lease of which nothing was heard for 10 seconds stays used, and is forgotten", () => {
  const { meter: before, id } = leased(MINUTE_MS);
  const { meter } = decide(before, PRO, take({ requests: 0 }), MINUTE_MS + 10_000);
  expect([usedOf(meter), meter.leases]).toEqual([[9, 9], []]);
  const late = take({ requests: 0, unused: [{ id, count: 8 }] });
  expect(usedOf(decide(meter, PRO, late, MINUTE_MS + 10_001).meter)).toEqual([9, 9]);
});

it("the same take again gets the same lease, of which time has passed", () => {
  const asked = take({ wish: wishFor(8) });
  const { verdict, meter } = decide(UNUSED_METER, PRO, asked, MINUTE_MS);
  const again = decide(meter, PRO, asked, MINUTE_MS + 300);
  expect(again.meter).toBe(meter);
  expect(again.verdict.lease).toEqual({ ...verdict.lease, forMs: LEASE_MS - 300 });
});

it("nobody is let in by a lease whose time is over, or after a step of the clock back", () => {
  for (const [usedMs, thenMs] of [
    [0, LEASE_MS],
    [0, -1],
    [500, 499],
  ] as const) {
    const leases = new HeldLeases();
    leases.add({ id: "id", size: 8, atMs: 0, forMs: LEASE_MS }, MINUTE_MS, MINUTE_MS);
    expect(leases.use(MINUTE_MS + usedMs)).toBe(true);
    expect(leases.use(MINUTE_MS + thenMs)).toBe(false);
    expect(leases.unused).toMatchObject([{ id: "id", count: 7 }]);
  }
});

it("a client that asks less often than a lease lasts gets none", async () => {
  const { asked, request, pass } = newIsolate();
  for (let requests = 0; requests < 5; requests += 1) {
    await request();
    await pass(LEASE_MS);
  }
  expect(asked.map(({ wish }) => wish?.size)).toEqual([0, 0, 0, 0, 0]);
});

it("a client that asks quickly is let in by leases, and sees each request counted", async () => {
  const { asked, request, pass } = newIsolate();
  const left: number[] = [];
  for (let requests = 0; requests < 30; requests += 1) {
    const { windows } = await request();
    left.push((windows[0]?.limit ?? 0) - (windows[0]?.used ?? 0));
    await pass(20);
  }
  expect(left).toEqual(Array.from({ length: 30 }, (_, index) => 319 - index));
  expect(asked.length).toBeLessThan(10);
});

it("a client that pauses gets back what it has not used, by itself", async () => {
  const { asked, state, request, pass } = newIsolate();
  for (let requests = 0; requests < 3; requests += 1) await request();
  expect(usedOf(state.meter)[0]).toBeGreaterThan(3);
  const calls = asked.length;
  await pass(1_000);
  expect(usedOf(state.meter)).toEqual([3, 3]);
  // And by one call.
  expect(asked.length).toBe(calls + 1);
});

it("a lease that was granted by an answer that was lost is given back with the next call", async () => {
  const { state, request, pass } = newIsolate();
  await request();
  state.losesAnswers = true;
  await request();
  expect(usedOf(state.meter)).toEqual([6, 6]);
  state.losesAnswers = false;
  await pass(1_000);
  await request();
  expect(usedOf(state.meter)).toEqual([3, 3]);
});

it("a lease does not outlive its minute, though the clock steps back, and back again", async () => {
  const { asked, state, send, request, pass, step } = newIsolate();
  await pass(59_050);
  await request();
  state.answerMs = 400;
  const second = send();
  await pass(390);
  // Each time less than has passed since it asked: by the clock nothing is wrong.
  step(-380);
  await pass(10);
  await second;
  await pass(450);
  step(-100);
  await pass(100);
  expect(asked.slice(0, 2).map(({ wish }) => wish?.size)).toEqual([0, 4]);
  state.answerMs = 1;
  const { windows } = await request();
  expect(windows[0]?.startMs).toBe(MINUTE_MS + 60_000);
});

it("a lease ends when the object is heard to be in another minute, because its clock has stepped", async () => {
  const { state, request, pass, stepObject } = newIsolate();
  for (let requests = 0; requests < 3; requests += 1) await request();
  stepObject(60_000);
  // Half of the lease is used, so it is renewed, in the next minute.
  await request();
  await pass(1);
  expect(usedOf(state.meter)[0]).toBeGreaterThan(1);
  // The first of the new lease, not the next of the old.
  const { windows } = await request();
  expect(windows[0]).toMatchObject({ startMs: MINUTE_MS + 60_000, used: 1 });
});
