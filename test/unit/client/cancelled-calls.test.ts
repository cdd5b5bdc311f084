// Calls that a Worker cancelled, so that they never report their end: others don't wait for them once they are overdue, and not
// before. In workerd: test/e2e/client-package.

import { expect, it } from "vitest";
import { Pacer } from "../../../client/src/pacer.ts";

it("a cancelled request, and a cancelled wait, are forgotten once they are overdue", () => {
  const pacer = new Pacer();
  pacer.send(1_000);
  const [cancelled, place] = [pacer.enter(), pacer.enter()];
  expect(pacer.delay(cancelled, 1_000)).toEqual({ askAgainMs: 20 });
  for (const nowMs of [3_000, 3_001, 3_020]) expect(pacer.delay(place, nowMs)).toEqual({ askAgainMs: 21 });
  expect(pacer.delay(place, 3_021)).toBeUndefined();
});

it("a wait that is only late joins the queue again", () => {
  const pacer = new Pacer();
  const number = pacer.send(9_000);
  const [late, other] = [pacer.enter(), pacer.enter()];
  for (const place of [late, other]) pacer.delay(place, 0);
  pacer.delay(other, 2_021);
  pacer.settle(number, undefined, 0);
  expect(pacer.delay(late, 2_022)).toEqual({ askAgainMs: 21 });
  pacer.leave(other);
  expect(pacer.delay(late, 2_023)).toBeUndefined();
});
