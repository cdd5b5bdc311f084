// What the commands for keys change in the database: the secrets of a rotated key, and nothing if another operator was faster.
// test/e2e/keys.test.ts has the other changes, and when they are refused.

import { env } from "cloudflare:workers";
import { assert, expect, it } from "vitest";
import { MAX_REPLACED_SECRETS } from "../../src/keys/key.ts";
import { keyIdOf } from "../../src/keys/secret.ts";
import { findKey } from "../../src/keys/store.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import { endGraces, resumeKey, revokeKey, rotateKey, suspendKey } from "../../src/operators/admin.ts";
import { findKeyById, listChanges } from "../../src/operators/records.ts";
import { newKey, operator } from "../support/worker/client.ts";

const database = env.KEYS_DB;

/** When secrets of keys expire: null for a current one, undefined for one that its key no longer has. */
const ends = (...all: string[]) =>
  Promise.all(
    all.map(async (secret) => {
      const record = await findKey(database, keyIdOf(secret) ?? "");
      return record?.secrets.find(({ hash }) => hash === sha256(secret))?.goodUntilMs;
    }),
  );

async function rotate(id: string, graceMs: number) {
  const rotated = await rotateKey(database, id, graceMs, operator());
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
  expect(await ends(secret, second, third)).toEqual([shortMs, shortMs, null]);
  await rotate(id, 100_000);
  expect(await ends(secret, third, other.secret)).toEqual([shortMs, longMs, longMs]);
});

it("a key keeps at most 20 replaced secrets, those that end last, however often it is rotated with a grace", async () => {
  const { id, secret } = await newKey();
  const secrets = [secret];
  // Each grace ends a second after that of the rotation before, which is not shortened.
  for (let rotation = 0; rotation < 21; rotation += 1)
    secrets.push(await rotate(id, 100_000 + rotation * 1_000));
  const kept = Array.from({ length: 20 }, (_, index) => Date.now() + 101_000 + index * 1_000);
  expect(await ends(...secrets)).toEqual([undefined, ...kept, null]);
  expect((await findKey(database, id))?.secrets).toHaveLength(1 + MAX_REPLACED_SECRETS);
});

it.each(["revoked", "expired"] as const)(
  "a refused rotation of a key that is %s shortens no grace",
  async (problem) => {
    const { id, secret } = await newKey({ expiresAtMs: Date.now() + 10_000 });
    const second = await rotate(id, 100_000);
    if (problem === "revoked") await revokeKey(database, id, operator());
    const by = operator(Date.now() + (problem === "expired" ? 10_000 : 0));
    expect(await rotateKey(database, id, 0, by)).toEqual({ ok: false, problem });
    expect(await ends(secret, second)).toEqual([Date.now() + 100_000, null]);
  },
);

it("an interrupted rotation can be repeated", async () => {
  const { id, secret } = await newKey();
  const insert = "INSERT INTO replaced_secrets (key_id, hash, good_until_ms) VALUES (?1, unhex(?2), 5)";
  await database.prepare(insert).bind(id, sha256(secret)).run();
  await rotate(id, 100_000);
  expect(await ends(secret)).toEqual([Date.now() + 100_000]);
});

it("the end of graces ends the replaced secrets of one key, and not its current one", async () => {
  const { id, secret } = await newKey();
  const other = await newKey();
  await rotate(other.id, 100_000);
  const second = await rotate(id, 100_000);
  const third = await rotate(id, 100_000);
  await endGraces(database, id, operator());
  expect(await ends(secret, second, third)).toEqual([Date.now(), Date.now(), null]);
  expect(await ends(other.secret)).toEqual([Date.now() + 100_000]);
});

it("a rotation that was confirmed for a secret that another operator has replaced changes and records nothing", async () => {
  const { id, secret } = await newKey();
  const key = await findKeyById(database, id, Date.now());
  // Both operators have seen the same secret.
  const confirmedHash = key?.hash ?? "";
  const rotated = await rotateKey(database, id, 100_000, { ...operator(), by: "Jo", confirmedHash });
  assert(rotated.ok);
  const before = [await findKey(database, id), await listChanges(database, { id }, 9)];
  const refused = await rotateKey(database, id, 0, { ...operator(), by: "Ann", confirmedHash });
  const rotation = { by: "Jo", atMs: Date.now() };
  expect(refused).toMatchObject({ ok: false, problem: "rotated", rotation });
  expect([await findKey(database, id), await listChanges(database, { id }, 9)]).toEqual(before);
  expect(await ends(secret, rotated.secret)).toEqual([Date.now() + 100_000, null]);
});

it("of two operators who suspend a key at once, the reason of the first stays, and a resumption is for that reason only", async () => {
  const { id } = await newKey();
  const both = await Promise.all([
    suspendKey(database, id, "leaked", false, operator()),
    suspendKey(database, id, "unpaid", false, operator()),
  ]);
  expect(both).toMatchObject([
    { ok: true, isChanged: true },
    { ok: false, problem: "other reason", key: { suspensionReason: "leaked" } },
  ]);
  const refused = await resumeKey(database, id, "unpaid", operator());
  expect(refused).toMatchObject({ ok: false, problem: "other reason" });
  expect(await resumeKey(database, id, "leaked", operator())).toMatchObject({ ok: true, isChanged: true });
  // The reason of an earlier suspension does not count.
  await suspendKey(database, id, "unpaid", false, operator(Date.now() + 1));
  expect(await resumeKey(database, id, "leaked", operator())).toMatchObject({ problem: "other reason" });
  expect(await listChanges(database, { id }, 9)).toHaveLength(4);
});
