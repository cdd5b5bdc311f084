// npm run soak: mixed traffic for minutes, after which all books have to agree, and memory has to have levelled off.
//
//   npm run soak -- [--minutes 10] [--keys 50] [--json]
//
// The service and the floor of the bench run in workerd, each in a process of its own, in folders of state of their own. The
// exit code is 1 if a check fails. Latencies and memory are worth something only if the machine does nothing else;
// latencies are not judged, and memory is from eight minutes on. Standard error says how far it is.

import { parseArgs } from "node:util";
import { progress, tableText, whole } from "../../../bench/measure/report.ts";
import { curve, MAX_GROWTH, type MemoryVerdict } from "./memory.ts";
import { type SoakReport, soak } from "./soak.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    keys: { type: "string", default: "50" },
    json: { type: "boolean", default: false },
  },
});

try {
  await main();
} catch (error) {
  process.stderr.write(`npm run soak failed: ${error instanceof Error ? error.stack : error}\n`);
  process.exit(1);
}

async function main(): Promise<void> {
  const [minutes, keys] = [Number(values.minutes), Number(values.keys)];
  if (!(minutes >= 0.1 && minutes <= 1_440)) throw new Error("--minutes must be a number from 0.1 to 1440");
  if (!(Number.isInteger(keys) && keys >= 1 && keys <= 200))
    throw new Error("--keys must be an integer from 1 to 200");
  const report = await soak({ seconds: minutes * 60, keys, onProgress: progress });
  process.stdout.write(values.json ? `${JSON.stringify(report, null, 2)}\n` : reportText(report));
  if (report.problems.length > 0 || report.memory?.isFlat === false) process.exitCode = 1;
}

function reportText(report: SoakReport): string {
  const { seconds, keys, requests, requestsPerSecond, strangers, latencies, problems } = report;
  const counts = tableText({
    title: `${keys} keys in ${seconds} s: ${whole(requests)} requests, ${requestsPerSecond} a second`,
    columns: ["", "", ""],
    rows: [
      ["requests of keys, admitted", whole(report.admitted), "as their usage shows"],
      ["refused", whole(report.refused), "as their usage shows"],
      ["refused because of a ban", whole(report.banned), ""],
      ["windows used up", whole(report.usedUpWindows), "none exceeded, none refused before"],
      ["waited for as long as Retry-After says", whole(report.waitsKept), "and then admitted"],
      [
        "requests without a valid key",
        whole(strangers.admitted + strangers.refused),
        `${strangers.refused} of them 429`,
      ],
      ["pets created", whole(report.pets), "all in the list, once"],
      ["answers held to the document", whole(report.documented), ""],
    ],
  });
  const times = tableText({
    title: `latencies, and how many times the floor's; sent late by ${report.lateP99Ms.toFixed(1)} ms at p99`,
    columns: ["", "requests", "p50 ms", "p99 ms", "p50 ×", "p99 ×", ""],
    rows: latencies.map(({ kind, requests: count, p50Ms, p99Ms, p50Ratio, p99Ratio }) => [
      kind,
      whole(count),
      ...[p50Ms, p99Ms, p50Ratio, p99Ratio].map((each) => each.toFixed(2)),
      "",
    ]),
  });
  const memory = `resident memory of the runtime in MB, every 10 s\n${curve(report.memoryMb)}${memoryText(report.memory)}`;
  const slow = `The machine was too slow: ${report.notSent} turns were left out, and the latencies say nothing.\n`;
  const tooSlow = report.notSent === 0 ? "" : slow;
  const verdict =
    problems.length === 0 ? "All books agree." : problems.map((each) => `WRONG: ${each}`).join("\n");
  return `${counts}\n${times}\n${memory}\n\n${tooSlow}${verdict}\n`;
}

function memoryText(memory: MemoryVerdict | undefined): string {
  if (memory === undefined) return "  The run was too short to judge it.";
  const { secondQuarterMb, lastQuarterMb, growth, isFlat } = memory;
  const medians = `median of the second quarter ${secondQuarterMb.toFixed(0)}, of the last ${lastQuarterMb.toFixed(0)}`;
  const target = `at most ${MAX_GROWTH * 100} %`;
  return `  ${medians}: ${(growth * 100).toFixed(1)} % more (${target}: ${isFlat ? "flat" : "NOT FLAT"})`;
}
