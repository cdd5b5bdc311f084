// Many isolates use one key, or know nothing of it yet, while calls and reads of the key take long.

import { serialize } from "node:v8";
import { expect, it } from "vitest";
import { Random } from "./random.ts";
import { FIRST_SECRET, type Isolate, type Message, type Read, World } from "./world.ts";

const START_MS = Date.UTC(2026, 10, 22, 12, 34, 2);
/** When an isolate notices that a response is lost. */
const LOST_MS = 1_000;

interface Network {
  random: Random;
  /** One way. */
  tripMs: number;
  /** The object handles calls one after another, each for this time. */
  callMs?: number;
  /** The share of the responses that are lost; those of retries are not. */
  lostShare?: number;
  readMs?: number;
  onAnswer?: (answer: object) => void;
}

/** A key with this limit per minute. A crash of the object fails its calls. */
function newWorld(limit: number, network: Network): World {
  const { random, tripMs, callMs = 0, lostShare = 0, readMs = 0, ...rest } = network;
  let freeMs = START_MS;
  const send = (message: Message) => {
    const { time } = world;
    const isLost = !message.isRetry && random.chance(lostShare);
    freeMs = Math.max(time.nowMs + tripMs, freeMs) + callMs;
    time.after(freeMs - time.nowMs, async () => {
      const { crashes } = world;
      const answer = await message.deliver();
      world.persist();
      const fail = () => message.fail(new Error("lost"));
      if (isLost) time.after(LOST_MS, fail);
      else time.after(tripMs, () => (world.crashes === crashes ? answer?.() : fail()));
    });
  };
  const read = ({ deliver }: Read) => world.time.after(readMs, () => deliver()());
  const limits = { minute: limit, day: 10 * limit };
  const shared = { startMs: START_MS, limits, random: () => random.next() };
  const world: World = new World({ ...shared, send, read, ...rest });
  return world;
}

/** Sends requests through random isolates, at random times within `ms`. */
function scatter(world: World, random: Random, requests: number, ms: number): void {
  for (let sent = 0; sent < requests; sent += 1)
    world.time.after(random.int(0, ms), () => void world.ask(random.pick(...world.isolates)));
}

/** Sends requests through an isolate at `atMs` after the start. */
function sendAt(world: World, atMs: number, isolate: Isolate, requests = 1, secret?: string): void {
  world.time.after(START_MS + atMs - world.time.nowMs, () => {
    for (let sent = 0; sent < requests; sent += 1) void world.ask(isolate, secret);
  });
}

/** Runs to the end. Exactly `admitted` requests must have been admitted. */
async function expectAdmitted(world: World, admitted: number, about: number): Promise<void> {
  await world.run();
  world.throwFailure();
  expect([about, world.counts.admitted]).toEqual([about, admitted]);
}

it.each([
  ["a steady rate", 1_000, 1_500, 3_000],
  ["a burst", 1_000, 1_500, 0],
])("exactly the limit is admitted with %s through 300 isolates", async (_, limit, requests, ms) => {
  const random = new Random(1);
  let answerBytes = 0;
  const onAnswer = (answer: object) => {
    answerBytes = Math.max(answerBytes, serialize(answer).length);
  };
  const world = newWorld(limit, { random, tripMs: 10, callMs: 3, lostShare: 0.05, onAnswer });
  for (let isolate = 0; isolate < 300; isolate += 1) world.newIsolate();
  scatter(world, random, requests, ms);
  await expectAdmitted(world, limit, limit);
  expect(world.counts.refused).toBe(requests - limit);
  world.expectUsage();
  world.throwFailure();
  expect(answerBytes).toBeLessThan(1_024);
});

it("when the holder of a lease has ended, waiting isolates ask every 400 ms or more seldom", async () => {
  const random = new Random(1);
  const world = newWorld(600, { random, tripMs: 10, callMs: 3 });
  const holder = world.newIsolate();
  for (let ms = 0; ms < 2_000; ms += 20) sendAt(world, ms, holder);
  await world.run(START_MS + 2_010);
  world.end(holder);
  world.isolates.pop();
  for (let isolate = 0; isolate < 60; isolate += 1) world.newIsolate();
  const callsBefore = world.counts.calls;
  scatter(world, random, 800, 100);
  await world.run(START_MS + 5_010);
  const { calls, undecided } = world.counts;
  expect(undecided).toBeGreaterThan(0);
  // Each of them has made one call before it had to wait.
  expect((calls - callsBefore) / 60).toBeLessThan(1 + 3 / 0.4);
  await world.run();
  world.throwFailure();
});

it.each([20, 116, 140])(
  "a burst after sparse traffic is counted exactly, with calls of twice %i ms",
  async (tripMs) => {
    for (let burstMs = 1_500; burstMs < 5_000; burstMs += 193) {
      const world = newWorld(60, { random: new Random(burstMs), tripMs });
      const [sparse, burst] = [world.newIsolate(), world.newIsolate()];
      for (let ms = 0; ms < 9_000; ms += 250) sendAt(world, ms, sparse);
      sendAt(world, burstMs, burst, 100);
      await expectAdmitted(world, 60, burstMs);
    }
  },
);

it.each([
  [0, 150],
  [1_600, 150],
  [1_600, 1_600],
])(
  "a burst through isolates that don't know the key is counted exactly, with calls of 300 ms, a read of %i ms and a crash after %i ms",
  async (readMs, crashMs) => {
    for (let seed = 1; seed <= 12; seed += 1) {
      const random = new Random(seed);
      const world = newWorld(360, { random, tripMs: 150, readMs });
      for (let isolates = random.pick(6, 30); isolates > 0; isolates -= 1) world.newIsolate();
      scatter(world, random, 420, random.pick(0, 100));
      if (seed % 2 === 0) world.time.after(crashMs, () => world.crash(world.storage.writing.length));
      await expectAdmitted(world, 360, seed);
    }
  },
);

it.each([
  ["a new secret", 360, 100],
  ["a new secret", 1_000, 1_000],
  ["the known secret, and one with a wrong secret,", 360, 100],
  ["the known secret, and one with a wrong secret,", 1_000, 1_000],
])(
  "a burst with %s waits for a read of the key, and is counted exactly: a limit of %i, beside a request in %i ms elsewhere",
  async (what, limit, gapMs) => {
    for (let burstMs = 4_000; burstMs < 9_000; burstMs += 389) {
      const world = newWorld(limit, { random: new Random(burstMs), tripMs: 150, readMs: 240 });
      const [steady, burst] = [world.newIsolate(), world.newIsolate()];
      for (let ms = 0; ms < burstMs + 2_500; ms += gapMs) sendAt(world, ms, steady, 1, FIRST_SECRET);
      if (what === "a new secret") {
        const secrets = [FIRST_SECRET, "new"].map((hash) => ({ hash, goodUntilMs: null }));
        world.time.after(burstMs, () => world.change({ secrets }));
      } else sendAt(world, burstMs, burst, 1, "wrong");
      sendAt(world, burstMs, burst, limit, what === "a new secret" ? "new" : FIRST_SECRET);
      await expectAdmitted(world, limit, burstMs);
    }
  },
);
