// Simulates how long requests take in six regions, and what they cost.
//
// Runs the service in workerd with each number of isolates in each of six regions, and then the baseline. Each region has a replica,
// the primary is in one region, and an object is in the region in which its key was first used. Every statement and every call waits
// for a round trip (latency.ts) of published length (regions.ts). All runs get the same requests at the same times (workload.ts),
// spread at random over the isolates of a region, and start with empty caches. If any response is not the expected one, or a created
// pet is missing in the next list in any region, the bench fails.
//
// State is in memory where the system has a folder for that, as Linux has, because objects that share a disk would wait for each
// other, which they don't on Cloudflare. docs/performance.md says what the figures do not say.

import { DECIDED_BY } from "../../src/limits/windows.ts";
import { PETS } from "../measure/implementations.ts";
import { progress, type Table } from "../measure/report.ts";
import { mean, percentile } from "../measure/statistics.ts";
import { type Counts, dollarsPerMillion, OPERATIONS, sum } from "../simulation/counts.ts";
import { REGIONS } from "../simulation/regions.ts";
import { PURPOSES, type Purpose, type Sample } from "./clients.ts";
import { GEO_IMPLEMENTATIONS, type GeoRun, simulate } from "./run.ts";
import { drawWorkload } from "./workload.ts";

const LISTS = PURPOSES.filter((each) => each !== "creation");

/** A run with its column in the tables. */
interface Column extends GeoRun {
  isBaseline: boolean;
  isolates: number;
}

/** `isolates`: numbers of isolates in each region; at least one. */
export async function measureGeo(isolates: readonly number[], seconds: number): Promise<Table[]> {
  const tasks = drawWorkload(REGIONS.length, PETS, seconds);
  const run = async (name: keyof typeof GEO_IMPLEMENTATIONS, number: number): Promise<Column> => {
    progress(`geo: ${name}, ${seconds} s in ${REGIONS.length} regions, isolates in each: ${number}`);
    const result = await simulate(GEO_IMPLEMENTATIONS[name], tasks, number);
    return { ...result, isBaseline: name === "baseline", isolates: number };
  };
  const columns: Column[] = [];
  for (const each of isolates) columns.push(await run("petstore", each));
  // It keeps nothing in an isolate, so one number is enough.
  columns.push(await run("baseline", isolates[0] ?? 1));
  return [
    { title: "geo: lists, p50 and p95 in ms, sequential calls", ...inRegions(columns, LISTS) },
    { title: "geo: lists of pollers", ...inRegions(columns, ["poller"]) },
    { title: "geo: by purpose, in all regions", ...byPurpose(columns) },
    { title: "geo: per request", ...perRequest(columns) },
  ];
}

/** A column for each run. `cell` makes a row's cell. */
function table<Item>(
  columns: readonly Column[],
  rows: readonly (readonly [name: string, item: Item])[],
  cell: (column: Column, item: Item) => string,
): Omit<Table, "title"> {
  const titles = columns.map(({ isBaseline, isolates }) =>
    isBaseline ? "baseline" : `petstore: ${isolates}`,
  );
  return {
    columns: ["isolates in each region", ...titles],
    rows: rows.map(([name, item]) => [name, ...columns.map((each) => cell(each, item))]),
  };
}

function inRegions(columns: readonly Column[], purposes: readonly Purpose[]): Omit<Table, "title"> {
  const rows = REGIONS.map(({ name }, region) => [name, region] as const);
  return table(columns, rows, ({ samples }, region) =>
    figures(samples.filter((each) => each.region === region && purposes.includes(each.purpose))),
  );
}

function byPurpose(columns: readonly Column[]): Omit<Table, "title"> {
  const rows = [...PURPOSES, "all" as const].map((each) => [each, each] as const);
  return table(columns, rows, ({ samples }, name) =>
    figures(samples.filter(({ purpose }) => name === "all" || purpose === name)),
  );
}

const OPERATION_TITLES: Record<keyof Counts, string> = {
  workerRequests: "requests to Workers",
  objectRequests: "requests to objects",
  rowsWritten: "rows written",
  rowsRead: "rows read",
};

function perRequest(columns: readonly Column[]): Omit<Table, "title"> {
  const share = (operation: keyof Counts, client: string) => (column: Column) => {
    const counts = countsOf(column, client);
    return (counts[operation] / counts.workerRequests).toFixed(3);
  };
  const decided = (by: string) => (column: Column) =>
    mean(column.samples.map((each) => (each.by === by ? 1 : 0))).toFixed(3);
  const rows: [string, (column: Column) => string][] = [
    ...DECIDED_BY.map((by): (typeof rows)[0] => [`decided: ${by}`, decided(by)]),
    ...OPERATIONS.map((each): (typeof rows)[0] => [OPERATION_TITLES[each], share(each, "")]),
    ["requests to objects, integrators", share("objectRequests", "integrator")],
    ["dollars per million requests, without CPU time and the duration of objects", dollars],
    ["reads of keys at the primary, in total", ({ keyReads }) => `${keyReads}`],
  ];
  return table(columns, rows, (column, cell) => cell(column));
}

/** The requests of a kind of client, or of all, and what the objects of their keys did. */
function countsOf({ counts, samples }: Column, client: string): Counts {
  const matching = counts.filter(([key]) => key.startsWith(client)).map(([, each]) => each);
  const requests = samples.filter(({ purpose }) => purpose.startsWith(client));
  return { ...sum(matching), workerRequests: requests.length };
}

function dollars(column: Column): string {
  return dollarsPerMillion(countsOf(column, "")).toFixed(2);
}

/** Milliseconds have one decimal below ten. */
function figures(samples: readonly Sample[]): string {
  const times = samples.map(({ ms }) => ms);
  const percentiles = [0.5, 0.95].map((share) => percentile(times, share));
  const hops = mean(samples.map((each) => each.hops)).toFixed(2);
  return [...percentiles.map((ms) => ms.toFixed(ms < 9.95 ? 1 : 0)), hops]
    .map((each) => each.padStart(5))
    .join("");
}
