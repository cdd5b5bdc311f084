// What an isolate remembers of a key, and what it reports of what it decided alone. The limiter here only stands for one
// that answers when it is told to; what the real one makes of a report is in the tests of faults.

import { expect, it, vi } from "vitest";
import { CALLS_ARE_SHARED } from "../src/rate-limit/call-queue.ts";
import { remember, rememberedBan, seemsUsedUp, takeFromKey } from "../src/rate-limit/key-meters.ts";
import type { Take } from "../src/rate-limit/meter.ts";
import type { Decision, Limits } from "../src/rate-limit/window.ts";

function newKey(limits: Limits = { minute: 1_000, day: 10_000 }) {
  const id = crypto.randomUUID();
  return { id, plan: "enterprise", limits, expiresAtMs: null, revokedAtMs: null } as const;
}

type Key = ReturnType<typeof newKey>;

/** The namespace of a limiter that does with a take what it is told. */
function limiters(take: (request: Take) => Promise<unknown>): Env["RATE_LIMITER"] {
  const getByName = () => ({ take: (_: Limits, request: Take) => take(request) });
  return { getByName } as unknown as Env["RATE_LIMITER"];
}

const broken = limiters(() => Promise.reject(new Error("out of order")));

async function takeAlone(key: Key, nowMs: number): Promise<Decision> {
  return takeFromKey(broken, key, nowMs, () => {});
}

/** What would be reported of a key: how long after `startMs` each request was let in, in milliseconds. */
async function reported(key: Key, startMs = Date.now()): Promise<number[]> {
  let unreported: Take["unreported"] = [];
  const limiter = limiters((request) => {
    ({ unreported } = request);
    return Promise.reject(new Error("out of order"));
  });
  await takeFromKey(limiter, key, Date.now(), () => {});
  return unreported.map(({ atMs }) => atMs - startMs);
}

/** Lets more time pass than a call may take: nobody waits any longer for one that has not come back. */
function outlastCall(): void {
  vi.setSystemTime(Date.now() + 4_001);
}

/** An answer of the object: so many were admitted and refused in both windows. */
function answer(used: number, refused: number, bannedUntilMs?: number): Decision {
  const windows = [
    { name: "minute", limit: 9, startMs: Date.UTC(2026, 10, 20, 12, 34), used, refused },
    { name: "day", limit: 9, startMs: Date.UTC(2026, 10, 20), used, refused },
  ] as const;
  return {
    admitted: true,
    nowMs: Date.now(),
    windows: [...windows],
    ...(bannedUntilMs !== undefined && { bannedUntilMs }),
  };
}

it("an answer that was overtaken takes nothing back", async () => {
  const key = newKey();
  remember(key.id, answer(8, 60));
  remember(key.id, answer(7, 59));
  const { windows } = await takeAlone(key, Date.now());
  expect(windows.map(({ used, refused }) => [used, refused])).toEqual([
    [9, 60],
    [9, 60],
  ]);
});

it("an answer that was overtaken ends no ban", () => {
  const key = newKey();
  remember(key.id, answer(9, 61, Date.now() + 600_000));
  remember(key.id, answer(9, 60));
  expect(rememberedBan(key, Date.now())?.bannedUntilMs).toBe(Date.now() + 600_000);
});

it("an answer does not make the isolate forget whom it let in meanwhile", async () => {
  const key = newKey();
  const startMs = Date.now();
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const slow = takeFromKey(
    limiters(() => promise),
    key,
    startMs,
    () => {},
  );
  outlastCall();
  await takeAlone(key, startMs + 5_000);
  resolve(answer(1, 0));
  await slow;
  expect(await reported(key, startMs)).toEqual([5_000]);
});

it("the latest 100 are reported, the oldest first", async () => {
  const key = newKey();
  for (let request = 0; request < 150; request += 1) await takeAlone(key, Date.now() + request);
  expect(await reported(key)).toEqual(Array.from({ length: 100 }, (_, index) => 50 + index));
});

it("what several requests have left is reported in order, once", async () => {
  const key = newKey();
  const startMs = Date.now();
  await takeAlone(key, startMs);
  const { promise, reject } = Promise.withResolvers<unknown>();
  const slow = takeFromKey(
    limiters(() => promise),
    key,
    startMs + 6_000,
    () => {},
  );
  outlastCall();
  await takeAlone(key, startMs + 5_000);
  reject(new Error("out of order"));
  await slow;
  expect(await reported(key, startMs)).toEqual([0, 5_000, 6_000]);
});

it("nobody who was refused is reported", async () => {
  const key = newKey({ minute: 1, day: 9 });
  for (let request = 0; request < 3; request += 1) await takeAlone(key, Date.now() + request);
  expect(await reported(key)).toEqual([0]);
});

it("a second try is waited for no longer than the first", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
  const { promise: reached, resolve } = Promise.withResolvers<void>();
  let calls = 0;
  const hanging = limiters(() => {
    calls += 1;
    if (calls === 1) return Promise.reject(Object.assign(new Error("once"), { retryable: true }));
    resolve();
    return new Promise(() => {});
  });
  const decision = takeFromKey(hanging, newKey(), Date.now(), () => {});
  await reached;
  vi.advanceTimersByTime(2_000);
  // A third of a second is for nothing but to end a test that fails.
  expect(
    await Promise.race([Promise.resolve(decision).then(({ admitted }) => admitted), scheduler.wait(300)]),
  ).toBe(true);
});

it("an answer that knows nothing of whom the isolate let in gives nobody the limit again", async () => {
  const key = newKey({ minute: 9, day: 9 });
  for (let request = 0; request < 9; request += 1) await takeAlone(key, Date.now());
  remember(key.id, { ...answer(0, 0), nowMs: Date.now() + 1 });
  expect((await takeAlone(key, Date.now() + 1)).admitted).toBe(false);
});

it("those who wait for the next call are decided about when this one fails: that would only fail too", async () => {
  const key = newKey();
  const { promise, reject } = Promise.withResolvers<unknown>();
  let calls = 0;
  const failing = limiters(() => {
    calls += 1;
    return promise;
  });
  const failures: unknown[] = [];
  const taken = Array.from({ length: 5 }, () =>
    takeFromKey(failing, key, Date.now(), (failure) => failures.push(failure)),
  );
  reject(new Error("out of order"));
  const decisions = await Promise.all(taken);
  expect(decisions.map(({ windows }) => windows[0]?.used)).toEqual([1, 2, 3, 4, 5]);
  expect([calls, failures.length]).toEqual([CALLS_ARE_SHARED ? 1 : 5, 5]);
  // Reported under the ids of two takes, if the first one was shared by nobody.
  expect(await reported(key)).toHaveLength(CALLS_ARE_SHARED ? 2 : 5);
});

it("an object of an earlier version is asked by each request for itself", async () => {
  const key = newKey();
  const asked: (number | undefined)[] = [];
  const earlier = limiters((request) => {
    asked.push(request.requests);
    return Promise.resolve(answer(1, 0));
  });
  await takeFromKey(earlier, key, Date.now(), () => {});
  await Promise.all(Array.from({ length: 5 }, () => takeFromKey(earlier, key, Date.now(), () => {})));
  // It would have counted one of all who asked together.
  expect(asked).toEqual([1, 1, 1, 1, 1, 1]);
});

it("what an object of an earlier version has decided is what its request gets", async () => {
  const decided = async (admitted: boolean) => {
    const earlier = limiters(() => Promise.resolve({ ...answer(1, 0), admitted }));
    const decision = await takeFromKey(earlier, newKey(), Date.now(), () => {});
    return [decision.admitted, decision.windows[0]?.used];
  };
  expect([await decided(true), await decided(false)]).toEqual([
    [true, 1],
    [false, 1],
  ]);
});

it("an object of an earlier version says nothing of refusals, and the isolate counts its own all the same", async () => {
  const key = newKey({ minute: 9, day: 9 });
  const { windows, ...rest } = answer(9, 0);
  const told = windows.map(({ refused: _, ...window }) => window) as Decision["windows"];
  remember(key.id, { ...rest, windows: told });
  for (let refusal = 0; refusal < 61; refusal += 1) await takeAlone(key, Date.now());
  expect(rememberedBan(key, Date.now())?.bannedUntilMs).toBe(Date.now() + 600_000);
});

it("a newer answer is believed, also one by which less is used", async () => {
  const key = newKey({ minute: 9, day: 9 });
  remember(key.id, answer(8, 0));
  remember(key.id, { ...answer(5, 0), nowMs: Date.now() + 1 });
  const { windows } = await takeAlone(key, Date.now() + 1);
  expect(windows.map(({ used }) => used)).toEqual([6, 6]);
});

it("an answer of the minute before, which comes late, does not bring that minute back", async () => {
  const key = newKey({ minute: 9, day: 9 });
  const next = answer(2, 0);
  const windows = next.windows.map((window) =>
    window.name === "minute" ? { ...window, startMs: window.startMs + 60_000 } : window,
  );
  remember(key.id, { ...next, nowMs: Date.now() + 60_000, windows });
  remember(key.id, answer(8, 0));
  const decision = await takeAlone(key, Date.now() + 60_000);
  expect(decision.windows.map(({ used }) => used)).toEqual([3, 9]);
});

it("whom the isolate let in alone counts in the windows that it fell into, until that is reported", async () => {
  const key = newKey({ minute: 9, day: 99 });
  const minuteMs = Date.UTC(2026, 10, 20, 12, 35);
  vi.setSystemTime(minuteMs - 1);
  await takeAlone(key, Date.now());
  vi.setSystemTime(minuteMs);
  await takeAlone(key, Date.now());
  const next = answer(0, 0);
  const windows = next.windows.map((window) =>
    window.name === "minute" ? { ...window, startMs: minuteMs } : window,
  );
  remember(key.id, { ...next, nowMs: minuteMs + 1, windows });
  const decision = await takeAlone(key, minuteMs + 1);
  expect(decision.windows.map(({ used }) => used)).toEqual([2, 3]);
});

it("a key seems used up while it is banned, and while the minute lasts in which it is", () => {
  const key = newKey({ minute: 9, day: 99 });
  const seems = (afterMs: number) => seemsUsedUp(key, Date.now() + afterMs);
  expect(seems(0)).toBe(false);
  remember(key.id, answer(8, 0));
  expect(seems(0)).toBe(false);
  remember(key.id, answer(9, 0));
  // It is 20.5 s past the minute.
  expect([seems(0), seems(39_499), seems(39_500)]).toEqual([true, true, false]);
  remember(key.id, answer(9, 61, Date.now() + 600_000));
  expect([seems(599_999), seems(600_000)]).toEqual([true, false]);
  expect(rememberedBan(key, Date.now() + 600_000)).toBeUndefined();
});

it("a ban does not keep the isolate from reporting whom it let in, once", async () => {
  const key = newKey({ minute: 1, day: 9 });
  for (let request = 0; request < 62; request += 1) await takeAlone(key, Date.now());
  expect(rememberedBan(key, Date.now())).toBeDefined();
  const asked: Take[] = [];
  const { bannedUntilMs } = rememberedBan(key, Date.now()) ?? {};
  const limiter = limiters((request) => {
    asked.push(request);
    return Promise.resolve({ ...answer(1, 61, bannedUntilMs), admitted: false, admissions: 0 });
  });
  for (let request = 0; request < 3; request += 1) await takeFromKey(limiter, key, Date.now(), () => {});
  expect(asked.map(({ unreported }) => unreported.length)).toEqual([1]);
});

it("of those who share a call of which an object of an earlier version has seen one, the others ask again", async () => {
  const key = newKey();
  const asked: (number | undefined)[] = [];
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const limiter = limiters((request) => {
    asked.push(request.requests);
    return asked.length === 1 ? promise : Promise.resolve(answer(asked.length, 0));
  });
  const taken = Array.from({ length: 3 }, () => takeFromKey(limiter, key, Date.now(), () => {}));
  resolve({ ...answer(1, 0), admissions: 1 });
  const decisions = await Promise.all(taken);
  expect(decisions.map(({ admitted }) => admitted)).toEqual([true, true, true]);
  expect(asked).toEqual(CALLS_ARE_SHARED ? [1, 2, 1] : [1, 1, 1]);
});
