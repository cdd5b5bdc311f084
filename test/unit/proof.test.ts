// npm run proof continues after a failure, and fails then. The weekly workflow runs all proofs.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
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
