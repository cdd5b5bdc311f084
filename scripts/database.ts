// The service's own database, opened from a command line: the local one that `wrangler dev` serves from, also
// while it does. Migrations are wrangler's business; this file only asks whether there are any to apply.

import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** Where wrangler keeps local state if it is not told otherwise. */
export const DEFAULT_STATE = ".wrangler/state";

/** What every local command of wrangler is told: stay offline, and say nothing that is no news. */
export const QUIET = {
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
};

/** An open database. Whoever opened it closes it, or the process does not end. */
export interface OpenDatabase {
  db: D1Database;
  close(): Promise<void>;
}

/**
 * Opens the local database whose state is in the folder `state`, which need not exist yet.
 */
export async function openDatabase(state: string): Promise<OpenDatabase> {
  Object.assign(process.env, QUIET);
  // Loaded here because that takes half a second, which a mistyped command should not cost.
  const { getPlatformProxy, unstable_readConfig } = await import("wrangler");
  // With the whole configuration, wrangler would warn that the Durable Object does not run here.
  const { d1_databases } = unstable_readConfig({ config: "wrangler.toml" });
  const folder = await mkdtemp(join(tmpdir(), "petstore-"));
  const configPath = join(folder, "wrangler.json");
  await writeFile(configPath, JSON.stringify({ name: "petstore", d1_databases }));
  const { env, dispose } = await getPlatformProxy<Env>({ configPath, persist: { path: join(state, "v3") } });
  const close = async () => {
    await dispose();
    await rm(folder, { recursive: true });
  };
  return { db: env.DB, close };
}

/** The names of the migrations that the database has not seen yet, in order. */
export async function pendingMigrations(db: D1Database): Promise<string[]> {
  const files = (await readdir("migrations")).filter((file) => file.endsWith(".sql")).sort();
  const known = "SELECT name FROM sqlite_schema WHERE name = 'd1_migrations'";
  if ((await db.prepare(known).first()) === null) return files;
  const { results } = await db.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
  const applied = new Set(results.map(({ name }) => name));
  return files.filter((file) => !applied.has(file));
}

/** Applies what is pending to the local database. Throws with wrangler's own words if that fails. */
export async function applyMigrations(state: string): Promise<void> {
  const command = ["d1", "migrations", "apply", "DB", "--local", "--persist-to", state];
  await promisify(execFile)("wrangler", command, {
    env: { ...process.env, ...QUIET },
    shell: process.platform === "win32",
  });
}
