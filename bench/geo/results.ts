// The results of a simulation: figures, tables and the chart.

import { type Table, whole } from "../measure/report.ts";
import { mean, percentile } from "../measure/statistics.ts";
import { PURPOSES, type Purpose, type Sample } from "./clients.ts";
import { type Counts, dollarsPerMillion, OPERATIONS, PRICES } from "./counts.ts";
import { PRIMARY_REGION, REGIONS, SOURCE } from "./regions.ts";
import type { GeoRun } from "./run.ts";
import { milliseconds, svg } from "./svg.ts";

/** Figures of a group of requests. */
export interface Summary {
  requests: number;
  p50Ms: number;
  p95Ms: number;
  meanHops: number;
}

export interface GeoResult {
  /** By region. */
  lists: Record<string, Summary>;
  creations: Record<string, Summary>;
  /** In all regions. */
  purposes: Record<Purpose, Summary>;
  all: Summary;
  counts: Counts;
  dollarsPerMillion: Counts & { total: number };
  /** What this machine adds to every request. */
  idle: { p50Ms: number; p95Ms: number };
}

/** If the machine adds more than this to 5 % of the requests, other processes are running. */
const BUSY_MS = 20;

export function summarise({ samples, counts, idleMs }: GeoRun): GeoResult {
  const byRegion = (matches: (sample: Sample) => boolean) =>
    Object.fromEntries(
      REGIONS.map(({ name }, region) => [
        name,
        summary(samples.filter((each) => each.region === region && matches(each))),
      ]),
    );
  return {
    lists: byRegion(({ purpose }) => purpose !== "creation"),
    creations: byRegion(({ purpose }) => purpose === "creation"),
    purposes: Object.fromEntries(
      PURPOSES.map((purpose) => [purpose, summary(samples.filter((each) => each.purpose === purpose))]),
    ) as Record<Purpose, Summary>,
    all: summary(samples),
    counts,
    dollarsPerMillion: dollarsPerMillion(counts, counts.workerRequests),
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

const COLUMNS = ["petstore p50", "p95", "baseline p50", "p95", "hops petstore", "baseline", ""];

/** The cells of COLUMNS. */
function cells(petstore: Summary | undefined, baseline: Summary | undefined, note = ""): string[] {
  const both = [petstore ?? summary([]), baseline ?? summary([])];
  const times = both.flatMap(({ p50Ms, p95Ms }) => [milliseconds(p50Ms), milliseconds(p95Ms)]);
  return [...times, ...both.map(({ meanHops }) => meanHops.toFixed(2)), note];
}

export function geoTables(petstore: GeoResult, baseline: GeoResult): Table[] {
  const regionTable = (title: string, of: "lists" | "creations"): Table => ({
    title,
    columns: ["region", "to primary", "to replica", ...COLUMNS],
    rows: REGIONS.map(({ name, title, toPrimaryMs, toReplicaMs }) => [
      `${name} ${title}`,
      `${toPrimaryMs}`,
      `${toReplicaMs}`,
      ...cells(petstore[of][name], baseline[of][name]),
    ]),
  });
  const purposeRow = (name: string, ours: Summary, theirs: Summary, note?: string) => [
    name,
    whole(ours.requests),
    ...cells(ours, theirs, note),
  ];
  return [
    regionTable("lists: GET /v1/pets, ms", "lists"),
    regionTable("creations: POST /v1/pets, ms", "creations"),
    {
      title: "by purpose, in all regions, ms",
      columns: ["", "requests", ...COLUMNS],
      rows: [
        ...PURPOSES.map((each) =>
          purposeRow(each, petstore.purposes[each], baseline.purposes[each], PURPOSE_NOTES[each]),
        ),
        purposeRow("all", petstore.all, baseline.all),
      ],
    },
    {
      title: "dollars per million requests, without CPU time and the duration of objects",
      columns: ["", "a million", "petstore: a request", "$", "baseline: a request", "$", ""],
      rows: [
        ...OPERATIONS.map((operation) => [
          OPERATION_TITLES[operation],
          `$${PRICES[operation]}`,
          ...[petstore, baseline].flatMap(({ counts, dollarsPerMillion }) => [
            (counts[operation] / counts.workerRequests).toFixed(3),
            dollarsPerMillion[operation].toFixed(3),
          ]),
          "",
        ]),
        ["total", "", "", dollars(petstore), "", dollars(baseline), ""],
      ],
    },
  ];
}

function dollars({ dollarsPerMillion: { total } }: GeoResult): string {
  return total.toFixed(2);
}

export const NOTES = [
  `Objects and primary are in ${PRIMARY_REGION}. Times are inside the Worker: the round trip between client and Worker is not included.`,
  `Round trips: ${SOURCE.title},`,
  `${SOURCE.url}`,
];

/** What the machine adds to the figures. */
export function machineNote(petstore: GeoResult, baseline: GeoResult): string {
  const [ours, theirs] = [petstore, baseline].map(
    ({ idle: { p50Ms, p95Ms } }) => `${milliseconds(p50Ms)} ms (p95 ${milliseconds(p95Ms)})`,
  );
  const note = `A request that needs no work took ${ours} beside petstore and ${theirs} beside baseline.`;
  if (Math.max(petstore.idle.p95Ms, baseline.idle.p95Ms) <= BUSY_MS) return note;
  return `${note}\nThe machine is busy with other processes, which delay all of the above. Run the bench again later.`;
}

export function geoChart(petstore: GeoResult, baseline: GeoResult): string {
  return svg({
    title: "GET /v1/pets in six regions: milliseconds inside the Worker",
    legend: [
      `petstore: $${dollars(petstore)} per million requests`,
      `baseline: $${dollars(baseline)} per million requests`,
    ],
    groups: REGIONS.map(({ name, title }) => ({
      name: title,
      bars: [petstore.lists[name] ?? summary([]), baseline.lists[name] ?? summary([])],
    })),
    notes: ["Solid: median. Light: 95th percentile. Simulated by npm run bench:geo.", ...NOTES],
  });
}
