// What a run comes to: the figures, the tables for people, and the picture.

import { type Table, whole } from "../measure/report.ts";
import { PURPOSES, type Purpose, type Sample } from "./clients.ts";
import { type Counts, dollarsPerMillion, OPERATIONS, PRICES } from "./counts.ts";
import { mean, percentile } from "./percentile.ts";
import { HOME, REGIONS, SOURCE } from "./regions.ts";
import type { WorldRun } from "./run.ts";
import { milliseconds, svg } from "./svg.ts";

/** Some requests of a contestant, and how long they took. */
export interface Figures {
  requests: number;
  p50Ms: number;
  p95Ms: number;
  meanHops: number;
}

export interface WorldResult {
  /** By region, the requests for a page, and the creations. */
  lists: Record<string, Figures>;
  creations: Record<string, Figures>;
  /** In all regions, by what the requests were for. */
  purposes: Record<string, Figures>;
  all: Figures;
  counts: Counts;
  dollarsPerMillion: Counts & { total: number };
  /** What this machine adds to every request. */
  idle: { p50Ms: number; p95Ms: number };
}

/** If the machine adds more than that to one request in twenty, something else runs on it. */
const BUSY_MS = 20;

export function resultOf({ samples, counts, idleMs }: WorldRun): WorldResult {
  const byRegion = (belongs: (sample: Sample) => boolean) =>
    Object.fromEntries(
      REGIONS.map(({ name }, region) => [
        name,
        figures(samples.filter((each) => each.region === region && belongs(each))),
      ]),
    );
  return {
    lists: byRegion(isList),
    creations: byRegion((sample) => !isList(sample)),
    purposes: Object.fromEntries(
      PURPOSES.map((purpose) => [purpose, figures(samples.filter((each) => each.purpose === purpose))]),
    ),
    all: figures(samples),
    counts,
    dollarsPerMillion: dollarsPerMillion(counts, counts.workerRequests),
    idle: { p50Ms: percentile(idleMs, 0.5), p95Ms: percentile(idleMs, 0.95) },
  };
}

function isList({ purpose }: Sample): boolean {
  return purpose !== "creation";
}

function figures(samples: readonly Sample[]): Figures {
  const times = samples.map(({ ms }) => ms);
  return {
    requests: samples.length,
    p50Ms: percentile(times, 0.5),
    p95Ms: percentile(times, 0.95),
    meanHops: mean(samples.map(({ hops }) => hops)),
  };
}

const WHAT: Record<Purpose, string> = {
  integrator: "20 a second in each region, the first three pages; two regions share a key",
  poller: "one every 2 to 5 s, the first page",
  walker: "ten pages one after the other, from anywhere",
  "last page": "by the key that has just created a pet, there and in one other region",
  creation: "one every 3 to 6 s in each region",
};

const OPERATION_TITLES: Record<keyof Counts, string> = {
  workerRequests: "requests to Workers",
  objectRequests: "requests to objects",
  rowsWritten: "rows written",
  rowsRead: "rows read",
};

/** The tables of a run of both. */
export function worldTables(petstore: WorldResult, textbook: WorldResult): Table[] {
  const quartet = (ours?: Figures, theirs?: Figures) =>
    [ours?.p50Ms, ours?.p95Ms, theirs?.p50Ms, theirs?.p95Ms].map((each) => milliseconds(each ?? Number.NaN));
  const hops = (ours?: Figures, theirs?: Figures) =>
    [ours, theirs].map((each) => (each?.meanHops ?? Number.NaN).toFixed(2));
  const columns = ["petstore p50", "p95", "textbook p50", "p95", "hops petstore", "textbook"];
  const regionTable = (title: string, of: "lists" | "creations"): Table => ({
    title,
    columns: ["region", "to home", "to replica", ...columns, ""],
    rows: REGIONS.map(({ name, title, toHomeMs, toReplicaMs }) => [
      `${name} ${title}`,
      `${toHomeMs}`,
      `${toReplicaMs}`,
      ...quartet(petstore[of][name], textbook[of][name]),
      ...hops(petstore[of][name], textbook[of][name]),
      "",
    ]),
  });
  return [
    regionTable("lists: GET /v1/pets, ms", "lists"),
    regionTable("creations: POST /v1/pets, ms", "creations"),
    {
      title: "by what the requests are for, in all regions, ms",
      columns: ["", "requests", ...columns, ""],
      rows: [
        ...PURPOSES.map((purpose) => {
          const [ours, theirs] = [petstore.purposes[purpose], textbook.purposes[purpose]];
          const requests = whole(ours?.requests ?? 0);
          return [purpose, requests, ...quartet(ours, theirs), ...hops(ours, theirs), WHAT[purpose]];
        }),
        [
          "all",
          whole(petstore.all.requests),
          ...quartet(petstore.all, textbook.all),
          ...hops(petstore.all, textbook.all),
          "",
        ],
      ],
    },
    {
      title: "dollars per million requests, without CPU time and objects' time awake",
      columns: ["", "a million", "petstore: a request", "$", "textbook: a request", "$", ""],
      rows: [
        ...OPERATIONS.map((operation) => [
          OPERATION_TITLES[operation],
          `$${PRICES[operation]}`,
          ...[petstore, textbook].flatMap(({ counts, dollarsPerMillion }) => [
            (counts[operation] / counts.workerRequests).toFixed(3),
            dollarsPerMillion[operation].toFixed(3),
          ]),
          "",
        ]),
        ["together", "", "", dollars(petstore), "", dollars(textbook), ""],
      ],
    },
  ];
}

function dollars({ dollarsPerMillion: { total } }: WorldResult): string {
  return total.toFixed(2);
}

/** What the figures rest on. */
export const GROUNDS = [
  `Objects and primary are in ${HOME}. Time is in the Worker: the way between client and Worker comes on top, for both.`,
  `Round trips: ${SOURCE.title},`,
  `${SOURCE.url}`,
];

/** What the machine has to do with the figures. */
export function machineNote(petstore: WorldResult, textbook: WorldResult): string {
  const [ours, theirs] = [petstore, textbook].map(
    ({ idle: { p50Ms, p95Ms } }) => `${milliseconds(p50Ms)} (p95 ${milliseconds(p95Ms)})`,
  );
  const note = `An answer for which nothing has to be done took ${ours} ms beside petstore and ${theirs} ms beside textbook.`;
  if (Math.max(petstore.idle.p95Ms, textbook.idle.p95Ms) <= BUSY_MS) return note;
  return `${note}\nThat is much: something else runs on this machine, and delays all of the above. Run it again later.`;
}

/** The picture of a run of both. */
export function worldPicture(petstore: WorldResult, textbook: WorldResult): string {
  const none = { p50Ms: Number.NaN, p95Ms: Number.NaN };
  return svg({
    title: "GET /v1/pets in six regions, milliseconds in the Worker",
    legend: [
      `petstore: $${dollars(petstore)} per million requests`,
      `the same by the book: $${dollars(textbook)} per million requests`,
    ],
    groups: REGIONS.map(({ name, title }) => ({
      name: title,
      bars: [petstore.lists[name] ?? none, textbook.lists[name] ?? none],
    })),
    notes: [
      "Solid: half of all requests were faster. Light: 95 % were. Simulated: npm run bench:geo.",
      ...GROUNDS,
    ],
  });
}
