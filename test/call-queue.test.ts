// How the requests of one key share calls. The clock is one that a test moves on.

import { expect, it } from "vitest";
import { CallQueue } from "../src/rate-limit/call-queue.ts";
import { newClock } from "./virtual-clock.ts";

const MAX_CALL_MS = 4_000;

/** What a promise has come to, if it has. */
function follow<Result>(promise: Promise<Result>): { value?: Result; isSettled: boolean } {
  const followed: { value?: Result; isSettled: boolean } = { isSettled: false };
  void promise.then((value) => {
    followed.value = value;
    followed.isSettled = true;
  });
  return followed;
}

function newQueue() {
  const clock = newClock();
  return { clock, queue: new CallQueue<string>(clock, MAX_CALL_MS) };
}

it("a call takes along all that wait, in their order, and none twice", async () => {
  const { clock, queue } = newQueue();
  const first = queue.begin();
  const waiting = [follow(queue.join()), follow(queue.join())];
  queue.end(first);
  const second = queue.begin();
  second.aboard.forEach((each, index) => {
    each.result = `result ${index}`;
  });
  expect([first.aboard.length, second.aboard.length]).toEqual([0, 2]);
  queue.end(second);
  expect(queue.begin().aboard).toEqual([]);
  await clock.pass(10);
  expect(waiting.map(({ value }) => value)).toEqual(["result 0", "result 1"]);
});

it("who waits for a call that does not take it along is free to call when that has ended", async () => {
  const { clock, queue } = newQueue();
  const call = queue.begin();
  const waiting = follow(queue.join());
  await clock.pass(1_000);
  expect(waiting.isSettled).toBe(false);
  queue.end(call);
  await clock.pass(10);
  expect(waiting).toEqual({ value: undefined, isSettled: true });
  expect(queue.begin().aboard).toEqual([]);
});

it("a call that lasts too long is given up, and whoever it took along is free", async () => {
  const { clock, queue } = newQueue();
  const before = queue.begin();
  const waiting = follow(queue.join());
  queue.end(before);
  queue.begin();
  await clock.pass(MAX_CALL_MS);
  expect([queue.isCalling, waiting.isSettled]).toEqual([true, false]);
  await clock.pass(11);
  expect([queue.isCalling, waiting.isSettled]).toEqual([false, true]);
});

it("whoever was taken along by a call that was given up does not wait for the calls of others", async () => {
  const { clock, queue } = newQueue();
  const before = queue.begin();
  const waiting = follow(queue.join());
  queue.end(before);
  queue.begin();
  // To the first millisecond at which another may call; the next look is later.
  await clock.pass(MAX_CALL_MS);
  clock.step(1);
  // From now on there is a call whenever it looks.
  queue.begin();
  await clock.pass(10);
  expect(waiting).toEqual({ value: undefined, isSettled: true });
});

it("a call that was given up does not end the one after it", async () => {
  const { clock, queue } = newQueue();
  const late = queue.begin();
  await clock.pass(MAX_CALL_MS + 1);
  queue.begin();
  queue.end(late);
  expect(queue.isCalling).toBe(true);
});

it.each([-10_000, 10_000])("a clock that steps by %i ms makes nobody wait forever", async (ms) => {
  const { clock, queue } = newQueue();
  queue.begin();
  const waiting = follow(queue.join());
  clock.step(ms);
  await clock.pass(10);
  expect([queue.isCalling, waiting.isSettled]).toEqual([false, true]);
});

it("who waits looks at once, then ever less often, but every 10 ms at least", async () => {
  const { clock } = newQueue();
  const waitsMs: number[] = [];
  const queue = new CallQueue<string>(
    {
      now: clock.now,
      wait: (ms) => {
        waitsMs.push(ms);
        return clock.wait(ms);
      },
    },
    MAX_CALL_MS,
  );
  queue.begin();
  follow(queue.join());
  await clock.pass(60);
  expect(waitsMs.slice(0, 8)).toEqual([1, 1.5, 2.25, 3.375, 5.0625, 7.59375, 10, 10]);
});

it("who has its result waits no longer, though the call goes on", async () => {
  const { clock, queue } = newQueue();
  const before = queue.begin();
  const waiting = follow(queue.join());
  queue.end(before);
  const [aboard] = queue.begin().aboard;
  if (aboard !== undefined) aboard.result = "result";
  await clock.pass(10);
  expect(waiting.value).toBe("result");
});

it("who was dismissed is taken along by no call", () => {
  const { queue } = newQueue();
  follow(queue.join());
  expect([queue.dismiss().length, queue.begin().aboard]).toEqual([1, []]);
});
