// Calls that a Worker cancelled, so that they never report their end: others don't wait for them once they are overdue, and not
// before. In workerd: test/e2e/client-package.

import { expect, it } from "vitest";
import { Pacer } from "../../../client/src/pacer.ts";

it("a cancelled request, and a cancelled wait, are forgotten once they are overdue", () => {
  const pacer = new Pacer();
  const sent = pacer.enter();
  pacer.send(sent, 1_000);
  const [cancelled, place] = [pacer.enter(), pacer.enter()];
  // The first request of a client keeps its place while it learns the limits.
  expect(pacer.delay(place, 1_000)).toEqual({ askAgainMs: 22 });
  pacer.leave(sent);
  expect(pacer.delay(cancelled, 1_000)).toEqual({ askAgainMs: 20 });
  for (const nowMs of [3_000, 3_001, 3_020]) expect(pacer.delay(place, nowMs)).toEqual({ askAgainMs: 21 });
  expect(pacer.delay(place, 3_021)).toBeUndefined();
});

it("a cancelled request that was to show the limits is forgotten with its place", () => {
  const pacer = new Pacer();
  pacer.send(pacer.enter(), 1_000);
  const place = pacer.enter();
  expect(pacer.delay(place, 3_000)).toEqual({ askAgainMs: 21 });
  expect(pacer.delay(place, 3_001)).toBeUndefined();
});

it("a wait that is only late joins the queue again", () => {
  const pacer = new Pacer();
  const first = pacer.enter();
  const number = pacer.send(first, 9_000);
  pacer.leave(first);
  const [late, other] = [pacer.enter(), pacer.enter()];
  for (const place of [late, other]) pacer.delay(place, 0);
  pacer.delay(other, 2_021);
  pacer.settle(number, undefined, 0);
  expect(pacer.delay(late, 2_022)).toEqual({ askAgainMs: 21 });
  pacer.leave(other);
  expect(pacer.delay(late, 2_023)).toBeUndefined();
});
