// The object of a key on the platform: what it stores, and for how long. test/unit/quota.test.ts has its decisions, test/simulation its
// crashes, evictions and replacements.

import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { assert, expect, it, vi } from "vitest";
import { ApiKey } from "../../src/index.ts";
import { writeBan, writeUsage } from "../../src/keys/reports.ts";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import { banEndMs } from "../../src/limits/object/bans.ts";
import { changePlan, rotateKey } from "../../src/operators/admin.ts";
import { listChanges } from "../../src/operators/records.ts";
import { ours } from "../support/key-record.ts";
import { interceptStatements, objectOf } from "../support/worker/bindings.ts";
import { acquire, banKey, batch, newKey, operator } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { pass } from "../support/worker/time.ts";

const DAY_MS = 86_400_000;

type Stub = DurableObjectStub<ApiKey>;

/** The object of a new Free key. */
async function newObject() {
  const { id } = await newKey({ plan: "free" });
  return { id, object: objectOf(id) };
}

/** The counts of minute and day in the object. */
async function usedOf(keyId: string): Promise<number[]> {
  const answer = await objectOf(keyId).usage();
  assert("usage" in answer && answer.usage);
  const { minute, day } = ours(answer.usage.status.windows);
  return [minute.used, day.used];
}

/** What the object has stored, by name, and when its alarm is due. */
const storedIn = (object: Stub) =>
  runInDurableObject(object, (_: ApiKey, { storage }): [string, unknown][] => [...storage.kv.list()]);
const alarmOf = (object: Stub) => runInDurableObject(object, (_: ApiKey, { storage }) => storage.getAlarm());

/** The lines of a key: objects of earlier tests may have noted something too. */
const linesOf = (id: string) => takeLogLines().filter(({ keyId }) => keyId === id);

it("of a quiet key, writes one value per change, none without one, and the alarm once; counts nothing if the write fails", async () => {
  const { id, object } = await newObject();
  await runInDurableObject(object, async (instance: ApiKey, { storage }) => {
    const [put, setAlarm] = [vi.spyOn(storage.kv, "put"), vi.spyOn(storage, "setAlarm")];
    const first = batch(1, { isolate: "isolate", recent: 20 });
    const lease = { id: 1, used: 0, isOver: true };
    const report = { isolate: "isolate", lease, wantsLease: false };
    const writes: number[] = [];
    // The second is a repeated call; the third and the last report what is known.
    for (const call of [
      first,
      first,
      batch(0, { ...report, number: 2, lease: { ...lease, isOver: false } }),
      batch(0, { ...report, number: 2 }),
      batch(0, { ...report, number: 3 }),
    ]) {
      pass(7_000);
      put.mockClear();
      await instance.acquire(call);
      writes.push(put.mock.calls.length);
    }
    expect(writes).toEqual([1, 0, 0, 1, 0]);
    expect(setAlarm).toHaveBeenCalledOnce();
    put.mockImplementation(() => {
      throw new Error("the disk is full");
    });
    await expect(instance.acquire(batch(1))).rejects.toThrow("the disk is full");
  });
  expect(await usedOf(id)).toEqual([1, 1]);
});

/** Sends calls with one request each. Returns how often the object has written for each. */
async function writesOf(instance: ApiKey, storage: DurableObjectStorage, calls: number): Promise<number[]> {
  const put = vi.spyOn(storage.kv, "put");
  const writes: number[] = [];
  for (let call = 0; call < calls; call += 1) {
    put.mockClear();
    await instance.acquire(batch(1, { wantsLease: false }));
    writes.push(put.mock.calls.length);
  }
  put.mockRestore();
  return writes;
}

it("of a busy key, one write reserves three requests; the alarm writes the exact counts 9 s after the last call", async () => {
  const { id, object } = await newObject();
  await runInDurableObject(object, async (instance: ApiKey, { storage }) => {
    expect(await writesOf(instance, storage, 13)).toEqual([1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1]);
    const startMs = Date.now();
    expect(await storage.getAlarm()).toBe(startMs + 9_000);
    pass(8_000);
    expect(await writesOf(instance, storage, 1)).toEqual([0]);
    pass(1_000);
    await instance.alarm();
    expect(await storage.getAlarm()).toBe(startMs + 17_000);
    pass(8_000);
    await instance.alarm();
    // What is left is to record usage.
    expect(await storage.getAlarm()).toBe(startMs + 60_000);
  });
  await evictDurableObject(object);
  expect(await usedOf(id)).toEqual([14, 14]);
});

it("a crash costs at most the reservation, and operators see what the object then has", async () => {
  const { id, object } = await newObject();
  await runInDurableObject(object, (instance: ApiKey, { storage }) => writesOf(instance, storage, 6));
  pass(60_000);
  await runDurableObjectAlarm(object);
  await runInDurableObject(object, (instance: ApiKey, { storage }) => writesOf(instance, storage, 7));
  expect(await usedOf(id)).toEqual([7, 13]);
  await evictDurableObject(object);
  expect(await usedOf(id)).toEqual([8, 14]);
  expect((await acquire(id, batch(60))).admitted).toBe(52);
  pass(600_000);
  await runDurableObjectAlarm(object);
  expect(await recordedOf(id)).toMatchObject([{ admitted: 66 }]);
});

it("what a call has taken back is not taken back once more after a crash, if the call is repeated", async () => {
  const { id, object } = await newObject();
  const lost = batch(10, { isolate: "isolate", wantsLease: false });
  const decisions = [{ number: lost.number, atMs: Date.now(), admitted: 0, refusedBy: { minute: 10 } }];
  const report = (number: number) => batch(0, { isolate: "isolate", number, decisions, wantsLease: false });
  const admit = async (requests: number) =>
    (await acquire(id, batch(requests, { wantsLease: false }))).admitted;
  for (const requests of [30, 5, 5, 5]) expect(await admit(requests)).toBe(requests);
  // Its answer is lost, and its isolate refuses its ten requests.
  await acquire(id, lost);
  await acquire(id, report(3));
  expect(await admit(11)).toBe(11);
  await evictDurableObject(object);
  await acquire(id, report(4));
  expect(45 + 11 + (await admit(60))).toBeLessThanOrEqual(60);
});

it("gives a repeated call its result although the grace of its secret has ended, and counts no new one", async () => {
  const { id, secret } = await newKey();
  await rotateKey(env.KEYS_DB, id, 10_000, operator());
  const call = batch(1, { secret: sha256(secret) });
  await acquire(id, call);
  pass(11_000);
  expect(await acquire(id, call)).toMatchObject({ admitted: 1, refused: 0 });
  await expect(acquire(id, { ...call, number: 2 })).rejects.toThrow();
  expect(await usedOf(id)).toEqual([1, 1]);
});

it("the stored value has the record as it was last read, also if that changes no count, and a restarted object uses it", async () => {
  const { id, object } = await newObject();
  await acquire(id, batch(1));
  await changePlan(env.KEYS_DB, id, "pro", undefined, operator());
  pass(10_000);
  await object.usage();
  await evictDurableObject(object);
  pass(10_000);
  interceptStatements("KEYS_DB", () => Promise.reject(new Error("out of order")));
  expect((await acquire(id, batch(1))).windows.minute).toMatchObject({ limit: 300, used: 2 });
});

it("an object that knows a lower revision than an isolate goes on from that, but not from one that no object can have told", async () => {
  const { id } = await newObject();
  const told = async (revision: number) => (await acquire(id, batch(1, { revision }))).revision;
  const laterMs = Date.now() + 60_000;
  expect(await told(laterMs)).toBe(laterMs + 1);
  const most = (Number.MAX_SAFE_INTEGER - 1) / 2;
  expect(await told(Number.MAX_SAFE_INTEGER)).toBe(most + 1);
  expect(await told(0)).toBe(most + 2);
  expect(await usedOf(id)).toEqual([3, 3]);
});

it("an object starts from a damaged value, and logs what was wrong", async () => {
  const { id, object } = await newObject();
  await acquire(id, batch(5));
  await runInDurableObject(object, (_: ApiKey, { storage }) => {
    const state = storage.kv.get<{ quota: { counts: { minute: { used: unknown } } } }>("state");
    assert(state);
    state.quota.counts.minute.used = "5";
    storage.kv.put("state", state);
  });
  await evictDurableObject(object);
  takeLogLines();
  expect(await acquire(id, batch(1))).toMatchObject({ admitted: 1 });
  const cause = "state.quota.counts.minute.used is no finite number: 5";
  expect(linesOf(id)).toEqual([expect.objectContaining({ event: "state_damaged", keyId: id, cause })]);
  expect(await usedOf(id)).toEqual([6, 6]);
});

it("the stored value has nothing of a wrong secret, and does not exist for a key that does not exist or was not used", async () => {
  const used = await newObject();
  await acquire(used.id, batch(1));
  const before = await storedIn(used.object);
  expect(before.map(([name, value]) => [name, Object.keys(value as object).sort()])).toEqual([
    ["state", ["keyId", "quota", "read", "unwritten", "version"]],
  ]);
  const [unused, unknown] = [(await newObject()).object, objectOf(newKeyId())];
  const secret = sha256(newSecret(used.id));
  for (const object of [used.object, unused, unknown]) {
    expect(await object.acquire(batch(1, { secret }))).not.toHaveProperty("result");
    pass(1_000);
    await object.identify(secret);
    await object.usage();
  }
  expect(await storedIn(used.object)).toEqual(before);
  for (const object of [unused, unknown])
    expect([await storedIn(object), await alarmOf(object)]).toEqual([[], null]);
});

const LATE_MS = Date.UTC(2026, 10, 20, 23, 59);
const DELETED_MS = Date.UTC(2026, 10, 20) + 41 * DAY_MS;

it("deletes its storage after 40 days without requests, not before, and keeps a request that arrives during the deletion", async () => {
  vi.setSystemTime(LATE_MS);
  const { id, object } = await newObject();
  await acquire(id, batch(1));
  vi.setSystemTime(DELETED_MS - 1);
  // The first one records usage.
  for (let time = 0; time < 2; time += 1) await runDurableObjectAlarm(object);
  expect([await storedIn(object), await alarmOf(object)]).toEqual([[expect.anything()], DELETED_MS]);
  vi.setSystemTime(DELETED_MS);
  await runDurableObjectAlarm(object);
  expect(await usedOf(id)).toEqual([0, 0]);
  // Not even the question has stored anything.
  expect(await storedIn(object)).toEqual([]);

  await acquire(id, batch(5));
  pass(41 * DAY_MS);
  await runInDurableObject(object, async (instance: ApiKey) => {
    // With a fresh record, the call reads nothing, and counts before the deletion ends.
    await instance.usage();
    await Promise.all([instance.alarm(), instance.acquire(batch(1))]);
  });
  await evictDurableObject(object);
  expect(await usedOf(id)).toEqual([1, 1]);
});

it("the record of a ban is made by an alarm, which survives a crash and a new day, and tried every 30 s while the database fails", async () => {
  vi.setSystemTime(LATE_MS);
  const { id, object } = await newObject();
  await banKey(id);
  const bannedMs = Date.now();
  await evictDurableObject(object);
  pass(60_000);
  const refusals = { number: 1, atMs: Date.now(), admitted: 0, refusedBy: { minute: 1 } };
  await acquire(id, batch(0, { number: 2, decisions: [refusals] }));
  expect(await alarmOf(object)).toBe(bannedMs);
  interceptStatements("KEYS_DB", () => Promise.reject(new Error("D1_ERROR: the database is away")));
  takeLogLines();
  await runDurableObjectAlarm(object);
  expect(linesOf(id)).toMatchObject([
    { event: "ban_not_recorded", keyId: id },
    { event: "usage_not_recorded" },
  ]);
  expect(await alarmOf(object)).toBe(Date.now() + 30_000);
  vi.restoreAllMocks();
  for (let time = 0; time < 2; time += 1) {
    pass(30_000);
    await runDurableObjectAlarm(object);
  }
  // As an alarm that crashes after it has made the record.
  await writeBan(env.KEYS_DB, id, banEndMs(bannedMs));
  const changes = await listChanges(env.KEYS_DB, { id }, 9);
  expect(changes.map(({ change }) => change)).toEqual(["banned", "created"]);
  pass(600_000);
  await runDurableObjectAlarm(object);
  expect(await alarmOf(object)).toBe(DELETED_MS + DAY_MS);
});

/** What operators see of a key's days. */
async function recordedOf(keyId: string) {
  const sql = `
    SELECT day, admitted, refused_by AS refusedBy, last_admitted_ms AS admittedMs, last_refused_ms AS refusedMs
    FROM key_usage WHERE key_id = ?1 ORDER BY day, object`;
  return (await env.KEYS_DB.prepare(sql).bind(keyId).all()).results;
}

it("usage is recorded a minute after the first request, then every ten minutes at most, also after a failure", async () => {
  const { id, object } = await newObject();
  const startMs = Date.now();
  await acquire(id, batch(62));
  expect(await alarmOf(object)).toBe(startMs + 60_000);
  pass(60_000);
  // A request that comes while the row is written waits for the next one.
  await runInDurableObject(object, (instance: ApiKey) =>
    Promise.all([instance.alarm(), instance.acquire(batch(1))]),
  );
  const counted = { admitted: 60, refusedBy: '{"minute":2}' };
  const first = { day: "2026-11-20", ...counted, admittedMs: startMs, refusedMs: startMs };
  expect([await recordedOf(id), await alarmOf(object)]).toEqual([[first], startMs + 660_000]);
  pass(600_000);
  interceptStatements("KEYS_DB", () => Promise.reject(new Error("D1_ERROR: the database is away")));
  takeLogLines();
  await runDurableObjectAlarm(object);
  expect(linesOf(id)).toMatchObject([{ event: "usage_not_recorded", keyId: id }]);
  vi.restoreAllMocks();
  expect([await recordedOf(id), await alarmOf(object)]).toEqual([[first], startMs + 1_260_000]);
  await evictDurableObject(object);
  pass(600_000);
  await runDurableObjectAlarm(object);
  expect(await recordedOf(id)).toEqual([{ ...first, admitted: 61, admittedMs: startMs + 60_000 }]);
  expect(await alarmOf(object)).toBe(Date.UTC(2026, 10, 20) + 41 * DAY_MS);
  const recordedMs = Date.now();
  pass(1_000);
  await acquire(id, batch(1));
  expect(await alarmOf(object)).toBe(recordedMs + 600_000);
});

it("a day is recorded again after a late report, not by a late write; each object of a key has its own row", async () => {
  vi.setSystemTime(LATE_MS);
  const { id, object } = await newObject();
  await acquire(id, batch(60));
  pass(120_000);
  await acquire(id, batch(1));
  await runDurableObjectAlarm(object);
  const report = { number: 2, atMs: LATE_MS, admitted: 3, refusedBy: { minute: 1, day: 4 } };
  await acquire(id, batch(0, { number: 3, decisions: [report] }));
  pass(600_000);
  await runDurableObjectAlarm(object);
  const none = { refusedBy: {}, busiest: {}, lastAdmittedMs: 0, lastRefusedMs: 0 };
  const days = [{ ...none, date: "2026-11-20", admitted: 1 }];
  for (const name of [object.id.toString().slice(0, 16), "other"])
    await writeUsage(env.KEYS_DB, { id, object: name, revision: 1, days });
  expect(await recordedOf(id)).toMatchObject([
    { day: "2026-11-20", admitted: 63, refusedBy: '{"minute":1,"day":4}', admittedMs: LATE_MS },
    { day: "2026-11-20", admitted: 1, refusedBy: "{}", refusedMs: null },
    { day: "2026-11-21", admitted: 1 },
  ]);
});

it("rows of the last 30 days that a restore has lost come back on the next day; unchanged rows are not written", async () => {
  const { id, object } = await newObject();
  const recordDay = async (requests: number) => {
    await acquire(id, batch(requests));
    pass(60_000);
    await runDurableObjectAlarm(object);
    pass(DAY_MS - 60_000);
    const sql = "SELECT day, admitted, revision FROM key_usage WHERE key_id = ?1 ORDER BY day";
    return (await env.KEYS_DB.prepare(sql).bind(id).all()).results;
  };
  for (const requests of [1, 2, 3]) await recordDay(requests);
  // The busiest minutes of the last two days are not complete yet, so these days would change all the same.
  const [first, second, ...others] = await recordDay(4);
  await env.KEYS_DB.prepare("DELETE FROM key_usage WHERE key_id = ?1 AND admitted = 1").bind(id).run();
  const [back, unchanged, ...rest] = await recordDay(5);
  expect([back, unchanged]).toEqual([{ ...first, revision: expect.any(Number) }, second]);
  expect(rest).toHaveLength(others.length + 1);
});

it("rows of earlier days come back although the next day begins while usage is written", async () => {
  const { id, object } = await newObject();
  for (const _ of ["a first day, which is complete", "a second one", "a third one"]) {
    pass(DAY_MS);
    await acquire(id, batch(1));
  }
  pass(60_000);
  await runDurableObjectAlarm(object);
  await env.KEYS_DB.prepare("DELETE FROM key_usage WHERE key_id = ?1").bind(id).run();
  await acquire(id, batch(1));
  pass(600_000);
  await runInDurableObject(object, async (instance: ApiKey) => {
    let isWriting = true;
    interceptStatements("KEYS_DB", async (run) => {
      if (isWriting) {
        isWriting = false;
        pass(DAY_MS);
        await instance.acquire(batch(1));
      }
      return run();
    });
    await instance.alarm();
  });
  vi.restoreAllMocks();
  pass(600_000);
  await runDurableObjectAlarm(object);
  expect(await recordedOf(id)).toHaveLength(4);
});

it("usage of a key whose row was lost is recorded under its id, by an alarm that does not know the object's name", async () => {
  const { id, object } = await newObject();
  await acquire(id, batch(2));
  await env.KEYS_DB.prepare("DELETE FROM keys WHERE id = ?1").bind(id).run();
  pass(60_000);
  expect(await object.acquire(batch(1))).toMatchObject({ key: null });
  await runInDurableObject(object, async (_: ApiKey, context) => {
    Object.defineProperty(context.id, "name", { value: undefined });
    await new ApiKey(context, env).alarm();
  });
  expect(await recordedOf(id)).toMatchObject([{ day: "2026-11-20", admitted: 2 }]);
});

it("a later change sets an alarm again that was given up, and one that a wrong clock has set too late", async () => {
  const { id, object } = await newObject();
  await acquire(id, batch(1));
  await runInDurableObject(object, (_: ApiKey, { storage }) => storage.deleteAlarm());
  pass(60_000 + 600_001);
  const dueMs = Date.now() - 600_001;
  await acquire(id, batch(1));
  expect(await alarmOf(object)).toBe(dueMs);
  pass(-3_600_000);
  await acquire(id, batch(1));
  expect(await alarmOf(object)).toBe(Date.now() + 600_000);
});
