// Migrates an empty database as wrangler does, but without a process of its own, which takes two seconds.

import { readD1Migrations } from "@cloudflare/vitest-plugin";
import type { Contents } from "../../../scripts/cloudflare/database.ts";

const CREATE_RECORD =
  "CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)";

export async function migrateEmpty(database: D1Database, contents: Contents): Promise<void> {
  const migrations = await readD1Migrations(`migrations/${contents}`);
  const statements = migrations.flatMap(({ name, queries }) => [
    ...queries,
    `INSERT INTO d1_migrations (name) VALUES ('${name}')`,
  ]);
  await database.batch([CREATE_RECORD, ...statements].map((sql) => database.prepare(sql)));
}
