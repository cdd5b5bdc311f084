// The rate-limit headers on every status under /v1. test/unit/windows.test.ts has their values for all windows.

import { expect, it, vi } from "vitest";
import { ERROR_STATUS } from "../../src/http/errors.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { banKey, fetchWithoutKey, newAddress, newClient } from "../support/worker/client.ts";
import { interceptStatements } from "../support/worker/database-stub.ts";

type Client = Awaited<ReturnType<typeof newClient>>;
type Headers = Record<string, string | null>;

const inSeconds = (ms: number) => `${ms / 1_000}`;
const MINUTE_END_MS = Date.UTC(2026, 10, 20, 12, 35);

/** The headers of the first request of a Free key. */
const FIRST: Headers = {
  "X-RateLimit-Limit": "60",
  "X-RateLimit-Remaining": "59",
  "X-RateLimit-Reset": inSeconds(MINUTE_END_MS),
  "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
  RateLimit: '"minute";r=59;t=40, "day";r=999;t=41140',
  "Retry-After": null,
};

const SECOND = { "X-RateLimit-Remaining": "58", RateLimit: '"minute";r=58;t=40, "day";r=998;t=41140' };

const BANNED = {
  "X-RateLimit-Remaining": "0",
  "X-RateLimit-Reset": inSeconds(Date.UTC(2026, 10, 20, 12, 44, 21)),
  RateLimit: '"minute";r=0;t=601, "day";r=0;t=601',
};

const byAddress = (remaining: number) => ({
  "X-RateLimit-Remaining": `${remaining}`,
  "RateLimit-Policy": '"minute";q=60;w=60',
  RateLimit: `"minute";r=${remaining};t=40`,
});

const post = { method: "POST", headers: { "Content-Type": "application/json" } };
const preflight = { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" };

/** From now on, each statement fails. */
function breakDatabase(message: string): void {
  interceptStatements(() => Promise.reject(new Error(`D1_ERROR: ${message}`)));
}

const MISSING_TABLE = "no such table: pets: SQLITE_ERROR";

/** For each status, a request of a new Free key, and the headers that differ from FIRST. */
const REQUESTS: [status: number, what: string, send: (client: Client) => Promise<Response>, Headers?][] = [
  [200, "a list", (client) => client.get("/v1/pets")],
  [200, "HEAD", (client) => client.call("/v1/pets", { method: "HEAD" })],
  [201, "a creation", (client) => client.post(`{"name":"Rex","categoryId":1}`)],
  [400, "an invalid query", (client) => client.get("/v1/pets?limit=0")],
  [400, "an invalid body", (client) => client.post("{")],
  [404, "an unknown pet", (client) => client.get("/v1/pets/0")],
  [404, "an unknown path", (client) => client.get("/v1/nowhere")],
  [405, "a wrong method", (client) => client.call("/v1/pets", { method: "DELETE" })],
  [413, "a large body", (client) => client.call("/v1/pets", { ...post, body: "x".repeat(70_000) })],
  [415, "a wrong type", (client) => client.post("x", { "Content-Type": "text/plain" })],
  [
    410,
    "a removed operation",
    (client) => {
      vi.setSystemTime(Date.UTC(2031, 0, 1, 12, 34, 20, 500));
      return client.get("/v1/pets/1");
    },
    { "X-RateLimit-Reset": inSeconds(Date.UTC(2031, 0, 1, 12, 35)) },
  ],
  [
    422,
    "a reused Idempotency-Key",
    async (client) => {
      const once = { ...post.headers, "Idempotency-Key": "once" };
      await client.post(`{"name":"Rex","categoryId":1}`, once);
      return client.post(`{"name":"Max","categoryId":1}`, once);
    },
    SECOND,
  ],
  [
    429,
    "a key beyond its limit",
    async () => {
      const client = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 } });
      await client.get("/v1/pets");
      return client.get("/v1/pets");
    },
    {
      "X-RateLimit-Limit": "1",
      "X-RateLimit-Remaining": "0",
      "RateLimit-Policy": '"minute";q=1;w=60, "day";q=9;w=86400',
      RateLimit: '"minute";r=0;t=40, "day";r=8;t=41140',
      "Retry-After": "40",
    },
  ],
  [
    429,
    "a banned key",
    (client) => banKey(client.id).then(() => client.get("/v1/pets")),
    { ...BANNED, "Retry-After": "601" },
  ],
  [200, "usage of a banned key", (client) => banKey(client.id).then(() => client.get("/v1/usage")), BANNED],
  [401, "no key", () => fetchWithoutKey("/v1/pets"), byAddress(59)],
  [
    429,
    "an address beyond its limit",
    async () => {
      const headers = { "CF-Connecting-IP": newAddress() };
      for (let request = 0; request < 60; request += 1) await fetchWithoutKey("/v1/pets", { headers });
      const refused = await fetchWithoutKey("/v1/pets", { headers });
      const retry = { seconds: 40, atMs: MINUTE_END_MS };
      const message = MESSAGES.rate_limit_exceeded.withoutKey(60, "minute", retry);
      expect(await refused.clone().json()).toMatchObject({ code: "rate_limit_exceeded", message });
      return refused;
    },
    { ...byAddress(0), "Retry-After": "40" },
  ],
  [
    204,
    "a preflight",
    () => fetchWithoutKey("/v1/pets", { method: "OPTIONS", headers: preflight }),
    byAddress(60),
  ],
  [
    500,
    "an invalid statement",
    async (client) => {
      await client.get("/v1/nowhere");
      breakDatabase(MISSING_TABLE);
      return client.get("/v1/pets/1");
    },
    SECOND,
  ],
  [
    500,
    "a key that can't be looked up",
    (client) => {
      breakDatabase(MISSING_TABLE);
      return client.get("/v1/pets");
    },
    byAddress(60),
  ],
  [
    503,
    "an unreachable database",
    async (client) => {
      await client.get("/v1/nowhere");
      breakDatabase("the database is away");
      return client.get("/v1/pets/1");
    },
    { ...SECOND, "Retry-After": "5" },
  ],
];

it.each(REQUESTS)("%i has the rate-limit headers: %s", async (status, _, send, headers) => {
  const response = await send(await newClient({ plan: "free" }));
  const actual = Object.keys(FIRST).map((name) => [name, response.headers.get(name)]);
  expect([response.status, Object.fromEntries(actual)]).toEqual([status, { ...FIRST, ...headers }]);
});

it("every status of an error is among them", () => {
  const statuses = REQUESTS.map(([status]) => status);
  expect(statuses).toEqual(expect.arrayContaining(Object.values(ERROR_STATUS)));
});
