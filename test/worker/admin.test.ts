// What the commands for keys change in the database.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { changePlan, createKey, revokeKey, rotateKey } from "../../src/keys/admin.ts";
import { findKeyById } from "../../src/keys/records.ts";
import { findKeyByHash } from "../../src/keys/store.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import { newKey, operator } from "../support/worker/client.ts";

/** When a secret expires: null for the current one. */
async function goodUntil(secret: string) {
  return (await findKeyByHash(env.DB, await sha256(secret)))?.secretGoodUntilMs;
}
async function rotate(id: string, graceMs: number, nowMs = Date.now()) {
  const rotated = await rotateKey(env.DB, id, graceMs, operator(nowMs));
  if (!rotated.ok) throw new Error(rotated.problem);
  return rotated.secret;
}

it("a rotation shortens earlier grace periods of its key, and neither extends nor restores one", async () => {
  const { id, secret } = await newKey();
  const other = await newKey();
  await rotate(other.id, 100_000);
  const second = await rotate(id, 100_000);
  const third = await rotate(id, 10_000);
  const nowMs = Date.now();
  expect(await Promise.all([secret, second, third].map(goodUntil))).toEqual([
    nowMs + 10_000,
    nowMs + 10_000,
    null,
  ]);
  await rotate(id, 100_000);
  expect(await Promise.all([secret, third].map(goodUntil))).toEqual([nowMs + 10_000, nowMs + 100_000]);
  expect(await goodUntil(other.secret)).toBe(nowMs + 100_000);
});

it.each(["revoked", "expired"] as const)("a key that is %s can't be changed", async (problem) => {
  const expiresAtMs = Date.now() + 10_000;
  const { id, secret } = await newKey({ expiresAtMs });
  const second = await rotate(id, 100_000);
  if (problem === "revoked") await revokeKey(env.DB, id, operator());
  const nowMs = problem === "expired" ? expiresAtMs : Date.now();
  const before = await findKeyById(env.DB, id, Date.now());
  expect(await rotateKey(env.DB, id, 0, operator(nowMs))).toEqual({ ok: false, problem });
  expect(await changePlan(env.DB, id, "pro", undefined, operator(nowMs))).toEqual({ ok: false, problem });
  expect(await findKeyById(env.DB, id, Date.now())).toEqual(before);
  expect([await goodUntil(secret), await goodUntil(second)]).toEqual([Date.now() + 100_000, null]);
});

it("a key can be rotated, changed and revoked until it expires, and its revocation then stays", async () => {
  const { id } = await newKey({ expiresAtMs: Date.now() + 1 });
  expect(await rotateKey(env.DB, id, 0, operator())).toMatchObject({ ok: true });
  expect(await changePlan(env.DB, id, "pro", undefined, operator())).toMatchObject({ ok: true });
  expect(await revokeKey(env.DB, id, operator())).toMatchObject({ ok: true, key: { id } });
  const afterExpiry = operator(Date.now() + 1);
  for (const refused of [
    await revokeKey(env.DB, id, afterExpiry),
    await rotateKey(env.DB, id, 0, afterExpiry),
  ])
    expect(refused).toEqual({ ok: false, problem: "revoked" });
  expect((await findKeyById(env.DB, id, Date.now()))?.revokedAtMs).toBe(Date.now());
});

it("an interrupted rotation can be repeated", async () => {
  const { id, secret } = await newKey();
  const hash = await sha256(secret);
  await env.DB.prepare("INSERT INTO replaced_secrets VALUES (unhex(?1), ?2, ?3)")
    .bind(hash, id, Date.now() + 5)
    .run();
  await rotate(id, 100_000);
  expect(await goodUntil(secret)).toBe(Date.now() + 100_000);
});

it("an enterprise key needs limits, and loses them with the plan", async () => {
  const agreed = { name: "agreed", plan: "enterprise", expiresAtMs: null } as const;
  await expect(createKey(env.DB, agreed, operator())).rejects.toThrow("needs limits");
  const { id } = await newKey({ plan: "enterprise", limits: { minute: 7, day: 70 } });
  const limits = async () => (await findKeyById(env.DB, id, Date.now()))?.limits;
  expect(await limits()).toEqual({ minute: 7, day: 70 });
  expect(await changePlan(env.DB, id, "pro", undefined, operator())).toMatchObject({ ok: true });
  expect(await limits()).toEqual({ minute: 300, day: 10_000 });
});
