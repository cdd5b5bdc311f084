// Simulates how long requests take in six regions, and what they cost.
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

export interface GeoOptions {
  seconds: number;
  seed: number;
  json?: true | undefined;
  svg?: true | undefined;
}

/** Runs the simulation. Returns tables, or JSON. */
export async function geo({ seconds, seed, json, svg }: GeoOptions): Promise<string> {
  await installPackages();
  const tasks = drawWorkload(seed, { regions: REGIONS.length, pets: PETS, seconds });
  const run = async (name: keyof typeof GEO_IMPLEMENTATIONS) => {
    progress(`${name}: ${seconds} s in ${REGIONS.length} regions …`);
    return summarise(await simulate(GEO_IMPLEMENTATIONS[name], tasks));
  };
  const petstore = await run("petstore");
  const baseline = await run("baseline");
  if (svg) await writeFile(CHART, geoChart(petstore, baseline));
  if (!json) {
    const tables = geoTables(petstore, baseline).map(tableText);
    return [...tables, machineNote(petstore, baseline), ...NOTES].join("\n");
  }
  const result = {
    workerd: WORKERD_VERSION,
    seconds,
    seed,
    source: SOURCE,
    regions: REGIONS,
    prices: PRICES,
    results: { petstore, baseline },
  };
  return JSON.stringify(result, null, 2);
}
