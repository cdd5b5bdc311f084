// One table: the rate-limit headers on every status that the service gives under /v1.

import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { ERROR_STATUS } from "../src/errors.ts";
import { fetchWithoutKey, newAddress, newClient } from "./client.ts";

type Client = Awaited<ReturnType<typeof newClient>>;

const post = { method: "POST", headers: { "Content-Type": "application/json" } };
const tooLarge = { ...post, body: "x".repeat(70_000) };
const preflight = { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" };

/** How to get each status with a valid key that is on its first request of the minute. */
const WITH_KEY: [status: number, call: (client: Client) => Promise<Response>][] = [
  [200, (client) => client.get("/v1/pets")],
  [200, (client) => client.call("/v1/pets", { method: "HEAD" })],
  [201, (client) => client.post(`{"name":"Rex","categoryId":1}`)],
  [400, (client) => client.get("/v1/pets?limit=0")],
  [400, (client) => client.post("{")],
  [404, (client) => client.get("/v1/pets/0")],
  [404, (client) => client.get("/v1/nowhere")],
  [405, (client) => client.call("/v1/pets", { method: "DELETE" })],
  [413, (client) => client.call("/v1/pets", tooLarge)],
  [415, (client) => client.post("x", { "Content-Type": "text/plain" })],
];

const KEY_HEADERS = {
  "X-RateLimit-Limit": "60",
  "X-RateLimit-Remaining": "59",
  "X-RateLimit-Reset": `${Date.UTC(2026, 10, 20, 12, 35) / 1000}`,
  "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
  RateLimit: '"minute";r=59;t=40, "day";r=999;t=41140',
};

const seen = new Set<number>();

function expectHeaders(response: Response, status: number, headers: Record<string, string | null>) {
  expect(response.status).toBe(status);
  const actual = Object.keys(headers).map((name) => [name, response.headers.get(name)]);
  expect(Object.fromEntries(actual)).toEqual(headers);
  seen.add(status);
}

/** A list without a next page: it is not kept in memory, however many pets other tests have made. */
const NOT_KEPT = "/v1/pets?status=pending";

/** What `call` gives while a table is gone. */
async function withoutTable(name: string, call: () => Promise<Response>): Promise<Response> {
  await env.DB.exec(`ALTER TABLE ${name} RENAME TO lost_${name}`);
  try {
    return await call();
  } finally {
    await env.DB.exec(`ALTER TABLE lost_${name} RENAME TO ${name}`);
  }
}

it("are on every status", async () => {
  for (const [status, call] of WITH_KEY) {
    const client = await newClient({ plan: "free" });
    expectHeaders(await call(client), status, { ...KEY_HEADERS, "Retry-After": null });
  }

  const limited = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 } });
  await limited.get("/v1/pets");
  expectHeaders(await limited.get("/v1/pets"), 429, {
    "X-RateLimit-Limit": "1",
    "X-RateLimit-Remaining": "0",
    "X-RateLimit-Reset": KEY_HEADERS["X-RateLimit-Reset"],
    "RateLimit-Policy": '"minute";q=1;w=60, "day";q=9;w=86400',
    RateLimit: '"minute";r=0;t=40, "day";r=8;t=41140',
    "Retry-After": "40",
  });

  const reusing = await newClient({ plan: "free" });
  const once = { "Content-Type": "application/json", "Idempotency-Key": "once" };
  await reusing.post(`{"name":"Rex","categoryId":1}`, once);
  expectHeaders(await reusing.post(`{"name":"Max","categoryId":1}`, once), 422, {
    ...KEY_HEADERS,
    "X-RateLimit-Remaining": "58",
    RateLimit: '"minute";r=58;t=40, "day";r=998;t=41140',
    "Retry-After": null,
  });

  const hammering = await newClient({ plan: "free" });
  for (let request = 0; request < 60 + 60; request += 1) await hammering.get("/v1/pets/0");
  expectHeaders(await hammering.get("/v1/pets"), 429, {
    ...KEY_HEADERS,
    "X-RateLimit-Remaining": "0",
    "X-RateLimit-Reset": `${Date.UTC(2026, 10, 20, 12, 44, 21) / 1000}`,
    RateLimit: '"minute";r=0;t=600, "day";r=0;t=600',
    "Retry-After": "600",
  });
  expectHeaders(await hammering.get("/v1/usage"), 200, {
    "X-RateLimit-Remaining": "0",
    "X-RateLimit-Reset": `${Date.UTC(2026, 10, 20, 12, 44, 21) / 1000}`,
    "Retry-After": null,
  });

  const byAddress = {
    "X-RateLimit-Limit": "60",
    "X-RateLimit-Remaining": "59",
    "X-RateLimit-Reset": KEY_HEADERS["X-RateLimit-Reset"],
    "RateLimit-Policy": '"minute";q=60;w=60',
    RateLimit: '"minute";r=59;t=40',
    "Retry-After": null,
  };
  expectHeaders(await fetchWithoutKey("/v1/pets"), 401, byAddress);
  expectHeaders(await fetchWithoutKey("/v1/pets", { method: "OPTIONS", headers: preflight }), 204, {
    ...byAddress,
    "X-RateLimit-Remaining": "60",
    RateLimit: '"minute";r=60;t=40',
  });

  vi.setSystemTime(Date.UTC(2031, 0, 1, 12, 0, 20, 500));
  const late = await newClient({ plan: "free" });
  expectHeaders(await late.get("/v1/pets/1"), 410, {
    ...KEY_HEADERS,
    "X-RateLimit-Reset": `${Date.UTC(2031, 0, 1, 12, 1) / 1000}`,
    RateLimit: '"minute";r=59;t=40, "day";r=999;t=43180',
  });
  vi.setSystemTime(new Date("2026-11-20T12:34:20.500Z"));

  // A real fault: the table is gone. The service answers for it before and after the caller is known.
  const unlucky = await newClient({ plan: "free" });
  const failed = await withoutTable("pets", () => unlucky.get(NOT_KEPT));
  expectHeaders(failed, 500, { ...KEY_HEADERS, "Retry-After": null });
  const unknown = await newClient();
  expectHeaders(await withoutTable("keys", () => unknown.get("/v1/pets")), 500, {
    "X-RateLimit-Limit": "60",
    "X-RateLimit-Remaining": "60",
    "Retry-After": null,
  });

  // Another: nobody answers.
  const cut = await newClient({ plan: "free" });
  await cut.get("/v1/nowhere");
  vi.spyOn(env.DB, "prepare").mockImplementation(() => {
    throw new Error("D1_ERROR: Network connection lost.");
  });
  expectHeaders(await cut.get(NOT_KEPT), 503, {
    ...KEY_HEADERS,
    "X-RateLimit-Remaining": "58",
    RateLimit: '"minute";r=58;t=40, "day";r=998;t=41140',
    "Retry-After": "5",
  });

  // No status that the service knows was left out.
  for (const status of Object.values(ERROR_STATUS)) expect(seen).toContain(status);
});

it("count down from request to request", async () => {
  const client = await newClient({ plan: "free" });
  const left: (string | null)[] = [];
  for (let request = 0; request < 3; request += 1) {
    left.push((await client.get("/v1/pets")).headers.get("X-RateLimit-Remaining"));
  }
  expect(left).toEqual(["59", "58", "57"]);
});

it("show an address that has used up its requests as refused", async () => {
  const headers = { "CF-Connecting-IP": newAddress() };
  for (let request = 0; request < 60; request += 1) await fetchWithoutKey("/v1/pets", { headers });
  const refused = await fetchWithoutKey("/v1/pets", { headers });
  expectHeaders(refused, 429, { "X-RateLimit-Remaining": "0", "Retry-After": "40" });
  expect(await refused.json()).toEqual({
    code: "rate_limit_exceeded",
    message:
      "all 60 requests per minute without a valid API key are used up; retry in 40 s, at 2026-11-20T12:35:00Z",
    status: 429,
  });
});
