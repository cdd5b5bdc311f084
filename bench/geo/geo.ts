// Simulates how long requests take in six regions, and what they cost.
//
// Runs the service in workerd with each number of isolates in each of six regions, and then the baseline, by default for 75 s each.
// Each region has a replica, the primary is in one region, and an object is in the region in which its key was first used. Every
// statement and every call waits for a round trip (latency.ts) of published length (regions.ts). All runs get the same requests
// at the same times (workload.ts), spread at random over the isolates of a region, and start with empty caches. If any response is
// not the expected one, or a created pet is missing in the next list in any region, the bench fails. --svg writes docs/geo.svg.
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
import { type GeoResult, geoChart, geoTables, homesNote, machineNotes, NOTES, summarise } from "./results.ts";
import { GEO_IMPLEMENTATIONS, simulate } from "./run.ts";
import { drawWorkload, homesOf } from "./workload.ts";

const CHART = join(import.meta.dirname, "../../docs/geo.svg");

export interface GeoOptions {
  /** Numbers of isolates in each region; at least one. */
  isolates: readonly number[];
  seconds: number;
  seed: number;
  json?: true | undefined;
  svg?: true | undefined;
}

/** Runs the simulation. Returns tables, or JSON. */
export async function geo({ isolates, seconds, seed, json, svg }: GeoOptions): Promise<string> {
  await installPackages();
  const tasks = drawWorkload(seed, { regions: REGIONS.length, pets: PETS, seconds });
  const homes = homesOf(tasks);
  const run = async (name: keyof typeof GEO_IMPLEMENTATIONS, number: number) => {
    progress(`${name}: ${seconds} s in ${REGIONS.length} regions, isolates in each: ${number} …`);
    return summarise(number, await simulate(GEO_IMPLEMENTATIONS[name], tasks, number));
  };
  const petstore: GeoResult[] = [];
  for (const each of isolates) petstore.push(await run("petstore", each));
  // It keeps nothing in an isolate, so one number is enough.
  const baseline = await run("baseline", isolates[0] ?? 1);
  if (svg) await writeFile(CHART, geoChart(petstore, baseline));
  if (!json) {
    const tables = geoTables(petstore, baseline).map(tableText);
    return [...tables, ...machineNotes([...petstore, baseline]), homesNote(homes), ...NOTES].join("\n");
  }
  const result = {
    workerd: WORKERD_VERSION,
    seconds,
    seed,
    source: SOURCE,
    regions: REGIONS,
    homes: Object.fromEntries(homes),
    prices: PRICES,
    results: { petstore, baseline },
  };
  return JSON.stringify(result, null, 2);
}
