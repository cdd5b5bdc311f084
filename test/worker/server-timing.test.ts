// Server-Timing: who gets it, each way to decide, and the hops of real objects and databases. The header is parsed by the grammar of W3C
// Server Timing; every response is also validated against the document. hops.test.ts has which hops are made at all.

import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { assert, beforeEach, expect, it, vi } from "vitest";
import { app } from "../../src/app.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { KnownKeys } from "../../src/limits/isolate/known-keys.ts";
import type { DECIDED_BY } from "../../src/limits/windows.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { interceptCalls, interceptStatements, objectOf } from "../support/worker/bindings.ts";
import {
  acquire,
  banKey,
  batch,
  type Client,
  exhaust,
  fetchWithoutKey,
  newAddress,
  newClient,
  ORIGIN,
} from "../support/worker/client.ts";
import { beginMinute, hasSettled, pass } from "../support/worker/time.ts";

const ASKING = { [HEADER.prefer]: "server-timing" };
const REX = `{"name":"Rex","categoryId":1}`;
const JSON_TYPE = { "Content-Type": "application/json" };
/** A list without a next page, which is never cached. */
const LAST_PAGE = `/v1/pets?cursor=${encodeCursor(2n ** 62n)}`;

/** A list that is not cached and has a next page, once two pets exist. */
function newList(): string {
  nextId -= 1n;
  return `/v1/pets?limit=1&cursor=${encodeCursor(nextId)}`;
}
// All files of tests share the cache, and hops.test.ts begins at 0.
let nextId = -1_000n;

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const PARAMETER = `[ \\t]*;[ \\t]*(${TOKEN})[ \\t]*=[ \\t]*(${TOKEN})`;

/** The metrics of a header, each by its name and its parameters. Fails if the header does not fit the grammar. */
function metricsOf({ headers }: Response) {
  const header = headers.get(HEADER.serverTiming);
  assert(header !== null, "no Server-Timing");
  return header.split(",").map((text) => {
    const metric = new RegExp(`^[ \\t]*(${TOKEN})((?:${PARAMETER})*)[ \\t]*$`).exec(text);
    assert(metric !== null, `not a metric: ${text}`);
    const [, name = "", parameters = ""] = metric;
    const all = [...parameters.matchAll(new RegExp(PARAMETER, "g"))].map(([, key, value]) => [key, value]);
    const { desc, dur, start, ...others } = Object.fromEntries(all);
    expect([Object.keys(others), dur, start ?? "0"]).toEqual([
      [],
      ...Array(2).fill(expect.stringMatching(/^\d+$/)),
    ]);
    return { name, desc, dur: Number(dur), start: start && Number(start) };
  });
}

/** `limiter=desc` and the names of the hops. The last metric is the total. */
function summary(response: Response): string {
  const metrics = metricsOf(response);
  expect(metrics.at(-1)).toMatchObject({ name: "total" });
  const names = metrics.slice(0, -1).map(({ name, desc }) => (desc === undefined ? name : `${name}=${desc}`));
  return names.join(" ");
}

let client: Client;

/** Sends a request that asks for the timing. */
const send = (path: string, init: RequestInit = {}, by = client) =>
  by.call(path, { ...init, headers: { ...init.headers, ...ASKING } });
const ask = async (path: string, init: RequestInit = {}) => summary(await send(path, init));
const askWithoutKey = async (headers: Record<string, string> = {}) =>
  summary(await fetchWithoutKey("/v1/nowhere", { headers: { ...headers, ...ASKING } }));

/** Makes the key's object unreachable until the end of the test. An overloaded object is not called again. */
const loseObject = () =>
  interceptCalls(client.id, () =>
    Promise.reject(Object.assign(new Error("too many requests"), { overloaded: true })),
  );

/** Each statement takes so long by the faked clock; of keys, only those about this one, because objects of earlier tests write too. */
const slowDown = (name: "PETS_DB" | "KEYS_DB", ms: number) =>
  interceptStatements(name, async (run, _place, parameters) => {
    const result = await run();
    if (name === "PETS_DB" || parameters.includes(client.id)) pass(ms);
    return result;
  });

beforeEach(async () => {
  client = await newClient();
});

it.each([
  ["server-timing", true],
  ["SERVER-Timing", true],
  ["\tserver-timing ", true],
  ["server-timing=1", true],
  ["server-timing ; wait=10", true],
  ['respond-async, wait="a, b", server-timing', true],
  ['note="an \\" , no", server-timing;a', true],
  ["server-timing-x", false],
  ["x-server-timing", false],
  ["server timing", false],
  ["respond-async; server-timing", false],
  ["wait=server-timing", false],
  ['note="a, server-timing"', false],
  ['note="a\\", server-timing', false],
  ['note="a\\", server-timing, "', false],
  ["", false],
  [',;="', false],
])("a preference asks for it, whatever other preferences there are: %j: %s", async (prefer, isGiven) => {
  const response = await client.call("/v1/nowhere", { headers: { [HEADER.prefer]: prefer } });
  expect([response.status, response.headers.has(HEADER.serverTiming)]).toEqual([404, isGiven]);
});

it("of several headers Prefer, any one may ask for it", async () => {
  const headers = new Headers({ [HEADER.prefer]: "respond-async" });
  headers.append(HEADER.prefer, "server-timing");
  headers.append(HEADER.prefer, "wait=10");
  expect((await client.call("/v1/pets", { headers })).headers.has(HEADER.serverTiming)).toBe(true);
});

it("a hostile header Prefer is read in linear time: otherwise this test would take minutes", async () => {
  const quotes = `"${'\\"'.repeat(60_000)}\\`;
  const { status } = await fetchWithoutKey("/v1/nowhere", { headers: { [HEADER.prefer]: quotes } });
  expect(status).toBe(401);
});

it("without the preference no response has it, nor has a response outside of /v1", async () => {
  for (const path of ["/v1/pets", "/v1/pets/1", "/v1/usage", "/v1/nowhere"])
    expect((await client.get(path)).headers.has(HEADER.serverTiming)).toBe(false);
  for (const path of ["/version", "/nowhere"])
    expect((await send(path)).headers.has(HEADER.serverTiming)).toBe(false);
  for (let request = 0; request < 2; request += 1) await client.status();
  expect(await ask("/v1/nowhere", { method: "HEAD" })).toBe("limiter=lease");
});

type Way = (typeof DECIDED_BY)[number];

/** Has requests decided in a way, and returns the summaries of the first one and of a later one. */
const WAYS: Record<Way, [first: string, later: string, decide: () => Promise<string[]>]> = {
  object: [
    "limiter=object object record",
    "limiter=object object",
    async () => [await ask("/v1/nowhere"), await ask("/v1/nowhere")],
  ],
  lease: [
    "limiter=lease",
    "limiter=lease",
    async () => {
      for (let request = 0; request < 5; request += 1) await client.status();
      return [await ask("/v1/nowhere"), await ask("/v1/nowhere")];
    },
  ],
  full: [
    "limiter=object object record",
    "limiter=full",
    async () => {
      // Through another isolate.
      await acquire(client.id, batch(1_000));
      pass(10_000);
      return [await ask("/v1/nowhere"), await ask("/v1/nowhere")];
    },
  ],
  ban: [
    "limiter=ban object",
    "limiter=ban",
    async () => {
      client = await newClient({ plan: "free" });
      await banKey(client.id);
      return [await ask("/v1/nowhere"), await ask("/v1/nowhere")];
    },
  ],
  local: [
    "limiter=local object",
    "limiter=local object",
    async () => {
      await client.status();
      loseObject();
      return [await ask("/v1/nowhere"), await ask("/v1/nowhere")];
    },
  ],
  address: [
    "limiter=address",
    "limiter=address",
    async () => {
      const Authorization = `Bearer ${newSecret(newKeyId())}`;
      return [await askWithoutKey({ Authorization }), await askWithoutKey({ Authorization })];
    },
  ],
};

it.each(Object.entries(WAYS))("a request is decided by: %s", async (_, [first, later, decide]) => {
  expect(await decide()).toEqual([first, later]);
});

it("requests without a key, from an exhausted address, and of a throttled one are decided by their address", async () => {
  const address = newAddress();
  const from = { "CF-Connecting-IP": address };
  expect(await askWithoutKey(from)).toBe("limiter=address");
  await exhaust(address);
  expect(await askWithoutKey(from)).toBe("limiter=address");
  const unknown = { "CF-Connecting-IP": newAddress() };
  for (let guess = 0; guess < 60; guess += 1)
    await askWithoutKey({ ...unknown, Authorization: `Bearer ${newSecret(newKeyId())}` });
  expect(await ask("/v1/nowhere", { headers: unknown })).toBe("limiter=address");
});

it("a key that is new to the isolate is looked up at the primary if its object can't be reached, and decided locally", async () => {
  loseObject();
  slowDown("KEYS_DB", 7);
  const response = await send("/v1/nowhere");
  expect(summary(response)).toBe("limiter=local object keys");
  expect(metricsOf(response)[2]).toMatchObject({ name: "keys", start: 0, dur: 7 });
});

it("GET /v1/usage is not decided, and shows the calls of the object, of which the cached answer needs none", async () => {
  expect(await ask("/v1/usage")).toBe("object record object");
  expect(await ask("/v1/usage")).toBe("");
});

it("a request that waits for a lease of another isolate shows each of its calls", async () => {
  client = await newClient({ plan: "enterprise", limits: { minute: 20, day: 100 } });
  const other = { isolate: "other" };
  const { lease } = await acquire(client.id, batch(1, { ...other, recent: 20 }));
  assert(lease !== undefined);
  await acquire(client.id, batch(19 - lease.size));
  const isOver = { number: 2, lease: { id: lease.id, used: 0, isOver: true } };
  let calls = 0;
  interceptCalls(client.id, async (run) => {
    calls += 1;
    const answer = await run();
    if (calls === 1) await acquire(client.id, batch(0, { ...other, ...isOver }));
    return answer;
  });
  const answer = send("/v1/nowhere");
  while (!(await hasSettled(answer))) pass(10);
  expect(summary(await answer)).toBe("limiter=object object object");
  const [limiter, first, second, total] = metricsOf(await answer);
  const [firstEndMs, secondEndMs] = [first, second].map((hop) => (hop?.start ?? 0) + (hop?.dur ?? 0));
  expect(second?.start).toBeGreaterThan(firstEndMs ?? 0);
  expect([first?.start, limiter?.dur]).toEqual([0, total?.dur]);
  expect(limiter?.dur).toBeGreaterThanOrEqual(secondEndMs ?? 0);
});

it("a cold list reads its page while the object is called, and a list with a lease and a cached page makes no hop", async () => {
  for (let pet = 0; pet < 2; pet += 1) await client.create();
  client = await newClient();
  beginMinute();
  const list = newList();
  // Another isolate has called the object.
  await acquire(client.id, batch(1));
  slowDown("PETS_DB", 12);
  const hops = metricsOf(await send(list)).slice(1, -1);
  expect(hops.map(({ name, start }) => `${name} ${start}`).sort()).toEqual(["object 0", "pets 0"]);
  for (let request = 0; request < 5; request += 1) await client.get(list);
  expect(await ask(list)).toBe("limiter=lease");
});

it("the object says how long it has read the record, if it has slept or its record is old", async () => {
  await client.status();
  pass(10_000);
  await evictDurableObject(objectOf(client.id));
  slowDown("KEYS_DB", 30);
  const [limiter, object, record, total] = metricsOf(await send("/v1/nowhere"));
  expect(record).toEqual({ name: "record", desc: undefined, dur: 30, start: undefined });
  expect([limiter, object, total]).toMatchObject([
    { name: "limiter", desc: "object", dur: 30 },
    { name: "object", start: 0, dur: 30 },
    { name: "total", dur: 30 },
  ]);
});

it("a read of the record that fails is shown too", async () => {
  interceptStatements("KEYS_DB", () => Promise.reject(new Error("D1_ERROR: D1 DB is overloaded.")));
  expect(await ask("/v1/nowhere")).toBe("object record");
});

it.each([{}, { [HEADER.idempotencyKey]: "once" }])(
  "a creation writes after the object has answered: %j",
  async (header) => {
    interceptCalls(client.id, async (run) => {
      const answer = await run();
      pass(52);
      return answer;
    });
    slowDown("PETS_DB", 9);
    const init = { method: "POST", headers: { ...JSON_TYPE, ...header }, body: REX };
    const response = await send("/v1/pets", init);
    expect(response.status).toBe(201);
    const hops = metricsOf(response).filter(({ name }) => name !== "record");
    expect(hops.map(({ name, start, dur }) => [name, start, dur])).toEqual([
      ["limiter", undefined, 52],
      ["object", 0, 52],
      ["pets", 52, 9],
      ["total", undefined, 61],
    ]);
  },
);

it("statements of sessions are shown, and statements that fail", async () => {
  for (let request = 0; request < 5; request += 1) await client.status();
  const { id } = await client.create();
  expect(await ask(`/v1/pets/${id}`)).toBe("limiter=lease pets");
  interceptStatements("PETS_DB", () => Promise.reject(new Error("D1_ERROR: D1 DB is overloaded.")));
  const response = await send("/v1/pets", { method: "POST", headers: JSON_TYPE, body: REX });
  expect([response.status, summary(response)]).toEqual([503, "limiter=lease pets"]);
});

it("a hop that ends after the response is not shown", async () => {
  for (let pet = 0; pet < 2; pet += 1) await client.create();
  const list = newList();
  await client.get(list);
  // Old enough to be read again in the background.
  pass(20_000);
  let [reads, isReleased] = [0, false];
  interceptStatements("PETS_DB", async (run) => {
    reads += 1;
    while (!isReleased) await scheduler.wait(1);
    return run();
  });
  const response = await send(list);
  expect([reads, summary(response)]).toEqual([1, "limiter=object object record"]);
  isReleased = true;
  expect((await client.get(LAST_PAGE)).status).toBe(200);
});

it("a request does not show the hops of another one that begins meanwhile", async () => {
  for (let request = 0; request < 5; request += 1) await client.status();
  let [reads, isReleased] = [0, false];
  interceptStatements("PETS_DB", async (run) => {
    reads += 1;
    while (reads === 1 && !isReleased) await scheduler.wait(1);
    return run();
  });
  const asking = send(LAST_PAGE);
  while (reads === 0) await scheduler.wait(1);
  expect((await client.get(LAST_PAGE)).headers.has(HEADER.serverTiming)).toBe(false);
  isReleased = true;
  expect(summary(await asking)).toBe("limiter=lease pets");
});

it("every error has it", async () => {
  const post = (body: string, headers = {}) =>
    send("/v1/pets", { method: "POST", headers: { ...JSON_TYPE, ...headers }, body });
  const once = { [HEADER.idempotencyKey]: "once" };
  for (let request = 0; request < 3; request += 1) await client.status();
  const { id } = await client.create();
  await post(REX, once);
  const answers = [
    await client.call("/v1/pets", { headers: ASKING }, "http://petstore.example"),
    await send("/v1/pets?limit=0"),
    await fetchWithoutKey("/v1/pets", { headers: ASKING }),
    await send("/v1/nowhere"),
    await send("/v1/pets", { method: "DELETE" }),
    await post(" ".repeat(20_000)),
    await post(REX, { "Content-Type": "text/plain" }),
    await post(`{"name":"Mimi","categoryId":1}`, once),
  ];
  vi.spyOn(KnownKeys.prototype, "peekCaller").mockImplementationOnce(() => {
    throw new Error("a fault");
  });
  answers.push(await send("/v1/pets"));
  await acquire(client.id, batch(1_000));
  for (let left = 0; left < 20; left += 1) await client.status();
  answers.push(await send("/v1/pets"));
  vi.setSystemTime(Date.UTC(2030, 11, 5));
  answers.push(await send(`/v1/pets/${id}`));
  const statuses = answers.map((answer) => `${answer.status} ${summary(answer)}`);
  expect(statuses).toEqual([
    // Nothing has been decided yet.
    "400 ",
    "400 limiter=lease",
    "401 limiter=address",
    "404 limiter=lease",
    "405 limiter=lease",
    "413 limiter=lease",
    "415 limiter=lease",
    "422 limiter=lease pets",
    "500 ",
    "429 limiter=full",
    "410 limiter=object object record",
  ]);
});

it("requests of one instant, of which one asks, share their calls but not the header", async () => {
  const { secret } = client;
  const call = async (headers: object) =>
    app.request(`${ORIGIN}/v1/nowhere`, { headers: { Authorization: `Bearer ${secret}`, ...headers } }, env);
  const [asking, other] = await Promise.all([call(ASKING), call({})]);
  expect(summary(asking)).toMatch(/^limiter=object object( record)?$/);
  expect(other.headers.has(HEADER.serverTiming)).toBe(false);
});
