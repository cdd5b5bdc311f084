// Every test file gets the tables, and a fixed clock in the middle of a minute and of a day. Only `Date` is faked. All log lines
// are searched for secrets, and all responses are validated against the OpenAPI document. Alarms run only when a test runs them, and
// timers of leases and reports never.

import { applyD1Migrations, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, vi } from "vitest";
import { HANG_MS } from "../hang.ts";
import { validateResponses } from "./client.ts";
import { collectLogLines, takeLogLines } from "./log-lines.ts";

/** A century. */
const LATER_MS = 100 * 365 * 86_400_000;

declare global {
  namespace Cloudflare {
    interface Env {
      PETS_MIGRATIONS: Parameters<typeof applyD1Migrations>[1];
      KEYS_MIGRATIONS: Parameters<typeof applyD1Migrations>[1];
      /** The replica of the database of pets in test/worker/freshness.test.ts. */
      REPLICA: D1Database;
      /** Validates exchanges: test/support/openapi-validator.ts. */
      OPENAPI_VALIDATOR: Fetcher;
    }
  }
}

await applyD1Migrations(env.PETS_DB, env.PETS_MIGRATIONS);
await applyD1Migrations(env.KEYS_DB, env.KEYS_MIGRATIONS);
collectLogLines();

// The platform's clock is not faked, so to it alarms of the faked present would be due.
await runInDurableObject(env.API_KEYS.get(env.API_KEYS.newUniqueId()), (_, { storage }) => {
  const prototype: DurableObjectStorage = Object.getPrototypeOf(storage);
  const { setAlarm, getAlarm } = prototype;
  // Each test file runs this again.
  if (setAlarm.name === "setLater") return;
  prototype.setAlarm = function setLater(atMs, ...options) {
    return setAlarm.call(this, Number(atMs) + LATER_MS, ...options);
  };
  prototype.getAlarm = async function (...options) {
    const atMs = await getAlarm.call(this, ...options);
    return atMs && atMs - LATER_MS;
  };
});

/** Pauses of requests that wait are shorter. */
const SHORTEST_TIMER_MS = 1_000;

// By the real clock, a lease would end in the middle of a slow test, or of a later one. After the last test, no timer runs.
const wait = scheduler.wait.bind(scheduler);
if (scheduler.wait.name !== "waitOrNever")
  scheduler.wait = function waitOrNever(ms, options) {
    return wait(ms < SHORTEST_TIMER_MS ? ms : HANG_MS, options);
  };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: new Date("2026-11-20T12:34:20.500Z") });
});

afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  takeLogLines();
  await validateResponses();
});
