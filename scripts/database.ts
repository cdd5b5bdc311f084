// The service's database, opened from a command line: the local one that `wrangler dev` serves from, also while it does,
// production's, or the one that the previews share. Applying migrations is wrangler's business; this file only asks
// whether there are any to apply, and has it done.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify, stripVTControlCharacters } from "node:util";
import { read } from "../src/database.ts";
import { ApiRefusal, d1OverApi, openAccount } from "./d1-api.ts";

/** Where wrangler keeps local state if it is not told otherwise. */
export const DEFAULT_STATE = ".wrangler/state";

/** What every command of wrangler is told: say nothing that is no news, and stay offline if that is possible. */
export const QUIET = {
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
};

/** wrangler, as a script for Node: that needs no shell, on no platform. */
export const WRANGLER = fileURLToPath(
  new URL("../node_modules/wrangler/bin/wrangler.js", import.meta.url).href,
);

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

/** Whether there is a local database in the folder `state`. */
export function databaseExists(state: string): boolean {
  return existsSync(join(state, "v3", "d1"));
}

/** Opens a database. Makes an empty one if there is no local one; the others must be there. */
export async function openDatabase(target: Target): Promise<OpenDatabase> {
  Object.assign(process.env, QUIET);
  return target.kind === "local" ? openLocal(target.state) : openDeployed(target);
}

async function openLocal(state: string): Promise<OpenDatabase> {
  const { getPlatformProxy } = await import("wrangler");
  const { d1_databases } = await readConfig();
  // With the whole configuration, wrangler would warn that the Durable Object does not run here.
  return withConfigFile({ d1_databases }, async (configPath) => {
    const persist = { path: join(state, "v3") };
    const { env, dispose } = await getPlatformProxy<Env>({ configPath, persist });
    return { database: env.DB, close: dispose };
  });
}

async function openDeployed(target: Target): Promise<OpenDatabase> {
  const config = await readConfig();
  const { database_id, database_name } = bindingOf(target, config);
  const ask = await openAccount(WRANGLER, config.account_id);
  const close = async () => {};
  if (database_id !== undefined) return { database: d1OverApi(ask, database_id), close };
  try {
    // A deployment makes the database of a configuration that has no id for it.
    const { uuid } = await ask<{ uuid: string }>(`/d1/database/${database_name}?fields=uuid,name`);
    return { database: d1OverApi(ask, uuid), close };
  } catch (error) {
    if (!(error instanceof ApiRefusal && error.code === NO_SUCH_DATABASE)) throw error;
    throw new Error(
      `there is no database ${database_name} in this account yet: run npx wrangler d1 create ${database_name}`,
    );
  }
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
    const words = [WRANGLER, "d1", "migrations", "apply", "DB", ...where, "--config", configPath];
    try {
      await promisify(execFile)(process.execPath, words, { env: { ...process.env, ...QUIET } });
    } catch (error) {
      const { stderr } = error as { stderr?: string };
      // In one line, without the colours.
      const reason = stripVTControlCharacters(stderr?.trim() || `${error}`).replace(/\s*\n\s*/g, " ");
      throw new Error(`the migrations could not be applied: ${reason}`);
    }
  });
}

interface D1Binding {
  binding: string;
  database_name?: string;
  database_id?: string;
}

interface Config {
  account_id?: string;
  d1_databases: D1Binding[];
  previews?: { d1_databases?: D1Binding[] };
}

async function readConfig(): Promise<Config> {
  // Loaded here because that takes half a second, which a mistyped command should not cost.
  const { unstable_readConfig } = await import("wrangler");
  return unstable_readConfig({ config: "wrangler.toml" }) as Config;
}

function bindingOf(target: Target, { d1_databases, previews }: Config): D1Binding {
  const bindings = target.kind === "preview" ? previews?.d1_databases : d1_databases;
  const found = bindings?.find(({ binding }) => binding === "DB");
  if (found === undefined) throw new Error(`wrangler.toml names no database for the ${target.kind}`);
  return found;
}

/** Does `work` with a file that has this configuration and nothing else. */
async function withConfigFile<Result>(
  config: object,
  work: (path: string) => Promise<Result>,
): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-"));
  try {
    const path = join(folder, "wrangler.json");
    await writeFile(path, JSON.stringify({ name: "petstore", ...config }));
    return await work(path);
  } finally {
    await rm(folder, { recursive: true });
  }
}
