// The service's speed and costs, compared with other implementations (measure/implementations.ts).
//
// A load case (cases/http.ts) loads its implementations in turn, with wrk, one thread and 32 connections: by default 15 rounds
// of five seconds each, in slices of one second (measure/rounds.ts). The result is the ratio of the service's processor time per
// response, user and system, to that of each other implementation: the median of the rounds, with its 95 % confidence interval.
// Two values differ if the interval excludes 1. Targets are judged by the median; a verdict is uncertain if the interval contains the target.
// Beside it are the medians of requests per second and latencies, with the slowest and the fastest round, and, where perf can
// count them, instructions per response. Processor time is measured on Linux only; elsewhere ratios are of requests per second,
// which have hardly any targets. If any response is not the expected one, the bench fails.
//
// The other sections measure depth, rows read, calls and writes of an object, processor time of the worst bodies (Linux only),
// the size of the bundle, bytes stored and sent, the client package, and (Linux only) whether processor time stays the same as the service grows:
// `scale`, of which --svg writes docs/scale.svg; its many objects need a fast TMPDIR, such as /dev/shm. wrk is needed for the load
// cases, `objects` and `scale`.
//
// Workers run in workerd with real D1 and Durable Objects, in a temporary folder; TMPDIR names another disk. docs/performance.md
// has the figures, and what they do not say.

import { writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { join } from "node:path";
import { UsageError } from "../scripts/lib/command.ts";
import { bodiesTable, measureBodies } from "./cases/bodies.ts";
import { bundleTable, measureBundle } from "./cases/bundle.ts";
import { bytesTable, measureBytes } from "./cases/bytes.ts";
import { clientTable, measureClient } from "./cases/client.ts";
import { depthTable, measureDepth } from "./cases/depth.ts";
import { CASES } from "./cases/http.ts";
import { withLargeDatabase } from "./cases/large.ts";
import { measureObjects, objectsTable } from "./cases/objects.ts";
import { measureRowsRead, rowsReadTable } from "./cases/rows-read.ts";
import { measureScale, type ScaleSeries, scaleTable } from "./cases/scale.ts";
import { scaleChart } from "./cases/scale-chart.ts";
import { caseTable } from "./measure/case-table.ts";
import { requireWrk } from "./measure/load.ts";
import { installPackages } from "./measure/packages.ts";
import { progress, type Table, tableText } from "./measure/report.ts";
import { measureCase } from "./measure/rounds.ts";
import { WORKERD_VERSION } from "./measure/workerd.ts";

const CHART = join(import.meta.dirname, "../docs/scale.svg");

interface Section {
  name: string;
  /** Whether it needs wrk and the packages of the baselines. */
  isLoad: boolean;
  /** The result is for --json, the table for people. */
  run(): Promise<{ result: object; table: Table }>;
}

export interface BenchOptions {
  /** Names of sections, separated by commas. By default all. */
  only?: string | undefined;
  rounds: number;
  seconds: number;
  json?: true | undefined;
  svg?: true | undefined;
}

/** Measures sections. Returns tables, or JSON. */
export async function bench({ only, rounds, seconds, json, svg }: BenchOptions): Promise<string> {
  const sections = select(allSections({ rounds, seconds }), only);
  if (svg && !sections.some(({ name }) => name === "scale"))
    throw new UsageError("--svg needs the section scale");
  if (sections.some(({ isLoad }) => isLoad)) {
    await requireWrk();
    await installPackages();
  }
  const results: Record<string, object> = {};
  const tables: string[] = [];
  for (const { name, run } of sections) {
    progress(`${name} …`);
    const { result, table } = await run();
    results[name] = result;
    tables.push(tableText(table));
  }
  if (svg) await writeFile(CHART, scaleChart(results.scale as ScaleSeries[]));
  if (!json) return tables.join("\n");
  const processors = cpus();
  const machine = {
    processors: processors.length,
    model: processors[0]?.model,
    node: process.version,
    workerd: WORKERD_VERSION,
  };
  return JSON.stringify({ machine, rounds, seconds, results }, null, 2);
}

function allSections(effort: { rounds: number; seconds: number }): Section[] {
  const depth = () => withLargeDatabase(measureDepth);
  const rowsRead = () => withLargeDatabase((_small, large) => measureRowsRead(large));
  return [
    ...CASES.map((each) => section(each.name, true, () => measureCase(each, effort), caseTable)),
    section("depth", false, depth, depthTable),
    section("rows-read", false, rowsRead, rowsReadTable),
    section("objects", true, measureObjects, objectsTable),
    section("scale", true, measureScale, scaleTable),
    section("bodies", true, measureBodies, bodiesTable),
    section("bundle", false, measureBundle, bundleTable),
    section("bytes", false, measureBytes, bytesTable),
    section("client", false, () => measureClient(effort), clientTable),
  ];
}

function section<Result extends object>(
  name: string,
  isLoad: boolean,
  measure: () => Promise<Result>,
  toTable: (result: Result) => Table,
): Section {
  const run = async () => {
    const result = await measure();
    return { result, table: toTable(result) };
  };
  return { name, isLoad, run };
}

/** The sections that --only names, or all. */
function select(sections: Section[], only: string | undefined): Section[] {
  if (only === undefined) return sections;
  return only.split(",").map((name) => {
    const section = sections.find((each) => each.name === name);
    if (section !== undefined) return section;
    throw new UsageError(`--only ${name}: use ${sections.map((each) => each.name).join(", ")}`);
  });
}
