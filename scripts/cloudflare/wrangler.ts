// Runs wrangler for the commands: quietly, without questions, and with its failures in one line. What it has done it writes
// into a file, entry by entry, which is easier to rely on than what it prints.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify, stripVTControlCharacters } from "node:util";

/**
 * The environment of every wrangler process: it prints nothing that is no news, stays offline if possible, and writes no log
 * file. wrangler's log is world-readable and holds what it prints, which for `auth token` is the credential.
 */
export const QUIET = {
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_WRITE_LOGS: "false",
};

/** wrangler, as a script for Node: that needs no shell, on no platform. */
export const WRANGLER = fileURLToPath(
  new URL("../../node_modules/wrangler/bin/wrangler.js", import.meta.url).href,
);

/** A database as the configuration names it. */
export interface D1Binding {
  binding: string;
  database_name?: string;
  database_id?: string;
}

/** wrangler.toml, as far as the commands use it. */
export interface Config {
  name: string;
  account_id?: string;
  workers_dev?: boolean;
  route?: unknown;
  routes?: unknown[];
  d1_databases: D1Binding[];
  previews?: { d1_databases?: D1Binding[] };
}

export async function readConfig(): Promise<Config> {
  // Loaded here because that takes half a second, which a mistyped command should not cost.
  const { unstable_readConfig } = await import("wrangler");
  return unstable_readConfig({ config: "wrangler.toml", env: "" }) as Config;
}

/** wrangler.toml as it is written, with paths that hold wherever a copy of it is. */
export async function readRawConfig() {
  const { experimental_readRawConfig } = await import("wrangler");
  const { rawConfig } = experimental_readRawConfig({ config: "wrangler.toml" });
  const { main = "", assets } = rawConfig;
  return {
    ...rawConfig,
    main: resolve(main),
    assets: { ...assets, directory: resolve(assets?.directory ?? "") },
  };
}

/** An entry of wrangler's output file, as far as the commands use it. */
export interface Entry {
  type: string;
  /** Of `deploy`: the addresses and triggers that there are. */
  targets?: string[];
  /** Of `preview`: its addresses, the first of which stays the same from one deployment to the next. */
  preview_urls?: string[];
}

/**
 * Runs a command of wrangler on wrangler.toml, if no other configuration is named. Throws an error whose message is wrangler's
 * own, in one line.
 */
export async function runWrangler(words: string[]): Promise<{ entries: Entry[]; said: string }> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-"));
  const output = join(folder, "output.ndjson");
  try {
    // Neither the variable for another name nor an environment, which CLOUDFLARE_ENV could name, here or in a file that
    // wrangler reads: either would be another Worker.
    const { WRANGLER_CI_OVERRIDE_NAME: _otherName, ...given } = process.env;
    // At a lower level it says nothing of a dry run.
    const env = { ...given, ...QUIET, WRANGLER_LOG: "log", WRANGLER_OUTPUT_FILE_PATH: output };
    const config = words.includes("--config") ? [] : ["--config", "wrangler.toml"];
    const running = promisify(execFile)(process.execPath, [WRANGLER, ...words, ...config, "--env="], { env });
    // Nobody is asked anything.
    running.child.stdin?.end();
    const { stdout } = await running;
    const lines = await readFile(output, "utf8").catch(() => "");
    const entries = lines.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Entry]));
    return { entries, said: stripVTControlCharacters(stdout).trim() };
  } catch (error) {
    throw new Error(reasonOf(error));
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** What wrangler said was wrong, without its advice to whoever maintains it. */
function reasonOf(error: unknown): string {
  const { stderr } = error as { stderr?: string };
  const said = stripVTControlCharacters(stderr?.trim() || `${error}`);
  return said
    .replace(/\s*(If you think this is a bug|🪵).*/su, "")
    .replace(/^.*?\[ERROR\]\s*/s, "")
    .replace(/\s*\n\s*/g, " ")
    .trim();
}

/** Does `work` with a file that has this configuration and nothing else. */
export async function withConfigFile<Result>(
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
