// The size of the Worker that wrangler uploads.

import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { temporaryFolder } from "../measure/cleanup.ts";
import { type Table, verdict } from "../measure/report.ts";

const TARGET_KIB = 60;

const root = join(import.meta.dirname, "../..");

export async function measureBundle(): Promise<Table> {
  const { folder, remove } = temporaryFolder();
  const words = ["node_modules/wrangler/bin/wrangler.js", "deploy", "--dry-run", "--outdir", folder];
  const env = { ...process.env, WRANGLER_SEND_METRICS: "false", WRANGLER_WRITE_LOGS: "false" };
  await promisify(execFile)(process.execPath, words, { cwd: root, env });
  // wrangler also writes a source map, which Cloudflare keeps beside the Worker, and a README, which it does not upload.
  const modules = (await readdir(folder)).filter((name) => !/\.(map|md)$/.test(name));
  const contents = await Promise.all(modules.map((name) => readFile(join(folder, name))));
  remove();
  const kib = (buffers: Buffer[]) => buffers.reduce((total, { length }) => total + length, 0) / 1024;
  const gzipKib = kib(contents.map((each) => gzipSync(each)));
  return {
    title: "bundle: the deployed Worker",
    columns: ["KiB", "KiB with gzip"],
    rows: [[kib(contents).toFixed(1), verdict(gzipKib, TARGET_KIB, gzipKib.toFixed(1))]],
  };
}
