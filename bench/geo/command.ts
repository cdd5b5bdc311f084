// npm run bench:geo: simulates requests in six regions. geo.ts says how.

import { type Define, integer, newCommand } from "../../scripts/lib/command.ts";

const define: Define = (io) =>
  newCommand(
    "npm run bench:geo",
    "Simulates how long requests take in six regions, and what they cost, with the service and with a baseline.",
    "",
    "--isolates 16 --seconds 20 --json",
  )
    .option("--isolates <numbers>", "isolates in each region, separated by commas", isolates, [1, 4, 16])
    .option("--seconds <number>", "seconds of requests to each", integer(1, 9_999), 75)
    .option("--seed <number>", "repeats the requests of a run", integer(1, 9_999), 1)
    .option("--json", "print JSON")
    .option("--svg", "write docs/geo.svg")
    .action(async (options) => {
      const { geo } = await import("./geo.ts");
      io.print(await geo(options));
    });

function isolates(text: string): number[] {
  return text.split(",").map(integer(1, 99));
}

export default define;
