// What the commands for keys change in the database.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { BANNED, recordBan } from "../../src/keys/object/ban-record.ts";
import { MAX_REPLACED_SECRETS } from "../../src/keys/record.ts";
import { keyIdOf } from "../../src/keys/secret.ts";
import { findRecord } from "../../src/keys/store.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import * as admin from "../../src/operators/admin.ts";
import type { OperatorChange } from "../../src/operators/changes.ts";
import { findKeyById, listChanges } from "../../src/operators/records.ts";
import { newKey, operator } from "../support/worker/client.ts";

const database = env.KEYS_DB;
const LAST_FOUR = expect.stringMatching(/^\w{4}$/);
const TIME = expect.stringMatching(/^20\S+Z$/);

/** The secrets in the record of a key, the current one first. */
async function secretsOf(id: string) {
  return (await findRecord(database, id))?.secrets ?? [];
}

/** When a secret expires: null for the current one, undefined for one that its key no longer has. */
async function goodUntil(secret: string) {
  const secrets = await secretsOf(keyIdOf(secret) ?? "");
  return secrets.find(({ hash }) => hash === sha256(secret))?.goodUntilMs;
}

const keyOf = (id: string) => findKeyById(database, id, Date.now());

async function rotate(id: string, graceMs: number, nowMs = Date.now()) {
  const rotated = await admin.rotateKey(database, id, graceMs, operator(nowMs));
  if (!rotated.ok) throw new Error(rotated.problem);
  return rotated.secret;
}

it("a rotation shortens earlier grace periods of its key, and neither extends nor restores one", async () => {
  const { id, secret } = await newKey();
  const other = await newKey();
  await rotate(other.id, 100_000);
  const second = await rotate(id, 100_000);
  const third = await rotate(id, 10_000);
  const [shortMs, longMs] = [Date.now() + 10_000, Date.now() + 100_000];
  expect(await Promise.all([secret, second, third].map(goodUntil))).toEqual([shortMs, shortMs, null]);
  await rotate(id, 100_000);
  expect(await Promise.all([secret, third, other.secret].map(goodUntil))).toEqual([shortMs, longMs, longMs]);
});

it("a key keeps at most 20 replaced secrets, those that end last, however often it is rotated with a grace", async () => {
  const { id, secret } = await newKey();
  const secrets = [secret];
  // Each grace ends a second after that of the rotation before, which is not shortened.
  for (let rotation = 0; rotation <= MAX_REPLACED_SECRETS; rotation += 1)
    secrets.push(await rotate(id, 100_000 + rotation * 1_000));
  const [first, ...kept] = secrets;
  const ends = kept.map((_, index) => Date.now() + 101_000 + index * 1_000);
  expect(MAX_REPLACED_SECRETS).toBe(20);
  expect(await goodUntil(first ?? "")).toBeUndefined();
  expect(await Promise.all(kept.map(goodUntil))).toEqual([...ends.slice(0, -1), null]);
  expect(await secretsOf(id)).toHaveLength(1 + MAX_REPLACED_SECRETS);
});

it.each(["revoked", "expired"] as const)("a key that is %s can't be changed", async (problem) => {
  const expiresAtMs = Date.now() + 10_000;
  const { id, secret } = await newKey({ expiresAtMs });
  const second = await rotate(id, 100_000);
  if (problem === "revoked") await admin.revokeKey(database, id, operator());
  const by = operator(problem === "expired" ? expiresAtMs : Date.now());
  const before = await keyOf(id);
  expect(await admin.rotateKey(database, id, 0, by)).toEqual({ ok: false, problem });
  expect(await admin.changePlan(database, id, "pro", undefined, by)).toEqual({ ok: false, problem });
  expect(await keyOf(id)).toEqual(before);
  expect([await goodUntil(secret), await goodUntil(second)]).toEqual([Date.now() + 100_000, null]);
});

it("an interrupted rotation can be repeated", async () => {
  const { id, secret } = await newKey();
  const insert = "INSERT INTO replaced_secrets (key_id, hash, good_until_ms) VALUES (?1, unhex(?2), ?3)";
  await database
    .prepare(insert)
    .bind(id, sha256(secret), Date.now() + 5)
    .run();
  await rotate(id, 100_000);
  expect(await goodUntil(secret)).toBe(Date.now() + 100_000);
});

const OWN = { minute: 7, day: 70 };

it("an enterprise key needs limits, and loses them with the plan", async () => {
  const agreed = { name: "agreed", plan: "enterprise", expiresAtMs: null } as const;
  await expect(admin.createKey(database, agreed, operator())).rejects.toThrow("needs limits");
  const { id } = await newKey({ plan: "enterprise", limits: OWN });
  expect((await keyOf(id))?.limits).toEqual(OWN);
  expect(await admin.changePlan(database, id, "pro", undefined, operator())).toMatchObject({ ok: true });
  expect((await keyOf(id))?.limits).toEqual({ minute: 300, day: 10_000 });
});

/** A change of each kind of a Free key, with the values of its row. */
const CHANGES: Record<
  OperatorChange,
  [from: unknown, to: unknown, make: (id: string, by: admin.Operator) => Promise<unknown>]
> = {
  renamed: ["a test", "shop", (id, by) => admin.renameKey(database, id, "shop", by)],
  expiry: [
    "never",
    "2099-01-31T00:00:00Z",
    (id, by) => admin.setExpiry(database, id, Date.UTC(2099, 0, 31), by),
  ],
  plan: [
    "free",
    "enterprise 7/min 70/day",
    (id, by) => admin.changePlan(database, id, "enterprise", OWN, by),
  ],
  rotated: [LAST_FOUR, LAST_FOUR, (id, by) => admin.rotateKey(database, id, 0, by)],
  revoked: [null, null, (id, by) => admin.revokeKey(database, id, by)],
  unbanned: [TIME, null, (id, by) => admin.unbanKey(database, id, by)],
};

it.each(Object.entries(CHANGES))(
  "%s: the change is recorded and shown, and refused for a revoked key",
  async (change, [from, to, make]) => {
    const { id } = await newKey({ plan: "free" });
    await recordBan(database, id, Date.now() + 60_000);
    const before = await keyOf(id);
    expect(await make(id, operator(Date.now() + 1))).toMatchObject({ ok: true, key: { id } });
    expect(await listChanges(database, id, 9)).toEqual([
      expect.objectContaining({ change, from, to }),
      expect.objectContaining({ change: BANNED, from: null, to: TIME }),
      expect.objectContaining({ change: "created", from: null, to: "free" }),
    ]);
    // A column that operators don't see fails here.
    expect(await keyOf(id)).not.toEqual(before);
    await admin.revokeKey(database, id, operator());
    expect(await make(id, operator())).toEqual({ ok: false, problem: "revoked" });
  },
);
