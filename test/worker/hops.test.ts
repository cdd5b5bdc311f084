// The hops that a response waits for, one round after the other: to the databases and to the object of its key, and from that to the
// database of keys. Hops in the background don't count.

import { createExecutionContext, evictDurableObject, waitOnExecutionContext } from "cloudflare:test";
import { env, withEnv } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { app } from "../../src/app.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { batch, expectDocumented, newKey, ORIGIN, pass } from "../support/worker/client.ts";
import { interceptStatements, stubDatabase } from "../support/worker/database-stub.ts";
import { stubKeyObjects } from "../support/worker/stub-bindings.ts";

/** The minimum duration of a hop: longer than the code between two hops that should overlap. */
const HOP_MS = 5;

/**
 * Bindings that record their hops. A hop belongs to the round after those of all hops that ended before it began. If the object reads
 * its record, that is the hop of this round, and the call belongs to the next one.
 */
function recordRounds(keyId: string) {
  let latest: string[][] = [];
  let calledIn = 0;
  const record = (part: string, rounds: string[][], round: number) => {
    rounds[round] = [...(rounds[round] ?? []), part].sort();
  };
  // A hop that began in the background of earlier requests is recorded with them.
  const hop = async (part: string, go: () => Promise<unknown>) => {
    const rounds = latest;
    const round = rounds.length;
    const result = await go();
    await scheduler.wait(HOP_MS);
    record(part, rounds, round);
    return result;
  };
  const call = async (go: () => Promise<unknown>) => {
    const rounds = latest;
    const round = rounds.length;
    calledIn = round;
    const result = await go();
    const isAfterRead = rounds[round]?.includes("keys") ?? false;
    await scheduler.wait(HOP_MS);
    record("object", rounds, isAfterRead ? round + 1 : round);
    return result;
  };
  const begin = () => {
    latest = [];
    return latest;
  };
  interceptStatements("KEYS_DB", async (run, _place, _method, parameters) => {
    const result = await run();
    if (parameters.includes(keyId)) record("keys", latest, calledIn);
    return result;
  });
  const PETS_DB = stubDatabase("PETS_DB", (run) => hop("pets", run));
  // Only the object reads keys; a statement of the isolate would show as a hop of its own.
  const KEYS_DB = stubDatabase("KEYS_DB", (run) => hop("keys, by the isolate", run));
  const API_KEYS = stubKeyObjects(env.API_KEYS, call);
  return { begin, bindings: { ...env, PETS_DB, KEYS_DB, API_KEYS } };
}

/** Sends requests with a key that is new to the isolate. Its object is awake, because another isolate has just called it. */
async function newSender() {
  const { id, secret } = await newKey();
  const object = env.API_KEYS.getByName(id);
  await object.acquire(batch(1));
  const { begin, bindings } = recordRounds(id);
  /** Sends requests at once, and returns the rounds that their responses waited for. */
  const send = async (path: string, init: RequestInit = {}, times = 1) => {
    const headers = { ...init.headers, Authorization: `Bearer ${secret}` };
    const contexts = Array.from({ length: times }, () => createExecutionContext());
    const rounds = begin();
    const sendOne = async (ctx: ExecutionContext) =>
      app.request(ORIGIN + path, { ...init, headers }, bindings, ctx);
    const responses = await Promise.all(
      contexts.map((ctx) => withEnv(bindings, () => sendOne(ctx)) as ReturnType<typeof sendOne>),
    );
    const waitedFor = [...rounds];
    for (const response of responses) {
      expect(response.status).toBeLessThan(300);
      await expectDocumented(init.method ?? "GET", path, response);
    }
    for (const ctx of contexts) await waitOnExecutionContext(ctx);
    return waitedFor;
  };
  return { send, object };
}

/** A list that is not cached and has a next page. */
function newList(): string {
  nextId += 1n;
  return `/v1/pets?limit=1&cursor=${encodeCursor(nextId)}`;
}
let nextId = 0n;

beforeAll(async () => {
  const insert = "INSERT INTO pets (name, category_id) VALUES ('Rex', 1) RETURNING id";
  const added = await env.PETS_DB.batch<{ id: number }>(
    Array.from({ length: 20 }, () => env.PETS_DB.prepare(insert)),
  );
  nextId = BigInt(added[0]?.results[0]?.id ?? 0);
});

/** Shorter than the timers of leases, and longer than the pauses of requests that wait. */
const MAX_PAUSE_MS = 100;

beforeEach(() => {
  // The clock stands still, so the timers of leases must not fire.
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation((ms) =>
    ms < MAX_PAUSE_MS ? wait(ms) : new Promise(() => {}),
  );
});

describe("a list request waits for", () => {
  it("one round in a cold isolate, and with a known key, and only the object with a cached page", async () => {
    const { send } = await newSender();
    const list = newList();
    expect(await send(list)).toEqual([["object", "pets"]]);
    // Requests are too rare for a lease, and the record of the object stays fresh.
    pass(2_000);
    expect(await send(newList())).toEqual([["object", "pets"]]);
    pass(2_000);
    expect(await send(list)).toEqual([["object"]]);
  });

  it("two rounds if the object slept or its record is old: it reads that while the page is read", async () => {
    for (const isAsleep of [true, false]) {
      const { send, object } = await newSender();
      pass(10_000);
      if (isAsleep) await evictDurableObject(object);
      expect(await send(newList())).toEqual([["keys", "pets"], ["object"]]);
    }
  });

  it("no database if the key and the page are in use, because they are read again in the background", async () => {
    const { send, object } = await newSender();
    const list = newList();
    await send(list);
    pass(20_000);
    await send(list);
    // 30 s after the first request. Another isolate has used the key meanwhile, so the record of the object is fresh.
    pass(10_000);
    await object.acquire(batch(1));
    expect(await send(list)).toEqual([["object"]]);
  });

  it("nothing with a lease and a cached page", async () => {
    const { send } = await newSender();
    const list = newList();
    for (let request = 0; request < 3; request += 1) await send(list);
    expect(await send(list)).toEqual([]);
    expect(await send(newList())).toEqual([["pets"]]);
  });

  it("two rounds if 100 requests arrive at once in a cold isolate", async () => {
    const { send } = await newSender();
    const rounds = await send(newList(), {}, 100);
    // A call for the first request, and one for the batch that waited meanwhile.
    expect(rounds).toHaveLength(2);
    expect(rounds.flat().filter((part) => part === "object")).toHaveLength(2);
    expect(rounds.flat()).not.toContain("keys");
  });
});

it.each([
  ["without an Idempotency-Key", {}],
  ["with an Idempotency-Key", { [HEADER.idempotencyKey]: "once" }],
])("a POST waits for two rounds in a cold isolate, and one with a lease, %s", async (_, headers) => {
  const { send } = await newSender();
  const post = {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: `{"name":"Rex","categoryId":1}`,
  };
  expect(await send("/v1/pets", post)).toEqual([["object"], ["pets"]]);
  for (let request = 0; request < 2; request += 1) await send("/v1/pets", post);
  expect(await send("/v1/pets", post)).toEqual([["pets"]]);
});
