// Bans: a flood of a banned client, how an operator lifts a ban, and its record. test/unit/quota.test.ts has the rules that lead to
// a ban, and test/simulation the clients that wait for Retry-After and are never banned.

import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { banEndMs } from "../../src/keys/object/bans.ts";
import { formatTime } from "../../src/lib/rfc3339.ts";
import { revokeKey, unbanKey } from "../../src/operators/admin.ts";
import { findKeyById, listChanges } from "../../src/operators/records.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { watchObjects, watchReads, watchStatements } from "../support/worker/bindings.ts";
import { acquire, banKey, batch, type Client, newClient, operator } from "../support/worker/client.ts";
import { pass } from "../support/worker/time.ts";

/** Waits until the alarm of the object, which fires by the real clock, has recorded the ban that ends then. */
const untilRecorded = ({ id }: Client, bannedUntilMs: number) =>
  vi.waitFor(
    async () => expect(await findKeyById(env.KEYS_DB, id, Date.now())).toMatchObject({ bannedUntilMs }),
    { timeout: 30_000 },
  );

/** Bans a Free key by requests, at the start of a minute, and waits for its record. Returns the end of the ban. */
async function getBanned(client: Client): Promise<number> {
  pass(60_000 - (Date.now() % 60_000));
  await acquire(client.id, batch(61));
  pass(2_001);
  expect((await acquire(client.id, batch(180))).bannedUntilMs).toBeUndefined();
  const { bannedUntilMs = 0 } = await acquire(client.id, batch(1));
  await untilRecorded(client, bannedUntilMs);
  return bannedUntilMs;
}

/** The status of a response to a list request, and the code of an error. */
async function statusOf(client: Client): Promise<string> {
  const response = await client.get("/v1/pets");
  const { code = "" } = await response.json<{ code?: string }>();
  return `${response.status} ${code}`.trim();
}

it("a flood of a banned client touches no object but to renew the key's record, and no database; a revocation is in force after 30 s", async () => {
  const client = await newClient({ plan: "free" });
  const bannedUntilMs = banEndMs(Date.now());
  await banKey(client.id);
  // A list without a next page, which is never cached.
  const list = `/v1/pets?cursor=${encodeCursor(2n ** 62n)}`;
  await client.get(list);
  // The alarm's statement would count.
  await untilRecorded(client, bannedUntilMs);
  const [pets, keys] = [watchStatements("PETS_DB"), watchReads(client.id)];
  const calls = watchObjects(client.id);
  for (let second = 1; second <= 100; second += 1) {
    pass(1_000);
    expect((await client.get(list)).status).toBe(429);
  }
  expect(pets).toEqual([]);
  // One in 15 s, or in a second less, because an answer tells of a record that is older than itself.
  expect(calls.length).toBeGreaterThan(100 / 17);
  expect(calls.length).toBeLessThan(100 / 13);
  expect(keys.length).toBeLessThanOrEqual(calls.length);
  await revokeKey(env.KEYS_DB, client.id, operator());
  pass(30_000);
  expect(await statusOf(client)).toBe("401 unauthorized");
});

it("a ban is recorded once, and an unban takes effect within 30 s, also in GET /v1/usage, and does not lift a later ban", async () => {
  const client = await newClient({ plan: "free" });
  const bannedUntil = async () =>
    (await (await client.get("/v1/usage")).json<{ bannedUntil: number | null }>()).bannedUntil;
  const bannedUntilMs = await getBanned(client);
  expect(await statusOf(client)).toBe("429 key_banned");
  expect(await bannedUntil()).toBe(bannedUntilMs / 1_000);
  const row = { change: "banned", to: formatTime(bannedUntilMs), from: null, by: "rate limiter" };
  expect(await listChanges(env.KEYS_DB, client.id, 9)).toMatchObject([row, { change: "created" }]);
  expect(await unbanKey(env.KEYS_DB, client.id, operator())).toMatchObject({ ok: true });
  pass(30_000);
  // In the minute of the refusals.
  expect(await statusOf(client)).toBe("429 rate_limit_exceeded");
  expect(await bannedUntil()).toBeNull();
  pass(30_000);
  expect(await statusOf(client)).toBe("200");
  await getBanned(client);
  pass(30_000);
  expect(await statusOf(client)).toBe("429 key_banned");
});

it("an unban also lifts a ban that is not recorded, or began by a clock ahead of the operator's", async () => {
  const client = await newClient({ plan: "free" });
  await getBanned(client);
  await env.KEYS_DB.prepare("DELETE FROM key_changes WHERE key_id = ?1").bind(client.id).run();
  expect(await unbanKey(env.KEYS_DB, client.id, operator())).toMatchObject({ ok: true });
  pass(60_000);
  expect(await statusOf(client)).toBe("200");

  await getBanned(client);
  const behind = operator(Date.now() - 300_000);
  expect(await unbanKey(env.KEYS_DB, client.id, behind)).toMatchObject({ ok: true });
  pass(60_000);
  expect(await statusOf(client)).toBe("200");
});
