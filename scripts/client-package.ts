// npm run package: packs the client package as npm publishes it, and checks the archive. publint checks that package.json and the
// files fit each other, Are The Types Wrong that imports and require find declarations that fit the code.

import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { packClient } from "./client-files.ts";

const { archive } = await packClient();
const problems = await findProblems(new Uint8Array(archive));
if (problems.length > 0) throw new Error(`the client package has problems:\n${problems.join("\n")}`);

async function findProblems(tarball: Uint8Array<ArrayBuffer>): Promise<string[]> {
  const { messages, pkg } = await publint({ pack: { tarball: tarball.buffer } });
  const types = await checkPackage(createPackageFromTarballData(tarball));
  // Resolution as of node10 is older than Node 20, and knows no second entry point.
  const isOld = (problem: object) => "resolutionKind" in problem && problem.resolutionKind === "node10";
  return [
    ...messages.map((message) => `publint: ${formatMessage(message, pkg, { color: false })}`),
    ...(types.types === false
      ? [{ kind: "no declarations" }]
      : types.problems.filter((problem) => !isOld(problem))
    ).map(
      (problem) => `types: ${JSON.stringify(problem, (key, value) => (key === "trace" ? undefined : value))}`,
    ),
  ];
}
