// The processor time of the runtime to check and parse the worst bodies of a creation.

import { MAX_BODY_BYTES } from "../../src/http/body.ts";
import { processorTimer } from "../measure/processor-time.ts";
import { progress, type Table } from "../measure/report.ts";
import { median } from "../measure/statistics.ts";
import { startWorkers } from "../measure/workerd.ts";

const ROUNDS = 5;
const REPETITIONS = 200;

const ACCEPTED = "accepted";
const REX = `"name":"Rex","categoryId":1`;

/** With this, the texts of all numbers are read. */
const EXACT = `${REX},"y":0.5`;

/** For each body: what the outcome begins with, and the body. */
const BODIES: Record<string, [outcome: string, body: string]> = {
  "long string: \\u0041": [ACCEPTED, filled(`{${REX},"x":"`, "\\u0041", `"}`)],
  "long name": ["name", filled(`{"categoryId":1,"name":"`, "🐈", `"}`)],
  "categoryId: many digits": ["categoryId", filled(`{"name":"Rex","categoryId":`, "7", "}")],
  "short numbers": [ACCEPTED, filled(`{${REX},"x":[1`, ",1", "]}")],
  "short numbers, exact": [ACCEPTED, filled(`{${EXACT},"x":[1`, ",1", "]}")],
  "numbers of 16 digits": [ACCEPTED, filled(`{${REX},"x":[1`, ",9007199254740993", "]}")],
  "empty objects, exact": [ACCEPTED, filled(`{${EXACT},"x":[1`, ",{}", "]}")],
  "members of one name, exact": [ACCEPTED, filled(`{${EXACT}`, `,"x":1`, "}")],
  "2,000 levels, exact": [ACCEPTED, `{${EXACT},"x":${"[".repeat(2_000)}${"]".repeat(2_000)}}`],
  "[[[": ["body", filled("", "[", "")],
};

/** Measures each body in turn. Throws if the outcome is not the expected one. */
export async function measureBodies(): Promise<Table> {
  const { workers, processId, stop } = await startWorkers([{ file: "bench/baselines/body-parser.ts" }]);
  const [{ url }] = workers;
  const parse = async (name: string, expected: string, body: string): Promise<number> => {
    const usedMs = processorTimer(processId());
    const init = { method: "POST", body, headers: { Connection: "close" } };
    const response = await fetch(new URL(`/?times=${REPETITIONS}`, url), init);
    const outcome = await response.text();
    if (!outcome.startsWith(expected)) throw new Error(`${name} got ${outcome}, expected ${expected}`);
    return usedMs() / REPETITIONS;
  };
  const samples = Object.fromEntries(Object.keys(BODIES).map((name): [string, number[]] => [name, []]));
  try {
    for (let round = 0; round <= ROUNDS; round += 1) {
      progress(`bodies: round ${round} of ${ROUNDS}`);
      for (const [name, [expected, body]] of Object.entries(BODIES)) {
        const ms = await parse(name, expected, body);
        // In the first round, the code is compiled.
        if (round > 0) samples[name]?.push(ms);
      }
    }
  } finally {
    await stop();
  }
  return {
    title: `bodies: processor time for ${MAX_BODY_BYTES / 1024} KiB`,
    columns: ["", "ms"],
    rows: Object.entries(samples).map(([name, all]) => [name, median(all).toFixed(2)]),
  };
}

/** A body of at most the largest size: `head`, as many `part`s as fit, and `tail`. */
function filled(head: string, part: string, tail: string): string {
  const room = MAX_BODY_BYTES - Buffer.byteLength(head + tail);
  return head + part.repeat(Math.floor(room / Buffer.byteLength(part))) + tail;
}
