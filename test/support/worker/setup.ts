// Every test file gets the tables, and a fixed clock in the middle of a minute and of a day. Only `Date` is faked. All log lines
// are searched for secrets.

import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, vi } from "vitest";
import { collectLogLines, takeLogLines } from "./log-lines.ts";

declare global {
  namespace Cloudflare {
    interface Env {
      TEST_MIGRATIONS: Parameters<typeof applyD1Migrations>[1];
      /** The replica of the database in test/support/worker/lagging-database.ts. */
      REPLICA: D1Database;
      /** Validates an exchange: test/support/openapi-validator.ts. */
      OPENAPI_VALIDATOR: Fetcher;
    }
  }
}

await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
collectLogLines();

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: new Date("2026-11-20T12:34:20.500Z") });
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  takeLogLines();
});
