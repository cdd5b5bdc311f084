// The rate-limit headers: their values on every status under /v1, and the window that they name.

import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, it, vi } from "vitest";
import { ERROR_STATUS } from "../../src/http/errors.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { headersOf, left, tighterWindow } from "../../src/rate-limit/headers.ts";
import { type Decision, type KeyWindows, peek, room, startOfWindowMs } from "../../src/rate-limit/windows.ts";
import { banKey, fetchWithoutKey, newAddress, newClient } from "../support/worker/client.ts";

type Client = Awaited<ReturnType<typeof newClient>>;

const post = { method: "POST", headers: { "Content-Type": "application/json" } };
const tooLarge = { ...post, body: "x".repeat(70_000) };
const preflight = { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" };

/** A call for each status, as the first request of a key in its minute. */
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

/** A list without a next page, which is never cached. */
const NOT_CACHED = "/v1/pets?status=pending";

/** Runs `call` while a table is missing. */
async function withoutTable(name: string, call: () => Promise<Response>): Promise<Response> {
  await env.DB.exec(`ALTER TABLE ${name} RENAME TO lost_${name}`);
  try {
    return await call();
  } finally {
    await env.DB.exec(`ALTER TABLE lost_${name} RENAME TO ${name}`);
  }
}

it("every status has the rate-limit headers", async () => {
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
  await banKey(hammering.id);
  expectHeaders(await hammering.get("/v1/pets"), 429, {
    ...KEY_HEADERS,
    "X-RateLimit-Remaining": "0",
    "X-RateLimit-Reset": `${Date.UTC(2026, 10, 20, 12, 44, 21) / 1000}`,
    RateLimit: '"minute";r=0;t=601, "day";r=0;t=601',
    "Retry-After": "601",
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

  // A missing table is a real fault, before and after authentication.
  const unlucky = await newClient({ plan: "free" });
  const failed = await withoutTable("pets", () => unlucky.get(NOT_CACHED));
  expectHeaders(failed, 500, { ...KEY_HEADERS, "Retry-After": null });
  const unknown = await newClient();
  expectHeaders(await withoutTable("keys", () => unknown.get("/v1/pets")), 500, {
    "X-RateLimit-Limit": "60",
    "X-RateLimit-Remaining": "60",
    "Retry-After": null,
  });

  // An unreachable database.
  const cut = await newClient({ plan: "free" });
  await cut.get("/v1/nowhere");
  vi.spyOn(env.DB, "prepare").mockImplementation(() => {
    throw new Error("D1_ERROR: Network connection lost.");
  });
  expectHeaders(await cut.get(NOT_CACHED), 503, {
    ...KEY_HEADERS,
    "X-RateLimit-Remaining": "58",
    RateLimit: '"minute";r=58;t=40, "day";r=998;t=41140',
    "Retry-After": "5",
  });

  // The test covers every status.
  for (const status of Object.values(ERROR_STATUS)) expect(seen).toContain(status);
});

it("an address that has used up its requests gets Remaining 0 and Retry-After", async () => {
  const headers = { "CF-Connecting-IP": newAddress() };
  for (let request = 0; request < 60; request += 1) await fetchWithoutKey("/v1/pets", { headers });
  const refused = await fetchWithoutKey("/v1/pets", { headers });
  expectHeaders(refused, 429, { "X-RateLimit-Remaining": "0", "Retry-After": "40" });
  expect(await refused.json()).toEqual({
    code: "rate_limit_exceeded",
    message: MESSAGES.rate_limit_exceeded.withoutKey(60, "minute", {
      seconds: 40,
      atMs: Date.UTC(2026, 10, 20, 12, 35),
    }),
    status: 429,
  });
});

/** A decision with limits of 5 per minute and 9 per day. */
function decisionOf(
  nowMs: number,
  minuteUsed: number,
  dayUsed: number,
  banMs?: number,
): Decision<KeyWindows> {
  const windows: KeyWindows = {
    minute: { limit: 5, startMs: startOfWindowMs("minute", nowMs), used: minuteUsed, refused: 0 },
    day: { limit: 9, startMs: startOfWindowMs("day", nowMs), used: dayUsed, refused: 0 },
  };
  const isBanned = banMs !== undefined;
  const admitted = room(windows) > 0 && !isBanned;
  return { admitted, nowMs, windows, ...(isBanned && { bannedUntilMs: nowMs + banMs }) };
}

it("Retry-After is the smallest number of seconds after which a request is admitted", () => {
  const nowArbitrary = fc.integer({
    min: Date.UTC(2026, 10, 20, 23, 45),
    max: Date.UTC(2026, 10, 20, 23, 59, 59, 999),
  });
  const used = fc.integer({ min: 0, max: 10 });
  const ban = fc.option(fc.integer({ min: 1, max: 600_000 }), { nil: undefined });
  fc.assert(
    fc.property(nowArbitrary, used, used, ban, (nowMs, minuteUsed, dayUsed, banMs) => {
      const decision = decisionOf(nowMs, minuteUsed, dayUsed, banMs);
      const { windows, bannedUntilMs = 0 } = decision;
      const { "Retry-After": retryAfter, "X-RateLimit-Reset": reset } = headersOf(decision);
      expect(retryAfter === undefined).toBe(decision.admitted);
      if (retryAfter === undefined) return;
      expect(left(decision, tighterWindow(decision))).toBe(0);
      const isAdmittedAt = (atMs: number) => atMs >= bannedUntilMs && peek(windows, atMs).admitted;
      const endMs = nowMs + Number(retryAfter) * 1_000;
      expect([endMs - 1_000, endMs, Number(reset) * 1_000].map(isAdmittedAt)).toEqual([false, true, true]);
    }),
    { numRuns: 1_000 },
  );
});

it.each<[named: string, window: "minute" | "day", decision: Decision]>([
  ["the tighter window", "minute", decisionOf(Date.UTC(2026, 10, 20, 12), 1, 4)],
  ["the tighter window", "day", decisionOf(Date.UTC(2026, 10, 20, 12), 1, 6)],
  ["the day if tied", "day", decisionOf(Date.UTC(2026, 10, 20, 12), 1, 5)],
  ["the day if both are tied and end together", "day", decisionOf(Date.UTC(2026, 10, 20, 23, 59, 30), 1, 5)],
  ["the day if both are used up", "day", decisionOf(Date.UTC(2026, 10, 20, 12), 5, 9)],
  ["the minute during a ban", "minute", decisionOf(Date.UTC(2026, 10, 20, 12), 4, 8, 600_000)],
  [
    "the day if it is used up beyond a ban",
    "day",
    decisionOf(Date.UTC(2026, 10, 20, 23, 50) - 1, 5, 9, 600_000),
  ],
  [
    "the minute if a ban ends with the day",
    "minute",
    decisionOf(Date.UTC(2026, 10, 20, 23, 50), 5, 9, 600_000),
  ],
])("the headers name %s: the %s", (_, window, decision) => {
  expect(tighterWindow(decision)).toBe(window);
});
