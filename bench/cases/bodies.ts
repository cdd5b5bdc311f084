// What the worst bodies of a creation cost: processor time of the runtime for the service's own check and parse of a body, in
// relation to JSON.parse of the longest pet, which is padded to the same size with one long string. Only Linux says how
// much processor time another process has used.

import { readFileSync } from "node:fs";
import { MAX_BODY_BYTES } from "../../src/http/body.ts";
import { progress, type Table, verdict } from "../measure/report.ts";
import { median } from "../measure/rounds.ts";
import { startWorkers } from "../measure/workerd.ts";

const ROUNDS = 5;

/** Some 0.2 s: the kernel counts hundredths of a second. */
const TIMES = 2_000;

/** One round more, which is not counted, in which the code is compiled. */
const WARM_UP_ROUNDS = 1;

const TARGET = 3;

const ACCEPTED = "accepted";
const INVALID = "body: must be valid JSON";
const NO_INT64 = "categoryId: must be an integer of 64 bits, from -2^63 to 2^63-1";
const TOO_LONG = "name: must be 1 to 255 characters";
const REQUIRED = "name: is required; categoryId: is required";

/** The longest that is valid. */
const PET = `"name":"${"🐈".repeat(255)}","categoryId":-9223372036854775808,"status":"available"`;

const SHORT_PET = `"name":"Rex","categoryId":1`;

/** The members of `count` names, which are as long as they can be. */
const members = (count: number, name: string, value: string) => {
  const length = Math.floor((MAX_BODY_BYTES - 100) / count - value.length - `"":,`.length);
  const names = Array.from({ length: count }, (_, index) =>
    `${index}${name.repeat(length)}`.slice(0, length),
  );
  return names.map((each) => `"${each}":${value}`).join();
};

/** Whether it is accepted, or why not, and the body. */
const BODIES: Record<string, [outcome: string, body: string | Uint8Array]> = {
  "one long string": [ACCEPTED, filled(`{${PET},"x":"`, "x", `"}`)],
  "one of two bytes a character": [ACCEPTED, filled(`{${PET},"x":"`, "é", `"}`)],
  "one of three": [ACCEPTED, filled(`{${PET},"x":"`, "漢", `"}`)],
  "one of four": [ACCEPTED, filled(`{${PET},"x":"`, "🐈", `"}`)],
  "one of one to four": [ACCEPTED, filled(`{${PET},"x":"`, "aé漢🐈", `"}`)],
  "one of escapes, \\u0041": [ACCEPTED, filled(`{${PET},"x":"`, "\\u0041", `"}`)],
  "one of escapes, \\ud83d\\udc08": [ACCEPTED, filled(`{${PET},"x":"`, "\\ud83d\\udc08", `"}`)],
  'one of escapes, \\"': [ACCEPTED, filled(`{${PET},"x":"`, '\\"', `"}`)],
  'one of escapes, a\\"': [ACCEPTED, filled(`{${PET},"x":"`, 'a\\"', `"}`)],
  "a long name": [TOO_LONG, filled(`{"categoryId":1,"name":"`, "x", `"}`)],
  "a long name of four bytes a character": [TOO_LONG, filled(`{"categoryId":1,"name":"`, "🐈", `"}`)],
  "a long name of escapes": [TOO_LONG, filled(`{"categoryId":1,"name":"`, "\\u0041", `"}`)],
  "a long categoryId": [NO_INT64, filled(`{"name":"Rex","categoryId":`, "7", "}")],
  "one with many decimals": [NO_INT64, filled(`{"name":"Rex","categoryId":1.`, "7", "}")],
  "one with zeros after the point": [ACCEPTED, filled(`{"name":"Rex","categoryId":1.`, "0", "}")],
  "one with zeros before the first digit": [NO_INT64, filled(`{"name":"Rex","categoryId":0.`, "0", "1}")],
  "one with a long exponent": [NO_INT64, filled(`{"name":"Rex","categoryId":1e`, "7", "}")],
  "one with zeros in the exponent": [ACCEPTED, filled(`{"name":"Rex","categoryId":1e`, "0", "1}")],
  "spaces only": [INVALID, filled("", " ", "")],
  "spaces around a pet": [ACCEPTED, filled(`{${PET}`, "\n", "}")],
  "1000 values in a list": [ACCEPTED, spread(995, `{${SHORT_PET},"x":[`, "1", "]}")],
  "1000 long numbers": [
    ACCEPTED,
    filled(`{${SHORT_PET},"x":[${`${"7".repeat(64)},`.repeat(995)}`, "7", "]}"),
  ],
  "1000 numbers with exponents": [ACCEPTED, spread(995, `{${SHORT_PET},"x":[`, "-1.5e-7", "]}")],
  "1000 texts": [ACCEPTED, spread(995, `{${SHORT_PET},"x":[`, `"${"x".repeat(60)}"`, "]}")],
  "1000 words": [ACCEPTED, spread(995, `{${SHORT_PET},"x":[`, "false", "]}")],
  "1000 objects": [ACCEPTED, spread(995, `{${SHORT_PET},"x":[`, "{ }", "]}")],
  "1000 members": [ACCEPTED, `{${members(990, "x", "1.5")},${SHORT_PET}}`],
  "1000 members with objects": [ACCEPTED, `{${members(990, "x", "{}")},${SHORT_PET}}`],
  "1000 members of one name": [ACCEPTED, spread(990, "{", `"categoryId":1`, `,${SHORT_PET}}`)],
  "1000 members of one escaped name": [
    ACCEPTED,
    spread(990, "{", `"${escaped("categoryId")}":1`, `,${SHORT_PET}}`),
  ],
  "1000 that are nearly a name": [
    ACCEPTED,
    spread(990, "{", `"${escaped("categoryI")}x":1`, `,${SHORT_PET}}`),
  ],
  "1000 members of __proto__": [ACCEPTED, spread(990, "{", `"__proto__":{}`, `,${SHORT_PET}}`)],
  "100 levels, ten times": [
    ACCEPTED,
    spread(10, `{${SHORT_PET},"x":[`, "[".repeat(98) + "]".repeat(98), "]}"),
  ],
  "an end that is not JSON": [INVALID, `${filled(`{${PET},"x":"`, "x", `"`)}`],
  "an end that is not UTF-8": ["body: must be UTF-8", badlyEncoded(filled(`{${PET},"x":"`, "🐈", `"}`))],
  "64 KiB of 1,1,1": ["body: must have at most 1000 values", filled("[1", ",1", "]")],
  "64 KiB of [[[": ["body: must be nested at most 100 levels deep", filled("", "[", "")],
  "1000 members, and no pet": [REQUIRED, `{${members(990, "x", "1.5")}}`],
};

export interface BodiesResult {
  name: string;
  microseconds: number;
  /** In relation to the reference. */
  ratio: number;
  target: number;
  met: boolean;
}

/** Measures each body, and the reference, in turn. Throws if one is not answered as it should be. */
export async function measureBodies(): Promise<BodiesResult[]> {
  const { workers, processId, stop } = await startWorkers([{ file: "bench/baselines/body-parser.ts" }]);
  try {
    const [worker] = workers;
    if (worker === undefined) throw new Error("one Worker was started, and none runs");
    const measure = async (name: string, by: string, body: string | Uint8Array, expected: string) => {
      const url = new URL(`/?times=${TIMES}&by=${by}`, worker.url);
      const before = processorMs(processId());
      const response = await fetch(url, { method: "POST", body, headers: { Connection: "close" } });
      const outcome = await response.text();
      if (outcome !== expected) throw new Error(`bodies: ${name} ended with ${outcome}, not ${expected}`);
      return ((processorMs(processId()) - before) / TIMES) * 1_000;
    };
    const [, reference = ""] = BODIES["one long string"] ?? [];
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

/** Processor time that a process has used, its threads included. */
function processorMs(processId: number): number {
  const [, fields = ""] = readFileSync(`/proc/${processId}/stat`, "utf8").split(") ");
  const [user = 0, system = 0] = fields.split(" ").slice(11, 13).map(Number);
  return (user + system) * 10;
}

/** A body of the largest size, but for a rest: `head`, as many `parts` as fit, and `tail`. */
function filled(head: string, part: string, tail: string): string {
  const room = MAX_BODY_BYTES - Buffer.byteLength(head + tail);
  return head + part.repeat(Math.floor(room / Buffer.byteLength(part))) + tail;
}

/** A body of the largest size: `count` times `part`, with commas and as many spaces between them as fit. */
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

/** The table of this section. */
export function bodiesTable(results: BodiesResult[]): Table {
  return {
    title:
      "bodies: processor time for the worst of 64 KiB, in relation to JSON.parse of the longest pet, padded",
    columns: ["", "µs", "in relation"],
    rows: results.map(({ name, microseconds, ratio, target, met }) => [
      name,
      microseconds.toFixed(0),
      verdict(met, `${ratio.toFixed(2)} ×`, `at most ${target}`),
    ]),
  };
}
