// Bursts over sockets, through one isolate and through three, at once and over 600 ms. Time is real, so isolates hold leases.
//
// BURSTS=10 npm test -- test/e2e/isolates/bursts.test.ts exhausts ten keys of each plan instead of two.

import { Agent, get, type IncomingMessage } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { addTablesAndPets } from "../../../bench/cases/pets.ts";
import { startWorkers } from "../../../bench/measure/workerd.ts";
import { createKey } from "../../../src/keys/admin.ts";
import { PLAN_LIMITS } from "../../../src/rate-limit/plans.ts";
import type { Limits } from "../../../src/rate-limit/windows.ts";

const BURSTS = Number(process.env.BURSTS ?? 2);

/** A burst must end in the minute in which it begins. */
const BURST_MS = 10_000;

const MINUTE_MS = 60_000;

let service: Awaited<ReturnType<typeof startWorkers>>;
let database: D1Database;

beforeAll(async () => {
  const object = { binding: "RATE_LIMITER", className: "RateLimiter", livesIn: 0 };
  const worker = { file: "test/e2e/isolates/crashing.ts", object, sharedDatabases: { DB: "shared" } };
  service = await startWorkers([worker, worker, worker]);
  database = await (service.workers[0] as (typeof service.workers)[0]).database();
  await addTablesAndPets(database, 0);
});

afterAll(async () => {
  await service.stop();
});

async function newSecret(limits: Limits): Promise<string> {
  const key = { name: "a test", plan: "enterprise", limits, expiresAtMs: null } as const;
  return (await createKey(database, key, { by: "test", nowMs: Date.now() })).secret;
}

/** Sends one request through an isolate. */
function send(secret: string, isolate: number, agent: Agent): Promise<IncomingMessage> {
  const url = `${service.workers[isolate]?.url}v1/nowhere`;
  const headers = { Authorization: `Bearer ${secret}` };
  return new Promise((resolve, reject) => {
    get(url, { agent, headers }, (response) => {
      response.resume().on("end", () => resolve(response));
    }).on("error", reject);
  });
}

/** Sends requests in ten steps, and then one more. Returns the number of each status, and the response to the last request. */
async function burst(secret: string, requests: number, isolates: number, stepMs: number) {
  const untilNextMinuteMs = MINUTE_MS - (Date.now() % MINUTE_MS);
  if (untilNextMinuteMs < BURST_MS) await wait(untilNextMinuteMs);
  // Each burst has its own sockets, because the server closes idle ones.
  const agent = new Agent({ keepAlive: true, maxSockets: 100 });
  const sent = Array.from({ length: requests }, async (_, index) => {
    if (stepMs > 0) await wait(stepMs * Math.floor((10 * index) / requests));
    return send(secret, index % isolates, agent);
  });
  const byStatus = Map.groupBy(await Promise.all(sent), ({ statusCode }) => statusCode);
  const { statusCode, headers } = await send(secret, 0, agent);
  agent.destroy();
  const next = `${statusCode}, with ${headers["x-ratelimit-remaining"]} left`;
  return { ...Object.fromEntries(Array.from(byStatus, ([each, all]) => [each, all.length])), next };
}

/** Exhausts new keys of a plan, by turns at once and over 600 ms, in which isolates get leases. */
async function exhaust(plan: "free" | "pro" | "business", isolates: number): Promise<void> {
  const { minute } = PLAN_LIMITS[plan];
  for (let index = 0; index < BURSTS; index += 1) {
    const secret = await newSecret(PLAN_LIMITS[plan]);
    const stepMs = 60 * (index % 2);
    const { next, ...statuses } = await burst(secret, minute, isolates, stepMs);
    const burstName = `${plan} through ${isolates}, in steps of ${stepMs} ms`;
    expect({ ...statuses, next }, burstName).toEqual({ 404: minute, next: "429, with 0 left" });
  }
}

it("a burst of exactly the limit is admitted, and the next request is refused", async () => {
  for (const plan of ["free", "pro", "business"] as const)
    for (const isolates of [1, 3]) await exhaust(plan, isolates);
});

it("a burst of three times the limit is admitted up to the limit if the object crashes in its first call", async () => {
  const secret = await newSecret({ minute: 60, day: 61 });
  expect(await burst(secret, 180, 3, 0)).toMatchObject({ 404: 60, 429: 120 });
});
