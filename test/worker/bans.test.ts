// Bans: a flood of a banned client, how an operator lifts a ban, and its record; and what GET /v1/usage shows. test/unit/quota.test.ts has the rules that lead to
// a ban, and test/simulation the clients that wait for Retry-After and are never banned.

import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { formatTime } from "../../src/lib/rfc3339.ts";
import { banEndMs } from "../../src/limits/object/bans.ts";
import { revokeKey, unbanKey } from "../../src/operators/admin.ts";
import { findKeyById, listChanges } from "../../src/operators/records.ts";
import { objectOf, watchObjects, watchReads, watchStatements } from "../support/worker/bindings.ts";
import {
  acquire,
  banKey,
  batch,
  type Client,
  LAST_PAGE,
  newClient,
  operator,
} from "../support/worker/client.ts";
import { pass } from "../support/worker/time.ts";

let client: Client;

beforeEach(async () => {
  client = await newClient({ plan: "free" });
});

/** Bans the key, and has the alarm of its object record that. Returns the end of the ban. */
async function getBanned(): Promise<number> {
  await banKey(client.id);
  const bannedUntilMs = banEndMs(Date.now());
  await runDurableObjectAlarm(objectOf(client.id));
  expect(await findKeyById(env.KEYS_DB, client.id, Date.now())).toMatchObject({ bannedUntilMs });
  return bannedUntilMs;
}

/** The status of a response to a list request, and the code of an error. */
async function statusOf(): Promise<string> {
  const response = await client.get(LAST_PAGE);
  const { code = "" } = await response.json<{ code?: string }>();
  return `${response.status} ${code}`.trim();
}

/** What GET /v1/usage says. */
const bannedUntil = async () => (await (await client.get("/v1/usage")).json<UsageBody>()).bannedUntil;

it("a flood of a banned client touches no object but to renew the key's record, and no database; a revocation is in force after 30 s", async () => {
  const bannedUntilMs = await getBanned();
  const [pets, keys, calls] = [watchStatements("PETS_DB"), watchReads(client.id), watchObjects(client.id)];
  // The isolate learns of the ban.
  expect(await bannedUntil()).toBe(bannedUntilMs / 1_000);
  for (let second = 1; second <= 100; second += 1) {
    expect((await client.get(LAST_PAGE)).status).toBe(429);
    pass(1_000);
  }
  expect(pets).toEqual([]);
  // One in 15 s, or in a second less, because an answer tells of a record that is older than itself.
  expect(calls.length).toBeGreaterThan(100 / 17);
  expect(calls.length).toBeLessThan(1 + 100 / 13);
  expect(keys.length).toBeLessThanOrEqual(calls.length);
  await revokeKey(env.KEYS_DB, client.id, operator());
  pass(30_000);
  expect(await statusOf()).toBe("401 unauthorized");
});

it("a ban is recorded once, and an unban takes effect within 30 s, also in GET /v1/usage, and does not lift a later ban", async () => {
  const bannedUntilMs = await getBanned();
  expect(await statusOf()).toBe("429 key_banned");
  const row = { change: "banned", to: formatTime(bannedUntilMs), from: null, by: "rate limiter" };
  expect(await listChanges(env.KEYS_DB, { id: client.id }, 9)).toMatchObject([row, { change: "created" }]);
  expect(await unbanKey(env.KEYS_DB, client.id, operator())).toMatchObject({ ok: true });
  pass(30_000);
  expect([await statusOf(), await bannedUntil()]).toEqual(["200", null]);
  pass(30_000);
  await getBanned();
  pass(30_000);
  expect(await statusOf()).toBe("429 key_banned");
});

it("an unban also lifts a ban that is not recorded, or began by a clock ahead of the operator's", async () => {
  for (const behindMs of [0, 300_000]) {
    await getBanned();
    if (behindMs === 0)
      await env.KEYS_DB.prepare("DELETE FROM key_changes WHERE key_id = ?1").bind(client.id).run();
    const lifted = await unbanKey(env.KEYS_DB, client.id, operator(Date.now() - behindMs));
    expect(lifted).toMatchObject({ ok: true });
    pass(60_000);
    expect(await statusOf()).toBe("200");
  }
});

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
