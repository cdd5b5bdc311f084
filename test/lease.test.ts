// What an isolate may do with a lease, and what the object takes back. The object is its arithmetic; time stands still
// until a test moves it on.

import { expect, it } from "vitest";
import { KeyMeter } from "../src/rate-limit/key-meter.ts";
import { grant, HeldLeases, LEASE_MS } from "../src/rate-limit/lease.ts";
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
  const kept: Promise<unknown>[] = [];
  const state = { meter: UNUSED_METER, answerMs: 1, losesAnswers: false };
  const isolate = new KeyMeter({ ...clock, keepAlive: (work) => kept.push(work) }, 4_000);
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
  return { isolate, asked, kept, state, pass, send, request, step: clock.step, stepObject: objectClock.step };
}

it("a lease is a sixteenth of what is left at most, and none if that is less than two requests", () => {
  const windows = (limit: number): Window[] => [
    { name: "minute", limit, startMs: MINUTE_MS, used: 0, refused: 0 },
  ];
  const sizes = [0, 1, 2, 31, 32, 160, 10_000];
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

/** Leases, of which one of so many was asked for at MINUTE_MS and came `callMs` later. */
function held(size: number, callMs = 0, lease: { id?: string; atMs?: number; forMs?: number } = {}) {
  const leases = new HeldLeases();
  const granted = { id: "id", size, atMs: MINUTE_MS, forMs: LEASE_MS, ...lease };
  leases.add(granted, MINUTE_MS, MINUTE_MS + callMs);
  return leases;
}

/** Uses so many up at once. Returns how many were there. */
function use(leases: HeldLeases, times: number, afterMs = 0): number {
  const used = Array.from({ length: times }, () => leases.use(MINUTE_MS + afterMs));
  return used.filter((isUsed) => isUsed).length;
}

it("a lease lets in as many as it is for, one after the other or all in one millisecond", () => {
  const leases = held(3);
  expect([use(leases, 9), leases.unused]).toEqual([3, [{ id: "id", count: 0, atMs: MINUTE_MS }]]);
});

it("a lease that was asked for later than now lets nobody in", () => {
  expect(held(8).use(MINUTE_MS - 1)).toBe(false);
});

it("a lease ends before any of its windows does", () => {
  const windows: Window[] = [
    { name: "minute", limit: 1_000, startMs: MINUTE_MS, used: 0, refused: 0 },
    { name: "day", limit: 1_000, startMs: MINUTE_MS, used: 0, refused: 0 },
  ];
  expect(grant("id", wishFor(8), windows, MINUTE_MS + 59_999)).toBeUndefined();
});

it("a lease is due 100 ms and the time of 1½ calls before it ends, but not in its first half", () => {
  const dueAfter = (callMs: number) => {
    const leases = held(8, callMs);
    return Array.from({ length: LEASE_MS }, (_, ms) => ms).find((ms) => leases.isDue(MINUTE_MS + ms));
  };
  // The last one came before it was asked for: the clock has stepped.
  expect([0, 40, 300, 600, -50].map(dueAfter)).toEqual([700, 640, 400, 400, 700]);
  expect(new HeldLeases().isDue(MINUTE_MS)).toBe(false);
});

it("the wish is for half as much again as was used in the time of a lease", () => {
  const wished = (uses: number, afterMs: number, { size = 100, waiting = 1, callMs = 100 } = {}) => {
    const leases = held(size, callMs);
    use(leases, uses, callMs);
    return leases.wish(MINUTE_MS + afterMs, waiting, 60_000).size;
  };
  // 41 in 400 ms are 82 in 800.
  expect(wished(41, 500)).toBe(123);
  expect(wished(3, 900)).toBe(5);
  // Less than 50 ms tell nothing of a rate.
  expect([wished(10, 150), wished(10, 120)]).toEqual([240, 240]);
  // Not more than eight times the last one, and never less than four or than are waiting.
  expect([wished(2, 150, { size: 2 }), wished(0, 500), wished(41, 500, { waiting: 200 })]).toEqual([
    16, 4, 200,
  ]);
  // What was long ago tells nothing either.
  expect([wished(41, 2 * LEASE_MS - 1), wished(41, 2 * LEASE_MS)]).toEqual([33, 4]);
});

it("the wish is for what was used since the latest lease came", () => {
  const leases = held(100);
  use(leases, 40, 10);
  leases.add({ id: "next", size: 100, atMs: MINUTE_MS, forMs: LEASE_MS }, MINUTE_MS + 20, MINUTE_MS + 20);
  use(leases, 10, 20);
  expect(leases.wish(MINUTE_MS + 420, 1, 60_000).size).toBe(30);
});

it("what is to be given back is told until the object has heard it, the latest 16 of each kind", () => {
  const leases = new HeldLeases();
  for (let lease = 0; lease < 17; lease += 1) {
    leases.add({ id: `${lease}`, size: 8, atMs: MINUTE_MS, forMs: LEASE_MS }, MINUTE_MS, MINUTE_MS);
    leases.lose(`lost ${lease}`, 4);
  }
  leases.endAll();
  const ids = Array.from({ length: 16 }, (_, index) => `${index + 1}`);
  const told = leases.unused;
  expect(told.map(({ id }) => id)).toEqual([...ids, ...ids.map((id) => `lost ${id}`)]);
  leases.add({ id: "next", size: 8, atMs: MINUTE_MS, forMs: LEASE_MS }, MINUTE_MS, MINUTE_MS);
  leases.end("next");
  leases.lose("next lost", 4);
  leases.gaveBack(told);
  expect(leases.unused).toMatchObject([
    { id: "next", count: 8 },
    { id: "next lost", count: 4 },
  ]);
});

it("what is not used of a lease is missing only in the windows that it was counted in", () => {
  const leases = held(8, 0, { id: "before", atMs: MINUTE_MS - 1 });
  leases.add({ id: "within", size: 5, atMs: MINUTE_MS, forMs: LEASE_MS }, MINUTE_MS, MINUTE_MS);
  const notUsed = () =>
    [MINUTE_MS - 1, MINUTE_MS, MINUTE_MS + 1].map((startMs) => leases.notUsedSince(startMs));
  expect(notUsed()).toEqual([13, 5, 0]);
  leases.use(MINUTE_MS);
  // It is missing until the object has heard that it comes back, too.
  leases.endAll();
  expect(notUsed()).toEqual([12, 5, 0]);
  leases.gaveBack(leases.unused);
  expect(notUsed()).toEqual([0, 0, 0]);
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

it("a client that comes again after as long as a lease lasts gets none, nor does one after a step of the clock", async () => {
  const wishedAfter = async (ms: number, stepMs = 0) => {
    const { asked, request, pass, step } = newIsolate();
    await request();
    step(stepMs);
    // The answer has taken one of them.
    await pass(ms - 1);
    await request();
    return asked[1]?.wish?.size;
  };
  expect([await wishedAfter(LEASE_MS - 1), await wishedAfter(LEASE_MS)]).toEqual([4, 0]);
  expect(await wishedAfter(10, -2 * LEASE_MS)).toBe(0);
});

it("a wish is for the minute of the object, whatever the isolate's clock says", async () => {
  const { asked, request, pass, step } = newIsolate();
  step(-30_000);
  await pass(59_000);
  await request();
  await request();
  // When the object answered, 1,000 ms of its minute were left; the answer was on its way for 1 ms, which nobody can know.
  expect(asked[1]?.wish).toEqual({ size: 4, forMs: 497 });
});

it("a request that is let in by a lease has the time of the object", async () => {
  const { request, pass, step } = newIsolate();
  step(-30_000);
  await request();
  const called = await request();
  const first = await request();
  await pass(12);
  const second = await request();
  // By the isolate's clock the second one was sent 13 ms after the first.
  expect([first.nowMs - called.nowMs, second.nowMs - called.nowMs]).toEqual([0, 13]);
  expect(called.nowMs).toBeGreaterThan(MINUTE_MS);
});

it("while its minute lasts a lease is used to its end", async () => {
  const { asked, request, pass } = newIsolate();
  for (let requests = 0; requests < 40; requests += 1) {
    await request();
    await pass(5);
  }
  const counts = asked.flatMap(({ unused = [] }) => unused.map(({ count }) => count));
  expect(counts.length).toBeGreaterThan(0);
  expect(counts.filter((count) => count > 0)).toEqual([]);
});

it("what was given back is told once", async () => {
  const { asked, request, pass } = newIsolate();
  for (let requests = 0; requests < 3; requests += 1) await request();
  await pass(2_000);
  await request();
  expect(asked.at(-2)?.unused).toHaveLength(1);
  expect(asked.at(-1)?.unused).toEqual([]);
});

it("an answer that was lost leaves nothing to give back if no lease was asked for", async () => {
  const { asked, state, request } = newIsolate();
  state.losesAnswers = true;
  await request();
  await request();
  expect(asked.map(({ unused }) => unused)).toEqual([[], []]);
});

it("whoever was let in alone is reported again if what reported it fails", async () => {
  const { asked, state, request, pass } = newIsolate();
  for (let requests = 0; requests < 3; requests += 1) await request();
  state.losesAnswers = true;
  // As many as the lease has left, and one more.
  while (asked.every(({ unreported }) => unreported.length === 0)) {
    await request();
    if (asked.length > 20) break;
  }
  await pass(2_000);
  state.losesAnswers = false;
  await request();
  expect(asked.at(-1)?.unreported.length).toBeGreaterThan(0);
  expect(asked.at(-1)?.unreported).toEqual(asked.at(-2)?.unreported);
});

it("a call goes on when the client of its request leaves, and so does what it leaves to be done", async () => {
  const { kept, request } = newIsolate();
  await request();
  expect(kept).toHaveLength(1);
  await request();
  // The call, and the end of its lease.
  expect(kept).toHaveLength(3);
});

it("those who ask seldom get a lease if they are several", async () => {
  const { asked, state, send, pass } = newIsolate();
  state.answerMs = 3 * LEASE_MS;
  void send();
  for (let others = 0; others < 2; others += 1) {
    await pass(LEASE_MS + 1);
    void send();
  }
  await pass(state.answerMs);
  expect(asked.map(({ requests, wish }) => [requests, wish?.size])).toEqual([
    [1, 0],
    [2, 4],
  ]);
});

it("no more is missing of a window than was used of it, when an answer knows less than the leases do", async () => {
  const { isolate, request, state } = newIsolate();
  for (let requests = 0; requests < 2; requests += 1) await request();
  const windows = state.meter.windows.map((window) => ({ ...window, used: 0 }));
  expect(usedOf(isolate.asSeenHere({ admitted: true, nowMs: MINUTE_MS, windows }))).toEqual([0, 0]);
});

it("whoever has nothing to tell makes no call", async () => {
  const { asked, request, pass } = newIsolate();
  // Longer than two leases last.
  for (let requests = 0; requests < 100; requests += 1) {
    await request();
    await pass(20);
  }
  const idle = asked.filter(
    ({ requests, wish, unused }) => requests === 0 && !wish?.size && unused?.length === 0,
  );
  expect(idle).toEqual([]);
});

it("a report that fails is kept beside what came meanwhile, the latest 100", async () => {
  const { asked, state, request, pass } = newIsolate({ minute: 100_000, day: 1_000_000 });
  for (let requests = 0; requests < 2; requests += 1) await request();
  state.losesAnswers = true;
  for (let requests = 0; requests < 70; requests += 1) await request();
  // What is left of the lease is given back, with the report, while others are let in alone.
  state.answerMs = 2_000;
  await pass(LEASE_MS);
  const before = asked.at(-1)?.unreported ?? [];
  expect([asked.at(-1)?.requests, before.length]).toEqual([0, 66]);
  state.answerMs = 1;
  for (let requests = 0; requests < 50; requests += 1) await request();
  await pass(2_000);
  await request();
  const after = asked.at(-1)?.unreported ?? [];
  expect(after).toHaveLength(100);
  expect(after.slice(0, 50)).toEqual(before.slice(-50));
});

it("who waited for a lease is let in by it, without another call", async () => {
  const { asked, state, send, request, pass } = newIsolate();
  for (let requests = 0; requests < 2; requests += 1) await request();
  state.answerMs = 50;
  // The lease of four, which is asked for anew when half of it is used, and one more.
  const sent = Array.from({ length: 5 }, () => send());
  await pass(70);
  const decisions = await Promise.all(sent);
  expect(decisions.map(({ windows }) => windows[0]?.used)).toEqual([3, 4, 5, 6, 7]);
  expect(asked.map(({ requests }) => requests)).toEqual([1, 1, 0]);
});
