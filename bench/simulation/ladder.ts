// The ladder: fills the tables of docs/limits.md, and draws its chart.

import { readdirSync, readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { PLAN_LIMITS } from "../../src/keys/plans.ts";
import { progress, type Table } from "../measure/report.ts";
import { binding } from "./binding.ts";
import { drawChart } from "./chart.ts";
import {
  above,
  below,
  climb,
  DESIGNS,
  type Design,
  dollars,
  FAULTY,
  type Loads,
  measure,
  PLANS,
  type Rung,
  waitMs,
} from "./climb.ts";
import type { Counts } from "./counts.ts";
import type { NewLimiter } from "./limiter.ts";
import { type Fault, TRAFFICS } from "./run.ts";
import { syncedCounters } from "./synced-counters.ts";
import { windowRules } from "./window-rules.ts";

export const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
const OTHER_SEEDS = SEEDS.map((seed) => 1_000 + seed);
/** Numbers of isolates in the table of all figures. */
export const SHOWN = [1, 3, 10, 100, 300];
/** The plan of the chart, of the table to choose by, and of the variants. */
const CHOSEN = "pro";
const DOCUMENT = "docs/limits.md";
const CHART = "docs/limits.svg";

interface Column {
  title: string;
  digits: number;
  values(rung: Rung): number[];
}

/** Measures and writes everything, twice with different seeds. */
export async function measureLadder(): Promise<Table> {
  const rungs = await climb(PLANS, SEEDS);
  const others = await climb(PLANS, OTHER_SEEDS);
  const differences = COLUMNS.map(({ values, digits }) => {
    const all = rungs.flatMap((rung, index) => {
      const other = values(others[index] as Rung);
      return values(rung).map((value, place) => Math.abs(value - (other[place] ?? Number.NaN)));
    });
    return Math.max(...all).toFixed(digits);
  });
  const chosen = rungs.filter(({ plan }) => plan === CHOSEN);
  const tables = [choice(chosen), windowRules(), await variants(SEEDS)];
  const ladder = {
    title: "ladder",
    columns: HEAD,
    rows: [...rows(rungs), ["Other seeds", "largest difference", ...differences]],
  };
  const document = await readFile(DOCUMENT, "utf8");
  await writeFile(DOCUMENT, [...tables, ladder].reduce(fillIn, document));
  await writeFile(CHART, drawChart(chosen));
  progress(`ladder: wrote ${DOCUMENT} and ${CHART}`);
  return ladder;
}

function perRequest(operation: keyof Counts): (loads: Loads) => number {
  return ({ half: { counts } }) => counts[operation] / counts.workerRequests;
}

/** Nothing for the binding, because it is not documented. */
function afterFault(title: string, fault: Fault): Column {
  const values = ({ design, byFault }: Rung) =>
    design === "binding" ? [] : [byFault[fault].above, byFault[fault].below];
  return { title, digits: 0, values };
}

/** A figure for each number of isolates that the table shows. */
interface ShownColumn {
  title: string;
  digits: number;
  figure(loads: Loads): number;
}

export const SHOWN_COLUMNS: ShownColumn[] = [
  { title: "Above, %", digits: 0, figure: above },
  { title: "Median wait, ms", digits: 0, figure: ({ half }) => waitMs(half, 50) },
  { title: "p99, ms", digits: 0, figure: ({ half }) => waitMs(half, 99) },
  { title: "p99 at the limit", digits: 0, figure: ({ full }) => waitMs(full, 99) },
  { title: "Calls a request", digits: 2, figure: perRequest("objectRequests") },
  { title: "Rows a request", digits: 2, figure: perRequest("rowsWritten") },
  { title: "$ a million", digits: 2, figure: ({ half }) => dollars(half) },
  { title: "$ beyond the limit", digits: 2, figure: ({ over }) => dollars(over) },
];

/** What each design consists of; for this service with the record of the key, bans and usage. A folder has files only. */
const SOURCES: Record<Design, string[]> = {
  binding: ["bench/simulation/binding.ts"],
  "object in memory": ["bench/simulation/object.ts"],
  "counters, 5 s": ["bench/simulation/synced-counters.ts"],
  "stored object": ["bench/simulation/object.ts"],
  petstore: ["src/limits/"],
};

/** The binding counts 10 or 60 s, and an object forgets what is only in memory. */
const KEEPS_DAY: Record<Design, string> = {
  binding: "no",
  "object in memory": "no",
  "counters, 5 s": "yes",
  "stored object": "yes",
  petstore: "yes",
};

function sourcesIn(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return names.filter((name) => name.endsWith(".ts")).map((name) => folder + name);
}

/** In two digits, so that not every change makes the document untrue. */
function linesOf(design: Design): number {
  const files = SOURCES[design].flatMap((path) => (path.endsWith("/") ? sourcesIn(path) : [path]));
  const lines = files.reduce((sum, file) => sum + readFileSync(file, "utf8").split("\n").length - 1, 0);
  return Number(lines.toPrecision(2));
}

const COLUMNS: Column[] = [
  {
    title: "Below, %",
    digits: 0,
    values: ({ byIsolates }) => [Math.max(...[...byIsolates.values()].map(below))],
  },
  ...SHOWN_COLUMNS.map(
    ({ figure, ...rest }): Column => ({
      ...rest,
      values: ({ byIsolates }) => SHOWN.map((isolates) => figure(byIsolates.get(isolates) as Loads)),
    }),
  ),
  afterFault("Object crashes: above · below", "object crashes"),
  afterFault("Isolates end: above · below", "isolates end"),
  afterFault("1 % of answers lost: above · below", "answers are lost"),
];
export const HEAD = ["", "Design", ...COLUMNS.map(({ title }) => title)];

/** One number a design, of one plan: the worse of both kinds of traffic, through as many isolates as with faults. */
function choice(rungs: readonly Rung[]): Table {
  const rows = (Object.keys(DESIGNS) as Design[]).map((design) => {
    const own = rungs.filter((rung) => rung.design === design);
    const worst = (digits: number, figure: (loads: Loads) => number) =>
      fixed(Math.max(...own.map(({ byIsolates }) => figure(byIsolates.get(FAULTY) as Loads))), digits);
    const costs = own.flatMap(({ byFault }) => [byFault["object crashes"], byFault["isolates end"]]);
    const admitted = Math.max(...costs.map((cost) => cost.above));
    const refused = Math.max(...costs.map((cost) => cost.below));
    const crash = admitted > refused ? `+${fixed(admitted, 0)}` : `−${fixed(refused, 0)}`;
    return [
      design,
      worst(0, above),
      worst(0, ({ full }) => waitMs(full, 99)),
      worst(2, ({ half }) => dollars(half)),
      design === "binding" ? "–" : crash,
      `${linesOf(design)}`,
      KEEPS_DAY[design],
    ];
  });
  const columns = ["Design", "Above, %", "p99, ms", "$ a million", "Crash, %", "Lines", "Keeps a day"];
  return { title: "choice", columns, rows };
}

/** The rows of the table of all figures. */
function rows(rungs: readonly Rung[]): string[][] {
  return rungs.map((rung) => {
    const title = `${rung.plan[0]?.toUpperCase()}${rung.plan.slice(1)}, ${rung.traffic}`;
    const cells = COLUMNS.map(({ values, digits }) => {
      const figures = values(rung).map((each) => fixed(each, digits));
      return figures.length === 0 ? "–" : figures.join(" · ");
    });
    return [title, rung.design, ...cells];
  });
}

/** Designs whose vendor leaves something open, or that differ from their model. */
const VARIANTS: [name: string, newLimiter: NewLimiter][] = [
  ["binding, all clients in one location", (setting) => binding(setting, undefined, () => 0)],
  ["the same, an update takes 1 s", (setting) => binding(setting, 1_000, () => 0)],
  ["counters, 5 s, with unkey's sliding windows", (setting) => syncedCounters(setting, true)],
];

export async function variants(seeds: readonly number[]): Promise<Table> {
  const rows: string[][] = [];
  for (const traffic of TRAFFICS)
    for (const [name, newLimiter] of VARIANTS) {
      const all: Loads[] = [];
      for (const isolates of SHOWN)
        all.push(await measure(newLimiter, { limit: PLAN_LIMITS[CHOSEN].minute, isolates, traffic }, seeds));
      const cells = [above, below].map((error) => all.map((each) => fixed(error(each), 0)).join(" · "));
      rows.push([name, traffic, ...cells]);
    }
  return { title: "variants", columns: ["Design", "Traffic", "Above, %", "Below, %"], rows };
}

/** Without a minus before zeros. */
function fixed(value: number, digits: number): string {
  return value.toFixed(digits).replace(/^-(?=[0.]+$)/, "");
}

/** A row of a table in Markdown. */
export function markdown(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

/** Replaces a table in the document, between two comments with its title. */
function fillIn(document: string, { title, columns, rows }: Table): string {
  const lines = [columns, columns.map(() => "---"), ...rows].map(markdown);
  const [before, rest = ""] = document.split(`<!-- ${title} -->\n`);
  const [, after] = rest.split(`<!-- end of ${title} -->`);
  if (after === undefined) throw new Error(`${DOCUMENT} has no place for the table ${title}`);
  return `${before}<!-- ${title} -->\n${lines.join("\n")}\n<!-- end of ${title} -->${after}`;
}
