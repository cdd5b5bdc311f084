// Three isolates over sockets: key changes on clocks that tests advance, and bursts on real clocks, with leases.

import { Agent, get, type IncomingMessage } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { MESSAGES } from "../../../src/http/messages.ts";
import { changePlan, createKey, type Operator, revokeKey, rotateKey } from "../../../src/keys/admin.ts";
import { PLAN_LIMITS } from "../../../src/rate-limit/plans.ts";
import type { Limits } from "../../../src/rate-limit/windows.ts";
import { startIsolates } from "./isolates.ts";

let service: Awaited<ReturnType<typeof startIsolates>>;

beforeAll(async () => {
  service = await startIsolates();
});

afterAll(() => service.stop());

async function newKey(limits: Limits = { minute: 60, day: 1_000 }) {
  const key = { name: "a test", plan: "enterprise", limits, expiresAtMs: null } as const;
  const created = await createKey(service.database, key, { by: "test", nowMs: Date.now() });
  return { id: created.key.id, secret: created.secret };
}

/** Sends one request through an isolate. */
function send(
  secret: string,
  isolate: number,
  path: string,
  agent: Agent | false = false,
): Promise<IncomingMessage & { text: string }> {
  const headers = { Authorization: `Bearer ${secret}` };
  return new Promise((resolve, reject) => {
    get(new URL(path, service.urls[isolate]).href, { agent, headers }, async (response) => {
      const text = (await response.toArray()).join("");
      resolve(Object.assign(response, { text }));
    }).on("error", reject);
  });
}

/** The response of each isolate: the status, and the error message or the limit per minute. */
async function responses(secret: string): Promise<string[]> {
  const texts: string[] = [];
  for (const isolate of service.urls.keys()) {
    const { statusCode, headers, text } = await send(secret, isolate, "/v1/pets");
    texts.push(`${statusCode}: ${JSON.parse(text).message ?? headers["x-ratelimit-limit"]}`);
  }
  return texts;
}

const inAll = (response: string) => service.urls.map(() => response);
const REVOKED = `401: ${MESSAGES.unauthorized.revoked}`;
const REPLACED = `401: ${MESSAGES.unauthorized.replaced}`;

describe("every isolate", () => {
  let operator: Operator;
  beforeEach(async () => {
    operator = { by: "test", nowMs: await service.advance(0) };
  });

  it.each<[what: string, change: (id: string) => Promise<unknown>, response: string]>([
    ["rejects a revoked key", (id) => revokeKey(service.database, id, operator), REVOKED],
    ["rejects a replaced secret", (id) => rotateKey(service.database, id, 0, operator), REPLACED],
    [
      "rejects a replaced secret with a shorter grace",
      (id) => rotateKey(service.database, id, 20_000, operator),
      REPLACED,
    ],
    [
      "applies the limits of a new plan",
      (id) => changePlan(service.database, id, "pro", undefined, operator),
      "200: 300",
    ],
  ])("%s after 30 s", async (_, change, response) => {
    const [idle, used] = [await newKey(), await newKey()];
    for (const { id, secret } of [idle, used]) {
      expect(await responses(secret)).toEqual(inAll("200: 60"));
      await change(id);
    }
    // This is no guarantee, but it shows that the isolates cache the key. These requests revalidate it in the background.
    await service.advance(29_999);
    expect(await responses(used.secret)).toEqual(inAll("200: 60"));
    await service.advance(1);
    for (const { secret } of [idle, used]) expect(await responses(secret)).toEqual(inAll(response));
  });

  it("accepts the new secret of a rotated key at once, and the old one to the millisecond of a long grace", async () => {
    const { id, secret } = await newKey();
    expect(await responses(secret)).toEqual(inAll("200: 60"));
    const rotated = await rotateKey(service.database, id, 100_000, operator);
    if (!rotated.ok) throw new Error(rotated.problem);
    expect(await responses(rotated.secret)).toEqual(inAll("200: 60"));
    await service.advance(99_999);
    expect(await responses(secret)).toEqual(inAll("200: 60"));
    await service.advance(1);
    expect(await responses(secret)).toEqual(inAll(REPLACED));
    expect(await responses(rotated.secret)).toEqual(inAll("200: 60"));
  });

  it("has its own key cache, and counts a key's requests together with the others", async () => {
    const { id, secret } = await newKey();
    const remaining: unknown[] = [];
    for (const isolate of [0, 1, 1, 0])
      remaining.push((await send(secret, isolate, "/v1/pets")).headers["x-ratelimit-remaining"]);
    expect(remaining).toEqual(["59", "58", "57", "56"]);
    await revokeKey(service.database, id, operator);
    expect(await responses(secret)).toEqual(["200: 60", "200: 60", REVOKED]);
  });
});

/** A burst must end in the minute in which it begins. */
const BURST_MS = 10_000;

/** Sends the requests of a minute in ten steps, and one more. Returns the number of each status, and the last response. */
async function burst({ minute, day }: Limits, isolates: number, stepMs: number) {
  const { secret } = await newKey({ minute, day });
  const untilNextMinuteMs = 60_000 - (Date.now() % 60_000);
  if (untilNextMinuteMs < BURST_MS) await wait(untilNextMinuteMs);
  // Each burst has its own sockets, because the server closes idle ones.
  const agent = new Agent({ keepAlive: true, maxSockets: 100 });
  const sent = Array.from({ length: minute }, async (_, index) => {
    if (stepMs > 0) await wait(stepMs * Math.floor((10 * index) / minute));
    return send(secret, index % isolates, "/v1/nowhere", agent);
  });
  const byStatus = Map.groupBy(await Promise.all(sent), ({ statusCode }) => statusCode);
  const { statusCode, headers } = await send(secret, 0, "/v1/nowhere", agent);
  agent.destroy();
  const next = `${statusCode}, with ${headers["x-ratelimit-remaining"]} left`;
  return { ...Object.fromEntries(Array.from(byStatus, ([each, all]) => [each, all.length])), next };
}

describe("a burst", () => {
  beforeEach(() => service.useRealClocks());

  it.each([
    [1, 0],
    [1, 60],
    [3, 0],
    [3, 60],
  ])(
    "of exactly the limit through %i isolates, in steps of %i ms, is admitted, and the next request is refused",
    async (isolates, stepMs) => {
      const statuses = await burst(PLAN_LIMITS.pro, isolates, stepMs);
      expect(statuses).toEqual({ 404: PLAN_LIMITS.pro.minute, next: "429, with 0 left" });
    },
  );
});
