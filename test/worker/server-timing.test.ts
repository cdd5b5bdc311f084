// Server-Timing: who gets it, each way to decide, and the hops of real objects and databases. The header is parsed by the grammar of W3C
// Server Timing; every response is also validated against the document. hops.test.ts has which hops are made at all.

import { evictDurableObject } from "cloudflare:test";
import { assert, beforeEach, expect, it, vi } from "vitest";
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
  fetchWithoutKey,
  LAST_PAGE,
  newClient,
  POST,
} from "../support/worker/client.ts";
import { pass } from "../support/worker/time.ts";

const ASKING = { [HEADER.prefer]: "server-timing" };

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
const send = (path: string, init: RequestInit = {}) =>
  client.call(path, { ...init, headers: { ...init.headers, ...ASKING } });
const ask = async (path: string, init: RequestInit = {}) => summary(await send(path, init));

async function getLease(): Promise<void> {
  for (let request = 0; request < 5; request += 1) await client.status();
}

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
  ["server-timing ; wait=10", true],
  ['respond-async, wait="a, b", server-timing', true],
  ['note="an \\" , no", server-timing;a', true],
  ["server-timing-x", false],
  ["respond-async; server-timing", false],
  ["wait=server-timing", false],
  ['note="a\\", server-timing, "', false],
  [',;="', false],
])("a preference asks for it, whatever other preferences there are: %j: %s", async (prefer, isGiven) => {
  const headers = new Headers({ [HEADER.prefer]: "respond-async" });
  headers.append(HEADER.prefer, prefer);
  const response = await client.call("/v1/nowhere", { headers });
  expect([response.status, response.headers.has(HEADER.serverTiming)]).toEqual([404, isGiven]);
});

it("a hostile header Prefer is read in linear time: otherwise this test would take minutes", async () => {
  const quotes = `"${'\\"'.repeat(400_000)}\\`;
  const { status } = await fetchWithoutKey("/v1/nowhere", { headers: { [HEADER.prefer]: quotes } });
  expect(status).toBe(401);
});

it("without the preference no response has it, nor has a response outside of /v1", async () => {
  const answers = [await client.get("/v1/pets"), await client.get("/v1/nowhere"), await send("/version")];
  expect(answers.map(({ headers }) => headers.has(HEADER.serverTiming))).toEqual([false, false, false]);
});

type Way = (typeof DECIDED_BY)[number];

/** How requests are decided in a way: what leads to it, and the summaries of the next two requests. */
const WAYS: Record<Way, [first: string, second: string, lead?: () => unknown]> = {
  object: ["limiter=object object record", "limiter=object object"],
  lease: ["limiter=lease", "limiter=lease", () => getLease()],
  full: [
    "limiter=object object",
    "limiter=full",
    // Through another isolate.
    () => acquire(client.id, batch(1_000)),
  ],
  ban: [
    "limiter=ban object",
    "limiter=ban",
    async () => {
      client = await newClient({ plan: "free" });
      await banKey(client.id);
    },
  ],
  local: [
    "limiter=local object",
    "limiter=local object",
    async () => {
      await client.status();
      loseObject();
    },
  ],
  address: [
    "limiter=address",
    "limiter=address",
    () => {
      // Its object is asked.
      const Authorization = `Bearer ${newSecret(newKeyId())}`;
      const call: Client["call"] = (path, init = {}) =>
        fetchWithoutKey(path, { ...init, headers: { ...init.headers, Authorization } });
      client = { ...client, call };
    },
  ],
};

it.each(Object.entries(WAYS))("a request is decided by: %s", async (_, [first, second, lead]) => {
  await lead?.();
  expect([await ask("/v1/nowhere"), await ask("/v1/nowhere", { method: "HEAD" })]).toEqual([first, second]);
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

it("the object says how long it has read the record, if it has slept or its record is old", async () => {
  await client.status();
  pass(10_000);
  await evictDurableObject(objectOf(client.id));
  slowDown("KEYS_DB", 30);
  expect(metricsOf(await send("/v1/nowhere"))).toMatchObject([
    { name: "limiter", desc: "object", dur: 30 },
    { name: "object", start: 0, dur: 30 },
    { name: "record", dur: 30, start: undefined },
    { name: "total", dur: 30 },
  ]);
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
    const response = await send("/v1/pets", { ...POST, headers: { ...POST.headers, ...header } });
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
  await getLease();
  const { id } = await client.create();
  expect(await ask(`/v1/pets/${id}`)).toBe("limiter=lease pets");
  interceptStatements("PETS_DB", () => Promise.reject(new Error("D1_ERROR: D1 DB is overloaded.")));
  const response = await send("/v1/pets", POST);
  expect([response.status, summary(response)]).toEqual([503, "limiter=lease pets"]);
});

/** Holds the first statement until it is released. */
function holdFirst() {
  const held = { reads: 0, isReleased: false };
  interceptStatements("PETS_DB", async (run) => {
    held.reads += 1;
    while (held.reads === 1 && !held.isReleased) await scheduler.wait(1);
    return run();
  });
  return held;
}

it("a hop that ends after the response is not shown", async () => {
  for (let pet = 0; pet < 2; pet += 1) await client.create();
  const list = `/v1/pets?limit=1&cursor=${encodeCursor(-1_000n)}`;
  await client.get(list);
  // Old enough to be read again in the background.
  pass(20_000);
  const held = holdFirst();
  const response = await send(list);
  expect([held.reads, summary(response)]).toEqual([1, "limiter=object object record"]);
  held.isReleased = true;
  expect((await client.get(LAST_PAGE)).status).toBe(200);
});

it("a request does not show the hops of another one that begins meanwhile", async () => {
  await getLease();
  const held = holdFirst();
  const asking = send(LAST_PAGE);
  while (held.reads === 0) await scheduler.wait(1);
  expect((await client.get(LAST_PAGE)).headers.has(HEADER.serverTiming)).toBe(false);
  held.isReleased = true;
  expect(summary(await asking)).toBe("limiter=lease pets");
});

it("every error has it", async () => {
  await getLease();
  const answers = [
    await client.call("/v1/pets", { headers: ASKING }, "http://petstore.example"),
    await send("/v1/pets?limit=0"),
    await send("/v1/pets", { method: "DELETE" }),
    await send("/v1/pets", { ...POST, body: " ".repeat(20_000) }),
  ];
  vi.spyOn(KnownKeys.prototype, "peekCaller").mockImplementationOnce(() => {
    throw new Error("a fault");
  });
  answers.push(await send("/v1/pets"));
  const statuses = answers.map((answer) => `${answer.status} ${summary(answer)}`);
  // Of the first and the last, nothing has been decided.
  expect(statuses).toEqual(["400 ", ...[400, 405, 413].map((each) => `${each} limiter=lease`), "500 "]);
});
