// npm run bench -- CASE...: measures the service's speed and costs, and compares it with other implementations
// (measure/implementations.ts). A response that is not the expected one makes it fail.
//
// Workers run in workerd with real D1 and Durable Objects, in a temporary folder; TMPDIR names another disk. docs/performance.md
// has the figures, and what they do not say.

import { parseArgs } from "node:util";
import { measureBodies } from "./cases/bodies.ts";
import { measureBytes } from "./cases/bytes.ts";
import { LOAD_CASES } from "./cases/http.ts";
import { measureScale } from "./cases/scale.ts";
import { progress, type Table, tableText } from "./measure/report.ts";
import { measureCase } from "./measure/rounds.ts";

interface Options {
  rounds: number;
  /** Undefined: as long as the case needs by default. */
  seconds: number | undefined;
  isolates: number[];
}

/** What a case measures, and how. */
type Case = [measures: string, measure: (options: Options) => Promise<Table | Table[]>];

const UNDER_LOAD = Object.entries(LOAD_CASES).map(([name, each]): [string, Case] => [
  name,
  [each.title, ({ rounds, seconds = 5 }) => measureCase(name, each, rounds, seconds)],
]);

const CASES: Record<string, Case> = {
  ...Object.fromEntries(UNDER_LOAD),
  scale: ["processor time by keys in use", ({ rounds }) => measureScale(rounds)],
  bodies: ["processor time for the worst bodies of a creation", measureBodies],
  bytes: ["bytes of a pet, an idempotency record and a key in D1", measureBytes],
  objects: [
    "calls and rows of a key's object on virtual time, with and without a limit",
    async () => (await simulations()).measureObjects(),
  ],
  ladder: [
    "five designs of a rate limiter on virtual time; writes docs/limits.csv and its chart",
    async () => (await simulations()).measureLadder(),
  ],
  geo: [
    "latency and cost in six regions on virtual time",
    async ({ isolates, seconds = 75 }) => (await simulations()).measureGeo(isolates, seconds),
  ],
};

/** They take a moment to load. */
const simulations = () => import("./simulation/in-node.ts");

class UsageError extends Error {}

try {
  await run(process.argv.slice(2));
} catch (error) {
  const { code = "", message, stack } = error as NodeJS.ErrnoException;
  const isUsage = error instanceof UsageError || code.startsWith("ERR_PARSE_ARGS");
  progress(isUsage ? `${message}\n\n${usage()}` : `${stack}`);
  // A failure may have left a server running.
  process.exit(isUsage ? 2 : 1);
}

async function run(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      rounds: { type: "string", default: "15" },
      seconds: { type: "string" },
      isolates: { type: "string", default: "1,8" },
    },
  });
  const options = {
    rounds: count(values.rounds),
    seconds: values.seconds === undefined ? undefined : count(values.seconds),
    isolates: values.isolates.split(",").map(count),
  };
  const cases = positionals.map((name) => {
    if (CASES[name] === undefined) throw new UsageError(`there is no case ${name}`);
    return { name, measure: CASES[name][1] };
  });
  if (cases.length === 0) throw new UsageError("name at least one case");
  for (const { name, measure } of cases) {
    progress(`${name} …`);
    for (const each of [await measure(options)].flat()) process.stdout.write(`${tableText(each)}\n`);
  }
}

function count(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new UsageError(`${text} is not a number from 1 to 9999`);
  return Number(text);
}

function usage(): string {
  const lines = Object.entries(CASES).map(([name, [measures]]) => `  ${name.padEnd(12)}${measures}`);
  return `npm run bench -- CASE...
${lines.join("\n")}

  --rounds 15       of a case under load, with new processes in each
  --seconds 5       of a round for each implementation; by default 75 in geo
  --isolates 1,8    in each region of geo`;
}
