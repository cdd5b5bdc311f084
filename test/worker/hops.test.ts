// How many hops to another part a request makes one after the other: that is what a client waits for. Two that overlap are
// one. What goes on in the background is none, because no answer waits for it.

import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { app } from "../../src/app.ts";
import { expectDocumented, newKey, ORIGIN } from "../support/worker/client.ts";
import { stubDatabase } from "../support/worker/database-stub.ts";
import { stubLimiters } from "../support/worker/stub-bindings.ts";

/** How long a hop takes at least: longer than the code between two hops that are to overlap. */
const HOP_MS = 5;

interface Hop {
  part: "database" | "limiter";
  /** Its beginning and its end, in the order of all beginnings and ends. */
  start: number;
  end: number;
}

/** The bindings of a service whose hops are recorded. */
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

/** The most hops of which each began when the one before had ended. */
function inSequence(hops: readonly Hop[]): number {
  const depths = new Map<Hop, number>();
  for (const hop of hops.toSorted((a, b) => a.start - b.start)) {
    const before = [...depths].filter(([{ end }]) => end < hop.start).map(([, depth]) => depth);
    depths.set(hop, 1 + Math.max(0, ...before));
  }
  return Math.max(0, ...depths.values());
}

/** A client of a service that does not know its key yet. */
async function newClient() {
  const { hops, bindings } = recordHops();
  const { secret } = await newKey();
  /** Sends a request, and returns the hops that its answer has waited for. */
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

/** A list that no test has read yet, and that has a next page. */
function newList(): string {
  lists += 1;
  return `/v1/pets?limit=${lists}`;
}
let lists = 0;

/** So long that an isolate asks for a lease with the next request, and not so long that this is no client that keeps asking. */
const STEP_MS = 100;

/** Gets the isolate a lease: with the second request it asks for one. */
function step(): void {
  vi.setSystemTime(Date.now() + STEP_MS);
}

beforeEach(async () => {
  // The clock stands still, so no lease may end by its timer.
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation((ms) => (ms < STEP_MS ? wait(ms) : new Promise(() => {})));

  const insert = "INSERT INTO pets (name, category_id) VALUES ('Rex', 1)";
  await env.DB.batch(Array.from({ length: 20 }, () => env.DB.prepare(insert)));
});

describe("a list request waits for", () => {
  it("two hops in an isolate that knows nothing: the key, then the counter and the page side by side", async () => {
    const { send } = await newClient();
    const hops = await send(newList());
    expect(partsOf(hops)).toEqual(["database", "database", "limiter"]);
    expect(inSequence(hops)).toBe(2);
  });

  it("one where the key is known, whether the page is or not", async () => {
    const { send } = await newClient();
    await send(newList());
    vi.setSystemTime(Date.now() + 1_000);
    const list = newList();
    const toNewPage = await send(list);
    expect(partsOf(toNewPage)).toEqual(["database", "limiter"]);
    expect(inSequence(toNewPage)).toBe(1);
    vi.setSystemTime(Date.now() + 1_000);
    const toKeptPage = await send(list);
    expect(partsOf(toKeptPage)).toEqual(["limiter"]);
  });

  it("none where the isolate also holds a lease and the page", async () => {
    const { send } = await newClient();
    const list = newList();
    await send(list);
    step();
    expect(partsOf(await send(list))).toEqual(["limiter"]);
    expect(await send(list)).toEqual([]);
    // With a lease, and without the page.
    expect(partsOf(await send(newList()))).toEqual(["database"]);
  });

  it("none either when the key and the page are to be read again soon", async () => {
    const { send } = await newClient();
    const list = newList();
    await send(list);
    vi.setSystemTime(Date.now() + 19_999 - STEP_MS);
    await send(list);
    step();
    await send(list);
    vi.setSystemTime(Date.now() + 1);
    // The key was read again in the background, and is good for longer; now it is the page's turn.
    expect(await send(list)).toEqual([]);
  });

  it("three, all of them, when a hundred come at once to an isolate that knows nothing", async () => {
    const { hops, bindings } = recordHops();
    const { secret } = await newKey();
    const headers = { Authorization: `Bearer ${secret}` };
    const list = newList();
    const contexts = Array.from({ length: 100 }, () => createExecutionContext());
    const responses = await Promise.all(
      contexts.map((ctx) => app.request(ORIGIN + list, { headers }, bindings, ctx)),
    );
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
    // The key, a call for the first, and one for all others: those who come while it is under way wait for the next.
    expect(inSequence(hops)).toBe(3);
    expect(hops.filter(({ part }) => part === "limiter")).toHaveLength(2);
    for (const ctx of contexts) await waitOnExecutionContext(ctx);
  });
});

describe("a creation waits for", () => {
  it.each([
    ["without an Idempotency-Key", {}],
    ["with one", { "Idempotency-Key": "once" }],
  ])(
    "three hops in an isolate that knows nothing, and for one with key and lease, %s",
    async (_, headers) => {
      const { create } = await newClient();
      const cold = await create();
      expect([inSequence(cold), partsOf(cold)]).toEqual([3, ["database", "database", "limiter"]]);
      step();
      await create();
      expect(partsOf(await create(headers))).toEqual(["database"]);
    },
  );
});

it("hops that overlap are counted once, and others each", () => {
  const hop = (start: number, end: number): Hop => ({ part: "database", start, end });
  expect(inSequence([])).toBe(0);
  expect(inSequence([hop(1, 3), hop(2, 4)])).toBe(1);
  expect(inSequence([hop(1, 2), hop(3, 4)])).toBe(2);
  expect(inSequence([hop(1, 2), hop(3, 6), hop(4, 5)])).toBe(2);
});
