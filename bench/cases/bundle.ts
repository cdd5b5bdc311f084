// The size of the Worker that wrangler uploads.

import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { QUIET, WRANGLER } from "../../scripts/cloudflare/wrangler.ts";
import { temporaryFolder } from "../measure/cleanup.ts";
import { type Table, verdict } from "../measure/report.ts";

const TARGET_KIB = 60;

export interface BundleResult {
  kib: number;
  gzipKib: number;
  target: number;
  met: boolean;
}

export async function measureBundle(): Promise<BundleResult> {
  const { folder, remove } = temporaryFolder();
  const words = [WRANGLER, "deploy", "--dry-run", "--outdir", folder];
  await promisify(execFile)(process.execPath, words, {
    cwd: join(import.meta.dirname, "../.."),
    env: { ...process.env, ...QUIET },
  });
  // wrangler also writes a source map and a README, which it does not upload.
  const modules = (await readdir(folder)).filter((name) => !/\.(map|md)$/.test(name));
  const contents = await Promise.all(modules.map((name) => readFile(join(folder, name))));
  remove();
  const kib = sum(contents.map(({ length }) => length)) / 1024;
  const gzipKib = sum(contents.map((each) => gzipSync(each).length)) / 1024;
  return { kib, gzipKib, target: TARGET_KIB, met: gzipKib <= TARGET_KIB };
}

export function bundleTable({ kib, gzipKib, target, met }: BundleResult): Table {
  return {
    title: "bundle: the deployed Worker",
    columns: ["KiB", "KiB with gzip"],
    rows: [[kib.toFixed(1), verdict(met, gzipKib.toFixed(1), `at most ${target}`)]],
  };
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
