// The service's database, opened from a command line: the local one that `wrangler dev` serves from, also while it does,
// production's, or the one that the previews share. Applying migrations is wrangler's business; this file only asks
// whether there are any to apply, and has it done.

import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { read } from "../../src/d1/statements.ts";
import { ApiRefusal, openAccount } from "./account.ts";
import { d1OverApi, type TimeTravel, timeTravelOverApi } from "./d1-api.ts";
import { type Config, type D1Binding, QUIET, readConfig, runWrangler, withConfigFile } from "./wrangler.ts";

/** Where wrangler keeps local state if it is not told otherwise. */
export const DEFAULT_STATE = ".wrangler/state";

/** The API's code for a database that is not there. */
const NO_SUCH_DATABASE = 7404;

/** The local database in a folder of state, production's, or that of a preview. All previews share one. */
export type Target =
  | { kind: "local"; state: string }
  | { kind: "production" }
  | { kind: "preview"; name: string };

/** An open database. Whoever opened it closes it, or the process does not end. */
export interface OpenDatabase {
  database: D1Database;
  close(): Promise<void>;
}

/** An open database in the account, which has a name and a past. */
export interface DeployedDatabase extends OpenDatabase {
  name: string;
  timeTravel: TimeTravel;
}

/** Whether there is a local database in the folder `state`. */
export function databaseExists(state: string): boolean {
  return existsSync(join(state, "v3", "d1"));
}

/** Opens a database. Makes an empty one if there is no local one; the others must be there. */
export async function openDatabase(target: Target): Promise<OpenDatabase> {
  return target.kind === "local" ? openLocal(target.state) : openDeployed(target);
}

async function openLocal(state: string): Promise<OpenDatabase> {
  Object.assign(process.env, QUIET);
  const { getPlatformProxy } = await import("wrangler");
  const { d1_databases } = await readConfig();
  // With the whole configuration, wrangler would warn that the Durable Object does not run here.
  return withConfigFile({ d1_databases }, async (configPath) => {
    const persist = { path: join(state, "v3") };
    const { env, dispose } = await getPlatformProxy<Env>({ configPath, persist });
    return { database: env.DB, close: dispose };
  });
}

/** Opens a database that must be there. */
export async function openDeployed(target: Target): Promise<DeployedDatabase> {
  const { name, find } = await deployedDatabase(target);
  const ask = await openAccount();
  const found = await find();
  if (found === undefined) {
    throw new Error(`there is no database ${name} in this account yet: run npm run setup, which makes it`);
  }
  const { uuid } = found;
  return {
    name,
    database: d1OverApi(ask, uuid),
    timeTravel: timeTravelOverApi(ask, uuid),
    close: async () => {},
  };
}

/** A database as Cloudflare's API describes it. */
export interface Description {
  uuid: string;
  read_replication?: { mode: string };
}

/** The name of a deployed database, and what finds it in the account, if it is there. */
export async function deployedDatabase(target: Target) {
  const { database_id, database_name = "" } = bindingOf(target, await readConfig());
  const find = async (): Promise<Description | undefined> => {
    const ask = await openAccount();
    try {
      return await ask<Description>(`/d1/database/${database_id ?? database_name}`);
    } catch (error) {
      if (error instanceof ApiRefusal && error.code === NO_SUCH_DATABASE) return undefined;
      throw error;
    }
  };
  return { name: database_name, find };
}

/** The names of the migrations that the database has not seen yet, in order. */
export async function pendingMigrations(database: D1Database): Promise<string[]> {
  const files = (await readdir("migrations")).filter((file) => file.endsWith(".sql")).sort();
  const table = database.prepare("SELECT name FROM sqlite_schema WHERE name = 'd1_migrations'");
  if ((await read(() => table.first())) === null) return files;
  const names = database.prepare("SELECT name FROM d1_migrations");
  const { results } = await read(() => names.all<{ name: string }>());
  const applied = new Set(results.map(({ name }) => name));
  return files.filter((file) => !applied.has(file));
}

/** Applies what is pending. Throws an error whose message is wrangler's own. */
export async function applyMigrations(target: Target): Promise<void> {
  const where = target.kind === "local" ? ["--local", "--persist-to", resolve(target.state)] : ["--remote"];
  const binding = { ...bindingOf(target, await readConfig()), migrations_dir: resolve("migrations") };
  // wrangler would look for the database of the previews among production's.
  await withConfigFile({ d1_databases: [binding] }, async (configPath) => {
    try {
      await runWrangler(["d1", "migrations", "apply", "DB", ...where, "--config", configPath]);
    } catch (error) {
      throw new Error(
        `the migrations could not be applied: ${error instanceof Error ? error.message : error}`,
      );
    }
  });
}

/** Applies what a database has not seen yet. Returns the names of that. */
export async function migrate(target: Target): Promise<string[]> {
  const { database, close } = await openDatabase(target);
  // wrangler opens a local file by itself, and would now and then find it locked.
  const pending = await pendingMigrations(database).finally(close);
  if (pending.length > 0) await applyMigrations(target);
  return pending;
}

function bindingOf(target: Target, { d1_databases, previews }: Config): D1Binding {
  const bindings = target.kind === "preview" ? previews?.d1_databases : d1_databases;
  const found = bindings?.find(({ binding }) => binding === "DB");
  if (found === undefined) throw new Error(`wrangler.toml names no database for the ${target.kind}`);
  return found;
}
