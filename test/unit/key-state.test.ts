// What an isolate knows of a key: each rule of its state alone, with answers that the test makes. key-client.test.ts has the state with the
// real object. The object's clock is 5 s behind.

import { expect, it } from "vitest";
import { type Call, KeyState, type Waiter } from "../../src/keys/isolate/key-state.ts";
import { type AcquireResult, LEASE_MS, type Lease } from "../../src/keys/protocol.ts";
import { FIRST_SECRET } from "../simulation/world.ts";
import { recordOf } from "../support/key-record.ts";

/** A second after the minute began by the object's clock, which is 5 s behind. */
const MINUTE_MS = Date.UTC(2026, 10, 22, 12, 34);
const NOW_MS = MINUTE_MS + 6_000;
const MADE_MS = MINUTE_MS + 1_000;
const LIMITS = { minute: 300, day: 10_000 };
const RECORD = recordOf([FIRST_SECRET], LIMITS);

/** What the object says at MADE_MS. */
const RESULT: AcquireResult = {
  revision: 1,
  nowMs: MADE_MS,
  windows: {
    minute: { startMs: MINUTE_MS, used: 0, limit: LIMITS.minute },
    day: { startMs: Date.UTC(2026, 10, 22), used: 0, limit: LIMITS.day },
  },
  leased: { minute: 0, day: 0 },
  admitted: 0,
  refused: 0,
};
const LEASE: Lease = { id: 1, size: 3, durationMs: 2_000, grantedMs: MADE_MS };

/** Calls at NOW_MS; the result comes 20 ms later. */
function callFor(
  state: KeyState,
  result: Partial<AcquireResult>,
  sentMs = NOW_MS,
  nowMs = sentMs + 20,
): Call {
  const call = state.beginCall("request", sentMs);
  const answer = { record: RECORD, usableMs: 30_000, isNew: false, result: { ...RESULT, ...result } };
  state.endCall(call, answer, nowMs, () => 0);
  return call;
}

/** A report that brings no lease. */
function callReport(state: KeyState): void {
  const answer = { record: RECORD, usableMs: 30_000, isNew: false, result: { ...RESULT, revision: 2 } };
  state.endCall(state.beginCall("report", NOW_MS + 30), answer, NOW_MS + 50, () => 0);
}

function newState(result: Partial<AcquireResult> = {}): KeyState {
  const state = new KeyState("A");
  state.learnRecord({ record: RECORD, usableMs: 30_000 }, NOW_MS, NOW_MS + 20);
  callFor(state, result);
  return state;
}

const withLease = (lease: Partial<Lease> = {}) => newState({ lease: { ...LEASE, ...lease } });

/** How each of these requests is decided without a call. */
const decide = (state: KeyState, times: number, nowMs = NOW_MS + 100) =>
  Array.from({ length: times }, () => state.decideAtOnce(nowMs)?.by);
const consume = (state: KeyState, times: number, nowMs?: number) =>
  decide(state, times, nowMs).filter((by) => by === "lease").length;
/** What the next call reports. */
const reported = (state: KeyState, nowMs = NOW_MS + 200) => state.beginCall("report", nowMs).request;

it("a lease admits its size, in the time from before its call to its end, also if the clock steps", () => {
  const used = (nowMs: number) => {
    const state = withLease();
    return [consume(state, 9, nowMs), reported(state).lease];
  };
  const all = [3, { id: 1, used: 3, isOver: true }];
  const none = [0, { id: 1, used: 0, isOver: true }];
  expect([NOW_MS, NOW_MS + 1_999].map(used)).toEqual([all, all]);
  expect([NOW_MS - 1, NOW_MS + 2_000].map(used)).toEqual([none, none]);
});

it("a lease is over once the object's clock has stepped over the end of its minute", () => {
  const state = withLease();
  const status = { ...RESULT, revision: 2, nowMs: MINUTE_MS + 59_900 };
  state.learnStatus(status, NOW_MS + 50, NOW_MS + 50);
  expect([consume(state, 1, NOW_MS + 149), consume(state, 1, NOW_MS + 150)]).toEqual([1, 0]);
});

it("a timer ends a lease, but not one that has been renewed meanwhile", () => {
  const state = new KeyState("A");
  const leases = [LEASE, { ...LEASE, size: 6 }].map((lease) => {
    const call = state.beginCall("request", NOW_MS);
    const answer = { record: RECORD, usableMs: 30_000, isNew: false, result: { ...RESULT, lease } };
    return state.endCall(call, answer, NOW_MS + 20, () => 0);
  });
  expect(leases.map((lease) => lease && state.endLease(lease, NOW_MS + 2_000))).toEqual([false, true]);
  expect([consume(state, 1), reported(state).lease?.isOver]).toEqual([0, true]);
});

it("a lease is not held if the clock has stepped back during its call, because its age is unknown", () => {
  const state = new KeyState("A");
  callFor(state, { lease: LEASE }, NOW_MS, NOW_MS - 1);
  expect([consume(state, 1, NOW_MS), reported(state).lease]).toEqual([0, undefined]);
});

it("what is left of a lease shows as remaining in the windows that it was granted in", () => {
  const windows = { ...RESULT.windows, minute: { ...RESULT.windows.minute, startMs: MADE_MS + 1, used: 3 } };
  const state = newState({ lease: LEASE, windows });
  consume(state, 1);
  const { minute, day } = state.peek(NOW_MS + 100).windows;
  expect([minute.used, day.used]).toEqual([3, -2]);
});

it("a request renews a lease shortly before its end, or when most of it is used, until a call does not renew it", () => {
  // The end is at 2,000 ms; a call takes 20 ms.
  const isDue = (state: KeyState) => [100, 1_719, 1_720].map((ms) => state.arrive(NOW_MS + ms).isDue);
  const state = withLease({ size: 100 });
  expect(isDue(state)).toEqual([false, false, true]);
  consume(state, 90);
  expect(isDue(state)).toEqual([true, true, true]);
  callFor(state, { revision: 2 });
  expect(isDue(state)).toEqual([false, false, false]);
  callFor(state, { revision: 3, lease: { ...LEASE, size: 190 } });
  expect(isDue(state)).toEqual([false, false, true]);
});

it("the call that reports the end of a lease gets the next one if requests still come, and one has called not long ago", () => {
  const wantsLease = (lastMs: number, calledMs = NOW_MS, isRenewed = true) => {
    const state = new KeyState("A");
    state.beginCall("request", calledMs);
    const answer = { record: RECORD, usableMs: 30_000, isNew: false, result: { ...RESULT, lease: LEASE } };
    const lease = state.endCall(state.beginCall("report", NOW_MS), answer, NOW_MS + 20, () => 0);
    if (!isRenewed) callReport(state);
    state.arrive(NOW_MS + lastMs);
    if (lease) state.endLease(lease, NOW_MS + 2_000);
    return state.beginCall("report", NOW_MS + 2_000).request.wantsLease;
  };
  expect([wantsLease(1_001), wantsLease(1_000)]).toEqual([true, false]);
  expect([wantsLease(1_001, NOW_MS - 17_999), wantsLease(1_001, NOW_MS - 18_000)]).toEqual([true, false]);
  expect(wantsLease(1_001, NOW_MS, false)).toBe(false);
});

it("a lease that the object has granted instead of one that it has forgotten begins unused", () => {
  const state = withLease();
  consume(state, 2);
  callFor(state, { revision: 2, lease: { ...LEASE, id: 7, size: 2 } });
  expect([consume(state, 9), reported(state).lease]).toEqual([2, { id: 7, used: 2, isOver: true }]);
});

it("the average of recent requests approaches those of LEASE_MS, forgets a burst soon, and survives a step of the clock", () => {
  const fromMs = 10 * LEASE_MS;
  const recent = (state: KeyState, nowMs: number) => reported(state, nowMs).recent;
  const state = new KeyState("A");
  state.arrive(0);
  expect(recent(state, 0)).toBe(1);
  for (let request = 0; request < 200; request += 1) {
    const atMs = fromMs + (request * LEASE_MS) / 40;
    state.arrive(atMs);
  }
  // 40, but for the share of those that are older than five times LEASE_MS.
  expect(Math.round(recent(state, fromMs + 5 * LEASE_MS))).toBe(39);
  const later = [6, 15, -1_000].map((periods) => recent(state, fromMs + periods * LEASE_MS));
  expect(later.map((each) => each < 20)).toEqual([true, true, true]);
});

it("a ban is over once its lift is known, and ignored after the clock has stepped back: its end is unknown", () => {
  const bannedUntilMs = MADE_MS + 5_000;
  const isBanned = (liftedMs: number, nowMs = NOW_MS + 100) => {
    const state = newState({ bannedUntilMs });
    const record = { ...RECORD, bansLiftedUntilMs: bannedUntilMs + liftedMs };
    state.learnRecord({ record, usableMs: 40_000 }, NOW_MS, NOW_MS + 20);
    return state.decideAtOnce(nowMs)?.by === "ban";
  };
  expect([-5_000, -1, 0].map((ms) => isBanned(ms))).toEqual([true, true, false]);
  expect([4_999, 5_000, -1].map((ms) => isBanned(-1, NOW_MS + ms))).toEqual([true, false, false]);
});

it("requests that are decided one by one are one batch of the report, in each minute and between calls", () => {
  const state = newState();
  for (let request = 0; request < 150; request += 1) state.decideAlone(NOW_MS + 100);
  reported(state);
  for (const ms of [0, 0, 60_000]) state.decideAlone(NOW_MS + 100 + ms);
  expect(reported(state).decisions.map(({ admitted }) => admitted)).toEqual([150, 2, 1]);
});

it("of more than 100 batches, those of a minute are merged except the oldest, and a call acknowledges what it has reported", () => {
  const state = newState();
  const fail = (atMs: number) => {
    state.wait({ arrivedMs: atMs });
    state.failCall(state.beginCall("request", atMs), new Error("away"), atMs);
  };
  for (let call = 0; call < 250; call += 1) fail(NOW_MS + 100);
  for (let minute = 1; minute <= 120; minute += 1) fail(NOW_MS + minute * 60_000);
  const atMs = NOW_MS + 120 * 60_000;
  const call = state.beginCall("report", atMs);
  const { decisions } = call.request;
  expect(decisions.map(({ admitted }) => admitted)).toEqual([1, 249, ...Array(120).fill(1)]);
  // The last call of the first minute has number 251.
  expect(decisions.slice(0, 3).map(({ number }) => number)).toEqual([2, 251, 252]);
  state.decideAlone(atMs);
  const answer = { record: RECORD, usableMs: 30_000, isNew: false, result: { ...RESULT, revision: 2 } };
  state.endCall(call, answer, atMs, () => 0);
  expect(reported(state, atMs).decisions.map(({ admitted }) => admitted)).toEqual([1]);
});

it("a request that is decided alone gets none of the requests that the object may admit by a call under way", () => {
  const windows = { ...RESULT.windows, minute: { ...RESULT.windows.minute, used: LIMITS.minute - 3 } };
  const state = newState({ windows });
  for (const index of [0, 1]) state.wait({ arrivedMs: NOW_MS + index });
  state.beginCall("request", NOW_MS + 100);
  const decisions = [0, 1].map(() => state.decideAlone(NOW_MS + 110));
  expect(decisions.map(({ admitted }) => admitted)).toEqual([true, false]);
});

it("a lease is not consumed by a request whose secret nobody has judged", () => {
  const state = newState();
  const call = state.beginCall("request", NOW_MS + 100);
  const [unjudged, judged] = [{ secret: "new" }, {}].map(
    (rest): Waiter => ({ arrivedMs: NOW_MS + 110, ...rest }),
  );
  for (const each of [unjudged, judged]) if (each) state.wait(each);
  const answer = { record: RECORD, usableMs: 30_000, isNew: false };
  state.endCall(call, { ...answer, result: { ...RESULT, revision: 2, lease: LEASE } }, NOW_MS + 120, () => 0);
  expect([unjudged?.outcome, judged?.outcome?.decision?.by]).toEqual([undefined, "lease"]);
});

it("a status is dropped if a known one has a higher revision, or the same and a later time", () => {
  const state = new KeyState("A");
  const latest = (revision: number, atMs: number) => {
    state.learnStatus({ ...RESULT, revision, nowMs: MADE_MS + atMs }, NOW_MS, NOW_MS);
    return state.peek(NOW_MS).nowMs - MADE_MS;
  };
  expect([latest(0, 100), latest(0, 50), latest(0, 150)]).toEqual([100, 100, 150]);
  expect([latest(1, 20), latest(0, 200)]).toEqual([20, 20]);
});
