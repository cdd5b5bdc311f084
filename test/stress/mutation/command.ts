// npm run mutation: changes the code of the limiter and of the keys, one place at a time, and checks that a test fails each time.

import { type Define, newCommand } from "../../../scripts/lib/command.ts";

const define: Define = (io) =>
  newCommand(
    "npm run mutation",
    "Tries some 1,300 mutants of the limiter and the keys, which takes half an hour on an idle machine with two processors. It fails if " +
      "a mutant survives that test/stress/mutation/equivalent-mutants.ts does not explain.",
    "--files src/keys/store.ts",
    "--only src/keys/lookup-throttle.ts:50",
  )
    .option("--files <files>", "only the mutants of these sources, separated by commas")
    .option("--only <place>", "only those of one line; prints the tests that kill them")
    .action(async (options) => {
      const { tryMutants } = await import("./mutation.ts");
      if (!(await tryMutants(options, io)))
        throw new Error("the surviving mutants and the explanations differ");
    });

export default define;
