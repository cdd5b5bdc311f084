// The client package as it ships: its size, and its time to parse a page of 100 pets relative to JSON.parse, which rounds. Each round
// is a new process (measure/parse-ratios.mjs), of the Node in the variable CLIENT_NODE if it is set.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { type Table, verdict } from "../measure/report.ts";
import { median, medianInterval } from "../measure/statistics.ts";

const root = join(import.meta.dirname, "../..");

const TARGET_RATIO = 3;
const TARGET_BYTES = 4_096;

export interface ClientResult {
  node: string;
  /** By the kind of integers in the page. */
  ratios: Record<string, { median: number; low: number; high: number }>;
  bytes: number;
  gzipBytes: number;
}

export async function measureClient({ rounds }: { rounds: number }): Promise<ClientResult> {
  const run = async (program: string, ...words: string[]) =>
    (await promisify(execFile)(program, words, { cwd: root })).stdout.trim();
  await run(process.execPath, "scripts/main.ts", "scripts/client.ts");
  const { CLIENT_NODE: program = process.execPath } = process.env;
  const measured: Record<string, number[]> = { usual: [], largest: [] };
  for (let round = 0; round < rounds; round += 1) {
    const ratios = JSON.parse(await run(program, "bench/measure/parse-ratios.mjs"));
    for (const [kind, each] of Object.entries(measured)) each.push(ratios[kind]);
  }
  const shipped = await readFile(join(root, "client/dist/index.js"));
  return {
    node: await run(program, "--version"),
    ratios: Object.fromEntries(
      Object.entries(measured).map(([kind, each]) => [
        kind,
        { median: median(each), ...medianInterval(each) },
      ]),
    ),
    bytes: shipped.length,
    gzipBytes: gzipSync(shipped).length,
  };
}

export function clientTable({ node, ratios, bytes, gzipBytes }: ClientResult): Table {
  const rows = Object.entries(ratios).map(([kind, { median: middle, low, high }]) => {
    const text = `${middle.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
    const met = middle <= TARGET_RATIO;
    return [`parse ÷ JSON.parse, ${kind} integers`, verdict(met, text, `at most ${TARGET_RATIO}`)];
  });
  const size = verdict(gzipBytes <= TARGET_BYTES, `${gzipBytes} of ${bytes}`, `at most ${TARGET_BYTES}`);
  return {
    title: `client: a page of 100 pets on Node ${node} (95 % interval), and dist/index.js`,
    columns: ["", ""],
    rows: [...rows, ["bytes with gzip", size]],
  };
}
