// Calls that a Worker cancelled, so that they never report their end: others don't wait for them once they are overdue, and not
// before. In workerd: test/e2e/client-package.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Limiter, type Ticket } from "../../../client/src/limiter.ts";

const OPTIONS = { pace: true, maxConcurrency: 64, timeoutMs: 1_000 };
const LEFT = { limit: 2, remaining: 2, resetAt: new Date(60_000) };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "performance"], now: 0 });
  vi.stubGlobal("navigator", { userAgent: "Cloudflare-Workers" });
});
afterEach(() => void vi.unstubAllGlobals());

/** A limiter of a key with 2 requests left. */
function newLimiter() {
  const limiter = new Limiter();
  const usage = limiter.startFree();
  limiter.answer(usage, 0, { minute: LEFT, day: LEFT });
  limiter.leave(usage);
  const enter = () => limiter.enter(false, false);
  const admit = (ticket: Ticket, nowMs: number) => limiter.admit(ticket, nowMs, OPTIONS);
  return { limiter, enter, admit };
}

it("a cancelled request is forgotten once it is overdue, but counts as used", () => {
  const { limiter, enter, admit } = newLimiter();
  const options = { ...OPTIONS, maxConcurrency: 1 };
  const [cancelled, waiting, later] = [enter(), enter(), enter()];
  expect(admit(cancelled, 0)).toBeUndefined();
  expect(limiter.admit(waiting, 3_000, options)).toEqual({ askAgainMs: 20 });
  expect(limiter.admit(waiting, 4_001, options)).toBeUndefined();
  limiter.leave(waiting);
  expect(admit(later, 4_002)).toMatchObject({ askAgainMs: expect.any(Number) });
});

it("a cancelled wait is forgotten once it is overdue", () => {
  const { enter, admit } = newLimiter();
  const [first, second] = [enter(), enter()];
  expect(admit(second, 0)).toEqual({ askAgainMs: 21 });
  first.dueMs = 100;
  expect(admit(second, 2_100)).toEqual({ askAgainMs: 21 });
  expect(admit(second, 2_101)).toBeUndefined();
});

it("a wait that is only late joins the queue again", () => {
  const { enter, admit } = newLimiter();
  const [late, other, last] = [enter(), enter(), enter()];
  late.dueMs = 0;
  expect(admit(other, 2_001)).toBeUndefined();
  expect(admit(late, 2_002)).toEqual({ askAgainMs: 21 });
  expect(admit(last, 2_003)).toBeUndefined();
});
