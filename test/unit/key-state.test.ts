// What an isolate knows of a key: each rule of its state alone, with answers that the test makes. key-calls.test.ts has the state with the
// real object. The object's clock is 5 s behind.

import { describe, expect, it } from "vitest";
import { KEY_POLICY, type Key } from "../../src/keys/key.ts";
import { DeadlineExceeded } from "../../src/lib/deadline.ts";
import { LimiterUnavailable } from "../../src/limits/errors.ts";
import * as states from "../../src/limits/isolate/key-state.ts";
import { type AcquireResult, type Lease, RATE_MS } from "../../src/limits/protocol.ts";
import { FIRST_SECRET } from "../simulation/world.ts";
import { keyOf, ours } from "../support/key-record.ts";

/** A second after the minute began by the object's clock, which is 5 s behind. */
const MINUTE_MS = Date.UTC(2026, 10, 22, 12, 34);
const NOW_MS = MINUTE_MS + 6_000;
const MADE_MS = MINUTE_MS + 1_000;
const LIMITS = { minute: 300, day: 10_000 };
const { KeyState } = states;
type KeyState = states.KeyState<Key>;
type Call = states.Call<Key>;
type Waiter = states.Waiter<Key>;

const RECORD = keyOf([FIRST_SECRET], LIMITS);

/** What the object says at MADE_MS. */
const RESULT = {
  revision: 1,
  nowMs: MADE_MS,
  windows: {
    minute: { seconds: 60, startMs: MINUTE_MS, used: 0, limit: LIMITS.minute },
    day: { seconds: 86_400, startMs: Date.UTC(2026, 10, 22), used: 0, limit: LIMITS.day },
  },
  leased: { minute: 0, day: 0 },
  admitted: 0,
  refused: 0,
  share: 1,
} satisfies AcquireResult;
const LEASE: Lease = { id: 1, size: 3, durationMs: 2_000, grantedMs: MADE_MS };

const answerWith = (result: Partial<AcquireResult> = {}) => ({
  ...{ key: RECORD, usableMs: 30_000, isNew: false },
  result: { ...RESULT, ...result },
});
/** What an answer says of the windows, if they have used so much. */
function used(some: { minute?: number; day?: number }): Pick<AcquireResult, "windows"> {
  const { minute, day } = RESULT.windows;
  return {
    windows: { minute: { ...minute, used: some.minute ?? 0 }, day: { ...day, used: some.day ?? 0 } },
  };
}

/** Calls at NOW_MS; the result comes 20 ms later. */
function callFor(
  state: KeyState,
  result: Partial<AcquireResult>,
  sentMs = NOW_MS,
  nowMs = sentMs + 20,
): Call {
  const call = state.beginCall("request", sentMs);
  state.endCall(call, answerWith(result), nowMs);
  return call;
}

/** Of an isolate that knows nothing. */
const newColdState = (random = 0): KeyState => new KeyState(KEY_POLICY, "A", () => random);
/** Of an isolate that knows only the key. */
function newKeyState(limits = LIMITS, random = 0, usableMs = 30_000): KeyState {
  const state = newColdState(random);
  state.learnKey({ key: keyOf([FIRST_SECRET], limits), usableMs }, NOW_MS, NOW_MS + 20);
  return state;
}
function newState(result: Partial<AcquireResult> = {}, random = 0): KeyState {
  const state = newKeyState(LIMITS, random);
  callFor(state, result);
  return state;
}

/** A request that waits since `ms` after NOW_MS. */
function wait(state: KeyState, ms = 0, secret?: string): Waiter {
  const waiter: Waiter = { arrivedMs: NOW_MS + ms, secret };
  state.wait(waiter);
  return waiter;
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
  const usedAt = (nowMs: number) => {
    const state = withLease();
    return [consume(state, 9, nowMs), reported(state).lease];
  };
  const all = [3, { id: 1, used: 3, isOver: true }];
  const none = [0, { id: 1, used: 0, isOver: true }];
  expect([NOW_MS, NOW_MS + 1_999].map(usedAt)).toEqual([all, all]);
  expect([NOW_MS - 1, NOW_MS + 2_000].map(usedAt)).toEqual([none, none]);
});

it("a lease is over once the object's clock has stepped over the end of its minute", () => {
  const state = withLease();
  const status = { ...RESULT, revision: 2, nowMs: MINUTE_MS + 59_900 };
  state.learnStatus(status, NOW_MS + 50, NOW_MS + 50);
  expect([consume(state, 1, NOW_MS + 149), consume(state, 1, NOW_MS + 150)]).toEqual([1, 0]);
});

it("a timer ends a lease, but not one that has been renewed meanwhile", () => {
  const state = newColdState();
  const leases = [LEASE, { ...LEASE, size: 6 }].map((lease) =>
    state.endCall(state.beginCall("request", NOW_MS), answerWith({ lease }), NOW_MS + 20),
  );
  expect(leases.map((lease) => lease && state.endLease(lease, NOW_MS + 2_000))).toEqual([false, true]);
  expect([consume(state, 1), reported(state).lease?.isOver]).toEqual([0, true]);
});

it("a lease is not held if the clock has stepped back during its call, because its age is unknown", () => {
  const state = newColdState();
  callFor(state, { lease: LEASE }, NOW_MS, NOW_MS - 1);
  expect([consume(state, 1, NOW_MS), reported(state).lease]).toEqual([0, null]);
});

it("what is left of a lease shows as remaining in the windows that it was granted in", () => {
  const windows = { ...RESULT.windows, minute: { ...RESULT.windows.minute, startMs: MADE_MS + 1, used: 3 } };
  const state = newState({ lease: LEASE, windows });
  consume(state, 1);
  const { minute, day } = ours(state.peek(NOW_MS + 100).windows);
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

it("the call that reports the end of a lease gets the next one if requests still come, for 20 s after a request's call has got one", () => {
  /** Whether the report at 20,000 ms asks for a lease, after others have got one each 2 s. */
  const wantsLease = (lastMs: number, requestMs: number, isRenewed = true, waits = false) => {
    const state = newColdState();
    const granted = (reason: Call["reason"], ms: number) => {
      const answer = answerWith({ revision: 1 + ms, lease: { ...LEASE, id: 1 + ms } });
      return state.endCall(state.beginCall(reason, NOW_MS + ms), answer, NOW_MS + ms + 20);
    };
    granted("request", requestMs);
    // Calls of requests that get no lease.
    state.failCall(state.beginCall("request", NOW_MS + 17_000), new Error("away"), NOW_MS + 17_010);
    const lease = granted("report", 18_000);
    if (!isRenewed) callFor(state, { revision: 18_050 }, NOW_MS + 18_030);
    state.arrive(NOW_MS + lastMs);
    if (lease) state.endLease(lease, NOW_MS + 20_000);
    if (waits) wait(state, 20_000);
    return state.beginCall("report", NOW_MS + 20_000).request.wantsLease;
  };
  expect([wantsLease(19_001, 1), wantsLease(19_000, 1), wantsLease(19_001, 0)]).toEqual([true, false, false]);
  expect(wantsLease(19_001, 1, false)).toBe(false);
  // A request that waits gets one by its own next call.
  expect([wantsLease(0, 1, true, true), wantsLease(0, 0, true, true)]).toEqual([true, false]);
});

it("the average of recent requests approaches those of RATE_MS, forgets a burst soon, and survives a step of the clock", () => {
  const fromMs = 10 * RATE_MS;
  const recent = (state: KeyState, nowMs: number) => reported(state, nowMs).recent;
  const state = newColdState();
  state.arrive(0);
  expect(recent(state, 0)).toBe(1);
  for (let request = 0; request < 200; request += 1) state.arrive(fromMs + (request * RATE_MS) / 40);
  // 40, but for the share of those that are older than five times RATE_MS.
  expect(Math.round(recent(state, fromMs + 5 * RATE_MS))).toBe(39);
  const later = [6, 15, -1_000].map((periods) => recent(state, fromMs + periods * RATE_MS));
  expect(later.map((each) => each < 20)).toEqual([true, true, true]);
});

it("a ban is over once its lift is known, and ignored after the clock has stepped back: its end is unknown", () => {
  const bannedUntilMs = MADE_MS + 5_000;
  const isBanned = (liftedMs: number, nowMs = NOW_MS + 100) => {
    const state = newState({ bannedUntilMs });
    const key = { ...RECORD, bansLiftedUntilMs: bannedUntilMs + liftedMs };
    state.learnKey({ key, usableMs: 40_000 }, NOW_MS, NOW_MS + 20);
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
  const fail = (ms: number) => {
    wait(state, ms);
    state.failCall(state.beginCall("request", NOW_MS + ms), new Error("away"), NOW_MS + ms);
  };
  for (let call = 0; call < 250; call += 1) fail(100);
  for (let minute = 1; minute <= 120; minute += 1) fail(minute * 60_000);
  const atMs = NOW_MS + 120 * 60_000;
  const call = state.beginCall("report", atMs);
  const { decisions } = call.request;
  expect(decisions.map(({ admitted }) => admitted)).toEqual([1, 249, ...Array(120).fill(1)]);
  // The last call of the first minute has number 251.
  expect(decisions.slice(0, 3).map(({ number }) => number)).toEqual([2, 251, 252]);
  state.decideAlone(atMs);
  state.endCall(call, answerWith({ revision: 2 }), atMs);
  expect(reported(state, atMs).decisions.map(({ admitted }) => admitted)).toEqual([1]);
});

it("a request that is decided alone gets none of the requests that the object may admit by a call under way", () => {
  const state = newState(used({ minute: LIMITS.minute - 3 }));
  for (const ms of [0, 1]) wait(state, ms);
  state.beginCall("request", NOW_MS + 100);
  const decisions = [0, 1].map(() => state.decideAlone(NOW_MS + 110));
  expect(decisions.map(({ admitted }) => admitted)).toEqual([true, false]);
});

it("a lease is not consumed by a request whose secret nobody has judged", () => {
  const state = newState();
  const call = state.beginCall("request", NOW_MS + 100);
  const [unjudged, judged] = [wait(state, 110, "new"), wait(state, 110)];
  state.endCall(call, answerWith({ revision: 2, lease: LEASE }), NOW_MS + 120);
  expect([unjudged.outcome, judged.outcome?.decision?.by]).toEqual([undefined, "lease"]);
});

it("a status is dropped if a known one has a higher revision, or the same and a later time", () => {
  const state = newColdState();
  const latest = (revision: number, atMs: number) => {
    state.learnStatus({ ...RESULT, revision, nowMs: MADE_MS + atMs }, NOW_MS, NOW_MS);
    return state.peek(NOW_MS).nowMs - MADE_MS;
  };
  expect([latest(0, 100), latest(0, 50), latest(0, 150)]).toEqual([100, 100, 150]);
  expect([latest(1, 20), latest(0, 200)]).toEqual([20, 20]);
});

it("a call names the revision of the last status, and not that of one that was dropped", () => {
  const state = newColdState();
  const named = [5, 7, 6].map((revision) => callFor(state, { revision }).request.revision);
  expect([...named, reported(state).revision]).toEqual([0, 5, 7, 7]);
});

it("a key is used from before its call until its end, renewed after half of it, and not replaced by an older one", () => {
  const state = newColdState();
  const learn = (plan: "pro" | "free", usableMs: number, sentMs: number) =>
    state.learnKey({ key: { ...RECORD, plan }, usableMs }, sentMs, sentMs + 20);
  const planAt = (ms: number) => state.peekKey(NOW_MS + ms)?.plan;
  learn("pro", 10_000, NOW_MS);
  learn("free", 9_000, NOW_MS + 999);
  expect([-1, 0, 9_999, 10_000].map(planAt)).toEqual([undefined, "pro", "pro", undefined]);
  learn("free", 9_000, NOW_MS + 1_000);
  expect(planAt(5_000)).toBe("free");
  expect([state.hadSecret(FIRST_SECRET), state.hadSecret("another")]).toEqual([true, false]);
  // Of a key that has been deleted, it lacks the limits, so the last ones stay.
  state.learnKey({ key: null, usableMs: 9_000 }, NOW_MS + 2_000, NOW_MS + 2_020);
  expect([planAt(5_000), ours(state.peek(NOW_MS).windows).day.limit]).toEqual([undefined, LIMITS.day]);
});

it("a decision at once renews a key after half of its time, unless a call is under way or would have to wait", () => {
  const isDue = (ms: number, calls = 0) => {
    const state = withLease({ size: 100, durationMs: 20_000 });
    for (let call = 0; call < calls; call += 1)
      callFor(state, { revision: 2 + call }, NOW_MS + ms, NOW_MS + ms);
    return state.arrive(NOW_MS + ms).isDue;
  };
  expect([14_999, 15_000].map((ms) => isDue(ms))).toEqual([false, true]);
  expect([isDue(15_000, 18), isDue(15_000, 19)]).toEqual([true, false]);
  const state = withLease({ size: 100, durationMs: 20_000 });
  state.beginCall("report", NOW_MS + 14_000);
  expect(state.arrive(NOW_MS + 15_000).isDue).toBe(false);
});

const fullOf = (name: "minute" | "day") => used({ [name]: LIMITS[name] });

it.each([
  ["minute", 59_000],
  ["day", 41_159_000],
] as const)(
  "a full %s is refused until it may be over, and reported with the window that refused",
  (name, leftMs) => {
    const byAt = (ms: number) => newState(fullOf(name)).decideAtOnce(NOW_MS + ms)?.by;
    expect([-1, 0, leftMs - 1, leftMs].map(byAt)).toEqual([undefined, "full", "full", undefined]);
    const state = newState(fullOf(name));
    const decisions = [0, 1].map(() => state.decideAtOnce(NOW_MS + 100));
    expect(decisions[1]).toMatchObject({ admitted: false, nowMs: MADE_MS + 80 });
    expect(reported(state).decisions).toEqual([
      { number: 2, atMs: MADE_MS + 80, admitted: 0, refusedBy: { [name]: 2 } },
    ]);
  },
);

it("a full window is not refused while another isolate may give back leased requests of it, nor after the limit was raised", () => {
  const by = (leased: number, limit = LIMITS.minute) => {
    const state = newState({ ...fullOf("minute"), leased: { minute: leased, day: leased } });
    const key = { ...RECORD, limits: { ...RECORD.limits, minute: limit } };
    state.learnKey({ key, usableMs: 40_000 }, NOW_MS, NOW_MS + 20);
    return state.decideAtOnce(NOW_MS + 100)?.by;
  };
  expect([by(0), by(1), by(0, 301), by(0, 299)]).toEqual(["full", undefined, undefined, "full"]);
});

it("the next request is admitted if the known windows have room and there is no ban, and calls for that without a lease", () => {
  const next = (result: Partial<AcquireResult>) => {
    const state = newState(result);
    const { admitted, bannedUntilMs } = state.peek(NOW_MS + 100);
    return { admitted, bannedUntilMs, needsCall: state.needsCall(NOW_MS + 100) };
  };
  const bannedUntilMs = MADE_MS + 5_000;
  expect(next({})).toEqual({ admitted: true, bannedUntilMs: undefined, needsCall: true });
  expect(next({ lease: LEASE })).toEqual({ admitted: true, bannedUntilMs: undefined, needsCall: false });
  expect(next(fullOf("day"))).toEqual({ admitted: false, bannedUntilMs: undefined, needsCall: false });
  expect(next({ bannedUntilMs })).toEqual({ admitted: false, bannedUntilMs, needsCall: false });
});

it("the refusals of a batch with which a ban begins name its end", () => {
  const state = newState();
  const waiter = wait(state);
  callFor(state, { revision: 2, refused: 1, bannedUntilMs: MADE_MS + 5_000 });
  expect(waiter.outcome?.decision).toMatchObject({ admitted: false, bannedUntilMs: MADE_MS + 5_000 });
});

it("Remaining of admitted requests does not rise within a window, and begins anew in the next one", () => {
  const state = newState();
  const shown = (used: number, minute = 0, admitted = true) => {
    const startMs = MINUTE_MS + minute * 60_000;
    const windows = { ...RESULT.windows, minute: { ...RESULT.windows.minute, startMs, used } };
    return ours(state.show({ admitted, by: "object", nowMs: MADE_MS, windows }).windows).minute.used;
  };
  expect([shown(5), shown(3), shown(7), shown(6, 0, false)]).toEqual([5, 5, 7, 6]);
  expect([shown(1, 1), shown(2, 0), shown(2, 1)]).toEqual([1, 2, 2]);
});

it("a status of GET /v1/usage is not taken during a call or before a report, unless a minute has begun", () => {
  const usedAfter = (prepare: (state: KeyState) => void, minutes = 0) => {
    const state = newState();
    prepare(state);
    const minute = { ...RESULT.windows.minute, startMs: MINUTE_MS + minutes * 60_000, used: 9 };
    const windows = { ...RESULT.windows, minute };
    const nowMs = MADE_MS + minutes * 60_000;
    state.learnStatus({ ...RESULT, revision: 5, nowMs, windows }, NOW_MS + 100, NOW_MS + 120);
    return ours(state.peek(NOW_MS + 120).windows).minute.used;
  };
  const call = (state: KeyState) => void state.beginCall("report", NOW_MS + 50);
  const decision = (state: KeyState) => void state.decideAlone(NOW_MS + 50);
  const after = [usedAfter(call), usedAfter(call, 1), usedAfter(decision), usedAfter(decision, 1)];
  expect([usedAfter(() => {}), ...after]).toEqual([9, 0, 9, 1, 9]);
});

describe("a request that waits", () => {
  it("calls if nothing prevents that, waits for a call under way and for a pause, and is decided when it can't wait any longer", () => {
    const state = newState();
    const waiter = wait(state);
    const next = (ms: number) => state.next(waiter, NOW_MS + ms);
    expect([next(30), next(4_599)]).toEqual([{ what: "call" }, { what: "call" }]);
    const call = (ms: number) =>
      callFor(state, { revision: 1 + ms, retryMs: MADE_MS }, NOW_MS + ms, NOW_MS + ms);
    for (let ms = 30; ms < 47; ms += 1) call(ms);
    expect(next(100)).toEqual({ what: "call" });
    call(47);
    // The next call would be the 20th since the first one.
    expect(next(100)).toEqual({ what: "wait", ms: 900 });
    state.beginCall("request", NOW_MS + 1_000);
    expect(next(1_100)).toEqual({ what: "wait", ms: 3_900 });
    expect([waiter.outcome, next(5_000), waiter.outcome]).toMatchObject([
      undefined,
      { what: "nothing" },
      { decision: { by: "local", admitted: true }, failure: { name: "DeadlineExceeded" } },
    ]);
  });

  it("is decided 400 ms before its end if it would have to call, and with it those that came with it", () => {
    const state = newState();
    const waiters = [wait(state), wait(state), wait(state, 1)];
    expect(state.next(waiters[0] as Waiter, NOW_MS + 4_600)).toEqual({ what: "nothing" });
    expect(waiters.map(({ outcome }) => outcome !== undefined)).toEqual([true, true, false]);
  });

  it("waits anew if the clock has stepped back, and for its secret only 4 s", () => {
    const state = newState();
    const [known, unknown] = [wait(state), wait(state, 0, "new")];
    state.beginCall("request", NOW_MS + 30);
    expect(state.next(unknown, NOW_MS + 1_000)).toEqual({ what: "wait", ms: 3_000 });
    expect(state.next(known, NOW_MS - 60_000)).toEqual({ what: "wait", ms: 5_000 });
    expect(state.next(unknown, NOW_MS + 4_000)).toEqual({ what: "nothing" });
    expect([unknown.outcome?.decision, unknown.outcome?.failure]).toEqual([
      undefined,
      expect.any(DeadlineExceeded),
    ]);
  });

  it.each([
    // A round trip of 20 ms; the lease ends 300 ms after the answer was made, and its report may be 50 ms late.
    ["until the next lease has ended", 300, 20, 0, 330],
    ["and up to a quarter longer", 300, 20, 1, 412.5],
    ["for 400 ms at most", 9_000, 20, 0, 400],
    ["for the time of a call if that is longer", 9_000, 700, 0, 700],
    ["for a second at most", 9_000, 3_000, 1, 1_000],
  ])("pauses after an undecided answer %s", (_, retryMs, callMs, random, pauseMs) => {
    const state = newState({}, random);
    const sentMs = NOW_MS + 30_000;
    // It does not wait any more when the answer comes, so it is not the reason of a shorter pause.
    wait(state, 30_000);
    const call = state.beginCall("request", sentMs);
    const later = wait(state, 30_000 + callMs);
    state.endCall(call, answerWith({ revision: 2, retryMs: MADE_MS + retryMs }), sentMs + callMs);
    expect(state.next(later, sentMs + callMs)).toEqual({ what: "wait", ms: pauseMs });
  });

  it("asks for the last time when there is just time for a call", () => {
    const state = newState();
    const waiter = wait(state);
    callFor(state, { revision: 2, retryMs: MADE_MS + 9_000 }, NOW_MS + 4_230);
    // 4,600 less 50 ms.
    expect(state.next(waiter, NOW_MS + 4_250)).toEqual({ what: "wait", ms: 300 });
  });
});

describe("a call", () => {
  it("counts the requests in their order of arrival, and those with one of the secrets that the isolate can't judge", () => {
    const state = newState();
    for (const [ms, secret] of [[3], [1, "b"], [2, "a"], [4, "b"]] as [number, string?][])
      wait(state, ms, secret);
    const { request, waiters, maxMs } = state.beginCall("request", NOW_MS + 1_000);
    expect(waiters.map((each) => each.arrivedMs - NOW_MS)).toEqual([1, 3, 4]);
    expect(request).toMatchObject({
      isolate: "A",
      number: 2,
      requests: 3,
      secret: "b",
      recent: 2,
      wantsLease: true,
    });
    // The first has waited for 999 ms.
    expect(maxMs).toBe(3_001);
    expect([state.isIntroducing("a"), state.isIntroducing("c")]).toEqual([true, false]);
  });

  it("that tells of no valid secret counts nothing, and the other requests are sent again", () => {
    const state = newState();
    const [unknown, known] = [wait(state, 0, "wrong"), wait(state)];
    const answer = { key: RECORD, usableMs: 30_000, isNew: true };
    state.endCall(state.beginCall("request", NOW_MS + 30), answer, NOW_MS + 50);
    expect([unknown.answer, unknown.secret]).toEqual([answer, "wrong"]);
    expect([known.answer, known.outcome]).toEqual([undefined, undefined]);
    expect(state.beginCall("request", NOW_MS + 60).waiters).toEqual([known]);
  });

  it("decides the first as admitted and the last as refused, each with one request more as used; the rest is undecided", () => {
    const state = newState();
    const waiters = [0, 1, 2, 3].map((ms) => wait(state, ms, "new"));
    callFor(state, { revision: 2, ...used({ minute: 7 }), admitted: 2, refused: 1, retryMs: MADE_MS + 500 });
    const decisions = waiters.map(({ outcome }) => outcome?.decision);
    expect(decisions.map((each) => each?.admitted)).toEqual([true, true, undefined, false]);
    expect(decisions.map((each) => each && ours(each.windows).minute.used)).toEqual([6, 7, undefined, 300]);
    // Those whose secret is valid count towards the rate.
    expect(reported(state, NOW_MS + 20).recent).toBe(4);
  });

  it("that has no result because the key was deleted leaves the decision to the isolate", () => {
    const state = newState();
    const waiter = wait(state);
    const call = state.beginCall("request", NOW_MS + 30);
    state.endCall(call, { key: null, usableMs: 9, isNew: true }, NOW_MS + 50);
    const failure = { message: "the key has been deleted" };
    expect(waiter.outcome).toMatchObject({ decision: { by: "local" }, failure });
  });

  it("that was given up changes nothing any more, and its number replaces what it was charged", () => {
    const state = newState();
    const waiter = wait(state);
    const call = state.beginCall("request", NOW_MS + 30);
    state.next(waiter, NOW_MS + 5_000);
    expect(state.endCall(call, answerWith({ revision: 9, lease: LEASE }), NOW_MS + 5_100)).toBeUndefined();
    state.failCall(call, new Error("lost"), NOW_MS + 5_100);
    const { number } = call.request;
    expect(reported(state, NOW_MS + 5_200).decisions).toMatchObject([{ number, admitted: 1 }]);
  });

  const tooLate = (ms: number) => new DeadlineExceeded("the limiter", ms);
  it.each<[string, unknown, number, boolean[]]>([
    ["fails", new Error("away"), 0, [true, true, true]],
    ["has exceeded its deadline", tooLate(3_000), 0, [true, true, true]],
    ["could not wait longer for its first request", tooLate(500), 4_500, [true, false, false]],
    ["finds no key that tells of its secret", new LimiterUnavailable("key", "away"), 0, [false, false, true]],
  ])("that %s decides the right requests", (_, failure, waitedMs, decided) => {
    const state = newState({ leased: { minute: 5, day: 5 } });
    const waiters = [wait(state, -waitedMs), wait(state), wait(state, 0, "new")];
    const call = state.beginCall("request", NOW_MS + 30);
    state.failCall(call, failure, NOW_MS + 500);
    expect(waiters.map(({ outcome }) => outcome !== undefined)).toEqual(decided);
    expect(waiters[2]?.outcome?.decision).toBeUndefined();
  });
});

it("without the object, requests are admitted while the known windows have room, and no other isolate's lease is waited for", () => {
  const state = newState({ ...used({ day: LIMITS.day - 2 }), leased: { minute: 9, day: 9 } });
  const waiters = [0, 1, 2].map((ms) => wait(state, ms));
  state.failCall(state.beginCall("request", NOW_MS + 30), new Error("away"), NOW_MS + 40);
  expect(waiters.map(({ outcome }) => outcome?.decision?.admitted)).toEqual([true, true, false]);
  expect(state.decideAtOnce(NOW_MS + 50)).toMatchObject({ admitted: false, by: "full" });
  const [batch] = reported(state, NOW_MS + 60).decisions;
  // With the last one, which is refused at once.
  expect(batch).toMatchObject({ number: 2, admitted: 2, refusedBy: { day: 2 } });
});

/** How many of 100 requests this state admits without the object. */
const admittedAlone = (state: KeyState, nowMs = NOW_MS + 100) =>
  Array.from({ length: 100 }, () => state.decideAlone(nowMs).admitted).filter((each) => each).length;

describe("without the object, an isolate admits", () => {
  const quarter = { share: 0.25, ...used({ minute: 100 }) };

  it("its share of what was left, and what is left of its lease", () => {
    expect(admittedAlone(newState(quarter))).toBe(50);
    const state = newState({ ...quarter, lease: { ...LEASE, size: 12 } });
    consume(state, 5);
    expect(admittedAlone(state)).toBe(57);
    // In the next minute as well.
    expect(admittedAlone(state, NOW_MS + 60_000)).toBe(75);
  });

  it("no more than its share of the limit, with what the object has admitted", () => {
    const state = newKeyState();
    for (let request = 0; request < 70; request += 1) wait(state);
    callFor(state, { ...quarter, admitted: 70 });
    expect(admittedAlone(state)).toBe(5);
  });

  it("a tenth of the limit, but at least one request, if the object has reported no share", () => {
    const [some, few] = [newKeyState(), newKeyState({ minute: 4, day: 400 })];
    expect([admittedAlone(some), admittedAlone(few)]).toEqual([30, 1]);
    // The next minute is another one, and of the day a tenth of what is left.
    expect([admittedAlone(some, NOW_MS + 60_000), admittedAlone(few, NOW_MS + 60_000)]).toEqual([30, 1]);
    expect(admittedAlone(newState({ ...used({ minute: 298 }), share: undefined as never }))).toBe(1);
  });

  it("a share that is no whole number rounded so that many isolates together, and one over many minutes, admit about their shares", () => {
    const admitted = (phase: number, minutes: number) => {
      const state = newKeyState(LIMITS, phase, 10_000_000);
      callFor(state, { share: 1.3 / LIMITS.minute });
      return Array.from({ length: minutes }, (_, index) => admittedAlone(state, NOW_MS + 60_000 * index));
    };
    const isolates = Array.from({ length: 20 }, (_, index) => admitted(index / 20, 20));
    const sums = [0, 1, 2].map((minute) => isolates.reduce((sum, each) => sum + (each[minute] ?? 0), 0));
    for (const sum of sums) expect(Math.abs(sum - 26)).toBeLessThanOrEqual(1);
    for (const each of isolates) expect(Math.abs(each.reduce((a, b) => a + b) - 26)).toBeLessThanOrEqual(1);
  });
});

it("a refusal because the share is used up names the minute, also if it is the share of the day; one of a full day names the day", () => {
  const refused = (share: number) => {
    const state = newState({ share, ...used({ day: LIMITS.day - 8 }) });
    const decisions = Array.from({ length: 9 }, () => state.decideAlone(NOW_MS + 100));
    const last = decisions.find(({ admitted }) => !admitted);
    const shown = Object.values(last?.windows ?? {}).map((window) => window.used);
    return [decisions.filter(({ admitted }) => admitted).length, ...shown];
  };
  expect(refused(0.25)).toEqual([2, LIMITS.minute, LIMITS.day - 6]);
  expect(refused(1)).toEqual([8, 8, LIMITS.day]);
});

it("what was refused because the share was used up still shows as remaining once the object answers again", () => {
  const state = newState({ share: 0.01 });
  const shown = (nowMs: number) => ours(state.show(state.decideAlone(nowMs)).windows).minute.used;
  expect(Array.from({ length: 4 }, () => shown(NOW_MS + 100))).toEqual([1, 2, 3, 300]);
  const [, waiter] = [wait(state, 200), wait(state, 200)];
  callFor(state, { revision: 2, admitted: 2, ...used({ minute: 9 }) }, NOW_MS + 210);
  const decision = waiter?.outcome?.decision;
  expect(decision && ours(state.show(decision).windows).minute.used).toBe(9);
});

it("the share of a minute does not say who has used the day", () => {
  const state = newState({ share: 1, ...used({ minute: 200 }) });
  // It has had all requests of the day so far, and then others get most of them.
  for (let minute = 0; minute < 10; minute += 1) admittedAlone(state, NOW_MS + minute * 60_000);
  const day = { ...RESULT.windows.day, used: 1_100 };
  const minute = { ...RESULT.windows.minute, startMs: MINUTE_MS + 600_000 };
  const status = { nowMs: MADE_MS + 600_000, windows: { minute, day } };
  callFor(state, { revision: 2, share: 0.1, ...status }, NOW_MS + 600_000);
  expect(admittedAlone(state, NOW_MS + 600_100)).toBe(30);
});

it("for a second after a failed call, requests that exceed the share are refused without a call", () => {
  const state = newState({ share: 0.01 });
  for (const ms of [0, 1, 2, 3]) wait(state, ms);
  state.failCall(state.beginCall("request", NOW_MS + 100), new Error("away"), NOW_MS + 110);
  const by = [111, 1_109, 1_110].map((ms) => state.arrive(NOW_MS + ms).decision?.by);
  expect(by).toEqual(["local", "local", undefined]);
  state.failCall(state.beginCall("request", NOW_MS + 1_120), new Error("away"), NOW_MS + 1_130);
  callFor(state, { revision: 2, share: 0.01 }, NOW_MS + 1_140);
  expect(state.arrive(NOW_MS + 1_170).decision).toBeUndefined();
  // Also of a key of which the isolate knows only the key.
  const cold = newKeyState({ minute: 4, day: 9 });
  for (const ms of [0, 1]) wait(cold, ms);
  cold.failCall(cold.beginCall("request", NOW_MS + 100), new Error("away"), NOW_MS + 110);
  expect(cold.arrive(NOW_MS + 111).decision).toMatchObject({ admitted: false, by: "local" });
});

it("a share stays known if an answer lacks it, or is that of an isolate without requests", () => {
  const state = newState({ share: 0.5 });
  callFor(state, { revision: 2, share: undefined as never }, NOW_MS + 30);
  callFor(state, { revision: 3, share: 0 }, NOW_MS + 60);
  expect(admittedAlone(state)).toBe(100);
  expect(admittedAlone(state)).toBe(50);
});

it("the end of a lease is reported at once, but with the next call if another minute with room begins", () => {
  const isUrgent = (endMs: number, day = 0) => {
    const state = newColdState();
    const answer = answerWith({ ...used({ day }), lease: LEASE });
    const lease = state.endCall(state.beginCall("request", NOW_MS), answer, NOW_MS + 20);
    return [lease && state.endLease(lease, NOW_MS + endMs), state.beginReport(NOW_MS + endMs)];
  };
  // The object's minute ends 59 s after NOW_MS.
  expect([isUrgent(58_949), isUrgent(58_950)].join()).toBe("true,false,false,true");
  const left = LIMITS.day - LIMITS.minute;
  expect([left, left + 1].map((day) => isUrgent(58_950, day)[0])).toEqual([false, true]);
});

it("one report is under way at a time, until it is so late that it was cancelled, and then the next request makes it", () => {
  const state = newState();
  state.decideAlone(NOW_MS + 30);
  expect([30, 31].map((ms) => state.beginReport(NOW_MS + ms))).toEqual([true, false]);
  state.decideAlone(NOW_MS + 40);
  expect([40, 7_029, 7_030].map((ms) => state.beginReport(NOW_MS + ms))).toEqual([false, false, true]);
  expect(state.endReport(true, NOW_MS + 8_030)).toBe(true);
  state.decideAlone(NOW_MS + 8_031);
  expect(state.beginReport(NOW_MS + 8_031)).toBe(true);
});

it.each<[string, (state: KeyState, call: Call) => unknown, string?]>([
  ["fails", (state, call) => state.failCall(call, new Error("away"), NOW_MS + 1_050)],
  [
    "tells of no valid secret",
    (state, call) => state.endCall(call, { key: RECORD, usableMs: 9, isNew: true }, NOW_MS + 1_050),
    "wrong",
  ],
])("a report whose call %s is made again", (_, end, secret) => {
  const state = newState();
  state.decideAlone(NOW_MS + 30);
  state.beginReport(NOW_MS + 30);
  expect(state.endReport(true, NOW_MS + 1_030)).toBe(true);
  if (secret !== undefined) wait(state, 1_020, secret);
  end(state, state.beginCall("report", NOW_MS + 1_030));
  expect(state.beginReport(NOW_MS + 1_050)).toBe(true);
});

it("a report calls if there is something to say, and later if it would be the 21st call in a second", () => {
  const state = newState();
  expect([state.endReport(false, NOW_MS + 30), state.mayReport(NOW_MS + 30)]).toEqual([false, true]);
  const call = (revision: number) => callFor(state, { revision }, NOW_MS + 60, NOW_MS + 60);
  for (let revision = 2; revision <= 19; revision += 1) call(revision);
  // Requests have used up their 19 calls.
  expect(state.mayReport(NOW_MS + 60)).toBe(true);
  call(20);
  state.decideAlone(NOW_MS + 70);
  expect([state.endReport(true, NOW_MS + 80), state.beginReport(NOW_MS + 80)]).toEqual([false, true]);
});

it("a call that was cancelled together with its request is given up a second after its longest time", () => {
  const after = (use: (state: KeyState, nowMs: number) => unknown) =>
    [6_029, 6_030].map((ms) => {
      const state = newState();
      state.beginCall("request", NOW_MS + 30);
      use(state, NOW_MS + ms);
      return state.call === undefined;
    });
  expect(after((state, nowMs) => state.arrive(nowMs))).toEqual([false, true]);
  expect(after((state, nowMs) => state.mayReport(nowMs))).toEqual([false, true]);
  expect(after((state, nowMs) => state.next({ arrivedMs: nowMs }, nowMs))).toEqual([false, true]);
});

it("an isolate has no lease any more of a key that was deleted, so it reports nothing", () => {
  const state = withLease();
  const answer = { key: null, usableMs: 9, isNew: true };
  state.endCall(state.beginCall("report", NOW_MS + 30), answer, NOW_MS + 50);
  expect([consume(state, 1), state.endReport(true, NOW_MS + 3_000)]).toEqual([0, false]);
});

it("a key is asked for again after half of its rest if an answer has brought no better one", () => {
  const state = withLease({ size: 100, durationMs: 40_000 });
  const isDue = (ms: number) => state.arrive(NOW_MS + ms).isDue;
  expect(isDue(20_000)).toBe(true);
  // The keys database is away: an older key may be used for 5 s.
  state.learnKey({ key: RECORD, usableMs: 5_000 }, NOW_MS + 20_000, NOW_MS + 20_020);
  expect([isDue(20_030), isDue(25_009), isDue(25_011)]).toEqual([false, false, true]);
});
