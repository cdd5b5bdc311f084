// GET /v1/usage: its content, its calls of the object, and that it consumes nothing.

import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { revokeKey, rotateKey } from "../../src/keys/admin.ts";
import { PLAN_LIMITS } from "../../src/rate-limit/plans.ts";
import {
  banKey,
  fetchWithoutKey,
  newAddress,
  newClient,
  operator,
  pass,
  watchLimiter,
} from "../support/worker/client.ts";
import { interceptStatements, watchStatements } from "../support/worker/database-stub.ts";

const DAY_MS = 86_400_000;

interface UsageBody {
  plan: string;
  minute: Record<"limit" | "used" | "remaining" | "reset", number>;
  day: Record<"limit" | "used" | "remaining" | "reset", number>;
  bannedUntil: number | null;
  days: { date: string; admitted: number; refused: number }[];
}

type Client = Awaited<ReturnType<typeof newClient>>;

/** The usage of a client, one second later, so that it is not cached. */
async function usageOf(client: Client): Promise<UsageBody> {
  vi.setSystemTime(Date.now() + 1_000);
  return (await client.get("/v1/usage")).json<UsageBody>();
}

/**
 * Holds the next query until `release`. `asked` polls for its start, because a request can't await a promise that another
 * request resolves.
 */
function holdNextQuery() {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  let queries = 0;
  interceptStatements(async (run) => {
    queries += 1;
    if (queries === 1) await released;
    return run();
  });
  const asked = async () => {
    while (queries === 0) await scheduler.wait(0);
  };
  return { asked, release };
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
    expect(days.every(({ admitted, refused }) => admitted === 0 && refused === 0)).toBe(true);
  });

  it("admitted and refused requests", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 3, day: 10 } });
    for (let request = 0; request < 5; request += 1) await client.get("/v1/pets");
    const usage = await usageOf(client);
    expect(usage.minute).toMatchObject({ limit: 3, used: 3, remaining: 0 });
    expect(usage.day).toMatchObject({ limit: 10, used: 3, remaining: 7 });
    expect(usage.days.at(-1)).toEqual({ date: "2026-11-20", admitted: 3, refused: 2 });
  });

  it("a ban and its end", async () => {
    const client = await newClient({ plan: "free" });
    await banKey(client.id);
    expect((await usageOf(client)).bannedUntil).toBe(Date.UTC(2026, 10, 20, 12, 44, 21) / 1000);
    pass(600_500);
    expect((await usageOf(client)).bannedUntil).toBeNull();
  });

  it("the last 30 UTC days only", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 2, day: 2 } });
    for (const requests of [3, 1]) {
      for (let request = 0; request < requests; request += 1) await client.get("/v1/nowhere");
      pass(DAY_MS);
    }
    pass(27 * DAY_MS);
    const { days } = await usageOf(client);
    const none = { admitted: 0, refused: 0 };
    expect(days.slice(0, 3)).toEqual([
      { date: "2026-11-20", admitted: 2, refused: 1 },
      { date: "2026-11-21", admitted: 1, refused: 0 },
      { date: "2026-11-22", ...none },
    ]);
    expect(days.at(29)).toEqual({ date: "2026-12-19", ...none });
    pass(DAY_MS);
    expect((await usageOf(client)).days[0]).toEqual(days[1]);
  });

  it("the rate-limit headers without Retry-After", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 } });
    await client.get("/v1/pets");
    const response = await client.get("/v1/usage");
    expect(response.headers.get("X-RateLimit-Remaining")).toBe("0");
    expect(response.headers.get("RateLimit")).toBe('"minute";r=0;t=40, "day";r=8;t=41140');
    expect(response.headers.get("Retry-After")).toBeNull();
    expect(response.headers.get("Cache-Control")).toBe("no-store");
  });
});

describe("GET /v1/usage", () => {
  it("consumes nothing, and works when the windows are used up", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 } });
    await client.get("/v1/pets");
    expect((await client.get("/v1/pets")).status).toBe(429);
    for (let request = 0; request < 5; request += 1) {
      expect((await usageOf(client)).day.used).toBe(1);
    }
  });

  it("calls the object once in a second, for concurrent and sequential requests", async () => {
    const client = await newClient();
    await client.get("/v1/nowhere");
    const calls = watchLimiter(client.id);
    const responses = await Promise.all(Array.from({ length: 50 }, () => client.get("/v1/usage")));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
    pass(999);
    for (let request = 0; request < 10; request += 1) await client.get("/v1/usage");
    expect(calls).toHaveLength(1);
    pass(1);
    await client.get("/v1/usage");
    expect(calls).toHaveLength(2);
  });

  it("calls the object once in a second although the first request waits for its key", async () => {
    const client = await newClient();
    // Another secret of the same key: requests with the same secret would share the lookup.
    const rotated = await rotateKey(env.DB, client.id, 60_000, operator());
    if (!rotated.ok) throw new Error(rotated.problem);
    const headers = { Authorization: `Bearer ${rotated.secret}` };
    const { asked, release } = holdNextQuery();
    const calls = watchLimiter(client.id);
    const slow = client.get("/v1/usage");
    await asked();
    pass(5);
    expect((await fetchWithoutKey("/v1/usage", { headers })).status).toBe(200);
    release();
    expect((await slow).status).toBe(200);
    expect((await client.get("/v1/usage")).status).toBe(200);
    expect(calls).toHaveLength(1);
  });

  it("reports a ban to the isolate, which then refuses without a call", async () => {
    const client = await newClient();
    await banKey(client.id);
    await client.get("/v1/usage");
    const calls = watchLimiter(client.id);
    expect((await client.get("/v1/pets")).status).toBe(429);
    expect(calls).toEqual([]);
  });

  it("calls the object once in a second during a ban, and looks the key up as rarely as otherwise", async () => {
    const client = await newClient({ plan: "free" });
    await client.get("/v1/pets/0");
    await banKey(client.id);
    const statements = watchStatements();
    const calls = watchLimiter(client.id);
    for (let request = 0; request < 120; request += 1) {
      expect((await client.get("/v1/usage")).status).toBe(200);
      pass(500);
    }
    expect(calls).toHaveLength(60);
    // After 30 s, or in the background after 20 and 40.
    expect(statements.length).toBeLessThanOrEqual(2);
  });
});

it("GET /v1/usage rejects a revoked key after 30 s, even if it is banned", async () => {
  const client = await newClient({ plan: "free" });
  await client.get("/v1/pets/0");
  await banKey(client.id);
  await revokeKey(env.DB, client.id, operator());
  expect((await client.get("/v1/usage")).status).toBe(200);
  pass(30_000);
  expect((await client.get("/v1/usage")).status).toBe(401);
});

describe("the path /v1/usage", () => {
  it("gets 401 without a valid key, then 429 by address", async () => {
    const headers = { "CF-Connecting-IP": newAddress() };
    const statuses: number[] = [];
    for (let request = 0; request < 61; request += 1) {
      statuses.push((await fetchWithoutKey("/v1/usage", { headers })).status);
    }
    expect(statuses).toEqual([...Array(60).fill(401), 429]);
  });

  it("gets 405 with another method, and counts the request", async () => {
    const client = await newClient({ plan: "free" });
    const response = await client.call("/v1/usage", { method: "POST" });
    expect([response.status, response.headers.get("Allow")]).toEqual([405, "GET, HEAD"]);
    expect(response.headers.get("X-RateLimit-Remaining")).toBe("59");
  });

  it("answers HEAD without a body", async () => {
    const client = await newClient({ plan: "free" });
    const response = await client.call("/v1/usage", { method: "HEAD" });
    expect([response.status, await response.text()]).toEqual([200, ""]);
  });

  it("has no subpaths", async () => {
    const client = await newClient();
    expect((await client.get("/v1/usage/today")).status).toBe(404);
  });
});
