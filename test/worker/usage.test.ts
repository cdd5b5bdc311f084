// GET /v1/usage: its content, its calls of the object, and that it consumes nothing. bans.test.ts has what it says of a ban.

import { expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { watchObjects } from "../support/worker/bindings.ts";
import { acquire, batch, newClient } from "../support/worker/client.ts";
import { pass } from "../support/worker/time.ts";

it("GET /v1/usage shows each window and 30 days, and works when the windows are used up", async () => {
  const client = await newClient({ plan: "pro" });
  // Sent by another isolate.
  await acquire(client.id, batch(305));
  const { status, headers } = await client.get("/v1/usage");
  const names = [HEADER.rateLimitRemaining, HEADER.retryAfter, "Cache-Control"];
  expect([status, ...names.map((name) => headers.get(name))]).toEqual([200, "0", null, "no-store"]);
  pass(86_400_000);
  await client.get("/v1/pets");
  const { windows, days } = await (await client.get("/v1/usage")).json<UsageBody>();
  expect(windows).toMatchObject({
    minute: { limit: 300, used: 1, remaining: 299, reset: Date.UTC(2026, 10, 21, 12, 35) / 1000 },
    day: { limit: 10_000, used: 1, remaining: 9_999, reset: Date.UTC(2026, 10, 22) / 1000 },
  });
  const none = { minute: 0, day: 0 };
  expect([days.length, days[0]]).toMatchObject([
    30,
    { date: "2026-10-23", admitted: 0, refusedBy: none, busiest: { minute: 0 } },
  ]);
  expect(days.slice(-2)).toMatchObject([
    { date: "2026-11-20", admitted: 300, refusedBy: { minute: 5, day: 0 }, busiest: { minute: 305 } },
    { date: "2026-11-21", admitted: 1, refusedBy: none, busiest: { minute: 1 } },
  ]);
});

it("GET /v1/usage consumes nothing, shows what the last response has shown, also while the answer of the object is cached, and calls the object once in a second", async () => {
  const client = await newClient({ plan: "pro" });
  const calls = watchObjects(client.id);
  const usageCalls = () => calls.filter((method) => method === "usage").length;
  const remaining: (string | null)[] = [];
  for (const path of ["/v1/usage", "/v1/nowhere", "/v1/nowhere", "/v1/nowhere", "/v1/usage"])
    remaining.push((await client.get(path)).headers.get(HEADER.rateLimitRemaining));
  expect(remaining).toEqual(["300", "299", "298", "297", "297"]);
  pass(999);
  // More is leased.
  const { windows, days } = await (await client.get("/v1/usage")).json<UsageBody>();
  const { minute, day } = windows;
  expect([minute.remaining, day.used, days.at(-1)?.admitted]).toEqual([297, 3, 3]);
  expect(usageCalls()).toBe(1);
  pass(1);
  await Promise.all(Array.from({ length: 10 }, () => client.get("/v1/usage")));
  expect(usageCalls()).toBe(2);
});
