// npm run crash: kills the service under load repeatedly, and checks its guarantees.
//
//   npm run crash -- [--rounds 20] [--json]
//
// It runs `npm start` with a state folder of its own, for some five seconds per round. The exit code is 1 if a guarantee is
// violated. Standard output has the figures, standard error a line per round.

import { parseArgs } from "node:util";
import { progress, tableText } from "../../../bench/measure/report.ts";
import { type CrashReport, crash, type Round } from "./crash.ts";

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "20" }, json: { type: "boolean", default: false } },
});

try {
  await main();
} catch (error) {
  process.stderr.write(`npm run crash failed: ${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}

async function main(): Promise<void> {
  if (!/^[1-9][0-9]{0,3}$/.test(values.rounds)) throw new Error("--rounds must be an integer from 1 to 9999");
  const report = await crash(Number(values.rounds), (round) => progress(roundText(round)));
  process.stdout.write(values.json ? `${JSON.stringify(report, null, 2)}\n` : reportText(report));
  if (report.violations.length > 0) process.exitCode = 1;
}

function roundText({
  number,
  killed,
  acknowledged,
  interrupted,
  admitted,
  interruptedReads,
  lostReads,
  downMs,
}: Round): string {
  const writes = `${acknowledged} writes acknowledged, ${interrupted} interrupted`;
  const reads = `${admitted} reads admitted, ${interruptedReads} interrupted, ${lostReads} lost`;
  return `round ${number}: ${writes}; ${reads}; killed ${killed}, down for ${(downMs / 1000).toFixed(1)} s`;
}

function reportText({
  rounds,
  writes,
  limit,
  minutes,
  lostReads,
  maxLost,
  logLines,
  violations,
}: CrashReport): string {
  const writesTable = tableText({
    title: `${rounds.length} kills: writes`,
    columns: ["", "pets", ""],
    rows: [
      ["acknowledged", `${writes.acknowledged}`, ""],
      ["acknowledged and lost", `${writes.lost}`, "must be 0"],
      ["interrupted", `${writes.interrupted}`, "no response: stored or not"],
      ["retried and acknowledged", `${writes.retried}`, "with an Idempotency-Key"],
      ["not retried", `${writes.plainInterrupted}`, `without one; ${writes.plainStored} were stored`],
      ["in the list", `${writes.pets}`, ""],
      ["duplicated", `${writes.duplicated}`, "must be 0"],
      ["repeated ids", `${writes.repeatedIds}`, "must be 0"],
    ],
  });
  const limitTable = tableText({
    title: `a key with ${limit} requests per minute`,
    columns: ["minute until", "admitted", "kills", "max lost", ""],
    rows: [
      ...minutes.map((minute) => [
        minute.endsAt,
        `${minute.admitted}`,
        `${minute.kills}`,
        `${minute.maxLost}`,
        minute.isUsedUp ? `used up: ${limit - minute.admitted} lost` : "",
      ]),
      ["total", "", "", `${maxLost}`, `${lostReads} lost, by GET /v1/usage`],
    ],
  });
  const verdict =
    violations.length === 0
      ? "All guarantees hold."
      : violations.map((each) => `VIOLATED: ${each}`).join("\n");
  return `${writesTable}\n${limitTable}\n${logLines} log lines searched for secrets.\n${verdict}\n`;
}
