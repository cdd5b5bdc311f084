// As many requests as a key may make, at once and within 600 ms, over sockets, through one isolate and through three: all of them
// are admitted, and the next one is refused. Time is real, so isolates have leases meanwhile.
//
// BURSTS=10 npm test -- test/e2e/isolates/bursts.test.ts uses up ten keys of each plan instead of two.

import { Agent, get, type IncomingHttpHeaders } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { addTablesAndPets } from "../../../bench/cases/pets.ts";
import { startWorkers } from "../../../bench/measure/workerd.ts";
import { createKey } from "../../../src/keys/admin.ts";
import { PLAN_LIMITS } from "../../../src/rate-limit/plans.ts";
import type { Limits } from "../../../src/rate-limit/windows.ts";

const BURSTS = Number(process.env.BURSTS ?? 2);

/** A burst has to be over in the minute in which it began. */
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
  return (await createKey(database, key, Date.now())).secret;
}

interface Answer {
  status: number | undefined;
  headers: IncomingHttpHeaders;
}

/** Sends one request through an isolate. */
function send(secret: string, isolate: number, agent: Agent): Promise<Answer> {
  const url = `${service.workers[isolate]?.url}v1/nowhere`;
  const headers = { Authorization: `Bearer ${secret}` };
  return new Promise((resolve, reject) => {
    get(url, { agent, headers }, (response) => {
      response.resume().on("end", () => resolve({ status: response.statusCode, headers: response.headers }));
    }).on("error", reject);
  });
}

/** Sends so many requests through so many isolates, in ten parts, and then one more. Returns how often each status came. */
async function burst(secret: string, requests: number, isolates: number, stepMs: number) {
  const leftMs = MINUTE_MS - (Date.now() % MINUTE_MS);
  if (leftMs < BURST_MS) await wait(leftMs);
  // Sockets of its own, because the server hangs up those that nobody uses.
  const agent = new Agent({ keepAlive: true, maxSockets: 100 });
  const sent = Array.from({ length: requests }, async (_, index) => {
    if (stepMs > 0) await wait(stepMs * Math.floor((10 * index) / requests));
    return send(secret, index % isolates, agent);
  });
  const byStatus = Map.groupBy(await Promise.all(sent), ({ status }) => status);
  const { status, headers } = await send(secret, 0, agent);
  agent.destroy();
  const next = `${status}, with ${headers["x-ratelimit-remaining"]} left`;
  return { ...Object.fromEntries(Array.from(byStatus, ([each, all]) => [each, all.length])), next };
}

/** Fresh keys of a plan, each used up, at once or within so long that isolates get leases. */
async function useUp(plan: "free" | "pro" | "business", isolates: number): Promise<void> {
  const { minute } = PLAN_LIMITS[plan];
  for (let time = 0; time < BURSTS; time += 1) {
    const secret = await newSecret(PLAN_LIMITS[plan]);
    const stepMs = 60 * (time % 2);
    const { next, ...statuses } = await burst(secret, minute, isolates, stepMs);
    const what = `${plan} through ${isolates}, in steps of ${stepMs} ms`;
    expect({ ...statuses, next }, what).toEqual({ 404: minute, next: "429, with 0 left" });
  }
}

it("exactly the limit is admitted", async () => {
  for (const plan of ["free", "pro", "business"] as const)
    for (const isolates of [1, 3]) await useUp(plan, isolates);
});

it("exactly the limit is admitted through three isolates whose object crashes in the first call", async () => {
  const secret = await newSecret({ minute: 60, day: 61 });
  expect(await burst(secret, 180, 3, 0)).toMatchObject({ 404: 60, 429: 120 });
});
