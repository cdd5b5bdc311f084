// Gives every test file the tables, and a clock that stands still in the middle of a minute and of a day, so
// that nothing depends on when the tests run. Only `Date` is faked. Every line that any test makes the Worker write is
// looked through for secrets.

import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, vi } from "vitest";
import { collectLogLines, takeLogLines } from "./log-lines.ts";

declare global {
  namespace Cloudflare {
    interface Env {
      TEST_MIGRATIONS: Parameters<typeof applyD1Migrations>[1];
      /** What stands for a replica of the database: test/support/worker/lagging-database.ts. */
      REPLICA: D1Database;
      /** Says what of an exchange is not documented: test/support/documented.ts. */
      UNDOCUMENTED: Fetcher;
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
