// npm run fuzz: sends requests that fit the OpenAPI document, requests that violate it, and bytes that are not HTTP, and validates
// every response against the document.
//
//   npm run fuzz -- [--requests N] [--seed N] [--path PATH] [--url URL --key KEY]
//
// It starts the service in the real runtime with a real database, unless a URL and a key are given. Then the key must have limits
// that are never reached, no other client may add pets, and only HTTP is sent. A failure is printed with the smallest failing
// request, and with the seed and path that reproduce it; the exit code is then 1. A seed gives the same requests with the same
// document and fuzzer, except for keys.

import { parseArgs } from "node:util";
import { tableText, whole } from "../../../bench/measure/report.ts";
import type { Counts } from "./checks.ts";
import { failureText } from "./failure.ts";
import { fuzz } from "./run.ts";

const PROGRESS_MS = 10_000;

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "20000" },
    seed: { type: "string" },
    path: { type: "string" },
    url: { type: "string" },
    key: { type: "string" },
  },
});

const seed = Number(values.seed ?? Math.floor(Math.random() * 1_000_000_000));
const requests = Number(values.requests);
if (!Number.isSafeInteger(seed) || !Number.isSafeInteger(requests))
  throw new Error("--seed and --requests must be integers");

process.stderr.write(`seed ${seed}\n`);
let printedMs = Date.now();
const { counts, seconds, failure } = await fuzz({
  requests,
  seed,
  path: values.path,
  url: values.url === undefined ? undefined : new URL(values.url),
  secret: values.key,
  onProgress(progress, passed) {
    if (Date.now() - printedMs < PROGRESS_MS) return;
    printedMs = Date.now();
    process.stderr.write(`${progressLine(progress, passed)}\n`);
  },
});
process.stdout.write(summary(counts, seconds));
if (failure !== undefined) {
  process.stdout.write(failureText(failure));
  process.exitCode = 1;
} else {
  process.stdout.write(`seed ${seed}: no failures.\n`);
}

function progressLine({ requests, cases }: Counts, passed: number): string {
  const kinds = kindsOf(cases);
  const each = [...kinds].map(([kind, count]) => `${kind} ${whole(count)}`).join(", ");
  return `${whole(passed)} s: ${whole(requests)} requests, ${whole(requests / passed)}/s; cases: ${each}`;
}

/** The number of cases of each kind. */
function kindsOf(cases: Counts["cases"]): Map<string, number> {
  const kinds = new Map<string, number>();
  for (const [operation, counts] of cases) {
    for (const [kind, count] of counts) {
      const name = operation === "malformed" ? operation : kind;
      kinds.set(name, (kinds.get(name) ?? 0) + count);
    }
  }
  return kinds;
}

function summary({ requests, cases, statuses }: Counts, passed: number): string {
  const rows = [...cases].flatMap(([operation, kinds]) =>
    [...kinds].sort().map(([kind, count]) => [operation, whole(count), kind]),
  );
  const byStatus = [...statuses].sort().map(([status, count]) => [status, whole(count), ""]);
  return [
    tableText({
      title: "Cases",
      columns: ["for", "cases", "kind"],
      rows: rows.sort((a, b) => `${a}`.localeCompare(`${b}`)),
    }),
    tableText({ title: "Responses", columns: ["status", "responses", ""], rows: byStatus }),
    `${whole(requests)} requests in ${whole(passed)} s, ${whole(requests / passed)}/s\n`,
  ].join("\n");
}
