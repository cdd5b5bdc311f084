// What a release sends to the database and what it gets back, so that newer schemas can be tried with it when its code is
// long gone. To record and to repeat is the same: each call goes to D1 as a batch, even a single statement.
//
// What a release makes of an answer is not known here, so it must get the same answer, to the letter.

import { sha256 } from "../../src/sha256.ts";
import { STORY } from "./story.ts";

/** What statements take and give: neither BLOBs, nor integers that a number can't hold. */
type Value = string | number | null;
type Row = Record<string, Value>;

/** A statement, and what it gives: rows, or only how many it changed if the release looks at nothing else. */
interface Statement {
  sql: string;
  params: Value[];
  rows?: Row[];
  changes?: number;
}

/** Statements that the database gets at once. */
interface Call {
  /** What the release was doing. */
  does: string;
  statements: Statement[];
}

export interface Recording {
  release: string;
  /** The migrations that the release knew, each with the SHA-256 of its SQL. */
  migrations: Record<string, string>;
  calls: Call[];
}

/** A migration, as wrangler splits it. */
export interface Migration {
  name: string;
  queries: string[];
}

/** Drops all that is in a database, the newest first; what begins with an underscore is D1's own. */
const SELECT_DROPS = `
  SELECT 'DROP ' || type || ' ' || name AS sql FROM sqlite_schema
  WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%' AND substr(name, 1, 1) <> '_' ORDER BY rowid DESC`;

/** Records what this version does, on a database that is emptied and gets these migrations. */
export async function record(
  release: string,
  migrations: Migration[],
  database: D1Database,
): Promise<Recording> {
  await empty(database);
  await apply(migrations, database);
  const calls: Call[] = [];
  for (const [does, run] of STORY) {
    await run(watched(database, (statements) => calls.push({ does, statements })));
  }
  const known = migrations.map((migration) => [migration.name, hashOf(migration)]);
  return { release, migrations: Object.fromEntries(known), calls };
}

/**
 * Repeats what a release did, on a database that is emptied, and gets the migrations that the release does not know when
 * `callsBefore` of the calls are over. Throws an error that names the first call which does not give what it gave.
 */
export async function repeat(
  { release, migrations, calls }: Recording,
  all: Migration[],
  callsBefore: number,
  database: D1Database,
): Promise<void> {
  await empty(database);
  await apply(
    all.filter(({ name }) => name in migrations),
    database,
  );
  // All at once, because these are many, and on the schema that they were made on.
  const before = calls.slice(0, callsBefore).flatMap(({ statements }) => statements);
  if (before.length > 0) await ask(before, database);
  await apply(
    all.filter(({ name }) => !(name in migrations)),
    database,
  );
  for (const { does, statements } of calls.slice(callsBefore)) {
    const now = await ask(statements, database).then(
      (answers) => given(answered(statements, answers)),
      (error: Error) => error.message,
    );
    const then = given(statements);
    if (now === then) continue;
    const place = `with the later migrations after ${callsBefore} calls`;
    throw new Error(`${release} ${does}, ${place}: it got ${then} and now ${now}`);
  }
}

/** The names of the migrations that a release does not know. Throws if one that it knows is not what it was. */
export function laterMigrations({ release, migrations }: Recording, all: Migration[]): string[] {
  const hashes = new Map(all.map((migration) => [migration.name, hashOf(migration)]));
  for (const [name, hash] of Object.entries(migrations)) {
    if (hashes.get(name) !== hash) throw new Error(`${name} is not what ${release} was released with`);
  }
  return [...hashes.keys()].filter((name) => !(name in migrations));
}

/** As much of a D1Database as the stores use. It tells of each call that was answered. */
function watched(database: D1Database, tell: (statements: Statement[]) => void): D1Database {
  const send = async (statements: Statement[]) => {
    const answers = await ask(statements, database);
    tell(answered(statements, answers));
    return answers;
  };
  const prepare = (sql: string, params: Value[] = []) => ({
    statement: { sql, params },
    bind: (...values: Value[]) => prepare(sql, values),
    all: async () => (await send([{ sql, params }]))[0],
    first: async () => (await send([{ sql, params }]))[0]?.results[0] ?? null,
    run: async () => (await send([{ sql, params, changes: 0 }]))[0],
  });
  const watching = {
    // On one line, for people: no text inside a statement has white space that would be lost.
    prepare: (sql: string) => prepare(sql.replace(/\s+/g, " ").trim()),
    batch: (all: { statement: Statement }[]) => send(all.map(({ statement }) => statement)),
  };
  return watching as unknown as D1Database;
}

function ask(statements: Statement[], database: D1Database): Promise<D1Result<Row>[]> {
  return database.batch(statements.map(({ sql, params }) => database.prepare(sql).bind(...params)));
}

/** The statements, with what they give now in place of what they gave. */
function answered(statements: Statement[], answers: D1Result<Row>[]): Statement[] {
  return statements.map(({ sql, params, changes }, index) => {
    const { results: rows = [], meta } = answers[index] ?? {};
    return changes === undefined ? { sql, params, rows } : { sql, params, changes: meta?.changes ?? 0 };
  });
}

/** What each gives, as a text to compare and to show. */
function given(statements: Statement[]): string {
  return JSON.stringify(statements.map(({ rows, changes }) => rows ?? changes));
}

/** Each migration is a transaction, as it is when wrangler applies it. */
async function apply(migrations: Migration[], database: D1Database): Promise<void> {
  for (const { queries } of migrations) await database.batch(queries.map((sql) => database.prepare(sql)));
}

async function empty(database: D1Database): Promise<void> {
  const { results } = await database.prepare(SELECT_DROPS).all<{ sql: string }>();
  const statements = ["PRAGMA defer_foreign_keys = on", ...results.map(({ sql }) => sql)];
  await database.batch(statements.map((sql) => database.prepare(sql)));
}

/** Of the SQL alone: comments change nothing, and wrangler may split a file in another way one day. */
function hashOf({ queries }: Migration): string {
  const sql = queries.join(";").replace(/--.*/g, "");
  return sha256(sql.replace(/[\s;]+/g, " ").trim());
}
