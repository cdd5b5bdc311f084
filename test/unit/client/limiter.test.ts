// Admission by itself: places in the queue, free slots, and calls that a Worker cancelled, so that they never report their end: others
// don't wait for them once they are overdue, and not before. In workerd: test/e2e/client-package.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Limiter, type Ticket } from "../../../client/src/limiter.ts";

const OPTIONS = { pace: true, timeoutMs: 1_000 };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "performance"], now: 0 });
  vi.spyOn(Math, "random").mockReturnValue(0);
  return () => void vi.restoreAllMocks();
});
afterEach(() => void vi.unstubAllGlobals());

const inWorker = () => vi.stubGlobal("navigator", { userAgent: "Cloudflare-Workers" });

/** A limiter of a key with requests left in this minute. */
function newLimiter({ left = 2, limit = 2, maxConcurrency = 64 } = {}) {
  const limiter = new Limiter(maxConcurrency);
  const usage = limiter.startFree();
  const day = { limit: 1_000, remaining: 1_000, resetAt: new Date(86_400_000), lengthMs: 86_400_000 };
  limiter.answer(usage, 0, {
    minute: { limit, remaining: left, resetAt: new Date(60_000), lengthMs: 60_000 },
    day,
  });
  limiter.leave(usage);
  const enter = (isRepeated = false) => limiter.enter(false, isRepeated);
  const admit = (ticket: Ticket, nowMs: number) => limiter.admit(ticket, nowMs, OPTIONS);
  return { limiter, enter, admit };
}

it("a call knows how many windows it waits for, also if its request is repeated, and for a limit of 0", () => {
  const { enter, admit } = newLimiter({ left: 0, limit: 10 });
  const tickets = Array.from({ length: 25 }, () => enter());
  const totalMs = (ticket: Ticket) => (admit(ticket, 0) as { closed: { totalMs: number } }).closed.totalMs;
  const [first, second] = [enter(true), enter(true)];
  // 10 requests in the first 2 s of each window.
  const inWindow = (ms: number) => Array.from({ length: 10 }, (_, index) => ms + 200 * index);
  expect([...tickets, first, second].map(totalMs)).toEqual([
    ...inWindow(60_000).slice(2),
    ...inWindow(120_000),
    ...inWindow(180_000).slice(0, 7),
    ...inWindow(60_000).slice(0, 2),
  ]);
  const none = newLimiter({ left: 0, limit: 0 });
  expect(none.admit(none.enter(), 0)).toMatchObject({ closed: { totalMs: Infinity } });
});

it("repeated requests go before others, in their order", () => {
  const { enter, admit } = newLimiter({ left: 3 });
  const [other, first, second] = [enter(), enter(true), enter(true)];
  for (const ticket of [other, second])
    expect(admit(ticket, 0)).toMatchObject({ askAgainMs: expect.any(Number) });
  expect([first, second, other].map((ticket) => admit(ticket, 0))).toEqual([undefined, undefined, undefined]);
});

it("a call behind lost requests looks again before GET /v1/usage is due, because a window may begin", () => {
  const { limiter, enter, admit } = newLimiter({ left: 1 });
  const [lost, next] = [enter(), enter()];
  admit(lost, 0);
  lost.isSent = true;
  limiter.leave(lost);
  expect(admit(next, 0)).toEqual({ askAgainMs: 1_000 });
  expect(admit(next, 60_000)).toBeUndefined();
});

it("calls that consume nothing need a free slot only, and a request that was not sent frees what it held", () => {
  const { limiter, enter, admit } = newLimiter({ left: 1, maxConcurrency: 1 });
  const [first, second] = [enter(), enter()];
  expect(admit(first, 0)).toBeUndefined();
  const free = limiter.enter(true, false);
  expect(admit(free, 0)).toEqual({ askAgainMs: 1_000 });
  limiter.leave(first);
  expect(admit(free, 0)).toBeUndefined();
  limiter.leave(free);
  expect(admit(second, 0)).toBeUndefined();
});

it("a cancelled request is forgotten once it is overdue, but counts as used", () => {
  inWorker();
  const { limiter, enter, admit } = newLimiter({ maxConcurrency: 1 });
  const [cancelled, waiting, later] = [enter(), enter(), enter()];
  expect(admit(cancelled, 0)).toBeUndefined();
  cancelled.isSent = true;
  expect(admit(waiting, 3_000)).toEqual({ askAgainMs: 20 });
  expect(admit(waiting, 4_001)).toBeUndefined();
  limiter.leave(waiting);
  // It was not sent, so one of two is left, unless the cancelled one was counted.
  expect(admit(later, 4_002)).toBeUndefined();
  limiter.leave(later);
  const [last, none] = [enter(), enter()];
  expect(admit(last, 4_003)).toBeUndefined();
  last.isSent = true;
  limiter.leave(last);
  expect(admit(none, 4_004)).toEqual({ askAgainMs: expect.any(Number) });
});

it("a request that a Worker has cancelled while it asked for the limits holds its slot for a while only", () => {
  inWorker();
  const { limiter, enter, admit } = newLimiter({ maxConcurrency: 1 });
  limiter.startFree();
  const ticket = enter();
  expect(admit(ticket, 90_000)).toEqual({ askAgainMs: 20 });
  expect(admit(ticket, 92_001)).toBeUndefined();
});

it("a cancelled request whose time has no limit holds its slot for a while only", () => {
  inWorker();
  const { limiter, enter } = newLimiter({ maxConcurrency: 1 });
  const [cancelled, next] = [enter(), enter()];
  const admit = (ticket: Ticket, nowMs: number) =>
    limiter.admit(ticket, nowMs, { pace: true, timeoutMs: Infinity });
  expect(admit(cancelled, 0)).toBeUndefined();
  expect(admit(next, 91_000)).toEqual({ askAgainMs: 20 });
  expect(admit(next, 92_001)).toBeUndefined();
});

it("a cancelled wait is forgotten once it is overdue", () => {
  inWorker();
  const { enter, admit } = newLimiter();
  const [first, second] = [enter(), enter()];
  expect(admit(second, 0)).toEqual({ askAgainMs: 21 });
  first.dueMs = 100;
  expect(admit(second, 2_100)).toEqual({ askAgainMs: 21 });
  expect(admit(second, 2_101)).toBeUndefined();
});

it("in a Worker, a call looks again each second while others are ahead of it", () => {
  inWorker();
  const { enter, admit } = newLimiter({ left: 1 });
  const [, second] = [enter(), enter()];
  expect(admit(second, 0)).toMatchObject({ askAgainMs: 1_000, closed: { nextMs: 60_000 } });
});

it("a wait that is only late joins the queue again", () => {
  inWorker();
  const { enter, admit } = newLimiter({ left: 3 });
  const [late, other, last] = [enter(), enter(), enter()];
  late.dueMs = 0;
  expect(admit(other, 2_001)).toBeUndefined();
  expect(admit(late, 2_002)).toEqual({ askAgainMs: 21 });
  expect(admit(last, 2_003)).toBeUndefined();
});
