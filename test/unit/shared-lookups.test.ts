// What requests of one isolate that need the same answer about a secret share: one call, and the slot of its leader.

import { beforeEach, expect, it, vi } from "vitest";
import type { Caller, KeyRequest } from "../../src/keys/isolate/caller.ts";
import { KnownKeys } from "../../src/keys/isolate/known-keys.ts";
import { acquire } from "../../src/keys/object/acquire.ts";
import { UNUSED_QUOTA } from "../../src/keys/object/quota.ts";
import type { AcquireRequest } from "../../src/keys/protocol.ts";
import { RUNTIME } from "../../src/lib/runtime.ts";
import { recordOf } from "../support/key-record.ts";

const LIMITS = { minute: 1_000, day: 10_000 };
const HANGS = Number.POSITIVE_INFINITY;

beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 10, 20, 12, 34, 20) }));

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

/** An isolate, all of whose requests have one address. The objects of keys answer after `callMs`, or fail if `isAway`. */
function newIsolate({ callMs = (_: string): number => 50, isAway = false } = {}) {
  /** Of every key. */
  const secrets = ["good"];
  const clock = { aheadMs: 0 };
  const calls: string[] = [];
  /** All keys have the same. */
  const counted = { quota: UNUSED_QUOTA };
  const runtime = { ...RUNTIME, now: () => Date.now() + clock.aheadMs };
  const findRecord = (id: string) => RUNTIME.wait(5).then(() => recordOf(secrets, LIMITS, id));
  const answer = async (id: string) => {
    if (isAway) throw Object.assign(new Error("away"), { overloaded: true });
    if (callMs(id) === HANGS) return new Promise<never>(() => {});
    await RUNTIME.wait(callMs(id));
    return { record: recordOf(secrets, LIMITS, id), usableMs: 30_000, isNew: true };
  };
  const stubOf = (id: string) => ({
    identify: (secret: string) => {
      calls.push(`identify ${id} ${secret}`);
      return answer(id);
    },
    acquire: async (request: AcquireRequest) => {
      calls.push(`acquire ${id} ${request.requests}`);
      const about = await answer(id);
      const { result, quota } = acquire(counted.quota, LIMITS, { ...request, wantsLease: false }, Date.now());
      counted.quota = quota;
      return { ...about, result };
    },
  });
  const keys = new KnownKeys({ runtime, findRecord, objectOf: (id) => stubOf(id) as never });
  const request = (id: string, hash = "good"): KeyRequest => ({
    credential: { id, hash },
    arrivedMs: runtime.now(),
    buckets: () => ["198.18.0.1"],
    onObjectFailure: () => {},
  });
  /** What a request learns: the problem of its secret, "valid", "refused" or an error, and after how long. */
  const ask = async (id: string, hash?: string) => {
    const beganMs = Date.now();
    const said = ({ problem, refusal }: Caller) => (refusal === undefined ? (problem ?? "valid") : "refused");
    const outcome = await keys.identify(request(id, hash)).then(said, (error: Error) => error.name);
    return { outcome, ms: Date.now() - beganMs };
  };
  /** Look-ups of other keys that occupy slots. */
  const occupy = (slots: number) => {
    for (let slot = 0; slot < slots; slot += 1) void ask(`other ${slot}`);
  };
  return { keys, clock, calls, counted, secrets, request, ask, occupy };
}

it("without a slot, a request shares a call that takes longer than a wait for a slot", async () => {
  const { ask, occupy } = newIsolate({ callMs: (id) => (id === "key" ? 2_500 : HANGS) });
  void ask("key");
  occupy(59);
  await pass(20);
  const shared = ask("key");
  await pass(3_500);
  expect((await shared).outcome).toBe("valid");
});

it("a secret that becomes known by a call that counts needs no slot any more", async () => {
  const { keys, request, ask, occupy, secrets } = newIsolate({ callMs: (id) => (id === "key" ? 60 : HANGS) });
  void ask("key");
  await pass(60);
  occupy(60);
  secrets.push("new");
  const asked = ask("key", "new");
  await pass(500);
  void keys.count(request("key"));
  await pass(500);
  expect(await Promise.race([asked, "nothing"])).toMatchObject({ outcome: "valid" });
});

it("a request that waited for a slot counts with its first call", async () => {
  const { keys, occupy, request, calls } = newIsolate({ callMs: (id) => (id === "key" ? 50 : 800) });
  occupy(60);
  const counting = Array.from({ length: 5 }, () => keys.identifyAndCount(request("key")));
  await pass(2_000);
  expect((await Promise.all(counting)).map(({ decision }) => decision?.admitted)).toEqual(
    Array(5).fill(true),
  );
  expect(calls.filter((call) => call.includes("identify key"))).toEqual([]);
});

it("wrong secrets are unknown by what the primary says while the object hangs, also those that came meanwhile", async () => {
  const { ask } = newIsolate({ callMs: () => HANGS });
  const asked = [0, 500, 2_800].map(async (ms) => {
    await RUNTIME.wait(ms);
    return ask("key", `wrong ${ms}`);
  });
  await pass(10_000);
  const answers = await Promise.all(asked);
  expect(answers.map(({ outcome }) => outcome)).toEqual(["unknown", "unknown", "unknown"]);
  expect(answers.map(({ ms }) => ms <= 3_500)).toEqual([true, true, true]);
});

it("a request whose client is evicted while it waits is decided by the record that it gets", async () => {
  const { keys, request, ask } = newIsolate({ isAway: true });
  const waiting = keys.identifyAndCount(request("key"));
  for (let guess = 0; guess < 1_100; guess += 1) keys.clientOf(`guess ${guess}`);
  await pass(100);
  expect([(await waiting).decision?.admitted, (await ask("key")).outcome]).toEqual([true, "valid"]);
});

it("requests that one call has counted are not counted again if the clock has stepped back meanwhile", async () => {
  const { keys, request, clock, counted } = newIsolate();
  const waiting = [0, 5].map(async (ms) => {
    await RUNTIME.wait(ms);
    return keys.identifyAndCount(request("key"));
  });
  await pass(20);
  clock.aheadMs = -60_000;
  await pass(5_000);
  expect((await Promise.all(waiting)).map(({ decision }) => decision?.admitted)).toEqual([true, true]);
  expect(counted.quota.counts.minute.used).toBe(2);
});
