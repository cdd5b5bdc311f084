// npm run proof continues after a failure, and fails then. The weekly workflow runs all proofs.

import { globSync, readFileSync } from "node:fs";
import { expect, it, vi } from "vitest";
import stryker from "../../stryker.config.mjs";
import { PROOFS, prove } from "../stress/proofs.ts";

it.each<[args: string[], exitCode: number, ran: [name: string, options: string[]][]]>([
  [["soak"], 0, [["soak", []]]],
  [["soak", "--minutes", "1"], 0, [["soak", ["--minutes", "1"]]]],
  [["faults", "limits"], 3, [["faults", ["limits"]]]],
  [["faults", "soak"], 1, Object.entries({ faults: [], soak: [] })],
  [["all"], 1, Object.keys(PROOFS).map((name) => [name, []])],
  [["all", "--minutes"], 2, []],
  [["sock"], 2, []],
  [[], 2, []],
])("npm run proof %j exits with %i if the proof of faults exits with 3", async (args, exitCode, ran) => {
  for (const method of ["log", "error"] as const) vi.spyOn(console, method).mockImplementation(() => {});
  const run = vi.fn(async (proof: object, _options: string[]) => (proof === PROOFS.faults ? 3 : 0));
  expect(await prove(args, run)).toBe(exitCode);
  expect(run.mock.calls).toEqual(ran.map(([name, options]) => [PROOFS[name], options]));
});

it("has a weekly job for each proof", () => {
  const workflow = readFileSync(".github/workflows/weekly.yml", "utf8");
  expect(workflow).toContain(`proof: [${Object.keys(PROOFS).join(", ")}]\n`);
});

it("mutates files that exist", () => {
  for (const pattern of stryker.mutate) expect(globSync(pattern.replace("!", "")), pattern).not.toEqual([]);
});
