// The rate-limit headers of an admitted and a refused request, of a key and of an address. test/unit/windows.test.ts has their values
// for all windows; all tests in workerd check that no response under /v1 lacks them (test/support/openapi-validator.ts).

import { expect, it } from "vitest";
import { MESSAGES } from "../../src/http/messages.ts";
import { banKey, type Client, fetchWithoutKey, newAddress, newClient } from "../support/worker/client.ts";

type Headers = Record<string, string | null>;

const MIDNIGHT_MS = Date.UTC(2026, 10, 21);

/** The headers of the first request of a Free key. */
const FIRST: Headers = {
  "X-RateLimit-Limit": "60",
  "X-RateLimit-Remaining": "59",
  "X-RateLimit-Reset": `${Date.UTC(2026, 10, 20, 12, 35) / 1_000}`,
  "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
  RateLimit: '"minute";r=59;t=40, "day";r=999;t=41140',
  "Retry-After": null,
};

const BANNED = {
  "X-RateLimit-Remaining": "0",
  "X-RateLimit-Reset": `${Date.UTC(2026, 10, 20, 12, 44, 21) / 1_000}`,
  RateLimit: '"minute";r=0;t=601, "day";r=0;t=601',
};

const byAddress = (remaining: number) => ({
  "X-RateLimit-Remaining": `${remaining}`,
  "RateLimit-Policy": '"minute";q=60;w=60',
  RateLimit: `"minute";r=${remaining};t=40`,
});

const preflight = { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" };

/** Requests of a new Free key, with the headers that differ from FIRST. */
it.each<[status: number, what: string, send: (client: Client) => Promise<Response>, Headers?]>([
  [200, "a list", (client) => client.get("/v1/pets")],
  [
    429,
    "a key that has used up its day",
    async () => {
      const client = await newClient({ plan: "enterprise", limits: { minute: 9, day: 1 } });
      await client.get("/v1/pets");
      const refused = await client.get("/v1/pets");
      const message = MESSAGES.rate_limit_exceeded.key(1, "day", { seconds: 41_140, atMs: MIDNIGHT_MS });
      expect(await refused.clone().json()).toMatchObject({ message });
      return refused;
    },
    {
      "X-RateLimit-Limit": "1",
      "X-RateLimit-Remaining": "0",
      "X-RateLimit-Reset": `${MIDNIGHT_MS / 1_000}`,
      "RateLimit-Policy": '"minute";q=9;w=60, "day";q=1;w=86400',
      RateLimit: '"minute";r=8;t=40, "day";r=0;t=41140',
      "Retry-After": "41140",
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
      return fetchWithoutKey("/v1/pets", { headers });
    },
    { ...byAddress(0), "Retry-After": "40" },
  ],
  [
    204,
    "a preflight",
    () => fetchWithoutKey("/v1/pets", { method: "OPTIONS", headers: preflight }),
    byAddress(60),
  ],
])("%i has the rate-limit headers: %s", async (status, _, send, headers) => {
  const response = await send(await newClient({ plan: "free" }));
  const actual = Object.keys(FIRST).map((name) => [name, response.headers.get(name)]);
  expect([response.status, Object.fromEntries(actual)]).toEqual([status, { ...FIRST, ...headers }]);
});
