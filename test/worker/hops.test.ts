// The hops to the database and the limiter that a response waits for, one round after the other. Hops in the background don't count.

import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { app } from "../../src/app.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { expectDocumented, newKey, ORIGIN, pass } from "../support/worker/client.ts";
import { stubDatabase } from "../support/worker/database-stub.ts";
import { stubLimiters } from "../support/worker/stub-bindings.ts";

/** The minimum duration of a hop: longer than the code between two hops that should overlap. */
const HOP_MS = 5;

/** Bindings that record their hops. A hop belongs to the round after those of all hops that ended before it began. */
function recordRounds() {
  const rounds: string[][] = [];
  const hop = async <Result>(part: string, go: () => Promise<Result>): Promise<Result> => {
    const round = rounds.length;
    await scheduler.wait(HOP_MS);
    const result = await go();
    rounds[round] = [...(rounds[round] ?? []), part].sort();
    return result;
  };
  const DB = stubDatabase((run) => hop("database", run));
  const RATE_LIMITER = stubLimiters(env.RATE_LIMITER, (run) => hop("limiter", run));
  return { rounds, bindings: { ...env, DB, RATE_LIMITER } };
}

/** Sends requests with a key that is new to the isolate. */
async function newSender() {
  const { rounds, bindings } = recordRounds();
  const { secret } = await newKey();
  /** Sends requests at once, and returns the rounds that their responses waited for. */
  const send = async (path: string, init: RequestInit = {}, times = 1) => {
    const headers = { ...init.headers, Authorization: `Bearer ${secret}` };
    const contexts = Array.from({ length: times }, () => createExecutionContext());
    rounds.length = 0;
    const responses = await Promise.all(
      contexts.map((ctx) => app.request(ORIGIN + path, { ...init, headers }, bindings, ctx)),
    );
    const waitedFor = [...rounds];
    for (const response of responses) {
      expect(response.status).toBeLessThan(300);
      await expectDocumented(init.method ?? "GET", path, response);
    }
    for (const ctx of contexts) await waitOnExecutionContext(ctx);
    return waitedFor;
  };
  return send;
}

/** A list that is not cached and has a next page. */
function newList(): string {
  nextId += 1n;
  return `/v1/pets?limit=1&cursor=${encodeCursor(nextId)}`;
}
let nextId = 0n;

beforeAll(async () => {
  const insert = "INSERT INTO pets (name, category_id) VALUES ('Rex', 1) RETURNING id";
  const added = await env.DB.batch<{ id: number }>(Array.from({ length: 20 }, () => env.DB.prepare(insert)));
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
  it("two rounds in a cold isolate, one with a cached key, and only the limiter with a cached page", async () => {
    const send = await newSender();
    const list = newList();
    expect(await send(list)).toEqual([["database"], ["database", "limiter"]]);
    pass(8_000);
    expect(await send(newList())).toEqual([["database", "limiter"]]);
    pass(8_000);
    expect(await send(list)).toEqual([["limiter"]]);
  });

  it("no database if the key and the page are in use, because they are revalidated in the background", async () => {
    const send = await newSender();
    const list = newList();
    await send(list);
    pass(20_000);
    await send(list);
    // 30 s after the first request.
    pass(10_000);
    expect(await send(list)).toEqual([["limiter"]]);
  });

  it("nothing with a lease and a cached page", async () => {
    const send = await newSender();
    const list = newList();
    for (let request = 0; request < 3; request += 1) await send(list);
    expect(await send(list)).toEqual([]);
    expect(await send(newList())).toEqual([["database"]]);
  });

  it("three rounds if 100 requests arrive at once in a cold isolate", async () => {
    const send = await newSender();
    const rounds = await send(newList(), {}, 100);
    // The key, a call for the first request, and a call for the batch that waited meanwhile.
    expect(rounds).toHaveLength(3);
    expect(rounds.flat().filter((part) => part === "limiter")).toHaveLength(2);
  });
});

it.each([
  ["without an Idempotency-Key", {}],
  ["with an Idempotency-Key", { "Idempotency-Key": "once" }],
])("a POST waits for three rounds in a cold isolate, and one with a lease, %s", async (_, headers) => {
  const send = await newSender();
  const post = {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: `{"name":"Rex","categoryId":1}`,
  };
  expect(await send("/v1/pets", post)).toEqual([["database"], ["limiter"], ["database"]]);
  for (let request = 0; request < 2; request += 1) await send("/v1/pets", post);
  expect(await send("/v1/pets", post)).toEqual([["database"]]);
});
