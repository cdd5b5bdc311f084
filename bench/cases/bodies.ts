// The processor time of the runtime to check and parse the worst bodies of a creation, beside that of a whole request for a hot list. Linux
// only (measure/processor-time.ts).

import { MAX_BODY_BYTES } from "../../src/http/body.ts";
import { IMPLEMENTATIONS } from "../measure/implementations.ts";
import { load } from "../measure/load.ts";
import { processorTimer } from "../measure/processor-time.ts";
import { progress, type Table, verdict } from "../measure/report.ts";
import { median } from "../measure/statistics.ts";
import { startWorkers } from "../measure/workerd.ts";
import { CASES } from "./http.ts";

const ROUNDS = 5;
const REPETITIONS = 200;

/** In this round, which is not counted, the code is compiled. */
const WARM_UP_ROUNDS = 1;
const HOT_LIST_SECONDS = 3;

const TARGET_MS = 5;

const ACCEPTED = "accepted";
const REX = `"name":"Rex","categoryId":1`;

/** With this, the texts of all numbers are read. */
const EXACT = `${REX},"y":0.5`;

/** For each body: what the outcome begins with, and the body. */
const BODIES: Record<string, [outcome: string, body: string]> = {
  "long string": [ACCEPTED, filled(`{${REX},"x":"`, "x", `"}`)],
  "long string: 4-byte characters": [ACCEPTED, filled(`{${REX},"x":"`, "🐈", `"}`)],
  "long string: \\u0041": [ACCEPTED, filled(`{${REX},"x":"`, "\\u0041", `"}`)],
  "long name": ["name", filled(`{"categoryId":1,"name":"`, "🐈", `"}`)],
  "categoryId: many digits": ["categoryId", filled(`{"name":"Rex","categoryId":`, "7", "}")],
  "categoryId: zeros, then a digit": ["categoryId", filled(`{"name":"Rex","categoryId":0.`, "0", "1}")],
  "categoryId: long exponent": ["categoryId", filled(`{"name":"Rex","categoryId":1e`, "7", "}")],
  "short numbers": [ACCEPTED, filled(`{${REX},"x":[1`, ",1", "]}")],
  "short numbers, exact": [ACCEPTED, filled(`{${EXACT},"x":[1`, ",1", "]}")],
  "fractions that are integers": [ACCEPTED, filled(`{${EXACT},"x":[1`, ",1e0", "]}")],
  "numbers of 16 digits": [ACCEPTED, filled(`{${REX},"x":[1`, ",9007199254740993", "]}")],
  "empty objects, exact": [ACCEPTED, filled(`{${EXACT},"x":[1`, ",{}", "]}")],
  "members of one name, exact": [ACCEPTED, filled(`{${EXACT}`, `,"x":1`, "}")],
  "members of different names, exact": [ACCEPTED, `{${EXACT},${members(1_800)}}`],
  "2,000 levels, exact": [ACCEPTED, `{${EXACT},"x":${"[".repeat(2_000)}${"]".repeat(2_000)}}`],
  "8,000 levels": [ACCEPTED, `{${REX},"x":${"[".repeat(8_000)}${"]".repeat(8_000)}}`],
  "1,1,1": ["body", filled("[1", ",1", "]")],
  "[[[": ["body", filled("", "[", "")],
};

export interface BodiesResult {
  name: string;
  ms: number;
  /** To a request for a hot list. */
  ratio: number;
  met: boolean;
}

/** Measures the hot list, then each body in turn. Throws if the outcome is not the expected one. */
export async function measureBodies(): Promise<BodiesResult[]> {
  const hotListMs = await measureHotList();
  const { workers, processId, stop } = await startWorkers([{ file: "bench/baselines/body-parser.ts" }]);
  try {
    const [worker] = workers;
    const samples = new Map<string, number[]>();
    for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
      progress(`bodies: round ${round} of ${ROUNDS}`);
      for (const [name, [expected, body]] of Object.entries(BODIES)) {
        const usedMs = processorTimer(processId());
        const init = { method: "POST", body, headers: { Connection: "close" } };
        const outcome = await (await fetch(new URL(`/?times=${REPETITIONS}`, worker.url), init)).text();
        const ms = usedMs() / REPETITIONS;
        if (!outcome.startsWith(expected)) throw new Error(`${name} got ${outcome}, expected ${expected}`);
        if (round >= WARM_UP_ROUNDS) samples.set(name, [...(samples.get(name) ?? []), ms]);
      }
    }
    return [...samples].map(([name, each]) => {
      const ms = median(each);
      return { name, ms, ratio: ms / hotListMs, met: ms <= TARGET_MS };
    });
  } finally {
    await stop();
  }
}

/** The processor time of a request, in milliseconds. */
async function measureHotList(): Promise<number> {
  const petstore = await IMPLEMENTATIONS.petstore();
  try {
    const exchange = await CASES.find(({ name }) => name === "hot-list")?.exchanges.petstore?.(petstore);
    if (exchange === undefined) throw new Error("there is no hot list");
    await load(petstore.url, exchange, HOT_LIST_SECONDS);
    const { microseconds } = await load(petstore.url, exchange, HOT_LIST_SECONDS, petstore.processId());
    return microseconds / 1_000;
  } finally {
    await petstore.stop();
  }
}

/** A body of at most the largest size: `head`, as many `part`s as fit, and `tail`. */
function filled(head: string, part: string, tail: string): string {
  const room = MAX_BODY_BYTES - Buffer.byteLength(head + tail);
  return head + part.repeat(Math.floor(room / Buffer.byteLength(part))) + tail;
}

function members(count: number): string {
  return Array.from({ length: count }, (_, index) => `"${index}":1`).join();
}

export function bodiesTable(results: BodiesResult[]): Table {
  return {
    title: `bodies: processor time for ${MAX_BODY_BYTES / 1024} KiB, and relative to a request for a hot list`,
    columns: ["", "ms", "relative"],
    rows: results.map(({ name, ms, ratio, met }) => [
      name,
      verdict(met, ms.toFixed(2), `at most ${TARGET_MS}`),
      `${ratio.toFixed(1)} ×`,
    ]),
  };
}
