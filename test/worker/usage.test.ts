// GET /v1/usage: its content, its calls of the object, and that it consumes nothing.

import { expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { BAN_MS } from "../../src/keys/object/bans.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { watchObjects } from "../support/worker/bindings.ts";
import { acquire, banKey, batch, type Client, newClient } from "../support/worker/client.ts";
import { pass } from "../support/worker/time.ts";

/** The usage of a client, one second later, so that it is not cached. */
async function usageOf(client: Client): Promise<UsageBody> {
  pass(1_000);
  return (await client.get("/v1/usage")).json<UsageBody>();
}

it("GET /v1/usage shows both windows and 30 days", async () => {
  const client = await newClient({ plan: "pro" });
  // Sent by another isolate.
  await acquire(client.id, batch(305));
  pass(86_400_000);
  await client.get("/v1/pets");
  const { minute, day, days } = await usageOf(client);
  expect([minute, day]).toMatchObject([
    { limit: 300, used: 1, remaining: 299, reset: Date.UTC(2026, 10, 21, 12, 35) / 1000 },
    { limit: 10_000, used: 1, remaining: 9_999, reset: Date.UTC(2026, 10, 22) / 1000 },
  ]);
  expect([days.length, days[0]]).toEqual([30, { date: "2026-10-23", admitted: 0, refused: 0 }]);
  expect(days.slice(-2)).toEqual([
    { date: "2026-11-20", admitted: 300, refused: 5 },
    { date: "2026-11-21", admitted: 1, refused: 0 },
  ]);
});

it("GET /v1/usage shows a ban and its end, and reports it to the isolate, which then refuses without a call", async () => {
  const client = await newClient({ plan: "free" });
  await banKey(client.id);
  expect((await usageOf(client)).bannedUntil).toBe((Date.UTC(2026, 10, 20, 12, 34, 21) + BAN_MS) / 1000);
  const calls = watchObjects(client.id);
  expect((await client.get("/v1/pets")).status).toBe(429);
  expect(calls).toEqual([]);
  pass(BAN_MS + 500);
  expect((await usageOf(client)).bannedUntil).toBeNull();
});

it("GET /v1/usage shows what the last response has shown, also while the answer of the object is cached, and although more is leased", async () => {
  const client = await newClient({ plan: "pro" });
  const remaining: (string | null)[] = [];
  for (const path of ["/v1/usage", "/v1/nowhere", "/v1/nowhere", "/v1/nowhere", "/v1/usage"])
    remaining.push((await client.get(path)).headers.get(HEADER.rateLimitRemaining));
  expect(remaining).toEqual(["300", "299", "298", "297", "297"]);
  const body = await (await client.get("/v1/usage")).json<UsageBody>();
  expect([body.minute.remaining, body.day.used, body.days.at(-1)?.admitted]).toEqual([297, 3, 3]);
});

it("GET /v1/usage consumes nothing, and works when the windows are used up", async () => {
  const client = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 } });
  await client.get("/v1/pets");
  expect((await client.get("/v1/pets")).status).toBe(429);
  for (let request = 0; request < 2; request += 1) expect((await usageOf(client)).day.used).toBe(1);
  const { headers } = await client.get("/v1/usage");
  const names = [HEADER.rateLimitRemaining, HEADER.retryAfter, "Cache-Control"];
  expect(names.map((name) => headers.get(name))).toEqual(["0", null, "no-store"]);
});

it("GET /v1/usage calls the object once in a second, for concurrent and sequential requests", async () => {
  const client = await newClient();
  await client.get("/v1/nowhere");
  const calls = watchObjects(client.id);
  await Promise.all(Array.from({ length: 10 }, () => client.get("/v1/usage")));
  pass(999);
  await client.get("/v1/usage");
  expect(calls).toHaveLength(1);
  pass(1);
  await client.get("/v1/usage");
  expect(calls).toHaveLength(2);
});
