// npm run crash: kills the service under load repeatedly, and checks its guarantees.

import { tableText } from "../../../bench/measure/report.ts";
import { type Define, integer, newCommand } from "../../../scripts/lib/command.ts";
import type { CrashReport, Round } from "./crash.ts";

const SUMMARY =
  "Runs npm start with a state folder of its own, kills it under load some five seconds later, and restarts it, round after " +
  "round. It fails if a guarantee is violated. Figures go to standard output, a line per round to standard error.";

const define: Define = (io) =>
  newCommand("npm run crash", SUMMARY, "", "--rounds 100 --json")
    .option("--rounds <number>", "how many kills, from 1 to 9999", integer(1, 9_999), 20)
    .option("--json", "print JSON")
    .action(async ({ rounds, json }) => {
      const { crash } = await import("./crash.ts");
      const report = await crash(rounds, (round) => io.note(roundText(round)));
      io.print(json ? JSON.stringify(report, null, 2) : reportText(report));
      if (report.violations.length > 0)
        throw new Error(`${report.violations.length} guarantees are violated`);
    });

export default define;

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
  return `${writesTable}\n${limitTable}\n${logLines} log lines searched for secrets.\n${verdict}`;
}
