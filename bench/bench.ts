// npm run bench: how fast the service is, compared with the least that its parts can cost, with the same service made by the
// book, and with one that needs no edge.
//
//   npm run bench -- [--only NAME,NAME] [--rounds N] [--seconds N] [--json]
//
// Each case loads its contestants in turn: one thread of wrk, 32 connections, five rounds of four seconds by default, after
// a warm-up of two. Reported are the medians of the rounds, the slowest and the fastest, and the service's median divided by
// the others'. Every answer has to be the expected one, or the bench fails. Beside the load there are sections that
// count: depth, rows read, calls of an object and rows that it writes, processor time of the worst bodies (on Linux), size of
// the bundle, bytes stored and sent. Only the cases and the calls of an object need wrk.
//
// Contestants (contestants/): floor is Hono with a constant text; d1-floor adds the smallest statement, insert-floor the bare
// insertion of a pet; textbook is what the documentation leads to; fastify is one process with everything in it; petstore is
// this service. The Workers run in workerd with real D1 and Durable Objects, in a fresh folder of state, behind a socket of
// their own. Their log goes to nowhere.
//
// What the figures do not say: this is one machine, and the load generator shares its processors with what it loads. All is
// on the loopback: a call of a database or an object, which takes 5 to 250 ms on Cloudflare's network, takes less than one
// here, so that a design with fewer calls gains far more there than here. Ratios travel better than requests per second.
// Nothing here is replicated. Whoever writes, and that includes counting a request, waits for the disk that the temporary
// folder is on; TMPDIR names another.

import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { bodiesTable, measureBodies } from "./cases/bodies.ts";
import { bundleTable, measureBundle } from "./cases/bundle.ts";
import { bytesTable, measureBytes } from "./cases/bytes.ts";
import { depthTable, measureDepth } from "./cases/depth.ts";
import { CASES } from "./cases/http.ts";
import { withLargeDatabase } from "./cases/large.ts";
import { measureObjects, objectsTable } from "./cases/objects.ts";
import { measureRowsRead, rowsReadTable } from "./cases/rows-read.ts";
import { requireWrk } from "./measure/load.ts";
import { installPackages } from "./measure/packages.ts";
import { progress, type Table, tableText } from "./measure/report.ts";
import { caseTable, measure } from "./measure/rounds.ts";
import { WORKERD_VERSION } from "./measure/workerd.ts";

/** What is measured under one name. What it finds is for JSON; the table is for people. */
interface Section {
  name: string;
  /** Whether it needs the load generator, and what the contestants are made of. */
  isLoad: boolean;
  run(): Promise<{ result: object; table: Table }>;
}

try {
  await main();
} catch (error) {
  process.stderr.write(`npm run bench failed: ${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: "string" },
      rounds: { type: "string", default: "5" },
      seconds: { type: "string", default: "4" },
      json: { type: "boolean", default: false },
    },
  });
  const effort = { rounds: positive("rounds", values.rounds), seconds: positive("seconds", values.seconds) };
  const sections = chosen(allSections(effort), values.only);
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
  const [processor, ...others] = cpus();
  const machine = {
    processors: others.length + 1,
    model: processor?.model,
    node: process.version,
    workerd: WORKERD_VERSION,
  };
  const text = values.json ? JSON.stringify({ machine, ...effort, results }, null, 2) : tables.join("\n");
  process.stdout.write(`${text}\n`);
}

/** All there is to measure, in order. */
function allSections(effort: { rounds: number; seconds: number }): Section[] {
  const loads = CASES.map((each) => ({
    name: each.name,
    isLoad: true,
    run: async () => {
      const result = await measure(each, effort);
      return { result, table: caseTable(result) };
    },
  }));
  const depth = async () => {
    const result = await withLargeDatabase((small, large) => measureDepth(small, large));
    return { result, table: depthTable(result) };
  };
  const rowsRead = async () => {
    const result = await withLargeDatabase((_small, large) => measureRowsRead(large));
    return { result, table: rowsReadTable(result) };
  };
  const objects = async () => {
    const result = await measureObjects();
    return { result, table: objectsTable(result) };
  };
  const bodies = async () => {
    const result = await measureBodies();
    return { result, table: bodiesTable(result) };
  };
  const bundle = async () => {
    const result = await measureBundle();
    return { result, table: bundleTable(result) };
  };
  const bytes = async () => {
    const result = await measureBytes();
    return { result, table: bytesTable(result) };
  };
  return [
    ...loads,
    { name: "depth", isLoad: false, run: depth },
    { name: "rows-read", isLoad: false, run: rowsRead },
    { name: "objects", isLoad: true, run: objects },
    { name: "bodies", isLoad: false, run: bodies },
    { name: "bundle", isLoad: false, run: bundle },
    { name: "bytes", isLoad: false, run: bytes },
  ];
}

/** Those that --only names, or all. */
function chosen(sections: Section[], only: string | undefined): Section[] {
  if (only === undefined) return sections;
  return only.split(",").map((name) => {
    const section = sections.find((each) => each.name === name);
    if (section !== undefined) return section;
    throw new Error(`--only must name some of ${sections.map((each) => each.name).join(", ")}`);
  });
}

function positive(option: string, text: string): number {
  if (!/^[1-9][0-9]{0,3}$/.test(text)) throw new Error(`--${option} must be a whole number from 1 on`);
  return Number(text);
}
