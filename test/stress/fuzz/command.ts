// npm run fuzz: sends requests that fit the OpenAPI document, requests that violate it, and bytes that are not HTTP, and validates
// every response against the document. A seed gives the same requests with the same document and fuzzer, except for keys.

import { InvalidArgumentError } from "@commander-js/extra-typings";
import { tableText, whole } from "../../../bench/measure/report.ts";
import { type Define, integer, newCommand, UsageError } from "../../../scripts/lib/command.ts";
import type { Counts } from "./checks.ts";
import { failureText } from "./failure.ts";

const PROGRESS_MS = 10_000;

const SUMMARY =
  "Validates the service's responses to valid, invalid and malformed requests. It starts the service in the real runtime with a real " +
  "database, or uses the one at --url: its key must have limits that are never reached, no other client may add pets, and only HTTP " +
  "is sent. A failure is printed with the smallest failing request, and with the seed and path that reproduce it.";

const define: Define = (io) =>
  newCommand("npm run fuzz", SUMMARY, "--requests 2000", "--seed 12345 --path 0:1:0")
    .option("--requests <number>", "how many at least", integer(1, 1_000_000_000), 20_000)
    .option("--seed <number>", "repeats the requests of a run", integer(0, Number.MAX_SAFE_INTEGER))
    .option("--path <path>", "repeats one failure of the run with that seed")
    .option("--url <url>", "a running service", httpUrl)
    .option("--key <key>", "an API key of that service")
    .action(async ({ requests, seed: seedGiven, path, url, key }) => {
      if ((url === undefined) !== (key === undefined))
        throw new UsageError("--url and --key need each other");
      if (path !== undefined && seedGiven === undefined) throw new UsageError("--path needs --seed");
      const seed = seedGiven ?? Math.floor(Math.random() * 1_000_000_000);
      io.note(`seed ${seed}`);
      let printedMs = Date.now();
      const { fuzz } = await import("./run.ts");
      const { counts, seconds, failure } = await fuzz({
        requests,
        seed,
        path,
        url,
        secret: key,
        onProgress(progress, passed) {
          if (Date.now() - printedMs < PROGRESS_MS) return;
          printedMs = Date.now();
          io.note(progressLine(progress, passed));
        },
      });
      io.print(summary(counts, seconds));
      io.print(failure === undefined ? `seed ${seed}: no failures.` : failureText(failure));
      if (failure !== undefined) throw new Error(`wrong response to ${failure.what}`);
    });

export default define;

function httpUrl(text: string): URL {
  if (/^https?:/.test(text) && URL.canParse(text)) return new URL(text);
  throw new InvalidArgumentError("It must be a URL, such as http://localhost:8787.");
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
    `${whole(requests)} requests in ${whole(passed)} s, ${whole(requests / passed)}/s`,
  ].join("\n");
}
