// npm run fuzz: sends requests that fit the OpenAPI document and requests that violate it, and validates every response against the
// document. A seed gives the same requests with the same document and fuzzer, except for keys.

import { InvalidArgumentError } from "@commander-js/extra-typings";
import { tableText, whole } from "../../../bench/measure/report.ts";
import { type Define, integer, newCommand, ReportedError, UsageError } from "../../../scripts/lib/command.ts";

const SUMMARY =
  "Validates the service's responses to valid and invalid requests. It starts the service in the real runtime with a real " +
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
      const { fuzz } = await import("./run.ts");
      const { runningService, startService } = await import("./service.ts");
      const service = url && key ? runningService(url, key) : await startService();
      const startedMs = Date.now();
      const run = () => fuzz({ service, requests, seed, path });
      const { counts, failure } = await io.step(`Sending ${whole(requests)} requests`, run);
      await service.stop();
      io.print(tableOf("Requests", counts.kinds));
      io.print(tableOf("Responses", counts.statuses));
      const seconds = (Date.now() - startedMs) / 1000;
      io.print(`${whole(counts.requests)} requests in ${whole(seconds)} s`);
      io.print(`seed ${seed}: ${failure ?? "no failures."}`);
      if (failure !== undefined) throw new ReportedError("wrong response");
    });

export default define;

function httpUrl(text: string): URL {
  if (/^https?:/.test(text) && URL.canParse(text)) return new URL(text);
  throw new InvalidArgumentError("It must be a URL, such as http://localhost:8787.");
}

function tableOf(title: string, counts: Map<string, number>): string {
  const rows = [...counts].map(([name, count]) => [name, whole(count), ""]);
  return tableText({ title, columns: ["", "", ""], rows: rows.sort() });
}
