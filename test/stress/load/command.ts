// npm run soak: mixed traffic for minutes, with memory watched. npm run crash: the same while the runtime is killed repeatedly.
// The name of the running script, which npm sets, selects one.

import { tableText, whole } from "../../../bench/measure/report.ts";
import { type Define, type Io, integer, newCommand } from "../../../scripts/lib/command.ts";
import type { LoadOptions } from "./load.ts";

const TRAFFIC =
  "Sends mixed traffic to the service in workerd, with a state of its own, and fails if the counts of clients, limits, usage and " +
  "pets don't reconcile.";

/** The time between kills. The runtime is back within one or two seconds. */
const SECONDS_PER_KILL = 6;

const define: Define = (io) => (io.env.npm_lifecycle_event === "crash" ? crash(io) : soak(io));

export default define;

function soak(io: Io) {
  const summary = `${TRAFFIC} From eight minutes on it also fails if memory grows, which needs an idle machine.`;
  return newCommand("npm run soak", summary, "", "--minutes 60 --keys 100")
    .option("--minutes <number>", "how long, from 1 to 1440", integer(1, 1_440), 10)
    .option("--keys <number>", "how many API keys, from 1 to 200", integer(1, 200), 50)
    .action(({ minutes, keys }) => run(io, { seconds: minutes * 60, keys, kills: 0 }));
}

function crash(io: Io) {
  const summary = `${TRAFFIC} Kills workerd every six seconds; it starts again with the same state.`;
  return newCommand("npm run crash", summary, "", "--rounds 100")
    .option("--rounds <number>", "how many kills, from 1 to 9999", integer(1, 9_999), 20)
    .option("--keys <number>", "how many API keys, from 1 to 200", integer(1, 200), 50)
    .action(({ rounds, keys }) => run(io, { seconds: (rounds + 1) * SECONDS_PER_KILL, keys, kills: rounds }));
}

async function run(io: Io, options: LoadOptions): Promise<void> {
  const { load } = await import("./load.ts");
  const text = `Sending requests for ${options.seconds} s`;
  const { figures, memoryMb, problems } = await io.step(text, () => load(options));
  const rows = Object.entries(figures).map(([label, value]) => [label, whole(value), ""]);
  io.print(tableText({ title: "Figures", columns: ["", "", ""], rows }));
  if (memoryMb.length > 0) io.print(`Memory in MB, every 10 s: ${memoryMb.join(" ")}`);
  for (const each of problems) io.print(`FAILED: ${each}`);
  if (problems.length > 0) throw new Error(`${problems.length} checks failed`);
  io.print("All counts reconcile.");
}
