// What isolates know of a key: how many calls and reads it costs to identify callers, what a flood of wrong secrets can do, and what
// happens if the object or the primary can't be reached. The real object, on virtual time; the world also holds each answer to the
// versions of the key. test/worker/faults.test.ts has each fault of each binding.

import { describe, expect, it } from "vitest";
import { FIRST_SECRET } from "../simulation/world.ts";
import { KEY_ID } from "../support/key-record.ts";
import { admissions, END, hangs, longest, newService, START_MS, works } from "../support/key-service.ts";

const LIMITS = { minute: 3_000, day: 100_000 };
/** One way, to the object and from there to the primary. */
const TRIP_MS = 10;
const TO_PRIMARY_MS = 100;

/** Isolates that don't know the key yet. */
function newColdService(isolates = 1, limits = LIMITS, polls = false) {
  const options = { isolates, isCold: true, tripMs: TRIP_MS, toPrimaryMs: TO_PRIMARY_MS, polls };
  const service = newService(limits, options);
  const { network, world, all, ask } = service;
  /** Sends a request at `atMs` through isolate 0, 1 or another. */
  const at = (atMs: number, secret?: string, isolate = 0) => ask(atMs, secret, all[isolate]);
  /** From now on, calls of the object fail. */
  const loseObject = () => {
    network.handle = (message) => world.time.after(TRIP_MS, () => message.fail(new Error("away")));
  };
  return { ...service, at, loseObject };
}

/** Valid secrets with these hashes. */
const secretsOf = (...hashes: string[]) => hashes.map((hash) => ({ hash, goodUntilMs: null }));

it("a hundred requests at once in an isolate that does not know the key need two calls", async () => {
  const { at, run, calls } = newColdService();
  await run(400, ...Array.from({ length: 100 }, () => at(0)));
  expect(calls.map(({ kind }) => kind)).toEqual(["acquire", "acquire"]);
  // Otherwise the object would lease as if there were one request, for so long that other isolates' requests wait in vain.
  expect(calls[1]?.message.request.recent).toBeGreaterThan(98);
});

it("a request that had to wait until its isolate knew its secret comes before those that arrived later", async () => {
  // Too little is left for a lease.
  const { world, at, run, calls } = newColdService(1, { minute: 3, day: 9 });
  await run(1_999, at(0));
  world.change({ secrets: secretsOf("new", FIRST_SECRET) });
  // The secret is known at 2,220 ms, while the call for the second request is under way.
  const asked = [at(2_000, "new"), at(2_215, FIRST_SECRET), at(2_217, FIRST_SECRET)];
  const answers = await run(3_000, ...asked);
  const sent = calls.map(({ kind, message }) => `${kind} ${message.request.requests}`);
  expect(sent).toEqual(["acquire 1", "identify 0", "acquire 1", "acquire 2"]);
  expect(answers.map(({ decision }) => decision?.admitted)).toEqual([true, true, false]);
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
  for (let ms = 0; ms < 5_000; ms += 5) void at(ms, `wrong ${ms}`, (ms / 5) % 2);
  const hot = await run(10_000, ...every(40, 1_000, 5_000));
  // Until there is a lease, requests wait for calls.
  expect(longest(hot.slice(0, 5))).toBeLessThanOrEqual(4 * TRIP_MS);
  expect(longest(hot.slice(5))).toBe(0);
  expect([world.counts.unauthorized, used()]).toEqual([1_000, 100]);
  expect(reads.length).toBeLessThanOrEqual(7);
  const asked = calls.filter(({ kind }) => kind === "identify").length;
  expect([asked > 3, asked <= 2 * 7]).toEqual([true, true]);
});

it("a request that the object has counted in vain is counted once", async () => {
  const { network, loseObject, world, at, run, used } = newColdService();
  void at(0);
  // The first call is executed when the key is there, and its answer lost; then the object is away.
  await run(TRIP_MS + 2 * TO_PRIMARY_MS + 5);
  loseObject();
  world.crash(1);
  await run(1_000);
  network.handle = works;
  await run(10_000);
  expect([world.counts.admitted, used()]).toEqual([1, 1]);
});

it("a request whose client is evicted while the primary is asked is decided by the key that it gets", async () => {
  const { loseObject, isolate, at, run } = newColdService();
  loseObject();
  const waiting = at(0);
  await run(5);
  for (let guess = 0; guess < 1_100; guess += 1) isolate.port.keys.callsOf(`guess ${guess}`);
  expect(admissions(await run(2_000, waiting, at(1_000)))).toBe(2);
});

it("while the object hangs, the primary says that secrets are unknown, also that of a request that came meanwhile", async () => {
  const { network, world, at, run } = newColdService();
  network.handle = hangs;
  const answers = await run(10_000, ...[0, 500, 2_800].map((ms) => at(ms, `wrong ${ms}`)));
  expect([world.counts.unauthorized, longest(answers) <= 3_500]).toEqual([3, true]);
});

it("nobody can tell if the object and the primary hang: a request fails after 5 s, and for 5 s the next ones at once", async () => {
  const { network, world, at, run } = newColdService();
  world.mayLackRecord = true;
  Object.assign(network, { handle: hangs, isPrimaryAway: true });
  const answers = await run(20_000, ...[0, 1_000, 6_000, 9_900].map((ms) => at(ms)));
  const waitedMs = answers.map((each) => each.waitedMs);
  expect(waitedMs).toEqual([5_000, expect.any(Number), 0, 0]);
  expect(waitedMs[1]).toBeLessThan(5_000);
  expect(world.counts.unavailable).toBe(4);
});

describe("of 200 keys that are new to an isolate, at once from one address,", () => {
  /** Asks about a secret of each key. Each answer takes 400 ms. */
  async function ask(hashOf: (index: number) => string) {
    const { network, world, isolate, run, calls } = newColdService(1, LIMITS, true);
    network.tripMs = 100;
    const request = (index: number) => ({
      credential: { id: `key ${index}`, hash: hashOf(index) },
      arrivedMs: world.time.nowMs,
      buckets: () => ["198.18.0.1"],
      onObjectFailure: () => {},
    });
    const asking = Array.from({ length: 200 }, (_, index) => isolate.port.keys.askCaller(request(index)));
    return { callers: await run(10_000, ...asking), calls };
  }

  it("each gets its answer", async () => {
    const { callers } = await ask(() => FIRST_SECRET);
    expect(callers.filter(({ key }) => key !== undefined)).toHaveLength(200);
  });

  it("sixty cost a call if they do not exist", async () => {
    const { callers, calls } = await ask((index) => `made up ${index}`);
    expect([calls.length, callers.filter(({ refusal }) => refusal !== undefined).length]).toEqual([60, 140]);
  });
});

describe("while look-ups of other keys occupy the slots of an address", () => {
  /** An isolate, all of whose requests have one address. Look-ups of other keys end at `freeMs`. */
  function newBusyService(freeMs = END) {
    const service = newColdService();
    const { network, world, isolate } = service;
    world.change({ secrets: secretsOf(FIRST_SECRET, "second", "of others") });
    network.handle = (message, answer) => {
      const isOther = message.request.secret === "of others";
      world.time.after(isOther ? START_MS + freeMs - world.time.nowMs : 0, answer);
    };
    const request = (hash: string, id = KEY_ID) => ({
      credential: { id, hash },
      arrivedMs: world.time.nowMs,
      buckets: () => ["198.18.0.1"],
      onObjectFailure: () => {},
    });
    const occupy = (slots: number) => {
      for (let slot = 0; slot < slots; slot += 1)
        void isolate.port.keys.askCaller(request("of others", `key ${slot}`));
    };
    /** Whether a request with this secret is admitted. */
    const isAdmitted = async (secret = FIRST_SECRET) =>
      (await isolate.port.keys.askAndCount(request(secret))).decision?.admitted;
    return { ...service, occupy, isAdmitted };
  }

  it("a request shares the call that another one with another secret of its key waits for", async () => {
    const { network, occupy, isAdmitted, run } = newBusyService();
    // The call takes longer than a request waits for a slot.
    network.tripMs = 1_250;
    void isAdmitted();
    occupy(59);
    await run(20);
    expect(await run(6_000, isAdmitted("second"))).toEqual([true]);
  });

  it("a request with a secret that becomes known by a call that counts needs no slot any more", async () => {
    const { world, occupy, isAdmitted, run } = newBusyService();
    // Then the object reads its key again.
    await run(11_000, isAdmitted());
    occupy(60);
    world.change({ secrets: secretsOf("new", FIRST_SECRET) });
    const waiting = isAdmitted("new");
    await run(11_500);
    expect(await run(12_000, isAdmitted(), waiting)).toEqual([true, true]);
  });

  it("requests wait for a slot, and count with their first call", async () => {
    const { occupy, isAdmitted, run, calls, used } = newBusyService(800);
    occupy(60);
    const waiting = Array.from({ length: 5 }, () => isAdmitted());
    await run(100);
    expect(used()).toBe(0);
    expect(await run(2_000, ...waiting)).toEqual(Array(5).fill(true));
    expect(calls.filter(({ kind }) => kind === "identify")).toHaveLength(60);
  });
});
