// Reads wrangler.toml, and runs wrangler for the commands: without extra output or prompts, and with failures in one line. Results come
// from wrangler's output file, which is more stable than its text.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify, stripVTControlCharacters } from "node:util";
import { parse, type TomlError } from "smol-toml";
import * as z from "zod/mini";
import { messageOf } from "../lib/io.ts";

/**
 * The environment of every wrangler process: no banner, no metrics, no network where possible, and no log file. wrangler's log
 * is world-readable and contains its output, which for `auth token` is the credential.
 */
export const QUIET = {
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_WRITE_LOGS: "false",
};

/** wrangler's script, to run with Node: unlike its executable, it needs no shell on any platform. */
export const WRANGLER = resolve(import.meta.dirname, "../../node_modules/wrangler/bin/wrangler.js");

const D1_BINDINGS = z.array(
  z.looseObject({
    binding: z.string(),
    database_name: z.string(),
    database_id: z.optional(z.string()),
  }),
);
/** What commands use of wrangler.toml. */
const CONFIG = z.looseObject({
  name: z.string(),
  main: z.string(),
  account_id: z.optional(z.string()),
  workers_dev: z.optional(z.boolean()),
  route: z.optional(z.unknown()),
  routes: z.optional(z.array(z.unknown())),
  assets: z.looseObject({ directory: z.string() }),
  d1_databases: D1_BINDINGS,
  durable_objects: z.looseObject({
    // `max_delay` is in seconds.
    code_update_strategy: z.object({ mode: z.literal("deferred"), max_delay: z.number() }),
  }),
  previews: z.looseObject({ d1_databases: D1_BINDINGS }),
});
export type D1Binding = z.infer<typeof D1_BINDINGS>[number];

/** wrangler.toml. wrangler checks all of it whenever it runs, but to load wrangler only to read it would take each command two seconds. */
export async function readConfig(): Promise<z.infer<typeof CONFIG>> {
  const { data, error } = CONFIG.safeParse(parsed(await readFile("wrangler.toml", "utf8")));
  if (data) return data;
  throw new Error(`wrangler.toml has a wrong ${error.issues[0]?.path.join(".")}`);
}

function parsed(toml: string): object {
  try {
    return parse(toml);
  } catch (error) {
    const [problem] = messageOf(error).split("\n");
    throw new Error(`wrangler.toml is wrong in line ${(error as TomlError).line}: ${problem}`, {
      cause: error,
    });
  }
}

/**
 * Runs wrangler, by default with wrangler.toml. Throws an error with wrangler's message in one line. `urls` are those of what it
 * deployed; the first one of a preview is the same for every deployment.
 */
export function runWrangler(args: string[]): Promise<{ output: string; urls: string[] }> {
  return withFile("output.ndjson", "", async (outputFile) => {
    // WRANGLER_CI_OVERRIDE_NAME and an environment (CLOUDFLARE_ENV, here or in a .env file) would select another Worker.
    const { WRANGLER_CI_OVERRIDE_NAME: _, ...inherited } = process.env;
    // Below the level "log", a dry run prints nothing.
    const env = { ...inherited, ...QUIET, WRANGLER_LOG: "log", WRANGLER_OUTPUT_FILE_PATH: outputFile };
    const config = args.includes("--config") ? [] : ["--config", "wrangler.toml"];
    const running = promisify(execFile)(process.execPath, [WRANGLER, ...args, ...config, "--env="], { env });
    // No prompts.
    running.child.stdin?.end();
    const { stdout } = await running.catch((error) => {
      throw new Error(reasonOf(error));
    });
    const lines = (await readFile(outputFile, "utf8")).split("\n").filter((line) => line !== "");
    const urls = lines.flatMap((line) => {
      // A deployment's targets also include its triggers.
      const { targets = [], preview_urls = [] }: Record<string, string[]> = JSON.parse(line);
      return [...targets, ...preview_urls].filter((target) => target.startsWith("http"));
    });
    return { output: stripVTControlCharacters(stdout).trim(), urls };
  });
}

/** wrangler's error message, without its advice to its maintainers. */
function reasonOf(error: { stderr?: string }): string {
  return stripVTControlCharacters(error.stderr?.trim() || `${error}`)
    .replace(/\s*(If you think this is a bug|🪵).*/su, "")
    .replace(/^.*?\[ERROR\]\s*/s, "")
    .replace(/\s*\n\s*/g, " ")
    .trim();
}

/** Calls `work` with the path of a file that has this configuration only. */
export function withConfigFile<Result>(config: object, work: (path: string) => Promise<Result>) {
  return withFile("wrangler.json", JSON.stringify({ name: "petstore", ...config }), work);
}

/** Calls `work` with the path of a temporary file. */
async function withFile<Result>(name: string, content: string, work: (path: string) => Promise<Result>) {
  const folder = await mkdtemp(join(tmpdir(), "petstore-"));
  try {
    const path = join(folder, name);
    await writeFile(path, content);
    return await work(path);
  } finally {
    await rm(folder, { recursive: true });
  }
}
