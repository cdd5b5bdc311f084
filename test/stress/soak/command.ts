// npm run soak: mixed traffic for minutes. At the end all counts must reconcile, and memory must be stable.
//
//   npm run soak -- [--minutes 10] [--keys 50] [--json]
//
// The service and the floor of the bench run in workerd, each with its own process and state. The exit code is 1 if a check
// fails. Latencies and memory are meaningful only on an idle machine; latencies are not checked, memory is checked from eight
// minutes on. Progress goes to standard error.

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
  const { seconds, keys, requests, requestsPerSecond, anonymous, latencies, problems } = report;
  const counts = tableText({
    title: `${keys} keys in ${seconds} s: ${whole(requests)} requests, ${requestsPerSecond}/s`,
    columns: ["", "", ""],
    rows: [
      ["admitted requests with a key", whole(report.admitted), "match GET /v1/usage"],
      ["refused", whole(report.refused), "match GET /v1/usage"],
      ["refused by a ban", whole(report.banned), ""],
      ["exhausted windows", whole(report.usedUpWindows), "none exceeded, none refused early"],
      ["admitted after Retry-After", whole(report.admittedAfterWait), ""],
      [
        "requests without a valid key",
        whole(anonymous.admitted + anonymous.refused),
        `${anonymous.refused} got 429`,
      ],
      ["created pets", whole(report.pets), "each once in the list"],
      ["responses validated against the OpenAPI document", whole(report.validated), ""],
    ],
  });
  const times = tableText({
    title: `latencies, and their ratios to the floor; p99 of the send delay: ${report.lateP99Ms.toFixed(1)} ms`,
    columns: ["", "requests", "p50 ms", "p99 ms", "p50 ×", "p99 ×", ""],
    rows: latencies.map(({ kind, requests: count, p50Ms, p99Ms, p50Ratio, p99Ratio }) => [
      kind,
      whole(count),
      ...[p50Ms, p99Ms, p50Ratio, p99Ratio].map((each) => each.toFixed(2)),
      "",
    ]),
  });
  const memory = `resident memory of the runtime in MB, every 10 s\n${curve(report.memoryMb)}${memoryText(report.memory)}`;
  const slow = `The machine was too slow: ${report.skipped} sends were skipped, so the latencies are not meaningful.\n`;
  const tooSlow = report.skipped === 0 ? "" : slow;
  const verdict =
    problems.length === 0 ? "All counts reconcile." : problems.map((each) => `FAILED: ${each}`).join("\n");
  return `${counts}\n${times}\n${memory}\n\n${tooSlow}${verdict}\n`;
}

function memoryText(memory: MemoryVerdict | undefined): string {
  if (memory === undefined) return "  The run was too short to check memory.";
  const { secondQuarterMb, lastQuarterMb, growth, isFlat } = memory;
  const medians = `median of the second quarter ${secondQuarterMb.toFixed(0)}, of the last ${lastQuarterMb.toFixed(0)}`;
  const limit = `limit ${MAX_GROWTH * 100} %`;
  return `  ${medians}: growth ${(growth * 100).toFixed(1)} % (${limit}: ${isFlat ? "stable" : "NOT STABLE"})`;
}
