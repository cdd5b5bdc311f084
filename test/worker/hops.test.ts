// The hops that a response waits for, one round after the other: to the databases and to the object of its key, and from that to the
// database of keys. Hops in the background don't count.

import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { app } from "../../src/app.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { interceptCalls, interceptStatements, objectOf, watchObjects } from "../support/worker/bindings.ts";
import { acquire, batch, newClient, newKey, ORIGIN } from "../support/worker/client.ts";
import { pass } from "../support/worker/time.ts";

/** The minimum duration of a hop: longer than the code between two hops that should overlap. */
const HOP_MS = 5;

/**
 * Records the hops of a key's requests. A hop belongs to the round after those of all hops that ended before it began. If the object
 * reads its record, that is the hop of this round, and the call belongs to the next one.
 */
function recordRounds(keyId: string) {
  let latest: string[][] = [];
  let calledIn = 0;
  let underway = 0;
  const record = (part: string, rounds: string[][], round: number) => {
    rounds[round] = [...(rounds[round] ?? []), part].sort();
  };
  // A hop that began in the background of earlier requests is recorded with them.
  const hop = async (part: string, go: () => Promise<unknown>) => {
    const rounds = latest;
    const round = rounds.length;
    if (part === "object") calledIn = round;
    underway += 1;
    const result = await go();
    const isAfterRead = part === "object" && rounds[round]?.includes("keys");
    await scheduler.wait(HOP_MS);
    record(part, rounds, isAfterRead ? round + 1 : round);
    underway -= 1;
    return result;
  };
  interceptStatements("KEYS_DB", async (run, _place, _method, parameters) => {
    const result = await run();
    if (parameters.includes(keyId)) record("keys", latest, calledIn);
    return result;
  });
  interceptStatements("PETS_DB", (run) => hop("pets", run));
  interceptCalls((run, _, name) => (name === keyId ? hop("object", run) : run()));
  return {
    begin: () => {
      latest = [];
      return latest;
    },
    isIdle: () => underway === 0,
  };
}

/** Sends requests with a key that is new to the isolate. Its object is awake, because another isolate has just called it. */
async function newSender() {
  const { id, call } = await newClient();
  await acquire(id, batch(1));
  const { begin, isIdle } = recordRounds(id);
  /** Sends a request, and returns the rounds that its response waited for. */
  const send = async (path: string, init: RequestInit = {}) => {
    const rounds = begin();
    const response = await call(path, init);
    const waitedFor = [...rounds];
    expect(response.status).toBeLessThan(300);
    while (!isIdle()) await scheduler.wait(1);
    return waitedFor;
  };
  return { id, send };
}

/** A list that is not cached and has a next page: the pets are added by the test. */
function newList(): string {
  nextId -= 1n;
  return `/v1/pets?limit=1&cursor=${encodeCursor(nextId)}`;
}
let nextId = 0n;

beforeEach(async () => {
  const { create } = await newClient();
  for (let pet = 0; pet < 2; pet += 1) await create();
  // The clock stands still, so the timers of leases must not fire. Requests that wait have shorter pauses.
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation((ms) => wait(ms < 100 ? ms : 10 * 60_000));
});

it("a list request waits for one round in a cold isolate, and with a known key, and only the object with a cached page", async () => {
  const { send } = await newSender();
  const list = newList();
  expect(await send(list)).toEqual([["object", "pets"]]);
  // Requests are too rare for a lease, and the record of the object stays fresh.
  pass(2_000);
  expect(await send(newList())).toEqual([["object", "pets"]]);
  pass(2_000);
  expect(await send(list)).toEqual([["object"]]);
});

it("a list request waits for two rounds if the object slept or its record is old: it reads that while the page is read", async () => {
  for (const isAsleep of [true, false]) {
    const { send, id } = await newSender();
    pass(10_000);
    if (isAsleep) await evictDurableObject(objectOf(id));
    expect(await send(newList())).toEqual([["keys", "pets"], ["object"]]);
  }
});

it("a list request waits for no database if the key and the page are in use, because they are read again in the background", async () => {
  const { send, id } = await newSender();
  const list = newList();
  await send(list);
  pass(20_000);
  await send(list);
  // 30 s after the first request. Another isolate has used the key meanwhile, so the record of the object is fresh.
  pass(10_000);
  await acquire(id, batch(1));
  expect(await send(list)).toEqual([["object"]]);
});

it("a list request waits for nothing with a lease and a cached page", async () => {
  const { send } = await newSender();
  const list = newList();
  for (let request = 0; request < 3; request += 1) await send(list);
  expect(await send(list)).toEqual([]);
  expect(await send(newList())).toEqual([["pets"]]);
});

it("100 requests that arrive at once in a cold isolate need two calls", async () => {
  const { id, secret } = await newKey();
  const calls = watchObjects(id);
  const headers = { Authorization: `Bearer ${secret}` };
  // Directly to the app, because the way to the Worker would separate them.
  const send = async () => (await app.request(`${ORIGIN}/v1/nowhere`, { headers }, env)).status;
  expect(await Promise.all(Array.from({ length: 100 }, send))).toEqual(Array(100).fill(404));
  // One for the first request, and one for the batch that waited meanwhile.
  expect(calls).toHaveLength(2);
});

const HEADERS = [{}, { [HEADER.idempotencyKey]: "once" }];
it.each(HEADERS)(
  "a POST waits for two rounds in a cold isolate, for one with a lease: %j",
  async (header) => {
    const { send } = await newSender();
    const headers = { "Content-Type": "application/json", ...header };
    const post = { method: "POST", headers, body: `{"name":"Rex","categoryId":1}` };
    expect(await send("/v1/pets", post)).toEqual([["object"], ["pets"]]);
    for (let request = 0; request < 2; request += 1) await send("/v1/pets", post);
    expect(await send("/v1/pets", post)).toEqual([["pets"]]);
  },
);
