// What Cloudflare charges for a key's object, on virtual time: its calls and the rows that it writes, for a key at a steady rate through one
// isolate, without a limit or with one that it uses up and goes on. That an isolate makes at most 20 calls a second, the world checks.

import { MAX_LIMIT } from "../../src/limits/windows.ts";
import { Random } from "../../test/simulation/random.ts";
import type { Table } from "../measure/report.ts";
import { petstore } from "./petstore.ts";

const SECONDS = 20;
/** A lease comes back within this time. */
const SETTLE_MS = 5_000;
const PER_SECOND = 100;
const LIMITS = [60, 300, 1_000, MAX_LIMIT];

export async function measureObjects(): Promise<Table> {
  const rows: string[][] = [];
  for (const limit of LIMITS) {
    const { time, counts, ask } = petstore({ limit, isolates: 1, random: new Random(1), lostShare: 0 });
    const requests = SECONDS * PER_SECOND;
    for (let request = 0; request < requests; request += 1)
      time.after((request * 1_000) / PER_SECOND, () => void ask(0));
    const beganMs = time.nowMs;
    const bySecond: number[] = [];
    for (let second = 1; second <= SECONDS; second += 1) {
      const before = counts.objectRequests;
      await time.run(beganMs + second * 1_000);
      bySecond.push(counts.objectRequests - before);
    }
    await time.run(time.nowMs + SETTLE_MS);
    rows.push([
      `limit ${limit === MAX_LIMIT ? "never reached" : limit}`,
      (counts.objectRequests / SECONDS).toFixed(2),
      (counts.objectRequests / requests).toFixed(3),
      (counts.rowsWritten / requests).toFixed(4),
      `${Math.max(...bySecond)}`,
    ]);
  }
  return {
    title: `objects: one key at ${PER_SECOND} requests/s, one isolate, ${SECONDS} s`,
    columns: ["", "calls/s", "calls/request", "rows/request", "most calls in a second"],
    rows,
  };
}
