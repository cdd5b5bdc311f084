// Eight seconds of npm run soak: too short to judge memory. Latencies need an idle machine.

import { expect, it } from "vitest";
import type { SoakReport } from "../stress/soak/soak.ts";
import { npmRun } from "../support/e2e/petstore.ts";

it("counts of ten keys and their pets reconcile after mixed traffic", async () => {
  const { exitCode, stdout, stderr } = await npmRun("soak", ["--minutes", "0.14", "--keys", "10", "--json"]);
  expect(stdout, stderr).not.toBe("");
  const { problems, admitted, refused, pets, validated } = JSON.parse(stdout) as SoakReport;
  expect(problems).toEqual([]);
  expect(exitCode).toBe(0);
  // The run must have tested something.
  for (const count of [admitted, refused, pets, validated]) expect(count).toBeGreaterThan(0);
}, 180_000);
