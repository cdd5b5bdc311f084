// npm run bench: measures speed and costs. bench.ts says how.

import { type Define, integer, newCommand } from "../scripts/lib/command.ts";

const define: Define = (io) =>
  newCommand(
    "npm run bench",
    "Measures the service's speed and costs, and compares it with other implementations. It needs wrk, and an idle machine.",
    "--only hot-list,bundle",
    "--only scale --svg",
  )
    .option("--only <names>", "sections, separated by commas; a wrong name lists them")
    .option("--rounds <number>", "rounds of a load case", integer(1, 9_999), 15)
    .option("--seconds <number>", "seconds of a round", integer(1, 9_999), 5)
    .option("--json", "print JSON")
    .option("--svg", "write docs/scale.svg")
    .action(async (options) => {
      const { bench } = await import("./bench.ts");
      io.print(await bench(options));
    });

export default define;
