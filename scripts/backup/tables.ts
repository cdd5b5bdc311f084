// The tables of a backup, as the databases describe them, and the statements that turn their rows into texts and back. SQLite writes a
// row as a JSON array, and reads it again. JavaScript only passes the text on, because its numbers would round 64-bit integers.

import type { IfPetsNeverChange } from "../../src/pets/immutable.ts";
import { CONTENTS, type Column, type Contents, missingTables, tablesOf } from "../cloudflare/database.ts";
import { patiently } from "./patience.ts";

/** A text has at most 2 MB in D1. Smaller pages need more calls, of which Cloudflare's API allows four a second. */
export const MAX_PAGE_BYTES = 1_000_000;
/** More rows: longer statements (of this many, some 50 ms), during which D1 answers no others. Fewer: more calls. */
export const MAX_PAGE_ROWS = 10_000;

export type Databases = Record<Contents, D1Database>;

export interface Table {
  contents: Contents;
  name: string;
  columns: Column[];
  /** The rows of another table that belong to a row are its last value, as an array of arrays. */
  part?: Omit<Table, "contents">;
}

/** By database and name, such as "pets.creations", in the order in which a restore writes them. */
export type Tables = Map<string, Table>;

/** They are about the databases of a deployment, not of what these contain: restored elsewhere, they would be wrong. */
const LEFT_OUT = ["keys.backups", "keys.database_sizes"];

/** One statement reads a key with its replaced secrets, because a rotation moves a secret from one table to the other. */
const [OWNER, PART, LINK] = ["keys.keys", "keys.replaced_secrets", "key_id"];

/** The tables of a backup, in both databases. Keys are last: without them nobody can call the service. */
export async function readTables(databases: Databases): Promise<Tables> {
  const tables: Tables = new Map();
  for (const contents of [...CONTENTS].reverse())
    for (const table of await patiently(() => tablesOf(databases[contents])))
      tables.set(`${contents}.${table.name}`, { contents, ...table });
  for (const label of LEFT_OUT) tables.delete(label);
  const [owner, part] = [tables.get(OWNER), tables.get(PART)];
  if (owner === undefined || part === undefined) return tables;
  const columns = part.columns.filter(({ name }) => name !== LINK);
  for (const label of [OWNER, PART]) tables.delete(label);
  return tables.set(OWNER, { ...owner, part: { name: part.name, columns } });
}

/** Throws if a database has lost a table. */
export async function requireTables(databases: Databases): Promise<void> {
  for (const contents of CONTENTS) {
    const [missing] = await patiently(() => missingTables(databases[contents], contents));
    if (missing !== undefined) throw new Error(`the database of ${contents} has lost its table ${missing}`);
  }
}

/** The names of tables and columns, in the order of a row's values. */
type Layout = Record<string, string[]>;

export function layoutOf(tables: Tables): Layout {
  const namesOf = (columns: Column[]) => columns.map(({ name }) => name);
  const entries = [...tables].flatMap(([label, { columns, part }]) => {
    const ofPart = part ? [[PART, namesOf(part.columns)] as const] : [];
    return [[label, namesOf(columns)] as const, ...ofPart];
  });
  return Object.fromEntries(entries);
}

/** The tables of a layout with the columns that it has. Throws if one does not exist. */
export function selectTables(tables: Tables, layout: Layout): Tables {
  const select = (label: string, columns: Column[] = []) => {
    return (layout[label] ?? []).map((name) => {
      const found = columns.find((column) => column.name === name);
      if (found === undefined) throw new Error(`there is no column ${name} of ${label} any more`);
      return found;
    });
  };
  const labels = Object.keys(layout).filter((label) => label !== PART);
  const selected = labels.map((label) => {
    const table = tables.get(label);
    if (table === undefined) throw new Error(`there is no table ${label} any more`);
    const part = table.part && { ...table.part, columns: select(PART, table.part.columns) };
    return [label, { ...table, columns: select(label, table.columns), ...(part && { part }) }] as const;
  });
  return new Map(selected);
}

/** Rows of a table, one a line. */
export interface Page {
  lines: string;
  count: number;
}

/**
 * The condition of rows that a backup has. Pets never change and their ids only grow, so those up to `highestId` are what the table had
 * when that was the highest one.
 */
function conditionOf(label: string, highestId: string): string {
  const conditions: Record<string, string> = {
    "pets.pets": `id <= ${highestId}` satisfies IfPetsNeverChange<string>,
    // The response to a creation is wrong without its pet.
    "pets.creations": `pet_id <= ${highestId}`,
    // One that has begun since would be unfinished in the restored databases, for good.
    "keys.pet_restores": "finished_at_ms IS NOT NULL",
  };
  return conditions[label] ?? "true";
}

/** Reads the rows of a table in the order of the primary key, as they are when they are read. */
export async function* readPages(
  database: D1Database,
  label: string,
  { name, columns, part }: Table,
  highestId: string,
): AsyncGenerator<Page> {
  const condition = conditionOf(label, highestId);
  const key = keyOf(columns);
  const names = key.map((column) => column.name).join();
  const last = key.map((column) => decoded(column, `?1 ->> ${columns.indexOf(column)}`)).join();
  const values = columns.map(encoded);
  if (part) {
    const rows = `json_group_array(json_array(${part.columns.map(encoded)}))`;
    values.push(`json((SELECT ${rows} FROM ${part.name} WHERE ${LINK} = ${name}.${names}))`);
  }
  // The first row is in the page however large it is.
  const isInPage = `bytes - octet_length(line) <= ${MAX_PAGE_BYTES}`;
  const select = (start: string) => `
    SELECT group_concat(line, char(10) ORDER BY bytes) FILTER (WHERE ${isInPage}) AS lines,
      count(*) FILTER (WHERE ${isInPage}) AS count, count(*) AS found
    FROM (
      SELECT line, sum(octet_length(line) + 1) OVER (ORDER BY ${names} ROWS UNBOUNDED PRECEDING) AS bytes FROM (
        SELECT json_array(${values}) AS line, ${names} FROM ${name}
        WHERE ${condition} AND ${start} ORDER BY ${names} LIMIT ${MAX_PAGE_ROWS}))`;
  let statement = database.prepare(select("true"));
  for (;;) {
    const page = await patiently(() => statement.first<Page & { found: number }>());
    if (!page?.count) return;
    yield page;
    if (page.count === page.found && page.found < MAX_PAGE_ROWS) return;
    const lastLine = page.lines.slice(page.lines.lastIndexOf("\n") + 1);
    statement = database.prepare(select(`(${names}) > (${last})`)).bind(lastLine);
  }
}

/** Rows of a statement that counts. More: longer statements (of this many, some 100 ms); fewer: more calls. */
const COUNTED_ROWS = 50_000;

/** The number of rows of a table, and about how many bytes they have without indexes. Reads every row, each once. */
export async function measureTable(database: D1Database, { name, columns }: Omit<Table, "contents">) {
  const key = keyOf(columns);
  const names = key.map((column) => column.name).join();
  const last = key.map((column, index) => decoded(column, `?1 ->> ${index}`)).join();
  const bytes = columns.map((column) => `ifnull(octet_length(${column.name}), 0)`).join(" + ");
  // With max(), the other columns are those of the same row.
  const select = (start: string) => `
    SELECT count(*) AS rows, sum(bytes) AS bytes, max(number) AS number, last FROM (
      SELECT ${bytes} AS bytes, row_number() OVER (ORDER BY ${names}) AS number, json_array(${key.map(encoded)}) AS last
      FROM ${name} WHERE ${start} ORDER BY ${names} LIMIT ${COUNTED_ROWS})`;
  const sum = { rows: 0, bytes: 0 };
  for (let statement = database.prepare(select("true")); ; ) {
    const page = await patiently(() => statement.first<{ rows: number; bytes: number; last: string }>());
    sum.rows += page?.rows ?? 0;
    sum.bytes += page?.bytes ?? 0;
    if (page?.rows !== COUNTED_ROWS) return sum;
    statement = database.prepare(select(`(${names}) > (${last})`)).bind(page.last);
  }
}

/** The columns of the primary key, in its order. */
function keyOf(columns: Column[]): Column[] {
  return columns.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
}

/** Inserts rows, given as texts. A row whose primary key exists stays as it is, so this can be repeated. */
export async function insertRows(database: D1Database, table: Table, lines: string[]): Promise<void> {
  const json = `[${lines.join()}]`;
  const statements = [insertion(table, [], "json_each(?1) AS row")];
  if (table.part) {
    const rows = `json_each(?1) AS owner, json_each(owner.value, '$[${table.columns.length}]') AS row`;
    statements.push(insertion(table.part, [[LINK, "owner.value ->> 0"]], rows));
  }
  const bound = statements.map((sql) => database.prepare(sql).bind(json));
  await patiently(() => database.batch(bound));
}

/**
 * Inserts rows into an empty database, and deletes them again, so that it stays small. Throws if one does not fit, or is one that no
 * backup has. Rows of two calls can have the same primary key: a restore keeps the first of them, and goes on.
 */
export async function tryRows(
  database: D1Database,
  label: string,
  table: Table,
  lines: string[],
  highestId: string,
): Promise<void> {
  await insertRows(database, table, lines);
  const { name, part } = table;
  const condition = conditionOf(label, highestId);
  const strange = await database
    .prepare(`SELECT 1 FROM ${name} WHERE (${condition}) IS NOT TRUE LIMIT 1`)
    .first();
  for (const each of part ? [part.name, name] : [name]) await database.prepare(`DELETE FROM ${each}`).run();
  if (strange !== null) throw new Error(`not ${condition}`);
}

/** "OR IGNORE" would also ignore a row that violates a CHECK. "WHERE true" separates ON CONFLICT from a join. */
function insertion({ name, columns }: Omit<Table, "contents">, given: [string, string][], rows: string) {
  const values = columns.map((column, index) => [column.name, decoded(column, `row.value ->> ${index}`)]);
  const all = [...given, ...values];
  const key = [
    ...given.map(([column]) => column),
    ...columns.filter(({ pk }) => pk > 0).map((each) => each.name),
  ];
  return `INSERT INTO ${name} (${all.map(([column]) => column)}) SELECT ${all.map(([, sql]) => sql)} FROM ${rows}
    WHERE true ON CONFLICT (${key}) DO NOTHING`;
}

/** Throws for a type that JSON would change. */
function encoded({ name, type }: Column): string {
  if (type === "BLOB") return `iif(${name} IS NULL, NULL, hex(${name}))`;
  if (type === "INTEGER" || type === "TEXT") return name;
  throw new Error(`a backup can't have the column ${name}, because its type is ${type}`);
}

function decoded({ type }: Column, text: string): string {
  return type === "BLOB" ? `unhex(${text})` : text;
}
