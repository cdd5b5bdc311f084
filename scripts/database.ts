// The service's own database, opened from a command line: the local one that `wrangler dev` serves from, also
// while it does. Applying migrations is wrangler's business; this file only asks whether there are any to apply.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { read } from "../src/database.ts";

/** Where wrangler keeps local state if it is not told otherwise. */
export const DEFAULT_STATE = ".wrangler/state";

/** What every local command of wrangler is told: stay offline, and say nothing that is no news. */
export const QUIET = {
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
};

/** wrangler, as a script for Node: that needs no shell, on no platform. */
export const WRANGLER = fileURLToPath(
  new URL("../node_modules/wrangler/bin/wrangler.js", import.meta.url).href,
);

/** An open database. Whoever opened it closes it, or the process does not end. */
export interface OpenDatabase {
  database: D1Database;
  close(): Promise<void>;
}

/** Whether there is a local database in the folder `state`. */
export function databaseExists(state: string): boolean {
  return existsSync(join(state, "v3", "d1"));
}

/** Opens the local database in the folder `state`, and makes an empty one if there is none. */
export async function openDatabase(state: string): Promise<OpenDatabase> {
  Object.assign(process.env, QUIET);
  // Loaded here because that takes half a second, which a mistyped command should not cost.
  const { getPlatformProxy, unstable_readConfig } = await import("wrangler");
  // With the whole configuration, wrangler would warn that the Durable Object does not run here.
  const { d1_databases } = unstable_readConfig({ config: "wrangler.toml" });
  const folder = await mkdtemp(join(tmpdir(), "petstore-"));
  try {
    const configPath = join(folder, "wrangler.json");
    await writeFile(configPath, JSON.stringify({ name: "petstore", d1_databases }));
    const persist = { path: join(state, "v3") };
    const { env, dispose } = await getPlatformProxy<Env>({ configPath, persist });
    return { database: env.DB, close: dispose };
  } finally {
    await rm(folder, { recursive: true });
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

/** Applies what is pending to the local database. Throws an error whose message is wrangler's own. */
export async function applyMigrations(state: string): Promise<void> {
  const words = [WRANGLER, "d1", "migrations", "apply", "DB", "--local", "--persist-to", state];
  try {
    await promisify(execFile)(process.execPath, words, { env: { ...process.env, ...QUIET } });
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    throw new Error(`the migrations could not be applied:\n${stderr?.trim() || error}`);
  }
}

/** How a command line names the folder `state`, to be put behind a command: nothing for the one it takes by itself. */
export function persistTo(state: string): string {
  if (state === DEFAULT_STATE) return "";
  return ` --persist-to ${/^[\w./-]+$/.test(state) ? state : `'${state.replaceAll("'", "'\\''")}'`}`;
}
