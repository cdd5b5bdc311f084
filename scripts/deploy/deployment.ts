// Shared by the commands that deploy: the name of a build, what comes before an upload, and dry runs.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { createKey, rotateKey } from "../../src/operators/admin.ts";
import { listKeys } from "../../src/operators/records.ts";
import { openAccount } from "../cloudflare/account.ts";
import {
  CONTENTS,
  type Contents,
  deployedDatabase,
  deployedNames,
  migrate,
  openDeployed,
  type Target,
  targetOptions,
} from "../cloudflare/database.ts";
import { requireNoRestore } from "../cloudflare/time-travel.ts";
import { readConfig, runWrangler } from "../cloudflare/wrangler.ts";
import { type Io, UsageError } from "../lib/io.ts";

const SMOKE_KEY_NAME = "smoke test of deployments";

/** Another smoke test may still use the previous secret: all previews share the key. */
const SMOKE_GRACE_MS = 10 * 60_000;

/**
 * The package's version and the commit, such as `1.0.0+0123abc` (build metadata of Semantic Versioning). With uncommitted
 * changes, the time makes it unique.
 */
export async function buildName(): Promise<string> {
  const { version } = JSON.parse(await readFile("package.json", "utf8"));
  const time = new Date().toISOString().replace(/[-:]|\..*/g, "");
  const commit = await git("describe", "--always", "--exclude=*", "--abbrev=7", `--dirty=.changed.${time}`);
  return `${version}+${commit}`;
}

/** Runs git and returns its output. Throws if there is no repository. */
export async function git(...words: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("git", words);
  return stdout.trim();
}

/** The Worker of wrangler.toml. Throws UsageError if it has routes and would stay on workers.dev. */
export async function readWorker(): Promise<{ worker: string; hasRoutes: boolean }> {
  const { name: worker, workers_dev, route, routes = [] } = await readConfig();
  const hasRoutes = route !== undefined || routes.length > 0;
  if (!workers_dev || !hasRoutes) return { worker, hasRoutes };
  throw new UsageError(
    "delete workers_dev from wrangler.toml: no firewall rule of a route covers workers.dev",
  );
}

/** How many minutes objects of keys in use keep the code of the version before, at most. */
export async function minutesOfOldObjects(): Promise<number> {
  return (await readConfig()).durable_objects.code_update_strategy.max_delay / 60;
}

/** Says what is deployed, and where. */
export async function announce(io: Io, deployment: string, target: Target): Promise<void> {
  const { worker } = await readWorker();
  const databases = await deployedNames(target);
  const { label } = await io.step("Finding the account", openAccount);
  io.note(`Deploying ${deployment}: Worker ${worker} and databases ${databases} of account ${label}`);
}

/** All that comes before an upload: migrations, and a key for the smoke test, which it returns. */
export async function prepare(io: Io, target: Target): Promise<string> {
  for (const contents of CONTENTS) await prepareDatabase(io, target, contents);
  return io.step("Rotating the smoke test's key", () => smokeKey(target));
}

/** Applies pending migrations to a database. */
export async function prepareDatabase(io: Io, target: Target, contents: Contents): Promise<void> {
  const { name } = await deployedDatabase(target, contents);
  const apply = async () => migrate((await openDeployed(target, contents)).database, contents);
  const applied = await io.step(`Applying pending migrations to ${name}`, apply);
  io.note(applied.length === 0 ? "  none pending" : `  applied ${applied.join(", ")}`);
}

/** A key for the smoke test. Each call rotates its secret, so none has to be stored; its id, and so its counters, stay. */
async function smokeKey(target: Target): Promise<string> {
  const { database } = await openDeployed(target, "keys");
  const nowMs = Date.now();
  const operator = { by: "deployment", nowMs };
  const { keys } = await listKeys(database, nowMs, { search: SMOKE_KEY_NAME, state: "active" });
  const existing = keys.find(({ name }) => name === SMOKE_KEY_NAME);
  const rotated = existing && (await rotateKey(database, existing.id, SMOKE_GRACE_MS, operator));
  if (rotated?.ok) return rotated.secret;
  await requireNoRestore(database, targetOptions(target));
  const newKey = { name: SMOKE_KEY_NAME, plan: "pro", expiresAtMs: null } as const;
  return (await createKey(database, newKey, operator)).secret;
}

/** Prints what a deployment would do, with wrangler's description of the Worker. Needs no account. */
export async function printDryRun(
  io: Io,
  deployment: string,
  target: Target,
  ...options: string[]
): Promise<void> {
  const build = () => runWrangler(["deploy", "--dry-run", ...options]);
  const { output } = await io.step("Building the Worker", build);
  const databases = await deployedNames(target);
  io.print(`Would apply pending migrations to ${databases}, deploy ${deployment}, and run the smoke test.`);
  io.print(`wrangler describes the Worker:\n${output}\nNothing was changed.`);
}
