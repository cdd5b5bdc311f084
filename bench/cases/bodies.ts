// The processor time of the runtime to check and parse the worst bodies of a creation. The reference is JSON.parse of the
// longest pet, padded to the same size with one long string. Linux only (measure/processor-time.ts).

import { MAX_BODY_BYTES } from "../../src/http/body.ts";
import { processorTimer } from "../measure/processor-time.ts";
import { progress, type Table, verdict } from "../measure/report.ts";
import { median } from "../measure/statistics.ts";
import { startWorkers } from "../measure/workerd.ts";

const ROUNDS = 5;

/** Takes about 0.2 s, beside which the rest of the request does not count. */
const REPETITIONS = 2_000;

/** In this round, which is not counted, the code is compiled. */
const WARM_UP_ROUNDS = 1;

const TARGET = 3;

const ACCEPTED = "accepted";

/** The longest valid pet. */
const PET = `"name":"${"🐈".repeat(255)}","categoryId":-9223372036854775808,"status":"available"`;

const SHORT_PET = `"name":"Rex","categoryId":1`;

/** `count` members with different names, which are as long as fits. */
const members = (count: number, name: string, value: string) => {
  const length = Math.floor((MAX_BODY_BYTES - 100) / count - value.length - `"":,`.length);
  const names = Array.from({ length: count }, (_, index) =>
    `${index}${name.repeat(length)}`.slice(0, length),
  );
  return names.map((each) => `"${each}":${value}`).join();
};

/** For each body: `accepted`, or what the error message begins with, and the body. */
const BODIES: Record<string, [outcome: string, body: string | Uint8Array]> = {
  "long string": [ACCEPTED, filled(`{${PET},"x":"`, "x", `"}`)],
  "long string: 2-byte characters": [ACCEPTED, filled(`{${PET},"x":"`, "é", `"}`)],
  "long string: 3-byte characters": [ACCEPTED, filled(`{${PET},"x":"`, "漢", `"}`)],
  "long string: 4-byte characters": [ACCEPTED, filled(`{${PET},"x":"`, "🐈", `"}`)],
  "long string: 1 to 4 bytes": [ACCEPTED, filled(`{${PET},"x":"`, "aé漢🐈", `"}`)],
  "long string: \\u0041": [ACCEPTED, filled(`{${PET},"x":"`, "\\u0041", `"}`)],
  "long string: \\ud83d\\udc08": [ACCEPTED, filled(`{${PET},"x":"`, "\\ud83d\\udc08", `"}`)],
  'long string: \\"': [ACCEPTED, filled(`{${PET},"x":"`, '\\"', `"}`)],
  'long string: a\\"': [ACCEPTED, filled(`{${PET},"x":"`, 'a\\"', `"}`)],
  "long name": ["name", filled(`{"categoryId":1,"name":"`, "x", `"}`)],
  "long name: 4-byte characters": ["name", filled(`{"categoryId":1,"name":"`, "🐈", `"}`)],
  "long name: escapes": ["name", filled(`{"categoryId":1,"name":"`, "\\u0041", `"}`)],
  "categoryId: many digits": ["categoryId", filled(`{"name":"Rex","categoryId":`, "7", "}")],
  "categoryId: many decimals": ["categoryId", filled(`{"name":"Rex","categoryId":1.`, "7", "}")],
  "categoryId: zeros after the point": [ACCEPTED, filled(`{"name":"Rex","categoryId":1.`, "0", "}")],
  "categoryId: zeros, then a digit": ["categoryId", filled(`{"name":"Rex","categoryId":0.`, "0", "1}")],
  "categoryId: long exponent": ["categoryId", filled(`{"name":"Rex","categoryId":1e`, "7", "}")],
  "categoryId: zeros in the exponent": [ACCEPTED, filled(`{"name":"Rex","categoryId":1e`, "0", "1}")],
  "only spaces": ["body", filled("", " ", "")],
  "line breaks after the members": [ACCEPTED, filled(`{${PET}`, "\n", "}")],
  "1000 short numbers": [ACCEPTED, spread(995, `{${SHORT_PET},"x":[`, "1", "]}")],
  "1000 long numbers": [
    ACCEPTED,
    filled(`{${SHORT_PET},"x":[${`${"7".repeat(64)},`.repeat(995)}`, "7", "]}"),
  ],
  "1000 numbers with exponents": [ACCEPTED, spread(995, `{${SHORT_PET},"x":[`, "-1.5e-7", "]}")],
  "1000 strings": [ACCEPTED, spread(995, `{${SHORT_PET},"x":[`, `"${"x".repeat(60)}"`, "]}")],
  "1000 booleans": [ACCEPTED, spread(995, `{${SHORT_PET},"x":[`, "false", "]}")],
  "1000 objects": [ACCEPTED, spread(995, `{${SHORT_PET},"x":[`, "{ }", "]}")],
  "1000 members": [ACCEPTED, `{${members(990, "x", "1.5")},${SHORT_PET}}`],
  "1000 members: objects": [ACCEPTED, `{${members(990, "x", "{}")},${SHORT_PET}}`],
  "1000 members: one name": [ACCEPTED, spread(990, "{", `"categoryId":1`, `,${SHORT_PET}}`)],
  "1000 members: one escaped name": [
    ACCEPTED,
    spread(990, "{", `"${escaped("categoryId")}":1`, `,${SHORT_PET}}`),
  ],
  "1000 members: a wrong last letter": [
    ACCEPTED,
    spread(990, "{", `"${escaped("categoryI")}x":1`, `,${SHORT_PET}}`),
  ],
  "1000 members: __proto__": [ACCEPTED, spread(990, "{", `"__proto__":{}`, `,${SHORT_PET}}`)],
  "100 levels, ten times": [
    ACCEPTED,
    spread(10, `{${SHORT_PET},"x":[`, "[".repeat(98) + "]".repeat(98), "]}"),
  ],
  "invalid JSON at the end": ["body", filled(`{${PET},"x":"`, "x", `"`)],
  "invalid UTF-8 at the end": ["body", badlyEncoded(filled(`{${PET},"x":"`, "🐈", `"}`))],
  "64 KiB of 1,1,1": ["body", filled("[1", ",1", "]")],
  "64 KiB of [[[": ["body", filled("", "[", "")],
  "1000 members, but no pet": ["name", `{${members(990, "x", "1.5")}}`],
};

export interface BodiesResult {
  name: string;
  microseconds: number;
  /** To the reference. */
  ratio: number;
  target: number;
  met: boolean;
}

/** Measures the reference and each body in turn. Throws if the outcome is not the expected one. */
export async function measureBodies(): Promise<BodiesResult[]> {
  const { workers, processId, stop } = await startWorkers([{ file: "bench/baselines/body-parser.ts" }]);
  try {
    const [worker] = workers;
    const measure = async (name: string, by: string, body: string | Uint8Array, expected: string) => {
      const url = new URL(`/?times=${REPETITIONS}&by=${by}`, worker.url);
      const usedMs = processorTimer(processId());
      const response = await fetch(url, { method: "POST", body, headers: { Connection: "close" } });
      const outcome = await response.text();
      if (!outcome.startsWith(expected))
        throw new Error(`bodies: ${name} got ${outcome}, expected ${expected}`);
      return (usedMs() / REPETITIONS) * 1_000;
    };
    const [, reference = ""] = BODIES["long string"] ?? [];
    const references: number[] = [];
    const samples = new Map<string, number[]>();
    for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
      progress(`bodies: round ${round} of ${ROUNDS}`);
      const referenceMicroseconds = await measure("the reference", "JSON.parse", reference, ACCEPTED);
      if (round >= WARM_UP_ROUNDS) references.push(referenceMicroseconds);
      for (const [name, [outcome, body]] of Object.entries(BODIES)) {
        const microseconds = await measure(name, "service", body, outcome);
        if (round >= WARM_UP_ROUNDS) samples.set(name, [...(samples.get(name) ?? []), microseconds]);
      }
    }
    const base = median(references);
    return [...samples].map(([name, each]) => {
      const microseconds = median(each);
      const ratio = microseconds / base;
      return { name, microseconds, ratio, target: TARGET, met: ratio <= TARGET };
    });
  } finally {
    await stop();
  }
}

/** A body of at most the largest size: `head`, as many `part`s as fit, and `tail`. */
function filled(head: string, part: string, tail: string): string {
  const room = MAX_BODY_BYTES - Buffer.byteLength(head + tail);
  return head + part.repeat(Math.floor(room / Buffer.byteLength(part))) + tail;
}

/** A body of at most the largest size: `count` times `part`, separated by commas and as many spaces as fit. */
function spread(count: number, head: string, part: string, tail: string): string {
  const room = MAX_BODY_BYTES - Buffer.byteLength(head + tail);
  const spaces = " ".repeat(Math.max(0, Math.floor(room / count) - Buffer.byteLength(part) - 1));
  return head + Array(count).fill(part).join(`,${spaces}`) + tail;
}

function escaped(name: string): string {
  return [...name].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
}

function badlyEncoded(text: string): Uint8Array {
  const bytes = new TextEncoder().encode(text);
  bytes[bytes.length - 3] = 0xff;
  return bytes;
}

export function bodiesTable(results: BodiesResult[]): Table {
  return {
    title: "bodies: processor time for 64 KiB, relative to JSON.parse of the longest pet, padded",
    columns: ["", "µs", "relative"],
    rows: results.map(({ name, microseconds, ratio, target, met }) => [
      name,
      microseconds.toFixed(0),
      verdict(met, `${ratio.toFixed(2)} ×`, `at most ${target}`),
    ]),
  };
}
