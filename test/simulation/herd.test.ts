// Hundreds of isolates use one key. The object handles calls one after another, each for 3 ms, and 5 % of its responses are lost.

import { serialize } from "node:v8";
import { expect, it } from "vitest";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { Random } from "./random.ts";
import { FIRST_SECRET, type Message, type Read, World } from "./world.ts";

const START_MS = Date.UTC(2026, 10, 22, 12, 34, 2);
const CALL_MS = 3;
const TRIP_MS = 10;
/** When an isolate notices that a response is lost. */
const LOST_MS = 1_000;

/** A key with this limit per minute, and its isolates. */
function newHerd(limit: number, isolates: number, lostShare = 0.05) {
  const random = new Random(1);
  const limits = { minute: limit, day: 10 * limit };
  const largest = { answerBytes: 0 };
  let freeMs = START_MS;
  const send = (message: Message) => {
    const { time } = world;
    const isLost = !message.isRetry && random.chance(lostShare);
    freeMs = Math.max(time.nowMs + TRIP_MS, freeMs) + CALL_MS;
    time.after(freeMs - time.nowMs, async () => {
      const answer = await message.deliver();
      world.persist();
      if (isLost || answer === undefined) time.after(LOST_MS, () => message.fail(new Error("lost")));
      else time.after(TRIP_MS, answer);
    });
  };
  const onAnswer = (answer: object) => {
    largest.answerBytes = Math.max(largest.answerBytes, serialize(answer).length);
  };
  const world: World = new World({ startMs: START_MS, limits, send, onAnswer, random: () => random.next() });
  for (let isolate = 0; isolate < isolates; isolate += 1) world.newIsolate();
  /** Sends requests through random isolates, at random times within `ms`. */
  const request = (requests: number, ms: number) => {
    for (let sent = 0; sent < requests; sent += 1)
      world.time.after(random.int(0, ms), () => {
        const isolate = world.isolates[random.int(0, isolates - 1)];
        if (isolate !== undefined) void world.ask(isolate);
      });
  };
  return { world, request, largest };
}

it.each([
  ["a steady rate through 100 isolates", 3_000, 100, 6_000, 12_000],
  ["a steady rate through 300 isolates", 3_000, 300, 6_000, 12_000],
  ["a burst through 300 isolates", 1_000, 300, 1_500, 0],
])("exactly the limit is admitted with %s", async (_, limit, isolates, requests, ms) => {
  const { world, request, largest } = newHerd(limit, isolates);
  request(requests, ms);
  await world.run();
  const { admitted, refused } = world.counts;
  expect({ admitted, refused }).toEqual({ admitted: limit, refused: requests - limit });
  world.expectUsage();
  world.throwFailure();
  expect(largest.answerBytes).toBeLessThan(1_024);
});

it("when the holder of a lease has ended, waiting isolates ask every 400 ms or more seldom", async () => {
  const { world, request } = newHerd(600, 61, 0);
  const [holder, ...others] = world.isolates;
  if (holder === undefined) throw new Error("no isolate");
  for (let ms = 0; ms < 2_000; ms += 20) world.time.after(ms, () => void world.ask(holder));
  await world.run(START_MS + 2_010);
  world.end(holder);
  world.isolates.splice(0, 1);
  const callsBefore = world.counts.calls;
  request(800, 100);
  await world.run(START_MS + 5_010);
  const { calls, undecided } = world.counts;
  expect(undecided).toBeGreaterThan(0);
  // Each of them has made one call before it had to wait.
  expect((calls - callsBefore) / others.length).toBeLessThan(1 + 3 / 0.4);
  await world.run();
  world.throwFailure();
});

/** A world in which a call takes twice `tripMs` and a read of the record `readMs`; a crash of the object fails its calls. */
function calmWorld(limits: Limits, random: Random, tripMs: number, readMs = 0): World {
  const send = (message: Message) =>
    world.time.after(tripMs, async () => {
      const { crashes } = world;
      const answer = await message.deliver();
      world.persist();
      const isLost = () => answer === undefined || world.crashes !== crashes;
      world.time.after(tripMs, () => (isLost() ? message.fail(new Error("lost")) : answer?.()));
    });
  const read = ({ deliver }: Read) => world.time.after(readMs, () => deliver()());
  const world: World = new World({ startMs: START_MS, limits, send, read, random: () => random.next() });
  return world;
}

it.each([20, 116, 140])(
  "a burst after sparse traffic is counted exactly, with calls of twice %i ms",
  async (tripMs) => {
    for (let burstMs = 1_500; burstMs < 5_000; burstMs += 97) {
      const world = calmWorld({ minute: 60, day: 1_000 }, new Random(burstMs), tripMs);
      const [sparse, burst] = [world.newIsolate(), world.newIsolate()];
      for (let ms = 0; ms < 9_000; ms += 250) world.time.after(ms, () => void world.ask(sparse));
      world.time.after(burstMs, () => {
        for (let request = 0; request < 100; request += 1) void world.ask(burst);
      });
      await world.run();
      world.throwFailure();
      expect([burstMs, world.counts.admitted]).toEqual([burstMs, 60]);
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
    for (let seed = 1; seed <= 24; seed += 1) {
      const random = new Random(seed);
      const world = calmWorld({ minute: 360, day: 3_600 }, random, 150, readMs);
      const isolates = Array.from({ length: random.pick(6, 30) }, () => world.newIsolate());
      const spreadMs = random.pick(0, 100);
      for (let request = 0; request < 420; request += 1)
        world.time.after(random.int(0, spreadMs), () => void world.ask(random.pick(...isolates)));
      if (seed % 2 === 0) world.time.after(crashMs, () => world.crash(world.storage.writing.length));
      await world.run();
      world.throwFailure();
      expect([seed, world.counts.admitted]).toEqual([seed, 360]);
    }
  },
);

it.each(["a new secret", "the known secret, and one with a wrong secret,"])(
  "a burst with %s waits for a read of the record, and is counted exactly beside steady requests elsewhere",
  async (what) => {
    for (let burstMs = 4_000; burstMs < 9_000; burstMs += 193) {
      const world = calmWorld({ minute: 360, day: 3_600 }, new Random(burstMs), 150, 240);
      const [steady, burst] = [world.newIsolate(), world.newIsolate()];
      for (let ms = 0; ms < burstMs + 2_500; ms += 100)
        world.time.after(ms, () => void world.ask(steady, FIRST_SECRET));
      world.time.after(burstMs, () => {
        if (what === "a new secret") {
          const secrets = [FIRST_SECRET, "new"].map((hash) => ({ hash, goodUntilMs: null }));
          world.change({ secrets });
        } else void world.ask(burst, "wrong");
        const secret = what === "a new secret" ? "new" : FIRST_SECRET;
        for (let request = 0; request < 340; request += 1) void world.ask(burst, secret);
      });
      await world.run();
      world.throwFailure();
      expect([burstMs, world.counts.admitted]).toEqual([burstMs, 360]);
    }
  },
);
