// The lists of npm run proof, of the weekly workflow and of Stryker match.

import { spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import stryker from "../../stryker.config.mjs";
import { PROOFS } from "../stress/proofs.ts";

it("a weekly job runs each proof, and fails if the proof does", () => {
  const workflow = readFileSync(".github/workflows/weekly.yml", "utf8");
  expect(workflow).toContain(`proof: [${Object.keys(PROOFS).join(", ")}]\n`);
  const words = ["faults", "faults", "no such area"];
  const { status, stderr } = spawnSync(process.execPath, ["test/stress/proof.ts", ...words]);
  expect([status, `${stderr}`]).toEqual([1, expect.stringContaining("\n2 failed: faults, faults\n")]);
});

it("mutates files that exist", () => {
  for (const pattern of stryker.mutate) expect(globSync(pattern.replace("!", "")), pattern).not.toEqual([]);
});
