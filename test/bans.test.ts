// When a key is banned, and when it is not: what the contract asks of clients is to back off, and who does is safe.

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { RateLimiter } from "../src/index.ts";
import { PLAN_LIMITS } from "../src/keys/plans.ts";
import { headersOf } from "../src/rate-limit/headers.ts";
import type { Limits } from "../src/rate-limit/window.ts";
import { type ErrorBody, newClient, watchLimiter } from "./client.ts";
import { crash } from "./crash.ts";
import { watchStatements } from "./database-stub.ts";

const PLANS: [plan: string, limits: Limits][] = [
  ["free", PLAN_LIMITS.free],
  ["pro", PLAN_LIMITS.pro],
  ["business", PLAN_LIMITS.business],
  ["enterprise, a small one", { minute: 1, day: 5 }],
  ["enterprise, a large one", { minute: 5_000, day: 30_000 }],
];

/** Uses the object of a new key from within, where a request costs no call; the clock is the caller's to step. */
function inLimiter<Result>(limits: Limits, story: (take: RateLimiter["take"]) => Result): Promise<Result> {
  const limiter = env.RATE_LIMITER.getByName(`key-${crypto.randomUUID()}`);
  return runInDurableObject(limiter, (instance: RateLimiter) => story(() => instance.take(limits)));
}

function pass(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
}

describe("a client that backs off is never banned", () => {
  it.each(PLANS)("on %s, if it sends one request after the other", async (_, limits) => {
    const story = await inLimiter(limits, (take) => {
      const seen = { admitted: 0, refused: 0, banned: 0 };
      const endMs = Date.now() + 2 * 86_400_000;
      for (let backOffMs = 0; Date.now() < endMs; ) {
        const decision = take(limits);
        if (decision.bannedUntilMs !== undefined) seen.banned += 1;
        if (decision.admitted) {
          seen.admitted += 1;
          backOffMs = 0;
          pass(1);
        } else {
          seen.refused += 1;
          const retryAfterMs = Number(headersOf(decision)["Retry-After"]) * 1000;
          backOffMs = Math.max(retryAfterMs, 2 * backOffMs);
          pass(backOffMs);
        }
      }
      return seen;
    });
    expect(story.banned).toBe(0);
    // It did run into its limits, and it got all of its days.
    expect(story.refused).toBeGreaterThan(3);
    expect(story.admitted).toBeGreaterThanOrEqual(2 * limits.day);
  });

  it.each(PLANS)("on %s, if it begins every minute with twice as many as it may send", async (_, limits) => {
    const story = await inLimiter(limits, (take) => {
      const seen = { refused: 0, banned: 0 };
      for (let minute = 0; minute < 5; minute += 1) {
        for (let request = 0; request < 2 * limits.minute; request += 1) {
          const { admitted, bannedUntilMs } = take(limits);
          if (!admitted) seen.refused += 1;
          if (bannedUntilMs !== undefined) seen.banned += 1;
        }
        pass(60_000);
      }
      return seen;
    });
    expect(story.banned).toBe(0);
    expect(story.refused).toBeGreaterThanOrEqual(5 * limits.minute);
  });
});

describe("a client that goes on after its refusals is banned", () => {
  it.each(PLANS)("on %s, once, for ten minutes, and is then let in", async (_, limits) => {
    const story = await inLimiter(limits, (take) => {
      const startMs = Date.now();
      const tolerated = Math.max(60, limits.minute);
      const refusals = () => {
        let refused = 0;
        while (take(limits).bannedUntilMs === undefined) refused += 1;
        return refused;
      };
      for (let request = 0; request < limits.minute; request += 1) take(limits);
      const toleratedHere = refusals();
      const during = [1, 60_000, 540_000 - 2].map((ms) => {
        pass(ms);
        return take(limits);
      });
      pass(1);
      return { toleratedHere, tolerated, during, after: take(limits), startMs };
    });
    expect(story.toleratedHere).toBe(story.tolerated);
    const bannedUntilMs = story.startMs + 600_000;
    // Requests during the ban do not extend it.
    for (const decision of story.during) expect(decision).toMatchObject({ admitted: false, bannedUntilMs });
    expect(story.after.admitted).toBe(true);
    expect(story.after.bannedUntilMs).toBeUndefined();
  });

  it("not if its refusals are spread over two minutes", async () => {
    const limits = { minute: 1, day: 9 };
    const decisions = await inLimiter(limits, (take) => {
      take(limits);
      const minutes = [0, 1].map(() => {
        const refused = Array.from({ length: 60 }, () => take(limits));
        pass(60_000);
        take(limits);
        return refused;
      });
      return minutes.flat();
    });
    expect(decisions.filter(({ admitted }) => admitted)).toEqual([]);
    expect(decisions.filter(({ bannedUntilMs }) => bannedUntilMs !== undefined)).toEqual([]);
  });

  it("is told when the ban ends, in all headers and in a sentence", async () => {
    const client = await newClient({ plan: "free" });
    for (let request = 0; request < 60; request += 1) await client.get("/v1/pets/0");
    const codes: string[] = [];
    for (let request = 0; request < 60; request += 1) {
      codes.push((await (await client.get("/v1/pets")).json<ErrorBody>()).code);
    }
    expect(new Set(codes)).toEqual(new Set(["rate_limit_exceeded"]));

    const banned = await client.get("/v1/pets");
    expect(banned.status).toBe(429);
    expect(Object.fromEntries(banned.headers)).toMatchObject({
      "retry-after": "600",
      "x-ratelimit-limit": "60",
      "x-ratelimit-remaining": "0",
      // The ban ends half a second earlier: a second that a client waits for must not be too early.
      "x-ratelimit-reset": `${Date.UTC(2026, 10, 20, 12, 44, 21) / 1000}`,
      ratelimit: '"minute";r=0;t=600, "day";r=0;t=600',
      "ratelimit-policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
      "cache-control": "no-store",
    });
    expect(await banned.json<ErrorBody>()).toEqual({
      code: "key_banned",
      message:
        "the API key is banned until 2026-11-20T12:44:21Z, because it was used again and again after a 429; retry in 600 s, at 2026-11-20T12:44:21Z",
      status: 429,
    });

    pass(599_999);
    expect((await client.get("/v1/pets")).headers.get("Retry-After")).toBe("1");
    pass(1);
    const after = await client.get("/v1/pets");
    expect([after.status, after.headers.get("X-RateLimit-Remaining")]).toEqual([200, "59"]);
  });

  it("is told to wait for the day, if that is used up beyond the ban", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 5, day: 2 } });
    let last = await client.get("/v1/pets");
    for (let request = 1; request < 2 + 61; request += 1) last = await client.get("/v1/pets");
    const midnight = Date.UTC(2026, 10, 21) / 1000;
    expect(last.headers.get("X-RateLimit-Reset")).toBe(`${midnight}`);
    expect(last.headers.get("X-RateLimit-Limit")).toBe("2");
    expect((await last.json<ErrorBody>()).message).toMatch(
      /^the API key is banned until 2026-11-20T12:44:21Z/,
    );
    vi.setSystemTime(Date.now() + Number(last.headers.get("Retry-After")) * 1000);
    expect((await client.get("/v1/pets")).status).toBe(200);
  });
});

describe("during a ban", () => {
  it("a flood touches neither object nor database", async () => {
    const client = await newClient({ plan: "free" });
    for (let request = 0; request < 121; request += 1) await client.get("/v1/pets/0");
    const statements = watchStatements();
    const calls = watchLimiter(client.id);
    // To the end of the ban: the key is not even looked up again.
    for (let request = 0; request < 200; request += 1) {
      expect((await client.get("/v1/pets")).status).toBe(429);
      pass(2_999);
    }
    expect([statements, calls]).toEqual([[], []]);
    pass(200);
    expect((await client.get("/v1/pets")).status).toBe(200);
    expect([statements.length, calls.length]).toEqual([2, 1]);
  });

  it("nothing counts, and the ban survives a crash of the object", async () => {
    const limits = { minute: 1, day: 9 };
    const limiter = env.RATE_LIMITER.getByName(`key-${crypto.randomUUID()}`);
    for (let request = 0; request < 1 + 61; request += 1) await limiter.take(limits);
    await crash(limiter);
    const again = env.RATE_LIMITER.getByName(limiter.name ?? "");
    for (let request = 0; request < 20; request += 1) {
      expect((await again.take(limits)).bannedUntilMs).toBe(Date.now() + 600_000);
    }
    pass(600_000);
    const { admitted, windows } = await again.take(limits);
    expect([admitted, ...windows.map(({ used, refused }) => `${used} ${refused}`)]).toEqual([
      true,
      "1 0",
      "2 61",
    ]);
  });

  it("other keys go on", async () => {
    const [banned, other] = await Promise.all([newClient({ plan: "free" }), newClient({ plan: "free" })]);
    for (let request = 0; request < 121; request += 1) await banned.get("/v1/pets/0");
    expect((await banned.get("/v1/pets")).status).toBe(429);
    expect((await other.get("/v1/pets")).status).toBe(200);
  });
});
