// Eight seconds of npm run soak: whether all books agree. That memory levels off takes minutes to see, and latencies a
// machine that does nothing else.

import { expect, it } from "vitest";
import type { SoakReport } from "../stress/soak/soak.ts";
import { npmRun } from "../support/e2e/petstore.ts";

it("keeps the limits of ten keys under mixed traffic, and its books agree with theirs", async () => {
  const { exitCode, stdout, stderr } = await npmRun("soak", ["--minutes", "0.14", "--keys", "10", "--json"]);
  expect(stdout, stderr).not.toBe("");
  const { problems, admitted, refused, pets, documented } = JSON.parse(stdout) as SoakReport;
  expect(problems).toEqual([]);
  expect(exitCode).toBe(0);
  // It was not all in vain.
  for (const count of [admitted, refused, pets, documented]) expect(count).toBeGreaterThan(0);
}, 180_000);
