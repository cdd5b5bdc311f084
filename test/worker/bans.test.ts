// Bans: a flood of a banned client, how an operator lifts a ban, and its record. test/unit/quota.test.ts has the rules that lead to
// a ban, and test/simulation the clients that wait for Retry-After and are never banned.

import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { formatTime } from "../../src/lib/rfc3339.ts";
import { revokeKey, unbanKey } from "../../src/operators/admin.ts";
import { findKeyById, listChanges } from "../../src/operators/records.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import {
  acquire,
  banKey,
  batch,
  type Client,
  type ErrorBody,
  newClient,
  operator,
  pass,
  watchObjects,
  watchReads,
} from "../support/worker/client.ts";
import { watchStatements } from "../support/worker/database-stub.ts";

/** Bans a Free key by requests, at the start of a minute. Returns the end of the ban. */
async function getBanned({ id }: Client): Promise<number> {
  pass(60_000 - (Date.now() % 60_000));
  await acquire(id, batch(61));
  pass(2_001);
  expect((await acquire(id, batch(180))).bannedUntilMs).toBeUndefined();
  const { bannedUntilMs = 0 } = await acquire(id, batch(1));
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

it("a flood of a banned client touches no object but to renew the key's record, and no database; a revocation is in force after 30 s", async () => {
  const client = await newClient({ plan: "free" });
  await banKey(client.id);
  // A list without a next page, which is never cached.
  const list = `/v1/pets?cursor=${encodeCursor(2n ** 62n)}`;
  await client.get(list);
  // The ban is recorded by an alarm, which would count as a statement.
  const bans = async () => (await findKeyById(env.KEYS_DB, client.id, Date.now()))?.bans;
  await vi.waitFor(async () => expect(await bans()).toBe(1));
  const [pets, keys] = [watchStatements("PETS_DB"), watchReads(client.id)];
  const calls = watchObjects(client.id);
  for (let second = 1; second <= 200; second += 1) {
    pass(1_000);
    const statuses = await Promise.all([client.get(list), client.get(list)]);
    expect(statuses.map(({ status }) => status)).toEqual([429, 429]);
  }
  expect(pets).toEqual([]);
  // One in 15 s, or in a second less, because an answer tells of a record that is older than itself.
  expect(calls.length).toBeGreaterThan(200 / 17);
  expect(calls.length).toBeLessThan(200 / 14);
  expect(keys.length).toBeLessThanOrEqual(calls.length);
  await revokeKey(env.KEYS_DB, client.id, operator());
  pass(30_000);
  expect(await statusOf(await client.get(list))).toBe("401 unauthorized");
});

describe("an unban", () => {
  it("takes effect within 30 s, also in GET /v1/usage, and does not lift a later ban", async () => {
    const client = await newClient({ plan: "free" });
    const bannedUntilMs = await getBanned(client);
    expect(await statusOf(await client.get("/v1/pets"))).toBe("429 key_banned");
    expect(await bannedUntil(client)).toBe(bannedUntilMs / 1_000);
    expect(await unbanKey(env.KEYS_DB, client.id, operator())).toMatchObject({ ok: true });
    pass(30_000);
    // In the minute of the refusals.
    expect(await statusOf(await client.get("/v1/pets"))).toBe("429 rate_limit_exceeded");
    expect(await bannedUntil(client)).toBeNull();
    pass(30_000);
    expect((await client.get("/v1/pets")).status).toBe(200);
    await getBanned(client);
    pass(30_000);
    expect(await statusOf(await client.get("/v1/pets"))).toBe("429 key_banned");
  });

  it("also lifts a ban that is not recorded, or began by a clock ahead of the operator's", async () => {
    const client = await newClient({ plan: "free" });
    await getBanned(client);
    const bans = async () => (await findKeyById(env.KEYS_DB, client.id, Date.now()))?.bans;
    await vi.waitFor(async () => expect(await bans()).toBe(1));
    await env.KEYS_DB.prepare("DELETE FROM key_changes WHERE key_id = ?1").bind(client.id).run();
    expect(await unbanKey(env.KEYS_DB, client.id, operator())).toMatchObject({ ok: true });
    pass(60_000);
    expect((await client.get("/v1/pets")).status).toBe(200);

    await getBanned(client);
    const behind = operator(Date.now() - 300_000);
    // The unban reads the recorded end of the ban.
    await vi.waitFor(async () => expect(await bans()).toBe(1));
    expect(await unbanKey(env.KEYS_DB, client.id, behind)).toMatchObject({ ok: true });
    pass(60_000);
    expect((await client.get("/v1/pets")).status).toBe(200);
  });
});

describe("the record of a ban", () => {
  const bansOf = async (id: string) =>
    (await listChanges(env.KEYS_DB, id, 10)).filter(({ change }) => change === "banned");

  it("is one row, which shows in the key's record until the ban ends", async () => {
    const client = await newClient({ plan: "free" });
    const bannedUntilMs = await getBanned(client);
    await vi.waitFor(async () => expect(await bansOf(client.id)).toHaveLength(1));
    const row = { to: formatTime(bannedUntilMs), from: null, by: "rate limiter" };
    expect(await bansOf(client.id)).toEqual([expect.objectContaining(row)]);
    const record = () => findKeyById(env.KEYS_DB, client.id, Date.now());
    expect(await record()).toMatchObject({ bannedUntilMs, bans: 1, states: ["banned"] });
    vi.setSystemTime(bannedUntilMs);
    expect(await record()).toMatchObject({ bannedUntilMs: null, bans: 1, states: ["active"] });
  });
});
