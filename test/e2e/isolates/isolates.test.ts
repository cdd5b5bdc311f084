// Key changes and counts across isolates. bursts.test.ts checks the counts under load.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MESSAGES } from "../../../src/http/messages.ts";
import { changePlan, createKey, type Operator, revokeKey, rotateKey } from "../../../src/keys/admin.ts";
import { expectNoSecret } from "../../support/worker/log-lines.ts";
import { trackSecret } from "../../support/worker/secrets.ts";
import { startIsolates } from "./isolates.ts";

let service: Awaited<ReturnType<typeof startIsolates>>;

beforeAll(async () => {
  service = await startIsolates();
});

afterAll(async () => {
  try {
    const lines = service.logLines();
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expectNoSecret(line);
  } finally {
    await service.stop();
  }
});

/** Stores a new key on the free plan: 60 requests a minute. */
async function newKey(lifetimeMs?: number) {
  const nowMs = await service.advance(0);
  const expiresAtMs = lifetimeMs === undefined ? null : nowMs + lifetimeMs;
  const fields = { name: "a test", plan: "free", expiresAtMs } as const;
  const { key, secret } = await createKey(service.database, fields, { by: "test", nowMs });
  trackSecret(secret);
  return { id: key.id, secret };
}

/** The response of each isolate to a secret: the status, and the error message or the limit per minute. */
async function responses(secret: string): Promise<string[]> {
  const headers = { Authorization: `Bearer ${secret}` };
  const texts: string[] = [];
  for (const isolate of service.isolates) {
    const response = await isolate.fetch("/v1/pets", { headers });
    const { message } = (await response.json()) as { message?: string };
    const perMinute = response.headers.get("RateLimit-Policy")?.match(/"minute";q=(\d+)/)?.[1];
    texts.push(`${response.status}: ${message ?? perMinute}`);
  }
  return texts;
}

const inAll = (response: string) => service.isolates.map(() => response);

describe("every isolate", () => {
  it.each([
    ["rejects a revoked key", revokeKey, `401: ${MESSAGES.unauthorized.revoked}`],
    [
      "rejects the old secret of a rotated key",
      (database: D1Database, id: string, operator: Operator) => rotateKey(database, id, 0, operator),
      `401: ${MESSAGES.unauthorized.replaced}`,
    ],
    [
      "applies the limits of a new plan",
      (database: D1Database, id: string, operator: Operator) =>
        changePlan(database, id, "pro", undefined, operator),
      "200: 300",
    ],
  ])("%s after 30 s", async (_, command, response) => {
    const [idle, used] = [await newKey(), await newKey()];
    for (const { id, secret } of [idle, used]) {
      expect(await responses(secret)).toEqual(inAll("200: 60"));
      await command(service.database, id, { by: "test", nowMs: await service.advance(0) });
    }
    // This is no guarantee, but it shows that the isolates cache the key. These requests revalidate it in the background.
    await service.advance(29_999);
    expect(await responses(used.secret)).toEqual(inAll("200: 60"));
    await service.advance(1);
    for (const { secret } of [idle, used]) expect(await responses(secret)).toEqual(inAll(response));
  });

  it("accepts the new secret of a rotated key at once", async () => {
    const { id } = await newKey();
    const rotated = await rotateKey(service.database, id, 0, { by: "test", nowMs: await service.advance(0) });
    if (!rotated.ok) throw new Error(rotated.problem);
    expect(await responses(rotated.secret)).toEqual(inAll("200: 60"));
    await service.advance(30_000);
    expect(await responses(rotated.secret)).toEqual(inAll("200: 60"));
  });

  it("accepts the old secret until a grace of more than 30 s ends, to the millisecond", async () => {
    const { id, secret } = await newKey();
    expect(await responses(secret)).toEqual(inAll("200: 60"));
    await rotateKey(service.database, id, 100_000, { by: "test", nowMs: await service.advance(0) });
    await service.advance(99_999);
    expect(await responses(secret)).toEqual(inAll("200: 60"));
    await service.advance(1);
    expect(await responses(secret)).toEqual(inAll(`401: ${MESSAGES.unauthorized.replaced}`));
  });

  it("rejects the old secret after 30 s if its grace is shorter", async () => {
    const { id, secret } = await newKey();
    expect(await responses(secret)).toEqual(inAll("200: 60"));
    await rotateKey(service.database, id, 20_000, { by: "test", nowMs: await service.advance(0) });
    await service.advance(19_999);
    expect(await responses(secret)).toEqual(inAll("200: 60"));
    await service.advance(10_001);
    expect(await responses(secret)).toEqual(inAll(`401: ${MESSAGES.unauthorized.replaced}`));
  });

  it("rejects a key from the millisecond at which it expires", async () => {
    const { secret } = await newKey(10_000);
    expect(await responses(secret)).toEqual(inAll("200: 60"));
    await service.advance(9_999);
    expect(await responses(secret)).toEqual(inAll("200: 60"));
    await service.advance(1);
    expect(await responses(secret)).toEqual(inAll(`401: ${MESSAGES.unauthorized.expired}`));
  });
});

it("each isolate has its own key cache", async () => {
  const { id, secret } = await newKey();
  const headers = { Authorization: `Bearer ${secret}` };
  await (await service.isolates[0].fetch("/v1/pets", { headers })).arrayBuffer();
  await revokeKey(service.database, id, { by: "test", nowMs: await service.advance(0) });
  const revoked = `401: ${MESSAGES.unauthorized.revoked}`;
  expect(await responses(secret)).toEqual(["200: 60", revoked, revoked]);
});

it("all isolates count a key's requests together", async () => {
  const { secret } = await newKey();
  const [first, second] = service.isolates;
  const remaining: (string | null)[] = [];
  for (const isolate of [first, second, second, first]) {
    const response = await isolate.fetch("/v1/pets", { headers: { Authorization: `Bearer ${secret}` } });
    await response.arrayBuffer();
    remaining.push(response.headers.get("X-RateLimit-Remaining"));
  }
  expect(remaining).toEqual(["59", "58", "57", "56"]);
});
