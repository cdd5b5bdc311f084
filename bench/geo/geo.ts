// npm run bench:geo: simulates how long requests take in six regions, and what they cost.
//
//   npm run bench:geo -- [--seconds N] [--seed N] [--json] [--svg]
//
// Runs the service and then the baseline in workerd, by default for 75 s each. Each has a Worker in six regions, each region has a
// replica, and the primary and the objects are in one region. Every statement and every call waits for a round trip
// (latency.ts) of published length (regions.ts). Both get the same requests at the same times (workload.ts) and start with
// empty caches. If any response is not the expected one, or a created pet is missing in the next list in any region, the bench
// fails. --svg writes docs/geo.svg.
//
// State is in memory where /dev/shm exists, as on Linux, because objects that share a disk would wait for each other, which they
// don't on Cloudflare. Elsewhere, set TMPDIR to a folder in memory. docs/performance.md says what the figures do not say.

import "./memory-folder.ts";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { positiveInteger, runCommand } from "../measure/command.ts";
import { PETS } from "../measure/implementations.ts";
import { installPackages } from "../measure/packages.ts";
import { progress, tableText } from "../measure/report.ts";
import { WORKERD_VERSION } from "../measure/workerd.ts";
import { PRICES } from "./counts.ts";
import { REGIONS, SOURCE } from "./regions.ts";
import { geoChart, geoTables, machineNote, NOTES, summarise } from "./results.ts";
import { GEO_IMPLEMENTATIONS, simulate } from "./run.ts";
import { drawWorkload } from "./workload.ts";

const CHART = join(import.meta.dirname, "../../docs/geo.svg");

await runCommand("npm run bench:geo", async () => {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string", default: "75" },
      seed: { type: "string", default: "1" },
      json: { type: "boolean", default: false },
      svg: { type: "boolean", default: false },
    },
  });
  const seconds = positiveInteger("seconds", values.seconds);
  const seed = positiveInteger("seed", values.seed);
  await installPackages();
  const tasks = drawWorkload(seed, { regions: REGIONS.length, pets: PETS, seconds });
  const run = async (name: keyof typeof GEO_IMPLEMENTATIONS) => {
    progress(`${name}: ${seconds} s in ${REGIONS.length} regions …`);
    return summarise(await simulate(GEO_IMPLEMENTATIONS[name], tasks));
  };
  const petstore = await run("petstore");
  const baseline = await run("baseline");
  if (values.svg) await writeFile(CHART, geoChart(petstore, baseline));
  const tables = geoTables(petstore, baseline).map(tableText);
  const result = {
    workerd: WORKERD_VERSION,
    seconds,
    seed,
    source: SOURCE,
    regions: REGIONS,
    prices: PRICES,
    results: { petstore, baseline },
  };
  const text = values.json
    ? JSON.stringify(result, null, 2)
    : [...tables, machineNote(petstore, baseline), ...NOTES].join("\n");
  process.stdout.write(`${text}\n`);
});
