// GET /v1/usage: its content, its calls of the object, and that it consumes nothing.

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { PLAN_LIMITS } from "../../src/rate-limit/plans.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import {
  banKey,
  fetchWithoutKey,
  newAddress,
  newClient,
  pass,
  watchLimiter,
} from "../support/worker/client.ts";

const DAY_MS = 86_400_000;

type Client = Awaited<ReturnType<typeof newClient>>;

/** The usage of a client, one second later, so that it is not cached. */
async function usageOf(client: Client): Promise<UsageBody> {
  pass(1_000);
  return (await client.get("/v1/usage")).json<UsageBody>();
}

describe("GET /v1/usage shows", () => {
  it("the same count for today in `days` and `day`, although more is leased", async () => {
    const client = await newClient();
    const limiter = env.RATE_LIMITER.getByName(client.id);
    let requests = 0;
    // On a slow machine a lease may end before it is read.
    for (let used = 0; used <= requests; requests += 1) {
      await client.get("/v1/nowhere");
      pass(60);
      used = (await limiter.usage(PLAN_LIMITS.business)).status.windows.day.used;
    }
    const body = await (await client.get("/v1/usage")).json<UsageBody>();
    expect([body.day.used, body.days.at(-1)?.admitted]).toEqual([requests, requests]);
  });

  it("the plan, both windows and 30 days of an unused key", async () => {
    const client = await newClient({ plan: "pro" });
    const { days, ...rest } = await (await client.get("/v1/usage")).json<UsageBody>();
    expect(rest).toEqual({
      plan: "pro",
      minute: { limit: 300, used: 0, remaining: 300, reset: Date.UTC(2026, 10, 20, 12, 35) / 1000 },
      day: { limit: 10_000, used: 0, remaining: 10_000, reset: Date.UTC(2026, 10, 21) / 1000 },
      bannedUntil: null,
    });
    expect(days).toHaveLength(30);
    expect([days[0]?.date, days[29]?.date]).toEqual(["2026-10-22", "2026-11-20"]);
  });

  it("admitted and refused requests, also of earlier days, with the rate-limit headers", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 3, day: 10 } });
    for (const requests of [5, 1]) {
      for (let request = 0; request < requests; request += 1) await client.get("/v1/pets");
      pass(DAY_MS);
    }
    pass(-DAY_MS);
    const response = await client.get("/v1/usage");
    expect(response.headers.get("RateLimit")).toBe('"minute";r=2;t=40, "day";r=9;t=41140');
    expect(response.headers.get("Cache-Control")).toBe("no-store");
    const { minute, day, days } = await response.json<UsageBody>();
    expect(minute).toMatchObject({ limit: 3, used: 1, remaining: 2 });
    expect(day).toMatchObject({ limit: 10, used: 1, remaining: 9 });
    expect(days.slice(-2)).toEqual([
      { date: "2026-11-20", admitted: 3, refused: 2 },
      { date: "2026-11-21", admitted: 1, refused: 0 },
    ]);
  });

  it("a ban and its end, and reports it to the isolate, which then refuses without a call", async () => {
    const client = await newClient({ plan: "free" });
    await banKey(client.id);
    expect((await usageOf(client)).bannedUntil).toBe(Date.UTC(2026, 10, 20, 12, 44, 21) / 1000);
    const calls = watchLimiter(client.id);
    expect((await client.get("/v1/pets")).status).toBe(429);
    expect(calls).toEqual([]);
    pass(600_500);
    expect((await usageOf(client)).bannedUntil).toBeNull();
  });
});

describe("GET /v1/usage", () => {
  it("consumes nothing, and works when the windows are used up", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 } });
    await client.get("/v1/pets");
    expect((await client.get("/v1/pets")).status).toBe(429);
    for (let request = 0; request < 3; request += 1) expect((await usageOf(client)).day.used).toBe(1);
    const response = await client.get("/v1/usage");
    expect(response.headers.get("X-RateLimit-Remaining")).toBe("0");
    expect(response.headers.get("Retry-After")).toBeNull();
  });

  it("calls the object once in a second, for concurrent and sequential requests", async () => {
    const client = await newClient();
    await client.get("/v1/nowhere");
    const calls = watchLimiter(client.id);
    const responses = await Promise.all(Array.from({ length: 10 }, () => client.get("/v1/usage")));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
    pass(999);
    for (let request = 0; request < 3; request += 1) await client.get("/v1/usage");
    expect(calls).toHaveLength(1);
    pass(1);
    await client.get("/v1/usage");
    expect(calls).toHaveLength(2);
  });
});

describe("the path /v1/usage", () => {
  it("gets 401 without a valid key, and is counted by address", async () => {
    const headers = { "CF-Connecting-IP": newAddress() };
    await fetchWithoutKey("/v1/usage", { headers });
    const response = await fetchWithoutKey("/v1/usage", { headers });
    expect([response.status, response.headers.get("X-RateLimit-Remaining")]).toEqual([401, "58"]);
  });

  it("has GET and HEAD, and no subpaths", async () => {
    const client = await newClient();
    const wrong = await client.call("/v1/usage", { method: "POST" });
    expect([wrong.status, wrong.headers.get("Allow")]).toEqual([405, "GET, HEAD"]);
    expect(wrong.headers.get("X-RateLimit-Remaining")).toBe("999");
    const head = await client.call("/v1/usage", { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect((await client.get("/v1/usage/today")).status).toBe(404);
  });
});
