// npm run release:record: writes the recording of a release. It is made of the code and the migrations that lie here, so it
// comes last before the release; what is released afterwards is not in it.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import "../../bench/cursor.ts";
import { openDatabase } from "../../scripts/database.ts";
import { runCommand, UsageError } from "../../scripts/target.ts";
import { record } from "./recording.ts";

const USAGE = `npm run release:record -- VERSION

Writes test/releases/VERSION.json: every statement that this version sends to the database, and what it gets back. Made
when VERSION is released, and kept as long as anybody may go back to it: docs/migrations.md.`;

await runCommand("release:record", async () => {
  const { help, version } = readArguments();
  if (help) return void process.stdout.write(`${USAGE}\n`);
  const file = `test/releases/${version}.json`;
  if (existsSync(file)) {
    throw new UsageError(`${file} is there already: delete it first, if ${version} is not released yet`);
  }
  // Loaded here because it takes seconds, which a mistyped command should not cost.
  const { readD1Migrations } = await import("@cloudflare/vitest-plugin");
  const migrations = await readD1Migrations("migrations");
  const recording = await withNewDatabase((database) => record(version, migrations, database));
  await writeFile(file, JSON.stringify(recording));
  const biome = "node_modules/@biomejs/biome/bin/biome";
  await promisify(execFile)(process.execPath, [biome, "format", "--write", file]);
  process.stdout.write(`Recorded ${recording.calls.length} calls in ${file}.\n`);
});

function readArguments(): { help: boolean; version: string } {
  const wrong = new UsageError("npm run release:record takes a version, such as -- 1.0.0, and nothing else");
  try {
    const { values, positionals } = parseArgs({
      options: { help: { type: "boolean", short: "h", default: false } },
      allowPositionals: true,
    });
    const [version = "", ...extra] = positionals;
    if (!values.help && (!/^\d+\.\d+\.\d+$/.test(version) || extra.length > 0)) throw wrong;
    return { ...values, version };
  } catch {
    throw wrong;
  }
}

/** Does `work` on a database that nobody else has. */
async function withNewDatabase<Result>(work: (database: D1Database) => Promise<Result>): Promise<Result> {
  const state = await mkdtemp(join(tmpdir(), "petstore-"));
  const { database, close } = await openDatabase({ kind: "local", state });
  try {
    return await work(database);
  } finally {
    await close();
    await rm(state, { recursive: true });
  }
}
