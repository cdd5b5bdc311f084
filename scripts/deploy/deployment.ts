// What the commands that deploy have in common: what a build is called, the database that goes first, and the key that the
// smoke test uses.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { createKey, rotateKey } from "../../src/keys/admin.ts";
import { listKeys, stateOf } from "../../src/keys/store.ts";
import { deployedDatabase, migrate, openDatabase, type Target } from "../cloudflare/database.ts";
import { readConfig } from "../cloudflare/wrangler.ts";
import { UsageError } from "../lib/command.ts";

/** By this name an operator recognises the key in `npm run keys -- list`. */
const SMOKE_KEY_NAME = "smoke test of deployments";

/** For how long the secret before stays good: another smoke test may be running, of another preview. */
const SMOKE_GRACE_MS = 10 * 60_000;

/**
 * The name of the Worker, and whether production has an address on workers.dev. Throws a UsageError if it would have that beside
 * routes, because no firewall rule of the routes' zone covers it.
 */
export async function readWorker(): Promise<{ name: string; isOnWorkersDev: boolean }> {
  const { name, workers_dev, route, routes = [] } = await readConfig();
  const hasRoutes = route !== undefined || routes.length > 0;
  if (workers_dev && hasRoutes) {
    throw new UsageError(
      "wrangler.toml has workers_dev = true beside routes: delete workers_dev, because no firewall rule of a zone covers workers.dev",
    );
  }
  return { name, isOnWorkersDev: workers_dev ?? !hasRoutes };
}

/**
 * What is deployed: the version of the package and the commit, as `1.0.0+0123abc` (build metadata of Semantic Versioning).
 * Where that does not say it all, because files were changed since or there is no repository, the time makes it unique.
 */
export async function buildName(): Promise<string> {
  const { version } = JSON.parse(await readFile("package.json", "utf8"));
  const time = new Date().toISOString().replace(/[-:]|\..*/g, "");
  try {
    const commit = await git("rev-parse", "--short=7", "HEAD");
    const isChanged = (await git("status", "--porcelain")) !== "";
    return `${version}+${commit}${isChanged ? `.changed.${time}` : ""}`;
  } catch {
    return `${version}+${time}`;
  }
}

/** What git answers, or an error if there is no repository. */
export async function git(...words: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("git", words);
  return stdout.trim();
}

/** What has wrangler write the name of a build into the code: see src/http/version.ts. */
export function definition(build: string): { BUILD: string } {
  return { BUILD: JSON.stringify(build) };
}

/** Brings the database up to date, before the Worker that needs it. */
export async function prepareDatabase(target: Target, say: (line: string) => void): Promise<void> {
  const { name } = await deployedDatabase(target);
  say(`Database ${name}: applies what it has not seen of migrations/`);
  const applied = await migrate(target);
  say(applied.length === 0 ? "  it was up to date" : `  applied ${applied.join(", ")}`);
}

/**
 * A key for the smoke test. It has a new secret each time, which nobody keeps, so there is none to be stored or to leak; its
 * id, and with it its counters, stay the same.
 */
export async function smokeKey(target: Target): Promise<string> {
  const { database, close } = await openDatabase(target);
  try {
    const nowMs = Date.now();
    const isIt = ({ name }: { name: string }) => name === SMOKE_KEY_NAME;
    const known = (await listKeys(database)).find((key) => isIt(key) && stateOf(key, nowMs) === "active");
    const rotated = known && (await rotateKey(database, known.id, SMOKE_GRACE_MS, nowMs));
    if (rotated?.ok) return rotated.secret;
    const newKey = { name: SMOKE_KEY_NAME, plan: "pro", expiresAtMs: null } as const;
    return (await createKey(database, newKey, nowMs)).secret;
  } finally {
    await close();
  }
}
