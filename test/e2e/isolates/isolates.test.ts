// What holds across isolates: every one goes by what an operator does within 30 s, and all count a key's requests together
// (bursts.test.ts says how exactly).

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MESSAGES } from "../../../src/http/messages.ts";
import { changePlan, createKey, revokeKey, rotateKey } from "../../../src/keys/admin.ts";
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
  const nowMs = await service.pass(0);
  const expiresAtMs = lifetimeMs === undefined ? null : nowMs + lifetimeMs;
  const newOne = { name: "a test", plan: "free", expiresAtMs } as const;
  const { key, secret } = await createKey(service.database, newOne, nowMs);
  trackSecret(secret);
  return { id: key.id, secret };
}

/** What each isolate says to a secret: the status, and how many requests a minute it grants or what is wrong. */
async function answers(secret: string): Promise<string[]> {
  const headers = { Authorization: `Bearer ${secret}` };
  const found: string[] = [];
  for (const isolate of service.isolates) {
    const response = await isolate.fetch("/v1/pets", { headers });
    const { message } = (await response.json()) as { message?: string };
    const perMinute = response.headers.get("RateLimit-Policy")?.match(/"minute";q=(\d+)/)?.[1];
    found.push(`${response.status}: ${message ?? perMinute}`);
  }
  return found;
}

const inAll = (answer: string) => service.isolates.map(() => answer);

describe("30 s after an operator's command, every isolate goes by it, and", () => {
  it.each([
    ["a revoked key is refused", revokeKey, `401: ${MESSAGES.unauthorized.revoked}`],
    [
      "a rotated key is refused",
      (database: D1Database, id: string, nowMs: number) => rotateKey(database, id, 0, nowMs),
      `401: ${MESSAGES.unauthorized.replaced}`,
    ],
    [
      "a key on another plan has its limits",
      (database: D1Database, id: string, nowMs: number) => changePlan(database, id, "pro", undefined, nowMs),
      "200: 300",
    ],
  ])("%s", async (_, command, answer) => {
    const [idle, asked] = [await newKey(), await newKey()];
    for (const { id, secret } of [idle, asked]) {
      expect(await answers(secret)).toEqual(inAll("200: 60"));
      await command(service.database, id, await service.pass(0));
    }
    // This is not promised. But an isolate that did not believe what it remembers would not be put to the test. Whoever
    // asks now has the key read again in the background.
    await service.pass(29_999);
    expect(await answers(asked.secret)).toEqual(inAll("200: 60"));
    await service.pass(1);
    for (const { secret } of [idle, asked]) expect(await answers(secret)).toEqual(inAll(answer));
  });

  it("the new secret of a rotated key is good at once", async () => {
    const { id } = await newKey();
    const rotated = await rotateKey(service.database, id, 0, await service.pass(0));
    if (!rotated.ok) throw new Error(rotated.problem);
    expect(await answers(rotated.secret)).toEqual(inAll("200: 60"));
    await service.pass(30_000);
    expect(await answers(rotated.secret)).toEqual(inAll("200: 60"));
  });

  it("a rotated key with a grace of more than 30 s is good until its end, to the millisecond", async () => {
    const { id, secret } = await newKey();
    expect(await answers(secret)).toEqual(inAll("200: 60"));
    await rotateKey(service.database, id, 100_000, await service.pass(0));
    await service.pass(99_999);
    expect(await answers(secret)).toEqual(inAll("200: 60"));
    await service.pass(1);
    expect(await answers(secret)).toEqual(inAll(`401: ${MESSAGES.unauthorized.replaced}`));
  });

  it("a rotated key with a grace of less than 30 s is refused", async () => {
    const { id, secret } = await newKey();
    expect(await answers(secret)).toEqual(inAll("200: 60"));
    await rotateKey(service.database, id, 20_000, await service.pass(0));
    await service.pass(19_999);
    expect(await answers(secret)).toEqual(inAll("200: 60"));
    await service.pass(10_001);
    expect(await answers(secret)).toEqual(inAll(`401: ${MESSAGES.unauthorized.replaced}`));
  });
});

it("an expired key is refused by every isolate from that millisecond on", async () => {
  const { secret } = await newKey(10_000);
  expect(await answers(secret)).toEqual(inAll("200: 60"));
  await service.pass(9_999);
  expect(await answers(secret)).toEqual(inAll("200: 60"));
  await service.pass(1);
  expect(await answers(secret)).toEqual(inAll(`401: ${MESSAGES.unauthorized.expired}`));
});

it("what one isolate remembers, the others never knew: they are three", async () => {
  const { id, secret } = await newKey();
  const headers = { Authorization: `Bearer ${secret}` };
  await (await service.isolates[0].fetch("/v1/pets", { headers })).arrayBuffer();
  await revokeKey(service.database, id, await service.pass(0));
  const revoked = `401: ${MESSAGES.unauthorized.revoked}`;
  expect(await answers(secret)).toEqual(["200: 60", revoked, revoked]);
});

it("all isolates count a key's requests together", async () => {
  const { secret } = await newKey();
  const [first, second] = service.isolates;
  const left: (string | null)[] = [];
  for (const isolate of [first, second, second, first]) {
    const response = await isolate.fetch("/v1/pets", { headers: { Authorization: `Bearer ${secret}` } });
    await response.arrayBuffer();
    left.push(response.headers.get("X-RateLimit-Remaining"));
  }
  expect(left).toEqual(["59", "58", "57", "56"]);
});
