// Every test file gets the tables, and a fixed clock in the middle of a minute and of a day. Only `Date` is faked. All log lines
// are searched for secrets, and all responses are validated against the OpenAPI document.

import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, vi } from "vitest";
import { validateResponses } from "./client.ts";
import { collectLogLines, takeLogLines } from "./log-lines.ts";

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

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: new Date("2026-11-20T12:34:20.500Z") });
});

afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  takeLogLines();
  await validateResponses();
});
