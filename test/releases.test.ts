// Releases that somebody may go back to, on the schema of today: each recording in test/releases/ is repeated, with the
// migrations that came after the release at every place in it. And that this would notice what breaks a release, and that
// the story, of which the next recording is made, leaves out no statement. How to change the schema: docs/migrations.md.

/// <reference types="vite/types/importMeta.d.ts" />
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { laterMigrations, type Recording, record, repeat } from "./releases/recording.ts";
import { hasSecret } from "./secrets.ts";

const RECORDINGS = Object.values(
  import.meta.glob<Recording>("./releases/*.json", { eager: true, import: "default" }),
).map((recording) => [recording.release, recording] as const);
const SOURCES = Object.values(
  import.meta.glob<string>("../src/**/*.ts", { eager: true, query: "?raw", import: "default" }),
);

/** The only way to put a check on a table that is there. */
const REBUILD_PETS = [
  `CREATE TABLE tighter (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL CHECK (length(name) <= 100),
    category_id INTEGER NOT NULL,
    status TEXT
  ) STRICT`,
  "INSERT INTO tighter SELECT id, name, category_id, status FROM pets",
  "DROP TABLE pets",
  "ALTER TABLE tighter RENAME TO pets",
];

const SHOUT = `
  CREATE TRIGGER shout AFTER INSERT ON pets
  BEGIN UPDATE pets SET name = upper(name) WHERE id = new.id; END`;

/** Repeats a recording as often as there are places in it at which the later migrations can come. */
async function repeatEverywhere(recording: Recording, migrations = env.TEST_MIGRATIONS) {
  const places = laterMigrations(recording, migrations).length === 0 ? 1 : recording.calls.length + 1;
  for (let place = 0; place < places; place += 1) await repeat(recording, migrations, place, env.DB);
}

it("there is a recording", () => {
  expect(RECORDINGS).not.toEqual([]);
});

describe.each(RECORDINGS)("release %s", (_, recording) => {
  it("gets from the schema of today what it got, whenever the migrations come", async () => {
    await repeatEverywhere(recording);
  });

  it("is recorded without anything that looks like a secret", () => {
    expect(hasSecret(JSON.stringify(recording))).toBe(false);
  });
});

describe("this version", () => {
  let today: Recording;

  beforeAll(async () => {
    today = await record("today", env.TEST_MIGRATIONS, env.DB);
  });

  /** Repeats what this version does, with one migration more. */
  function repeatWith(...queries: string[]) {
    return repeatEverywhere(today, [...env.TEST_MIGRATIONS, { name: "9999_next.sql", queries }]);
  }

  it("would survive what only adds, and another index", async () => {
    await repeatWith(
      "ALTER TABLE pets ADD COLUMN born_on TEXT",
      "ALTER TABLE pets ADD COLUMN is_tame INTEGER NOT NULL DEFAULT 0",
      // Fills a new column while the release before goes on writing without it.
      `CREATE TRIGGER pets_born AFTER INSERT ON pets WHEN new.born_on IS NULL
        BEGIN UPDATE pets SET born_on = '2026-11-20' WHERE id = new.id; END`,
      "CREATE TABLE categories (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT",
      "DROP INDEX pets_by_status",
      "CREATE INDEX pets_by_category ON pets (category_id)",
    );
  });

  it.each([
    ["renames a column", "reads a list", "ALTER TABLE pets RENAME COLUMN category_id TO category"],
    ["drops a column", "lists no keys", "ALTER TABLE keys DROP COLUMN last_four"],
    ["renames a table", "adds a pet that may be sent again", "ALTER TABLE creations RENAME TO answers"],
    ["adds a column that nobody fills", "makes a key", "ALTER TABLE keys ADD COLUMN owner TEXT NOT NULL"],
    ["forbids what was allowed", "adds a pet at the edges", ...REBUILD_PETS],
    ["makes unique what was not", "adds the same pet again", "CREATE UNIQUE INDEX by_name ON pets (name)"],
    // Only what comes late enough meets a pet.
    [
      "fills what was left out",
      "reads the first page",
      "UPDATE pets SET status = 'sold' WHERE status IS NULL",
    ],
    ["changes what is written", "adds a pet that may be sent again", SHOUT],
  ])("would not survive what %s", async (_, first, ...queries) => {
    await expect(repeatWith(...queries)).rejects.toThrow(`today ${first}`);
  });

  it("finds a migration that was changed after it was released", async () => {
    const [first, ...others] = env.TEST_MIGRATIONS;
    const changed = { name: "", ...first, queries: ["CREATE TABLE pets (id INTEGER PRIMARY KEY)"] };
    await expect(repeatEverywhere(today, [changed, ...others])).rejects.toThrow(
      "is not what today was released with",
    );
  });

  it("sends no statement that is not in the story", () => {
    const sent = new Set(today.calls.flatMap(({ statements }) => statements.map(({ sql }) => sql)));
    const stores = SOURCES.filter((source) => source.includes(".prepare("));
    for (const store of stores) expect(store).not.toMatch(/\.prepare\(\s*["`]/);
    // Each statement is a constant, and the first argument of something: prepare(SELECT_PET).
    const named = stores.flatMap((store) => [
      ...new Set([...store.matchAll(/\(\s*([A-Z_]{2,})[,)]/g)].map(([, name]) => name)),
    ]);
    expect(sent.size, `the stores have ${named.join(", ")}`).toBe(named.length);
  });
});
