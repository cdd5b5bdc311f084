// What isolates know of a key: how many calls and reads it costs to identify callers, what a flood of wrong secrets can do, and who
// decides if the object or the primary can't be reached. The real object, on virtual time; the world also holds each answer to the
// versions of the record.

import { expect, it } from "vitest";
import { FIRST_SECRET } from "../simulation/world.ts";
import { admissions, hangs, longest, newService, START_MS, works } from "../support/key-service.ts";

const LIMITS = { minute: 3_000, day: 100_000 };
/** One way, to the object and from there to the primary. */
const TRIP_MS = 10;
const TO_PRIMARY_MS = 100;

/** Isolates that don't know the key yet. */
function newColdService(isolates = 1, limits = LIMITS) {
  const times = { tripMs: TRIP_MS, toPrimaryMs: TO_PRIMARY_MS };
  const service = newService(limits, { isolates, isCold: true, ...times });
  const { network, world, all, ask } = service;
  /** Sends a request at `atMs` through isolate 0, 1 or another. */
  const at = (atMs: number, secret?: string, isolate = 0) => ask(atMs, secret, all[isolate]);
  /** From now on, calls of the object fail. */
  const loseObject = () => {
    network.handle = (message) => world.time.after(TRIP_MS, () => message.fail(new Error("away")));
  };
  /** From now on, the object and the primary hang. */
  const hangBoth = () => {
    world.mayLackRecord = true;
    Object.assign(network, { handle: hangs, isPrimaryAway: true });
  };
  return { ...service, at, loseObject, hangBoth };
}

it("a hundred requests at once in an isolate that does not know the key need two calls", async () => {
  const { at, run, calls, used } = newColdService();
  await run(1_000, ...Array.from({ length: 100 }, () => at(0)));
  expect(calls.map(({ kind }) => kind)).toEqual(["acquire", "acquire"]);
  // Otherwise the object would lease as if there were one request, for so long that other isolates' requests wait in vain.
  expect(calls[1]?.message.request.recent).toBeGreaterThan(98);
  await run(10_000);
  expect(used()).toBe(100);
});

it("a request that had to wait until its isolate knew its secret comes before those that arrived later", async () => {
  // Too little is left for a lease.
  const { world, at, run, calls } = newColdService(1, { minute: 4, day: 9 });
  await run(1_999, at(0));
  world.change({ secrets: [{ hash: "new", goodUntilMs: null }, ...world.record.secrets] });
  // The secret is known at 2,220 ms, while the call for the second request is under way.
  await run(3_000, at(2_000, "new"), at(2_215, FIRST_SECRET), at(2_217, FIRST_SECRET));
  const sent = calls.map(({ kind, message }) => `${kind} ${message.request.requests}`);
  expect(sent).toEqual(["acquire 1", "identify 0", "acquire 1", "acquire 2"]);
  expect(calls[3]?.message.request.arrivedMs).toBeLessThanOrEqual(START_MS + 2_000);
});

it("a new secret works at once, in an isolate that knows the key and in one that does not, and the old one for its grace", async () => {
  const { world, at, run, calls } = newColdService(2);
  await run(900, at(0));
  const replaced = { hash: FIRST_SECRET, goodUntilMs: START_MS + 40_000 };
  world.change({ secrets: [{ hash: "new", goodUntilMs: null }, replaced] });
  const requests = [
    at(1_000, "new"),
    at(3_000, "new", 1),
    ...[39_900, 40_000].map((ms) => at(ms, FIRST_SECRET)),
  ];
  const answers = await run(41_000, ...requests);
  expect(answers.map(({ decision }) => decision?.admitted)).toEqual([true, true, true, undefined]);
  expect(calls.filter(({ kind }) => kind === "identify").map(({ atMs }) => atMs)).toEqual([1_000]);
});

it("a wrong secret is asked about once in 30 s, and not in the background", async () => {
  const { world, at, run, calls } = newColdService();
  const wrong = [0, 1_000, 2_000, 25_000, 30_900, 40_000].map((ms) => at(ms, "wrong"));
  await run(41_000, at(500), ...wrong);
  // By the first call, and 30 s after it.
  expect(calls.map(({ atMs }) => atMs)).toEqual([0, 500, 30_900]);
  expect([world.counts.unauthorized, world.counts.admitted]).toEqual([6, 1]);
});

it("a wrong secret is asked about twice at most, also if the clock has stepped back while it waited for another's", async () => {
  const { world, isolate, at, run, calls } = newColdService();
  for (const ms of [0, 1]) void at(ms, `wrong ${ms}`);
  await run(5);
  isolate.aheadMs -= 60_000;
  await run(10_000);
  expect([world.counts.unauthorized, calls.length]).toEqual([2, 3]);
});

it("a flood of wrong secrets consumes nothing of the key, delays no request, and causes one read a second", async () => {
  const { world, at, run, every, calls, reads, used } = newColdService(2);
  for (let ms = 0; ms < 10_000; ms += 5) void at(ms, `wrong ${ms}`, (ms / 5) % 2);
  const hot = await run(20_000, ...every(40, 2_000, 10_000));
  // Until there is a lease, requests wait for calls.
  expect(longest(hot.slice(0, 5))).toBeLessThanOrEqual(4 * TRIP_MS);
  expect(longest(hot.slice(5))).toBe(0);
  expect([world.counts.unauthorized, used()]).toEqual([2_000, 200]);
  expect(reads.length).toBeLessThanOrEqual(12);
  const asked = calls.filter(({ kind }) => kind === "identify").length;
  expect([asked > 8, asked <= 2 * 12]).toEqual([true, true]);
});

it("an isolate that does not know the key reads it from the primary if the object is away, and decides by itself", async () => {
  const { network, loseObject, at, run, reads, world, used } = newColdService();
  loseObject();
  const answers = await run(2_000, at(0), at(1_000));
  // Two calls with a pause of 250 ms.
  expect(answers[0].waitedMs).toBe(250 + 2 * TRIP_MS + 2 * TO_PRIMARY_MS);
  expect([admissions(answers), world.counts.local, reads.length]).toEqual([2, 2, 1]);
  network.handle = works;
  await run(10_000);
  expect(used()).toBe(2);
});

it("a request that the object has counted in vain is counted once", async () => {
  const { network, loseObject, world, at, run, used } = newColdService();
  void at(0);
  // The first call is executed, and its answer lost; then the object is away.
  await run(15);
  loseObject();
  world.crash(1);
  await run(1_000);
  network.handle = works;
  await run(10_000);
  expect([world.counts.admitted, used()]).toEqual([1, 1]);
});

it("nobody can tell if the object and the primary hang: a request fails after 5 s, and for 5 s the next ones at once", async () => {
  const { hangBoth, world, at, run } = newColdService();
  hangBoth();
  const answers = await run(20_000, ...[0, 1_000, 6_000, 9_900].map((ms) => at(ms)));
  const waitedMs = answers.map((each) => each.waitedMs);
  expect(waitedMs).toEqual([5_000, expect.any(Number), 0, 0]);
  expect(waitedMs[1]).toBeLessThan(5_000);
  expect(world.counts.unavailable).toBe(4);
});

it("an isolate that has the record decides by itself while both hang, until its record is 30 s old", async () => {
  const { hangBoth, at, run } = newColdService();
  await run(500, at(0));
  hangBoth();
  const answers = await run(40_000, ...[1_000, 20_000, 31_000].map((ms) => at(ms)));
  expect(answers.map(({ decision }) => decision?.admitted)).toEqual([true, true, undefined]);
  expect(longest(answers)).toBeLessThanOrEqual(5_000);
});

it("while the primary is away, the object answers with the record that it has, also to isolates that have none", async () => {
  const { network, world, at, run } = newColdService(2);
  await run(500, at(0));
  world.mayLackRecord = true;
  network.isPrimaryAway = true;
  const requests = [at(1_000, undefined, 1), at(20_000, undefined, 1), at(22_100, "unknown")];
  const answers = await run(30_000, ...requests);
  expect(answers.map(({ decision }) => decision?.admitted)).toEqual([true, true, undefined]);
  // The object waits 2 s for the primary.
  expect(answers.slice(0, 2).map(({ waitedMs }) => waitedMs)).toEqual([2 * TRIP_MS, 2_000 + 2 * TRIP_MS]);
  expect([world.counts.unavailable, world.counts.local]).toEqual([1, 0]);
});
