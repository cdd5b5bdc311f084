// What each documented parameter of the list has to keep, whatever it selects: the next link, the page cache, the rows that a page reads,
// and pages from a replica that is behind. A new parameter needs values here, and the tests ask the rest.

import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { OPERATIONS } from "../../src/http/operations.ts";
import type { Description } from "../../src/openapi/operations.ts";
import { PET_STORAGE } from "../../src/pets/columns.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { type NewPet, PageQuery } from "../../src/pets/schema.ts";
import { findPage, selectPage } from "../../src/pets/store.ts";
import { DOCUMENTED } from "../support/openapi-document.ts";
import { emptyReplica, interceptStatements, REAL, watchStatements } from "../support/worker/bindings.ts";
import { type Client, invalidatePageCache, newClient, nextPath } from "../support/worker/client.ts";
import { pass } from "../support/worker/time.ts";

const CURSORS: Values = [encodeCursor(2n), encodeCursor(3n)];

type Values = [string, string];

/** Two values of each parameter. A filter also has fields of a pet that each of them selects; `OTHER` is selected by none. */
const PARAMETERS: Record<keyof PageQuery, { values: Values; selected?: [Partial<NewPet>, Partial<NewPet>] }> =
  {
    limit: { values: ["2", "3"] },
    status: { values: ["pending", "sold"], selected: [{ status: "pending" }, { status: "sold" }] },
    cursor: { values: CURSORS },
  };
const OTHER: NewPet = { name: "other", categoryId: 1n };

/** More than the rows of a page, so that a page without an index would read others. */
const ROWS = 5;

/** The documented parameters. */
const NAMES = (DOCUMENTED.listPets as Description).parameters
  ?.filter((each) => each.in === "query")
  .map(({ name }) => name as keyof PageQuery);

/** The queries that have the first, or the second, value of one parameter or of all. */
const QUERIES = [0, 1].flatMap((index) => {
  const all = Object.entries(PARAMETERS).map(([name, { values }]) => [name, `${values[index]}`] as const);
  return [all, ...all.map((each) => [each])].map((each) => Object.fromEntries([["limit", "2"], ...each]));
});

const pathOf = (query: Record<string, string>) =>
  `/v1${OPERATIONS.listPets.path}?${new URLSearchParams(query)}`;

function insertInto(database: D1Database, pets: NewPet[]) {
  const { columns, placeholders, parameters } = PET_STORAGE;
  const insert = database.prepare(`INSERT INTO pets (${columns}) VALUES (${placeholders(1)})`);
  return database.batch(pets.map((pet) => insert.bind(...parameters(pet))));
}

/** Pets that only one filter selects, and then such that all select. */
const SELECTED = [0, 1].flatMap((index) => {
  const each = Object.values(PARAMETERS).map(({ selected }) => selected?.[index] ?? {});
  return [...each, Object.assign({}, ...each)].map((fields): NewPet => ({ ...OTHER, ...fields }));
});

let client: Client;

beforeEach(async () => {
  client = await newClient();
  invalidatePageCache();
  await env.PETS_DB.exec("DELETE FROM pets");
  await emptyReplica();
  for (const database of [env.PETS_DB, env.REPLICA]) {
    await database.exec("DELETE FROM sqlite_sequence WHERE name = 'pets'");
    await insertInto(
      database,
      [OTHER, ...SELECTED].flatMap((pet) => Array<NewPet>(ROWS).fill(pet)),
    );
  }
});

it("the test has each documented parameter", () => {
  expect(NAMES?.toSorted()).toEqual(Object.keys(PARAMETERS).sort());
});

it.each(QUERIES)("the next link of %j has its parameters alone, and another cursor", async (query) => {
  const response = await client.get(pathOf({ utm: "1", ...query }));
  const next = new URL(nextPath(response) ?? "", "https://petstore.example");
  const { cursor, ...others } = Object.fromEntries(next.searchParams);
  const { cursor: earlier, ...expected } = query;
  expect(others).toEqual(expected);
  expect(cursor).not.toBe(earlier);
});

it.each(NAMES ?? [])("pages with another %s are others, also from the page cache", async (name) => {
  const read = async (value: string) => (await client.get(pathOf({ limit: "2", [name]: value }))).text();
  const { values } = PARAMETERS[name];
  const pages = [await read(values[0]), await read(values[1])];
  const statements = watchStatements("PETS_DB");
  expect([await read(values[0]), await read(values[1])]).toEqual(pages);
  // They come from the cache.
  expect(statements).toEqual([]);
  expect(pages[0]).not.toBe(pages[1]);
});

it.each(QUERIES)("the page of %j reads limit + 1 rows", async (query) => {
  const parsed = PageQuery.parse(query);
  const { meta } = await selectPage(env.PETS_DB, parsed).all();
  expect(meta.rows_read).toBe(parsed.limit + 1);
});

it.each(QUERIES)("with a lagging replica, the pages of %j have each new pet", async (query) => {
  interceptStatements("PETS_DB", (run) => run(), env.REPLICA);
  const expectPage = async () => {
    const { page } = await findPage(REAL.PETS_DB, PageQuery.parse(query));
    expect(await (await client.get(pathOf(query))).text()).toBe(page.petsJson);
  };
  await expectPage();
  // Only the primary has these.
  await insertInto(REAL.PETS_DB, SELECTED);
  await expectPage();
  pass(30_000);
  // The first request reads the page again.
  await expectPage();
  await expectPage();
});
