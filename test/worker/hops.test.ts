// The hops that a response waits for, one round after the other: to the database of pets and to the object of its key, which may have to
// read the database of keys first. Hops in the background don't count.

import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { app } from "../../src/app.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import {
  interceptCalls,
  interceptStatements,
  objectOf,
  watchObjects,
  watchReads,
} from "../support/worker/bindings.ts";
import { acquire, batch, LAST_PAGE, newClient, newKey, ORIGIN, POST } from "../support/worker/client.ts";
import { beginMinute, pass, turns } from "../support/worker/time.ts";

/** Sends requests with a key that is new to the isolate. Its object is awake, because another isolate has just called it. */
async function newSender(hasReplica = true) {
  const { id, call } = await newClient();
  await acquire(id, batch(1));
  let latest: string[][] = [];
  let underway = 0;
  const reads = watchReads(id);
  const hop = async (part: string, go: () => Promise<unknown>) => {
    // A hop belongs to the round after those of all hops that ended before it began; one in the background, to the request that began it.
    const rounds = latest;
    const round = rounds.length;
    const { length: readsBefore } = reads;
    underway += 1;
    const result = await go();
    // Meanwhile, the code between two hops that should overlap runs.
    await turns();
    const name = part === "object" && reads.length > readsBefore ? "keys, object" : part;
    rounds[round] = [...(rounds[round] ?? []), name].sort();
    underway -= 1;
    return result;
  };
  interceptStatements("PETS_DB", (run, place) =>
    hop("pets", async () => {
      const result = (await run()) as Partial<D1Result> | null;
      // Locally the database does not say it.
      if (result?.meta !== undefined) result.meta.served_by_primary = place === "primary" || !hasReplica;
      return result;
    }),
  );
  interceptCalls(id, (run) => hop("object", run));
  /** Sends a request, and returns the rounds that its response waited for. */
  const send = async (path: string, init: RequestInit = {}) => {
    latest = [];
    const response = await call(path, init);
    const waitedFor = [...latest];
    expect(response.status).toBeLessThan(300);
    while (underway > 0) await scheduler.wait(1);
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
  beginMinute();
  const { create } = await newClient();
  for (let pet = 0; pet < 2; pet += 1) await create();
});

it("a list waits for one round: the object and the page in parallel, or only the object if the page is cached", async () => {
  const { id, send } = await newSender();
  const list = newList();
  expect(await send(list)).toEqual([["object", "pets"]]);
  // Requests are too rare for a lease, and the record of the object stays fresh.
  pass(2_000);
  expect(await send(newList())).toEqual([["object", "pets"]]);
  pass(2_000);
  expect(await send(list)).toEqual([["object"]]);
  // The page and the record of a key in use are read again in the background.
  pass(16_000);
  await send(list);
  pass(10_000);
  await acquire(id, batch(1));
  expect(await send(list)).toEqual([["object"]]);
  // With a lease, it waits for nothing, or only for its page.
  for (let request = 0; request < 5; request += 1) await send(list);
  expect(await send(list)).toEqual([]);
  expect(await send(newList())).toEqual([["pets"]]);
});

it.each([
  ["slept", "two hops", "a page", newList, []],
  ["has an old record", "two hops", "a page", newList, []],
  ["slept", "three hops", "the last page from a replica", () => LAST_PAGE, [["pets"]]],
])("if the object %s, a list waits for %s in sequence: %s", async (state, _hops, _page, path, more) => {
  const { send, id } = await newSender();
  pass(10_000);
  if (state === "slept") await evictDurableObject(objectOf(id));
  expect(await send(path())).toEqual([["keys, object", "pets"], ...more]);
});

it.each([
  ["two rounds", "a replica", true, [["object", "pets"], ["pets"]]],
  ["one round", "the primary", false, [["object", "pets"]]],
] as const)(
  "the last page of a list waits for %s in a cold isolate if the nearest instance is %s, later for one",
  async (_rounds, _instance, hasReplica, rounds) => {
    const { send } = await newSender(hasReplica);
    expect(await send(LAST_PAGE)).toEqual(rounds);
    expect(await send(LAST_PAGE)).toEqual([["object", "pets"]]);
  },
);

it.each([{}, { [HEADER.idempotencyKey]: "once" }])(
  "a POST waits for two rounds in a cold isolate, for one with a lease: %j",
  async (header) => {
    const { send } = await newSender();
    const post = { ...POST, headers: { ...POST.headers, ...header } };
    expect(await send("/v1/pets", post)).toEqual([["object"], ["pets"]]);
    for (let request = 0; request < 4; request += 1) await send("/v1/pets", post);
    expect(await send("/v1/pets", post)).toEqual([["pets"]]);
  },
);

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
