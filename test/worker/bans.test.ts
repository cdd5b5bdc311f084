// Bans: a flood of a banned client, how an operator lifts a ban, and its record. test/unit/quota.test.ts has the rules that lead to
// a ban, and test/simulation the clients that wait for Retry-After and are never banned.

import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { revokeKey, unbanKey } from "../../src/keys/admin.ts";
import { findKeyById, listChanges } from "../../src/keys/records.ts";
import { formatTime } from "../../src/lib/rfc3339.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { PLAN_LIMITS } from "../../src/rate-limit/plans.ts";
import {
  banKey,
  batch,
  type Client,
  type ErrorBody,
  newClient,
  operator,
  pass,
  watchLimiter,
} from "../support/worker/client.ts";
import { watchStatements } from "../support/worker/database-stub.ts";

const FREE = PLAN_LIMITS.free;
/** Sends requests of a Free key to its object. */
function acquire({ id }: Client, requests: number) {
  return env.RATE_LIMITER.getByName(id).acquire(FREE, batch(requests));
}

/** Bans a Free key by requests, at the start of a minute. Returns the end of the ban. */
async function getBanned(client: Client): Promise<number> {
  pass(60_000 - (Date.now() % 60_000));
  await acquire(client, 61);
  pass(2_001);
  expect((await acquire(client, 180)).bannedUntilMs).toBeUndefined();
  const { bannedUntilMs = 0 } = await acquire(client, 1);
  return bannedUntilMs;
}

/** The status of a response, and the code of an error. */
async function statusOf(response: Response): Promise<string> {
  const { code = "" } = await response.json<Partial<ErrorBody>>();
  return `${response.status} ${code}`.trim();
}

/** The end of the ban that GET /v1/usage shows. */
async function bannedUntil(client: Client): Promise<number | null> {
  return (await (await client.get("/v1/usage")).json<{ bannedUntil: number | null }>()).bannedUntil;
}

it("a flood of a banned client touches no object, and the database only to look up the key; a revocation is in force after 30 s", async () => {
  const client = await newClient({ plan: "free" });
  await banKey(client.id);
  // A list without a next page, which is never cached.
  const list = `/v1/pets?cursor=${encodeCursor(2n ** 62n)}`;
  await client.get(list);
  const statements = watchStatements();
  const calls = watchLimiter(client.id);
  for (let request = 0; request < 40; request += 1) {
    expect((await client.get(list)).status).toBe(429);
    pass(9_999);
  }
  expect(calls).toEqual([]);
  // In 400 s, every 20 s at most.
  expect([statements.length > 0, statements.length <= 20]).toEqual([true, true]);
  await revokeKey(env.DB, client.id, operator());
  pass(30_000);
  expect(await statusOf(await client.get(list))).toBe("401 unauthorized");
});

describe("an unban", () => {
  it("takes effect within 30 s, also in GET /v1/usage, and does not lift a later ban", async () => {
    const client = await newClient({ plan: "free" });
    const bannedUntilMs = await getBanned(client);
    expect(await statusOf(await client.get("/v1/pets"))).toBe("429 key_banned");
    expect(await bannedUntil(client)).toBe(bannedUntilMs / 1_000);
    expect(await unbanKey(env.DB, client.id, operator())).toMatchObject({ ok: true });
    pass(30_000);
    expect(await bannedUntil(client)).toBeNull();
    // In the minute of the refusals.
    expect(await statusOf(await client.get("/v1/pets"))).toBe("429 rate_limit_exceeded");
    pass(30_000);
    expect((await client.get("/v1/pets")).status).toBe(200);
    await getBanned(client);
    pass(30_000);
    expect(await statusOf(await client.get("/v1/pets"))).toBe("429 key_banned");
  });

  it("also lifts a ban that is not recorded, or began by a clock ahead of the operator's", async () => {
    const client = await newClient({ plan: "free" });
    await getBanned(client);
    const bans = async () => (await findKeyById(env.DB, client.id, Date.now()))?.bans;
    await vi.waitFor(async () => expect(await bans()).toBe(1));
    await env.DB.prepare("DELETE FROM key_changes WHERE key_id = ?1").bind(client.id).run();
    expect(await unbanKey(env.DB, client.id, operator())).toMatchObject({ ok: true });
    pass(60_000);
    expect((await client.get("/v1/pets")).status).toBe(200);

    await getBanned(client);
    const behind = operator(Date.now() - 300_000);
    await vi.waitFor(async () =>
      expect(await unbanKey(env.DB, client.id, behind)).toMatchObject({ key: { bans: 1 } }),
    );
    pass(60_000);
    expect((await client.get("/v1/pets")).status).toBe(200);
  });
});

describe("the record of a ban", () => {
  const bansOf = async (id: string) =>
    (await listChanges(env.DB, id, 10)).filter(({ change }) => change === "banned");

  it("is one row, which shows in the key's record until the ban ends", async () => {
    const client = await newClient({ plan: "free" });
    const bannedUntilMs = await getBanned(client);
    await vi.waitFor(async () => expect(await bansOf(client.id)).toHaveLength(1));
    const row = { to: formatTime(bannedUntilMs), from: null, by: "rate limiter" };
    expect(await bansOf(client.id)).toEqual([expect.objectContaining(row)]);
    const record = () => findKeyById(env.DB, client.id, Date.now());
    expect(await record()).toMatchObject({ bannedUntilMs, bans: 1, states: ["banned"] });
    vi.setSystemTime(bannedUntilMs);
    expect(await record()).toMatchObject({ bannedUntilMs: null, bans: 1, states: ["active"] });
  });
});
