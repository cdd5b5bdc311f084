// npm run soak: mixed traffic for minutes. At the end all counts must reconcile, and memory must be stable.

import { InvalidArgumentError } from "@commander-js/extra-typings";
import { tableText, whole } from "../../../bench/measure/report.ts";
import { type Define, integer, newCommand } from "../../../scripts/lib/command.ts";
import { curve, MAX_GROWTH, type MemoryVerdict } from "./memory.ts";
import type { SoakReport } from "./soak.ts";

const SUMMARY =
  "Sends mixed traffic to the service and to the floor of the bench, each in workerd with its own process and state. It fails if " +
  "counts don't reconcile, or if memory grows: that is checked from eight minutes on. Latencies and memory are meaningful only on " +
  "an idle machine; latencies are not checked.";

const define: Define = (io) =>
  newCommand("npm run soak", SUMMARY, "", "--minutes 60 --keys 100 --json")
    .option("--minutes <number>", "how long, from 0.1 to 1440", minutes, 10)
    .option("--keys <number>", "how many API keys, from 1 to 200", integer(1, 200), 50)
    .option("--json", "print JSON")
    .action(async (options) => {
      const { soak } = await import("./soak.ts");
      const onProgress = (line: string) => io.note(line);
      const report = await soak({
        seconds: Math.round(options.minutes * 60),
        keys: options.keys,
        onProgress,
      });
      io.print(options.json ? JSON.stringify(report, null, 2) : reportText(report));
      if (report.problems.length > 0) throw new Error(`${report.problems.length} checks failed`);
      if (report.memory?.isFlat === false) throw new Error("memory is not stable");
    });

export default define;

function minutes(text: string): number {
  const value = /^[0-9]+(\.[0-9]+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 0.1 && value <= 1_440) return value;
  throw new InvalidArgumentError("It must be a number from 0.1 to 1440.");
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
  return `${counts}\n${times}\n${memory}\n\n${tooSlow}${verdict}`;
}

function memoryText(memory: MemoryVerdict | undefined): string {
  if (memory === undefined) return "  The run was too short to check memory.";
  const { secondQuarterMb, lastQuarterMb, growth, isFlat } = memory;
  const medians = `median of the second quarter ${secondQuarterMb.toFixed(0)}, of the last ${lastQuarterMb.toFixed(0)}`;
  const limit = `limit ${MAX_GROWTH * 100} %`;
  return `  ${medians}: growth ${(growth * 100).toFixed(1)} % (${limit}: ${isFlat ? "stable" : "NOT STABLE"})`;
}
