// The service's databases for the command line, one of keys and one of pets: the local ones, also while `wrangler dev` serves from
// them; production's; or those that all previews share. Also their migrations.

import { createHash, createHmac } from "node:crypto";
import { accessSync, constants, existsSync, renameSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { read } from "../../src/d1/statements.ts";
import { messageOf, pathError } from "../lib/io.ts";
import { petstoreLine, shownPath } from "../lib/line.ts";
import { ifFound, openAccount } from "./account.ts";
import { d1OverApi, timeTravelOverApi } from "./d1-api.ts";
import { d1InMemory, d1OnFile, statementSplitter } from "./d1-file.ts";
import { readConfig } from "./wrangler.ts";

/** What a database has. A command opens only what it needs: commands on keys work whatever has happened to the pets. */
export type Contents = "keys" | "pets";

/** In the order of their migrations: a migration of pets that fails does not keep one of keys back. */
export const CONTENTS = ["keys", "pets"] as const;

const BINDINGS = { keys: "KEYS_DB", pets: "PETS_DB" };

/** wrangler's default folder for local state. */
export const DEFAULT_STATE = ".wrangler/state";

/** Selects databases. `state` is a folder of local state. */
export type Target =
  | { kind: "local"; state: string }
  | { kind: "production" }
  | { kind: "preview"; name: string };

/** The options that choose `target`, for another command line. Empty for the default. */
export function targetOptions(target: Target): string[] {
  if (target.kind === "production") return ["--remote"];
  if (target.kind === "preview") return ["--preview", target.name];
  return target.state === DEFAULT_STATE ? [] : ["--persist-to", target.state];
}

export type OpenDatabases<Opened extends Contents = Contents> = Record<Opened, D1Database> & {
  close(): Promise<void>;
};

export type DeployedDatabase = Awaited<ReturnType<typeof openDeployed>>;

/**
 * The file of a local database, which need not exist. workerd names it after the ID of the object that is the database: a hash of its name,
 * here the binding.
 */
export function databaseFile(state: string, contents: Contents): string {
  const namespace = "miniflare-D1DatabaseObject";
  const key = createHash("sha256").update(namespace).digest();
  const hash = (data: string | Buffer) => createHmac("sha256", key).update(data).digest().subarray(0, 16);
  const binding = hash(BINDINGS[contents]);
  return join(
    state,
    "v3",
    "d1",
    namespace,
    `${Buffer.concat([binding, hash(binding)]).toString("hex")}.sqlite`,
  );
}

/** Opens databases. Throws if one does not exist. */
export async function openDatabases<Opened extends Contents>(
  target: Target,
  ...opened: Opened[]
): Promise<OpenDatabases<Opened>> {
  const create = petstoreLine("migrate", ...targetOptions(target));
  if (target.kind === "local")
    for (const contents of opened)
      if (!mayExist(target, contents))
        throw new Error(
          `there is no database of ${contents} in ${shownPath(target.state)}: create it with ${create}`,
        );
  return createDatabases(target, ...opened);
}

/** Opens databases. Local ones that do not exist are created, and empty. */
export async function createDatabases<Opened extends Contents>(
  target: Target,
  ...opened: Opened[]
): Promise<OpenDatabases<Opened>> {
  const open = async (contents: Opened) => {
    if (target.kind !== "local") return { ...(await openDeployed(target, contents)), close() {} };
    try {
      return d1OnFile(databaseFile(target.state, contents), contents);
    } catch (error) {
      throw pathError(shownPath(target.state), error);
    }
  };
  const databases = await Promise.all(opened.map(open));
  return {
    ...Object.fromEntries(databases.map(({ database }, index) => [opened[index], database])),
    async close() {
      for (const { close } of databases) close();
    },
  };
}

/** False for a local database that does not exist. Throws if it may not be used, or if its folder is none. */
export function mayExist(target: Target, contents: Contents): boolean {
  if (target.kind !== "local") return true;
  try {
    accessSync(databaseFile(target.state, contents), constants.R_OK | constants.W_OK);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw pathError(shownPath(target.state), error);
  }
}

/** Where wrangler registers the Workers that run on this state. By default it would be in the user's folder. */
export function registryPath(state: string): string {
  return process.env.WRANGLER_REGISTRY_PATH ?? resolve(state, "registry");
}

/** Throws if the database does not exist. */
export async function openDeployed(target: Target, contents: Contents) {
  const { name, find } = await deployedDatabase(target, contents);
  const callApi = await openAccount();
  const uuid = (await find())?.uuid;
  if (uuid === undefined)
    throw new Error(
      `there is no database ${name} in this account yet: run ${petstoreLine("setup")}, which creates it`,
    );
  const label = `the database ${name} of the account ${callApi.label}`;
  return { label, database: d1OverApi(callApi, uuid), timeTravel: timeTravelOverApi(callApi, uuid) };
}

interface DatabaseInfo {
  uuid: string;
  read_replication?: { mode: string };
}

/** The binding and the name of a deployed database, and a function that looks it up in the account. */
export async function deployedDatabase(target: Target, contents: Contents) {
  const { d1_databases, previews } = await readConfig();
  const bindings = target.kind === "preview" ? previews.d1_databases : d1_databases;
  const binding = BINDINGS[contents];
  const found = bindings.find((each) => each.binding === binding);
  if (found === undefined) throw new Error(`wrangler.toml has no binding ${binding} for ${target.kind}`);
  const { database_id, database_name: name } = found;
  const find = async () => {
    const callApi = await openAccount();
    return ifFound(callApi<DatabaseInfo>(`/d1/database/${database_id ?? name}`));
  };
  return { binding, name, find };
}

/** The names of a target's deployed databases, as words of a sentence. */
export async function deployedNames(target: Target): Promise<string> {
  const databases = CONTENTS.map((contents) => deployedDatabase(target, contents));
  return (await Promise.all(databases)).map(({ name }) => name).join(" and ");
}

/** The file names of the migrations of this checkout, in order. */
export async function migrationFiles(contents: Contents): Promise<string[]> {
  return (await readdir(`migrations/${contents}`)).filter((file) => file.endsWith(".sql")).sort();
}

/** Of SQLite, about a table or a column of a migration that is not applied. */
export const NOT_MIGRATED = /no such (table|column)/;

/** What is wrong with the databases of `target` then, and what to do. */
export function pendingText(target: Target): string {
  return `migrations are pending: run ${petstoreLine("migrate", ...targetOptions(target))}`;
}

/** The file names of the migrations that a database has. */
export async function appliedMigrations(database: D1Database): Promise<string[]> {
  const select = database.prepare("SELECT name FROM d1_migrations ORDER BY id");
  const { results } = await read(() => select.all<{ name: string }>()).catch((error) => {
    // The first migration creates the table.
    if (!NOT_MIGRATED.test(messageOf(error))) throw error;
    return { results: [] };
  });
  return results.map(({ name }) => name);
}

/** The file names of the migrations that are not applied yet, in order. */
export async function pendingMigrations(database: D1Database, contents: Contents): Promise<string[]> {
  const applied = await appliedMigrations(database);
  return (await migrationFiles(contents)).filter((file) => !applied.includes(file));
}

/** An empty database after these migrations of this checkout, by default all. */
export async function migratedDatabase(contents: Contents, files?: string[]): Promise<D1Database> {
  const read = async (file: string) => readFile(`migrations/${contents}/${file}`, "utf8");
  const texts = await Promise.all((files ?? (await migrationFiles(contents))).map(read));
  // Each is a transaction, as in D1: with PRAGMA defer_foreign_keys, it may be consistent only at its end.
  return d1InMemory(texts.map((text) => `BEGIN;\n${text}\n;COMMIT;`).join("\n"));
}

/** The tables that applied migrations have made, and the database has lost. */
export async function missingTables(database: D1Database, contents: Contents): Promise<string[]> {
  const existing = (await tablesOf(database)).map(({ name }) => name);
  return (await tablesMade(database, contents))
    .map(({ name }) => name)
    .filter((name) => !existing.includes(name));
}

/** The tables that the applied migrations of this checkout make. */
async function tablesMade(database: D1Database, contents: Contents) {
  const applied = await appliedMigrations(database);
  const files = (await migrationFiles(contents)).filter((file) => applied.includes(file));
  return tablesOf(await migratedDatabase(contents, files));
}

/**
 * Gives another name to a local database that other migrations than those of this checkout have made, so that a new one begins: it can't be
 * migrated. Until the first release, a migration may be replaced. Returns where it is now.
 */
export async function setAsideOther(state: string, contents: Contents): Promise<string | undefined> {
  const file = databaseFile(state, contents);
  if (!existsSync(file)) return undefined;
  const { database, close } = d1OnFile(file, contents);
  const isOwn = async () => {
    const files = await migrationFiles(contents);
    if (!(await appliedMigrations(database)).every((each) => files.includes(each))) return false;
    const existing = new Set((await tablesOf(database)).flatMap(columnTexts));
    return (await tablesMade(database, contents)).flatMap(columnTexts).every((each) => existing.has(each));
  };
  if (await isOwn().finally(close)) return undefined;
  const path = `${file}.${new Date().toISOString().replaceAll(":", "")}`;
  // SQLite has merged its write-ahead log into the file, unless a service that still runs uses it.
  for (const ending of ["", "-wal", "-shm"])
    if (existsSync(file + ending)) renameSync(file + ending, path + ending);
  return path;
}

const columnTexts = ({ columns }: { columns: Column[] }) => columns.map((each) => JSON.stringify(each));

export interface Column {
  table: string;
  name: string;
  type: string;
  /** The position in the primary key, from 1; 0 if it is not a part of it. */
  pk: number;
}

/** The name of a table that is there only while a restore by Time Travel has not happened. */
export const MARKER = "restoring";

const SELECT_COLUMNS = `
  SELECT tables.name AS "table", columns.name, columns.type, columns.pk
  FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns
  WHERE tables.type = 'table' AND tables.name NOT GLOB 'sqlite_*' AND tables.name NOT GLOB '_cf_*'
    AND tables.name NOT IN ('d1_migrations', '${MARKER}')
  ORDER BY tables.rowid, columns.cid`;

/** The service's tables in a database. */
export async function tablesOf(database: D1Database): Promise<{ name: string; columns: Column[] }[]> {
  const select = database.prepare(SELECT_COLUMNS);
  const { results } = await read(() => select.all<Column>());
  return [...Map.groupBy(results, ({ table }) => table)].map(([name, columns]) => ({ name, columns }));
}

/** As `wrangler d1 migrations apply` creates it. */
const CREATE_MIGRATIONS_TABLE = `
  CREATE TABLE IF NOT EXISTS d1_migrations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT UNIQUE,
    applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
  )`;

/**
 * Applies the pending migrations, each as one batch with its record, which is a transaction at least in local databases. Returns their
 * files, such as "pets/0001_pets.sql". Throws an error that names the one that failed.
 */
export async function migrate(database: D1Database, contents: Contents): Promise<string[]> {
  const pending = await pendingMigrations(database, contents);
  if (pending.length === 0) return [];
  const split = statementSplitter();
  await database.prepare(CREATE_MIGRATIONS_TABLE).run();
  const record = database.prepare("INSERT INTO d1_migrations (name) VALUES (?1)");
  for (const file of await migrationFiles(contents)) {
    const path = `migrations/${contents}/${file}`;
    try {
      const statements = split(await readFile(path, "utf8")).map((each) => database.prepare(each));
      if (pending.includes(file)) await database.batch([...statements, record.bind(file)]);
    } catch (cause) {
      throw new Error(`${path} failed: ${messageOf(cause)}`, { cause });
    }
  }
  return pending.map((file) => `${contents}/${file}`);
}
