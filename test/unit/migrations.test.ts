// The rules of docs/migrations.md that a program can check, and the names of plans, which keys keep for as long as they live.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { forEachWindow, limitsOf, type Plan } from "../../src/keys/plans.ts";

/** Each plan that a release has given to keys, with the latest migration of that release. No name is ever removed. */
const RELEASED_PLANS: Record<Plan, string> & Record<string, string> = {
  free: "0001_keys.sql",
  pro: "0001_keys.sql",
  business: "0001_keys.sql",
  enterprise: "0001_keys.sql",
};

/** Rows as the oldest release writes them to which a rollback is possible: each later schema has to accept them. */
const ROWS = {
  pets: "INSERT INTO pets (name, category_id) VALUES ('Rex', 1)",
  keys: keyWith("free"),
};

type Contents = keyof typeof ROWS;

const migrationsOf = (contents: Contents) =>
  readdirSync(join("migrations", contents))
    .sort()
    .map((name) => ({ contents, name, sql: readFileSync(join("migrations", contents, name), "utf8") }));

const MIGRATIONS = [...migrationsOf("keys"), ...migrationsOf("pets")];

function keyWith(plan: string): string {
  const limits = limitsOf(plan, undefined) === undefined ? `'{"minute":5,"day":5}'` : "NULL";
  return `INSERT INTO keys (id, name, plan, limits, hash, last_four, created_at_ms)
    VALUES (hex(randomblob(8)), 'a test', '${plan}', ${limits}, randomblob(32), 'abcd', 1)`;
}

/** A database with all migrations, which `between` is called after. */
function migrated(contents: Contents, between: (database: DatabaseSync, name: string) => void = () => {}) {
  const database = new DatabaseSync(":memory:");
  for (const { name, sql } of migrationsOf(contents)) {
    database.exec(sql);
    between(database, name);
  }
  return database;
}

it("a key of each plan that a release had still works: a plan that got another name needs a migration of its keys", () => {
  const database = migrated("keys", (each, name) => {
    for (const [plan, latest] of Object.entries(RELEASED_PLANS))
      if (latest === name) each.exec(keyWith(plan));
  });
  const plans = database.prepare("SELECT plan FROM keys").all();
  expect(plans).toHaveLength(Object.keys(RELEASED_PLANS).length);
  const own = forEachWindow(() => 5);
  expect(plans.filter(({ plan }) => limitsOf(`${plan}`, own) === undefined)).toEqual([]);
});

it.each(Object.keys(ROWS) as Contents[])(
  "%s: tables may have rows before a migration, and new ones after",
  (contents) => {
    const database = migrated(contents, (each) => each.exec(ROWS[contents]));
    const { rows } = database.prepare(`SELECT count(*) AS rows FROM ${contents}`).get() ?? {};
    expect(rows).toBe(migrationsOf(contents).length);
  },
);

it.each(MIGRATIONS)("$contents/$name changes a bounded number of rows", ({ sql }) => {
  const statements = sql
    .replace(/--.*/g, "")
    .replace(/^CREATE TRIGGER .*?^END;/gims, "")
    .split(";");
  const changes = statements.filter((each) => /^\s*(?:UPDATE|DELETE|REPLACE|INSERT|WITH)\b/i.test(each));
  // As in UPDATE … WHERE id IN (SELECT id … LIMIT 1000).
  expect(changes.filter((each) => !/\bLIMIT \d+\b/i.test(each))).toEqual([]);
});
