// The service's database for the command line: the local one, also while `wrangler dev` serves from it; production's; or the
// one that all previews share. wrangler applies migrations; this file finds the pending ones.

import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { read } from "../../src/d1/statements.ts";
import { messageOf } from "../lib/command.ts";
import { ifFound, openAccount } from "./account.ts";
import { d1OverApi, timeTravelOverApi } from "./d1-api.ts";
import { type Config, type D1Binding, QUIET, readConfig, runWrangler, withConfigFile } from "./wrangler.ts";

/** wrangler's default folder for local state. */
export const DEFAULT_STATE = ".wrangler/state";

const { WRANGLER_REGISTRY_PATH } = process.env;

/** Selects a database. `state` is a folder of local state. */
export type Target =
  | { kind: "local"; state: string }
  | { kind: "production" }
  | { kind: "preview"; name: string };

/** The caller must close it, or the process does not end. */
export interface OpenDatabase {
  database: D1Database;
  /** The objects of the service that runs on a local database. A call fails if none runs. */
  limiters?: Env["RATE_LIMITER"];
  close(): Promise<void>;
}

export type DeployedDatabase = Awaited<ReturnType<typeof openDeployed>>;

/** Whether the folder `state` has a local database. */
export function databaseExists(state: string): boolean {
  return existsSync(join(state, "v3", "d1"));
}

/** Opens a database. Creates the local one if it does not exist. */
export function openDatabase(target: Target): Promise<OpenDatabase> {
  return target.kind === "local" ? openLocal(target.state) : openDeployed(target);
}

async function openLocal(state: string): Promise<OpenDatabase> {
  Object.assign(process.env, QUIET);
  const { getPlatformProxy } = await import("wrangler");
  const { name, d1_databases } = await readConfig();
  // The objects run in `npm start`, which wrangler finds by the Worker's name.
  process.env.WRANGLER_REGISTRY_PATH = registryPath(state);
  const bindings = [{ name: "RATE_LIMITER", class_name: "RateLimiter", script_name: name }];
  const config = { name: "petstore-commands", d1_databases, durable_objects: { bindings } };
  return withConfigFile(config, async (configPath) => {
    const persist = { path: join(state, "v3") };
    const { env, dispose } = await getPlatformProxy<Env>({ configPath, persist });
    return { database: env.DB, limiters: env.RATE_LIMITER, close: dispose };
  });
}

/** Where wrangler registers the Workers that run on this state, so that its other processes can reach them. */
export function registryPath(state: string): string {
  return WRANGLER_REGISTRY_PATH ?? resolve(state, "registry");
}

/** Throws if the database does not exist. */
export async function openDeployed(target: Target) {
  const { name, find } = await deployedDatabase(target);
  const callApi = await openAccount();
  const uuid = (await find())?.uuid;
  if (uuid === undefined)
    throw new Error(`there is no database ${name} in this account yet: run npm run setup, which creates it`);
  const label = `the database ${name} of the account ${callApi.label}`;
  return {
    label,
    database: d1OverApi(callApi, uuid),
    timeTravel: timeTravelOverApi(callApi, uuid),
    async close() {},
  };
}

interface DatabaseInfo {
  uuid: string;
  read_replication?: { mode: string };
}

/** The name of a deployed database, and a function that looks it up in the account. */
export async function deployedDatabase(target: Target) {
  const { database_id, database_name: name = "" } = bindingOf(target, await readConfig());
  const find = async () => {
    const callApi = await openAccount();
    return ifFound(callApi<DatabaseInfo>(`/d1/database/${database_id ?? name}`));
  };
  return { name, find };
}

/** The file names of the migrations that are not applied yet, in order. */
export async function pendingMigrations(database: D1Database): Promise<string[]> {
  const files = (await readdir("migrations")).filter((file) => file.endsWith(".sql")).sort();
  const select = database.prepare("SELECT name FROM d1_migrations");
  const { results } = await read(() => select.all<{ name: string }>()).catch((error) => {
    // wrangler creates the table with the first migration.
    if (!messageOf(error).includes("no such table")) throw error;
    return { results: [] };
  });
  return files.filter((file) => !results.some(({ name }) => name === file));
}

/** Applies pending migrations. Throws an error with wrangler's message. */
export async function applyMigrations(target: Target): Promise<void> {
  const where = target.kind === "local" ? ["--local", "--persist-to", resolve(target.state)] : ["--remote"];
  const binding = { ...bindingOf(target, await readConfig()), migrations_dir: resolve("migrations") };
  // With wrangler.toml, wrangler would look for the preview database among production's.
  await withConfigFile({ d1_databases: [binding] }, (configPath) =>
    runWrangler(["d1", "migrations", "apply", "DB", ...where, "--config", configPath]),
  );
}

/** Applies pending migrations, if there are any. Returns their file names. */
export async function migrate(target: Target): Promise<string[]> {
  const { database, close } = await openDatabase(target);
  // Close first: wrangler opens a local file in another process, and could find it locked.
  const pending = await pendingMigrations(database).finally(close);
  if (pending.length > 0) await applyMigrations(target);
  return pending;
}

function bindingOf(target: Target, { d1_databases, previews }: Config): D1Binding {
  const bindings = target.kind === "preview" ? previews?.d1_databases : d1_databases;
  const found = bindings?.find(({ binding }) => binding === "DB");
  if (found === undefined) throw new Error(`wrangler.toml has no binding DB for ${target.kind}`);
  return found;
}
