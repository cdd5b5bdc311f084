// What isolates know of a key: how many calls and reads it costs to identify callers, what a flood of wrong secrets can do, and who
// decides if the object or the primary can't be reached. The real object, on virtual time; the world also holds each answer to the
// versions of the record.

import { expect, it } from "vitest";
import { FIRST_SECRET, type Isolate, type Message, type Read, World } from "../simulation/world.ts";

const START_MS = Date.UTC(2026, 10, 22, 12, 34, 2);
const LIMITS = { minute: 3_000, day: 100_000 };
/** One way, to the object and from there to the primary. */
const TRIP_MS = 10;
const TO_PRIMARY_MS = 100;

/** Isolates that don't know the key yet. All times count from START_MS. */
function newService(isolates = 1, limits = LIMITS) {
  const network = { isObjectAway: false, doesObjectHang: false, isPrimaryAway: false };
  const calls: {
    atMs: number;
    kind: "acquire" | "identify";
    requests: number;
    arrivedMs: number;
    recent: number;
  }[] = [];
  const reads: number[] = [];
  const send = (message: Message) => {
    const { time } = world;
    const { client, requests, arrivedMs, recent } = message.request;
    const kind = client === "" ? "identify" : "acquire";
    calls.push({ atMs: time.nowMs - START_MS, kind, requests, arrivedMs: arrivedMs - START_MS, recent });
    if (network.doesObjectHang) return;
    if (network.isObjectAway) return void time.after(TRIP_MS, () => message.fail(new Error("away")));
    time.after(TRIP_MS, async () => {
      const answer = await message.deliver();
      world.persist();
      time.after(TRIP_MS, () => answer?.());
    });
  };
  const read = (each: Read) => {
    const { time } = world;
    reads.push(time.nowMs - START_MS);
    // It hangs.
    if (network.isPrimaryAway) return;
    time.after(TO_PRIMARY_MS, () => time.after(TO_PRIMARY_MS, each.deliver()));
  };
  const world: World = new World({ startMs: START_MS, limits, send, read });
  const all = Array.from({ length: isolates }, () => world.newIsolate());
  const [first] = all as [Isolate, ...Isolate[]];
  /** Sends a request at `atMs`. */
  const at = async (atMs: number, secret?: string, isolate = first) => {
    await new Promise<void>((resolve) => world.time.after(START_MS + atMs - world.time.nowMs, resolve));
    const decision = await world.ask(isolate, secret);
    return { decision, waitedMs: world.time.nowMs - START_MS - atMs };
  };
  const times = (number: number, atMs: number, secret?: string, isolate = first) =>
    Array.from({ length: number }, () => at(atMs, secret, isolate));
  const runUntil = (atMs: number) => world.run(START_MS + atMs);
  const used = () => world.usage().status.windows.minute.used;
  return { network, world, all, calls, reads, at, times, runUntil, used };
}

const longest = (answers: { waitedMs: number }[]) => Math.max(...answers.map(({ waitedMs }) => waitedMs));

it("one call identifies the caller and counts the request; the object reads the record if it has slept", async () => {
  const { at, runUntil, calls, reads, all, used } = newService(2);
  const [cold, other] = await Promise.all([at(0), at(1_000, undefined, all[1]), runUntil(2_000)]);
  expect([cold.waitedMs, other.waitedMs]).toEqual([2 * TRIP_MS + 2 * TO_PRIMARY_MS, 2 * TRIP_MS]);
  expect([calls.map(({ kind }) => kind), reads, used()]).toEqual([["acquire", "acquire"], [TRIP_MS], 2]);
});

it("a hundred requests at once in an isolate that does not know the key need two calls", async () => {
  const { times, runUntil, calls, used } = newService();
  await Promise.all([...times(100, 0), runUntil(1_000)]);
  expect(calls.length).toBe(2);
  // Otherwise the object would lease as if there were one request, for so long that other isolates' requests wait in vain.
  expect(calls[1]?.recent).toBeGreaterThan(98);
  await runUntil(10_000);
  expect(used()).toBe(100);
});

it("a request that had to wait until its isolate knew its secret comes before those that arrived later", async () => {
  // Too little is left for a lease.
  const { world, at, runUntil, calls } = newService(1, { minute: 4, day: 9 });
  await Promise.all([at(0), runUntil(1_999)]);
  world.change({ secrets: [{ hash: "new", goodUntilMs: null }, ...world.record.secrets] });
  // The secret is known at 2,220 ms, while the call for the second request is under way.
  void at(2_000, "new");
  for (const ms of [2_215, 2_217]) void at(ms, FIRST_SECRET);
  await runUntil(3_000);
  expect(calls.map(({ kind, requests }) => `${kind} ${requests}`)).toEqual([
    "acquire 1",
    "identify 0",
    "acquire 1",
    "acquire 2",
  ]);
  expect(calls[3]?.arrivedMs).toBeLessThanOrEqual(2_000);
});

it("reads at the primary do not depend on the number of isolates: one in 5 s", async () => {
  const readsOf = async (isolates: number) => {
    const { world, at, runUntil, reads, all } = newService(isolates);
    for (let ms = 0; ms < 50_000; ms += 100) void at(ms, undefined, all[(ms / 100) % isolates]);
    await runUntil(55_000);
    world.throwFailure();
    return reads.length;
  };
  const [one, sixteen] = [await readsOf(1), await readsOf(16)];
  expect([one <= 11, sixteen <= 11]).toEqual([true, true]);
});

it("a new secret works at once, in an isolate that knows the key and in one that does not, and the old one for its grace", async () => {
  const { world, at, runUntil, all, calls } = newService(2);
  await Promise.all([at(0), runUntil(900)]);
  const replaced = { hash: FIRST_SECRET, goodUntilMs: START_MS + 40_000 };
  world.change({ secrets: [{ hash: "new", goodUntilMs: null }, replaced] });
  const requests = [
    at(1_000, "new"),
    at(3_000, "new", all[1]),
    at(39_900, FIRST_SECRET),
    at(40_000, FIRST_SECRET),
  ];
  const [, , old, ended] = await Promise.all([...requests, runUntil(41_000)]);
  expect([old?.decision?.admitted, ended?.decision]).toEqual([true, undefined]);
  expect(calls.filter(({ kind }) => kind === "identify").map(({ atMs }) => atMs)).toEqual([1_000]);
  world.throwFailure();
});

it("a wrong secret is asked about once in 30 s, and not in the background", async () => {
  const { world, at, runUntil, calls } = newService();
  for (const ms of [0, 1_000, 2_000, 25_000, 30_900, 40_000]) void at(ms, "wrong");
  void at(500);
  await runUntil(41_000);
  // By the first call, and 30 s after it.
  expect(calls.map(({ atMs }) => atMs)).toEqual([0, 500, 30_900]);
  expect([world.counts.unauthorized, world.counts.admitted]).toEqual([6, 1]);
});

it("a wrong secret is asked about twice at most, also if the clock has stepped back while it waited for another's", async () => {
  const { world, at, runUntil, calls, all } = newService();
  const [isolate] = all;
  for (const ms of [0, 1]) void at(ms, `wrong ${ms}`);
  await runUntil(5);
  if (isolate !== undefined) isolate.aheadMs -= 60_000;
  await runUntil(10_000);
  expect([world.counts.unauthorized, calls.length]).toEqual([2, 3]);
});

it("a flood of wrong secrets consumes nothing of the key, delays no request, and causes one read a second", async () => {
  const { world, at, runUntil, calls, reads, used, all } = newService(2);
  for (let ms = 0; ms < 10_000; ms += 5) void at(ms, `wrong ${ms}`, all[(ms / 5) % 2]);
  const hot = Array.from({ length: 200 }, (_, index) => at(2_000 + 40 * index));
  await runUntil(20_000);
  // Until there is a lease, requests wait for calls.
  expect(longest(await Promise.all(hot.slice(0, 5)))).toBeLessThanOrEqual(4 * TRIP_MS);
  expect(longest(await Promise.all(hot.slice(5)))).toBe(0);
  expect([world.counts.unauthorized, used()]).toEqual([2_000, 200]);
  expect(reads.length).toBeLessThanOrEqual(12);
  const asked = calls.filter(({ kind }) => kind === "identify").length;
  expect([asked > 8, asked <= 2 * 12]).toEqual([true, true]);
});

it("an isolate that does not know the key reads it from the primary if the object is away, and decides by itself", async () => {
  const { network, at, runUntil, reads, world, used } = newService();
  network.isObjectAway = true;
  const [cold, next] = await Promise.all([at(0), at(1_000), runUntil(2_000)]);
  // Two calls with a pause of 250 ms.
  expect([cold.waitedMs, cold.decision?.admitted]).toEqual([250 + 2 * TRIP_MS + 2 * TO_PRIMARY_MS, true]);
  expect([next.decision?.admitted, world.counts.local, reads.length]).toEqual([true, 2, 1]);
  network.isObjectAway = false;
  await runUntil(10_000);
  expect(used()).toBe(2);
});

it("a request that the object has counted in vain is counted once", async () => {
  const { network, world, runUntil, used } = newService();
  const { isolates } = world;
  // The first call is executed, and its answer lost; then the object is away.
  const send = world.ask(isolates[0] as Isolate);
  await runUntil(15);
  network.isObjectAway = true;
  world.crash(1);
  void send;
  await runUntil(1_000);
  network.isObjectAway = false;
  await runUntil(10_000);
  expect([world.counts.admitted, used()]).toEqual([1, 1]);
});

it("nobody can tell if the object and the primary hang: a request fails after 5 s, and for 5 s the next ones at once", async () => {
  const { network, world, at, runUntil } = newService();
  world.mayLackRecord = true;
  network.doesObjectHang = true;
  network.isPrimaryAway = true;
  const requests = [0, 1_000, 6_000, 9_900].map((ms) => at(ms));
  await runUntil(20_000);
  const waitedMs = (await Promise.all(requests)).map((each) => each.waitedMs);
  expect(waitedMs).toEqual([5_000, expect.any(Number), 0, 0]);
  expect(waitedMs[1]).toBeLessThan(5_000);
  expect(world.counts.unavailable).toBe(4);
});

it("an isolate that has the record decides by itself while both hang, until its record is 30 s old", async () => {
  const { network, world, at, runUntil, all } = newService();
  await Promise.all([at(0), runUntil(500)]);
  world.mayLackRecord = true;
  network.doesObjectHang = true;
  network.isPrimaryAway = true;
  const requests = [1_000, 20_000, 31_000].map((ms) => at(ms, undefined, all[0]));
  await runUntil(40_000);
  const answers = await Promise.all(requests);
  expect(answers.map(({ decision }) => decision?.admitted)).toEqual([true, true, undefined]);
  expect(longest(answers)).toBeLessThanOrEqual(5_000);
});

it("while the primary is away, the object answers with the record that it has, also to isolates that have none", async () => {
  const { network, world, at, runUntil, all } = newService(2);
  await Promise.all([at(0), runUntil(500)]);
  world.mayLackRecord = true;
  network.isPrimaryAway = true;
  const requests = [
    at(1_000, undefined, all[1]),
    at(20_000, undefined, all[1]),
    at(22_100, "unknown", all[0]),
  ];
  await runUntil(30_000);
  const [known, stale, unknown] = await Promise.all(requests);
  expect([known?.decision?.admitted, stale?.decision?.admitted]).toEqual([true, true]);
  // The object waits 2 s for the primary.
  expect([known?.waitedMs, stale?.waitedMs]).toEqual([2 * TRIP_MS, 2_000 + 2 * TRIP_MS]);
  expect([unknown?.decision, world.counts.unavailable, world.counts.local]).toEqual([undefined, 1, 0]);
});
