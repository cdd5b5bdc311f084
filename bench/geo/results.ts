// The results of a simulation: figures, tables and the chart.

import type { Table } from "../measure/report.ts";
import { mean, percentile } from "../measure/statistics.ts";
import { PURPOSES, type Purpose, type Sample } from "./clients.ts";
import { type Counts, dollarsPerMillion, OPERATIONS, PRICES, sum } from "./counts.ts";
import { PRIMARY_REGION, REGIONS, SOURCE } from "./regions.ts";
import type { GeoRun } from "./run.ts";
import { type Bar, milliseconds, svg } from "./svg.ts";

/** Figures of a group of requests. */
export interface Summary {
  requests: number;
  p50Ms: number;
  p95Ms: number;
  meanHops: number;
}

export interface GeoResult {
  /** In each region. */
  isolates: number;
  /** By region. */
  lists: Record<string, Summary>;
  pollers: Record<string, Summary>;
  creations: Record<string, Summary>;
  /** In all regions. */
  purposes: Record<Purpose, Summary>;
  all: Summary;
  counts: Counts;
  keyReads: GeoRun["keyReads"];
  /** The integrators' requests, and their objects' part of the rest. */
  integratorCounts: Counts;
  dollarsPerMillion: Counts & { total: number };
  /** What this machine adds to every request. */
  idle: { p50Ms: number; p95Ms: number };
}

/** If the machine adds more than this to 5 % of the requests, other processes are running. */
const BUSY_MS = 20;

export function summarise(isolates: number, { samples, counts, keyReads, idleMs }: GeoRun): GeoResult {
  const countsOf = (keys: string, requests: readonly Sample[]): Counts => {
    const matching = counts.filter(([key]) => key.startsWith(keys)).map(([, each]) => each);
    return { ...sum(matching), workerRequests: requests.length };
  };
  const allCounts = countsOf("", samples);
  const byRegion = (matches: (sample: Sample) => boolean) =>
    Object.fromEntries(
      REGIONS.map(({ name }, region) => [
        name,
        summary(samples.filter((each) => each.region === region && matches(each))),
      ]),
    );
  return {
    isolates,
    lists: byRegion(({ purpose }) => purpose !== "creation"),
    pollers: byRegion(({ purpose }) => purpose === "poller"),
    creations: byRegion(({ purpose }) => purpose === "creation"),
    purposes: Object.fromEntries(
      PURPOSES.map((purpose) => [purpose, summary(samples.filter((each) => each.purpose === purpose))]),
    ) as Record<Purpose, Summary>,
    all: summary(samples),
    counts: allCounts,
    keyReads,
    integratorCounts: countsOf(
      "integrator",
      samples.filter(({ purpose }) => purpose === "integrator"),
    ),
    dollarsPerMillion: dollarsPerMillion(allCounts, samples.length),
    idle: { p50Ms: percentile(idleMs, 0.5), p95Ms: percentile(idleMs, 0.95) },
  };
}

function summary(samples: readonly Sample[]): Summary {
  const times = samples.map(({ ms }) => ms);
  return {
    requests: samples.length,
    p50Ms: percentile(times, 0.5),
    p95Ms: percentile(times, 0.95),
    meanHops: mean(samples.map(({ hops }) => hops)),
  };
}

const PURPOSE_NOTES: Record<Purpose, string> = {
  integrator: "20 a second in each region, the first three pages; two regions share a key",
  poller: "one every 2 to 5 s, the first page",
  crawler: "ten consecutive pages, from a random pet on",
  "last page": "with the key that has just created a pet, in its own and in one other region",
  creation: "one every 3 to 6 s in each region",
};

const OPERATION_TITLES: Record<keyof Counts, string> = {
  workerRequests: "requests to Workers",
  objectRequests: "requests to objects",
  rowsWritten: "rows written",
  rowsRead: "rows read",
};

/** A row of a table: its name, its cell for a result, and a note. */
type Row = readonly [string, (result: GeoResult) => string, string];

const regionRows = (of: "lists" | "pollers" | "creations"): Row[] =>
  REGIONS.map(({ name, title, toPrimaryMs, toReplicaMs, toObjectsMs }, region) => [
    `${name} ${title}`,
    (result) => figures(result[of][name]),
    `${toPrimaryMs} ms to the primary, ${toReplicaMs} to a replica, ${toObjectsMs[region]} to its own objects`,
  ]);

const ROWS: Record<string, readonly Row[]> = {
  "GET /v1/pets: p50 and p95 in ms, hops": regionRows("lists"),
  "GET /v1/pets of pollers: p50 and p95 in ms, hops": regionRows("pollers"),
  "POST /v1/pets: p50 and p95 in ms, hops": regionRows("creations"),
  "by purpose, in all regions: p50 and p95 in ms, hops": [
    ...PURPOSES.map((each): Row => [each, ({ purposes }) => figures(purposes[each]), PURPOSE_NOTES[each]]),
    ["all", ({ all }) => figures(all), ""],
    ["no work", ({ idle }) => figures({ ...idle, meanHops: 0 }), "what this machine adds to every request"],
  ],
  "per request": [
    ...OPERATIONS.map(
      (operation): Row => [
        OPERATION_TITLES[operation],
        ({ counts }) => perRequest(counts, operation),
        `$${PRICES[operation]} a million`,
      ],
    ),
    ...(["objectRequests", "rowsWritten"] as const).map(
      (operation): Row => [
        `${OPERATION_TITLES[operation]}, integrators`,
        ({ integratorCounts }) => perRequest(integratorCounts, operation),
        "",
      ],
    ),
    ["dollars per million requests", dollars, "without CPU time and the duration of objects"],
    [
      "reads of keys in the run",
      ({ keyReads: { byObjects, byIsolates } }) => `${byObjects} + ${byIsolates}`,
      "at the primary: by objects, and by isolates",
    ],
  ],
};

function figures({ p50Ms, p95Ms, meanHops }: Omit<Summary, "requests"> = summary([])): string {
  return [milliseconds(p50Ms), milliseconds(p95Ms), meanHops.toFixed(2)]
    .map((each) => each.padStart(5))
    .join("");
}

function perRequest(counts: Counts, operation: keyof Counts): string {
  return (counts[operation] / counts.workerRequests).toFixed(3);
}

/** Tables with a column for each number of isolates. */
export function geoTables(petstore: readonly GeoResult[], baseline: GeoResult): Table[] {
  const titles = [
    ...petstore.map(({ isolates }) => `petstore: ${isolates}`),
    `baseline: ${baseline.isolates}`,
  ];
  return Object.entries(ROWS).map(([title, rows]) => ({
    title,
    columns: ["isolates in each region", ...titles, ""],
    rows: rows.map(([name, cell, note]) => [name, ...[...petstore, baseline].map(cell), note]),
  }));
}

function dollars({ dollarsPerMillion: { total } }: GeoResult): string {
  return total.toFixed(2);
}

export const NOTES = [
  `The primary is in ${PRIMARY_REGION}. An object is in the region in which its key was first used.`,
  "Times are inside the Worker: the round trip between client and Worker is not included.",
  `Round trips: ${SOURCE.title},`,
  `${SOURCE.url}`,
];

/** The regions of the integrators' objects. Their lists take longer in other regions. */
export function homesNote(homes: ReadonlyMap<string, number>): string {
  const integrators = [...homes].filter(([key]) => key.startsWith("integrator")).sort();
  return integrators.map(([key, home]) => `Objects of ${key} are in ${REGIONS[home]?.name}.`).join(" ");
}

export function machineNotes(results: readonly GeoResult[]): string[] {
  if (results.every(({ idle }) => idle.p95Ms <= BUSY_MS)) return [];
  return [
    "The machine is busy with other processes, which delay all of the above. Run the bench again later.",
  ];
}

export function geoChart(petstore: readonly GeoResult[], baseline: GeoResult): string {
  const bar = (each: Summary | undefined, name: string, series: number): Bar => ({
    ...(each ?? summary([])),
    name,
    series,
  });
  const isolates = petstore.map((each) => each.isolates).join(", ");
  return svg({
    title: "GET /v1/pets in six regions: milliseconds inside the Worker",
    legend: [
      `petstore with ${isolates} isolates in each region: $${petstore.map(dollars).join(", ")} per million requests`,
      `baseline: $${dollars(baseline)} per million requests`,
    ],
    groups: REGIONS.map(({ name, title }) => ({
      name: title,
      bars: [
        ...petstore.map(({ isolates, lists }) => bar(lists[name], `${isolates}`, 0)),
        bar(baseline.lists[name], "baseline", 1),
      ],
    })),
    notes: ["Solid: median. Light: 95th percentile. Simulated by npm run bench:geo.", ...NOTES],
  });
}
