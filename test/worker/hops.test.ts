// The number of sequential hops to the database and the limiter that a response waits for. Overlapping hops count once, hops in
// the background do not count.

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

interface Hop {
  part: "database" | "limiter";
  /** The position of its start and end among all starts and ends. */
  start: number;
  end: number;
}

/** Bindings that record their hops. */
function recordHops() {
  const hops: Hop[] = [];
  let order = 0;
  const hop = async <Result>(part: Hop["part"], go: () => Promise<Result>): Promise<Result> => {
    order += 1;
    const start = order;
    await scheduler.wait(HOP_MS);
    try {
      return await go();
    } finally {
      order += 1;
      hops.push({ part, start, end: order });
    }
  };
  const DB = stubDatabase((run) => hop("database", run));
  const RATE_LIMITER = stubLimiters(env.RATE_LIMITER, (run) => hop("limiter", run));
  return { hops, bindings: { ...env, DB, RATE_LIMITER } };
}

/** The length of the longest chain of hops that each start after the previous one has ended. */
function inSequence(hops: readonly Hop[]): number {
  const depths = new Map<Hop, number>();
  for (const hop of hops.toSorted((a, b) => a.start - b.start)) {
    const before = [...depths].filter(([{ end }]) => end < hop.start).map(([, depth]) => depth);
    depths.set(hop, 1 + Math.max(0, ...before));
  }
  return Math.max(0, ...depths.values());
}

/** A client whose key is new to the isolate. */
async function newClient() {
  const { hops, bindings } = recordHops();
  const { secret } = await newKey();
  /** Sends a request, and returns the hops that its response waited for. */
  const send = async (path: string, init: RequestInit = {}) => {
    const headers = { ...init.headers, Authorization: `Bearer ${secret}` };
    const ctx = createExecutionContext();
    hops.length = 0;
    const response = await app.request(ORIGIN + path, { ...init, headers }, bindings, ctx);
    const waitedFor = [...hops];
    expect(response.status).toBeLessThan(300);
    await expectDocumented(init.method ?? "GET", path, response);
    await waitOnExecutionContext(ctx);
    return waitedFor;
  };
  const create = (headers: Record<string, string> = {}) =>
    send("/v1/pets", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers },
      body: `{"name":"Rex","categoryId":1}`,
    });
  return { send, create };
}

const partsOf = (hops: Hop[]) => hops.map(({ part }) => part).sort();

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

/** Long enough for the next request to request a lease, and short enough to be one streak of requests. */
const STEP_MS = 100;

beforeEach(() => {
  // The clock stands still, so the timers of leases must not fire.
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation((ms) => (ms < STEP_MS ? wait(ms) : new Promise(() => {})));
});

describe("a list request waits for", () => {
  it("two hops in a cold isolate: the key, then the counter and the page in parallel", async () => {
    const { send } = await newClient();
    const hops = await send(newList());
    expect(partsOf(hops)).toEqual(["database", "database", "limiter"]);
    expect(inSequence(hops)).toBe(2);
  });

  it("one hop with a cached key, with and without a cached page", async () => {
    const { send } = await newClient();
    await send(newList());
    pass(1_000);
    const list = newList();
    const toNewPage = await send(list);
    expect(partsOf(toNewPage)).toEqual(["database", "limiter"]);
    expect(inSequence(toNewPage)).toBe(1);
    pass(1_000);
    const toCachedPage = await send(list);
    expect(partsOf(toCachedPage)).toEqual(["limiter"]);
  });

  it("no hop with a lease and a cached page", async () => {
    const { send } = await newClient();
    const list = newList();
    await send(list);
    pass(STEP_MS);
    expect(partsOf(await send(list))).toEqual(["limiter"]);
    // The page is not cached. Sent first, because the second leased request starts a renewal in the background.
    expect(partsOf(await send(newList()))).toEqual(["database"]);
    expect(await send(list)).toEqual([]);
  });

  it("no hop while the key and the page are revalidated", async () => {
    const { send } = await newClient();
    const list = newList();
    await send(list);
    pass(19_999 - STEP_MS);
    await send(list);
    pass(STEP_MS);
    await send(list);
    pass(1);
    // The key was revalidated in the background; now the page is due.
    expect(await send(list)).toEqual([]);
  });

  it("three hops if 100 requests arrive at once in a cold isolate", async () => {
    const { hops, bindings } = recordHops();
    const { secret } = await newKey();
    const headers = { Authorization: `Bearer ${secret}` };
    const list = newList();
    const contexts = Array.from({ length: 100 }, () => createExecutionContext());
    const responses = await Promise.all(
      contexts.map((ctx) => app.request(ORIGIN + list, { headers }, bindings, ctx)),
    );
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
    // The key, a call for the first request, and a call for the batch that waited meanwhile.
    expect(inSequence(hops)).toBe(3);
    expect(hops.filter(({ part }) => part === "limiter")).toHaveLength(2);
    for (const ctx of contexts) await waitOnExecutionContext(ctx);
  });
});

describe("a POST waits for", () => {
  it.each([
    ["without an Idempotency-Key", {}],
    ["with an Idempotency-Key", { "Idempotency-Key": "once" }],
  ])("three hops in a cold isolate, and one with a cached key and a lease, %s", async (_, headers) => {
    const { create } = await newClient();
    const cold = await create();
    expect([inSequence(cold), partsOf(cold)]).toEqual([3, ["database", "database", "limiter"]]);
    pass(STEP_MS);
    await create();
    expect(partsOf(await create(headers))).toEqual(["database"]);
  });
});
