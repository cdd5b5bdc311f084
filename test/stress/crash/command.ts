// npm run crash: kills the service under load, time after time, and looks whether its promises have held.
//
//   npm run crash -- [--rounds 20] [--json]
//
// It runs `npm start` in a folder of state of its own, and takes some five seconds a round. The exit code is 1 if a promise
// is broken. Standard output has the figures, standard error a line for each round.

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
  if (!/^[1-9][0-9]{0,3}$/.test(values.rounds))
    throw new Error("--rounds must be a whole number, at least 1");
  const report = await crash(Number(values.rounds), (round) => progress(roundText(round)));
  process.stdout.write(values.json ? `${JSON.stringify(report, null, 2)}\n` : reportText(report));
  if (report.broken.length > 0) process.exitCode = 1;
}

function roundText({
  number,
  killed,
  acknowledged,
  cutOff,
  admitted,
  readsCutOff,
  lostReads,
  downMs,
}: Round): string {
  const writes = `${acknowledged} writes acknowledged, ${cutOff} cut off`;
  const reads = `${admitted} reads admitted, ${readsCutOff} cut off, ${lostReads} lost`;
  return `round ${number}: ${writes}; ${reads}; killed ${killed}, back after ${(downMs / 1000).toFixed(1)} s`;
}

function reportText({
  rounds,
  writes,
  limit,
  minutes,
  lostReads,
  mayBeLost,
  logLines,
  broken,
}: CrashReport): string {
  const writesTable = tableText({
    title: `${rounds.length} kills: writes`,
    columns: ["", "pets", ""],
    rows: [
      ["acknowledged", `${writes.acknowledged}`, ""],
      ["lost of these", `${writes.lost}`, "none may be"],
      ["cut off", `${writes.cutOff}`, "no answer: done, or not"],
      ["sent again and acknowledged", `${writes.sentAgain}`, "those with an Idempotency-Key"],
      ["without one, and not sent again", `${writes.bareCutOff}`, `${writes.bareThere} of them were done`],
      ["in the list", `${writes.pets}`, ""],
      ["made twice", `${writes.madeTwice}`, "none may be"],
      ["ids given twice", `${writes.idsGivenTwice}`, "none may be"],
    ],
  });
  const limitTable = tableText({
    title: `a key of ${limit} requests a minute`,
    columns: ["the minute to", "admitted", "kills", "may be lost", ""],
    rows: [
      ...minutes.map((minute) => [
        minute.endsAt,
        `${minute.admitted}`,
        `${minute.kills}`,
        `${minute.mayBeLost}`,
        minute.isUsedUp ? `used up, so ${limit - minute.admitted} lost` : "",
      ]),
      ["lost in all", "", "", `${mayBeLost}`, `${lostReads}, as the key's usage shows`],
    ],
  });
  const verdict =
    broken.length === 0 ? "Every promise has held." : broken.map((each) => `BROKEN: ${each}`).join("\n");
  return `${writesTable}\n${limitTable}\n${logLines} lines of log, searched for secrets.\n${verdict}\n`;
}
