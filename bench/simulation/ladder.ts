// The ladder: writes docs/limits.csv, with a row for each combination, and its chart. The table of docs/limits.md follows from that file.

import { writeFile } from "node:fs/promises";
import { progress, type Table } from "../measure/report.ts";
import { percentile } from "../measure/statistics.ts";
import { drawChart } from "./chart.ts";
import { climb, type Design, FAULTY, PLANS, type Rung } from "./climb.ts";
import { type Counts, dollarsPerMillion } from "./counts.ts";
import type { Fault, Result } from "./run.ts";

const DATA = "docs/limits.csv";
const CHART = "docs/limits.svg";
/** The plan of the chart and of the table to choose by. */
const CHOSEN = "pro";

/** A column of the file; undefined is an empty cell. */
interface Figure {
  digits: number;
  of: (rung: Rung) => number | undefined;
}

export const FIGURES: Record<string, Figure> = {
  // The worst of all loads, in percent of the limit.
  above_percent: { digits: 0, of: worst("above") },
  below_percent: { digits: 0, of: worst("below") },
  // Half of the limit is sent, if the name does not say otherwise.
  median_wait_ms: { digits: 0, of: ({ loads }) => waitMs(loads.half, 0.5) },
  p99_wait_ms: { digits: 0, of: ({ loads }) => waitMs(loads.half, 0.99) },
  p99_wait_ms_at_limit: { digits: 0, of: ({ loads }) => waitMs(loads.full, 0.99) },
  calls_per_request: { digits: 2, of: perRequest("objectRequests") },
  rows_per_request: { digits: 2, of: perRequest("rowsWritten") },
  dollars_per_million: { digits: 2, of: ({ loads }) => dollarsPerMillion(loads.half.counts) },
  dollars_per_million_over_limit: { digits: 2, of: ({ loads }) => dollarsPerMillion(loads.over.counts) },
  ...costsOf("crash", "object crashes"),
  ...costsOf("isolates_end", "isolates end"),
  ...costsOf("lost_answers", "answers are lost"),
};

/** Measures and writes everything. */
export async function measureLadder(): Promise<Table> {
  const rungs = await climb(PLANS);
  const rows = rungs.map(rowOf);
  const columns = Object.keys(rows[0] ?? {});
  const lines = [columns, ...rows.map((row) => columns.map((column) => row[column] ?? ""))];
  await writeFile(DATA, `${lines.map((cells) => cells.join(",")).join("\n")}\n`);
  await writeFile(CHART, drawChart(rows.filter(({ plan }) => plan === CHOSEN)));
  progress(`ladder: wrote ${DATA} and ${CHART}`);
  return choice(rows);
}

/** A row of the file, by its columns. */
export type Row = Record<string, string>;

export function rowOf(rung: Rung): Row {
  const { plan, traffic, design, isolates } = rung;
  const figures = Object.entries(FIGURES).map(([name, { digits, of }]) => [name, text(of(rung), digits)]);
  return { plan, traffic, design, isolates: `${isolates}`, ...Object.fromEntries(figures) };
}

const CHOICE = [
  "binding",
  "object in memory",
  "synced counters",
  "stored object",
  "petstore",
] satisfies Design[];

/** The worse of even and bursty traffic, of one plan, through as many isolates as with faults: one number a design and figure. */
export function choice(all: readonly Row[]): Table {
  const rows = CHOICE.map((design) => {
    const own = all.filter(
      (row) => row.plan === CHOSEN && row.design === design && row.isolates === `${FAULTY}`,
    );
    const most = (...names: string[]) =>
      Math.max(...own.flatMap((row) => names.map((name) => Number(row[name]))));
    const above = most("crash_above_percent", "isolates_end_above_percent");
    const below = most("crash_below_percent", "isolates_end_below_percent");
    const crash = above > below ? `+${above}` : `−${below}`;
    return [
      design,
      `${most("above_percent")}`,
      `${most("p99_wait_ms_at_limit")}`,
      most("dollars_per_million").toFixed(2),
      // Not documented.
      design === "binding" ? "–" : crash,
    ];
  });
  const columns = ["Design", "Admitted above the limit, %", "Wait, p99 in ms", "$ a million", "Crash, %"];
  return { title: "ladder", columns, rows };
}

function worst(error: "above" | "below"): Figure["of"] {
  return ({ loads }) => Math.max(...Object.values(loads).map((each) => (100 * each[error]) / each.limits));
}

function waitMs({ waitsMs }: Result, share: number): number {
  return percentile(waitsMs, share);
}

function perRequest(operation: keyof Counts): Figure["of"] {
  return ({ loads: { half } }) => half.counts[operation] / half.counts.workerRequests;
}

/** What a fault adds. Nothing for the binding, because it is not documented. */
function costsOf(name: string, fault: Fault): Record<string, Figure> {
  const of = (error: "above" | "below") => (rung: Rung) =>
    rung.design.startsWith("binding") ? undefined : rung.faults[fault]?.[error];
  return {
    [`${name}_above_percent`]: { digits: 0, of: of("above") },
    [`${name}_below_percent`]: { digits: 0, of: of("below") },
  };
}

/** Without a minus before zeros. */
function text(value: number | undefined, digits: number): string {
  return value === undefined ? "" : value.toFixed(digits).replace(/^-(?=[0.]+$)/, "");
}
