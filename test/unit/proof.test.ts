// npm run proof continues after a failure, and fails then. The weekly workflow runs all proofs. Each fault that npm run faults plants fits
// the source, so a change of a line that one names is noticed at once.

import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import stryker from "../../stryker.config.mjs";
import { plant, readFaults } from "../stress/faults/command.ts";
import { PROOFS, proofCommand } from "../stress/proof.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";

it("runs the chosen proofs, also after a failure, and fails if one has failed", async () => {
  const command = proofCommand(async ({ script }) => script !== "crash");
  expect((await runCommandInProcess(command, ["soak"])).exitCode).toBe(0);
  const { exitCode, stdout, stderr } = await runCommandInProcess(command, ["crash", "soak"]);
  expect(stdout).toMatch(/^crash: FAILED after .*\nsoak: shown in .*\n$/);
  expect(stderr).toContain("error: 1 of 2 proofs failed: crash\n");
  expect(exitCode).toBe(1);
});

it("has a weekly job for each proof", () => {
  const workflow = readFileSync(".github/workflows/weekly.yml", "utf8");
  expect(workflow).toContain(`proof: [${Object.keys(PROOFS).join(", ")}]\n`);
});

it("plants faults that fit the source", async () => {
  const faults = await readFaults();
  await Promise.all(faults.map((fault) => plant(".", fault)));
  expect(new Set(faults.map(({ find, replacement }) => find === replacement))).toEqual(new Set([false]));
});

it("mutates files that exist", () => {
  for (const pattern of stryker.mutate) expect(globSync(pattern.replace("!", "")), pattern).not.toEqual([]);
});
