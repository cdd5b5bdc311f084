// A short run of the proof crash with one kill. test/unit/load.test.ts shows that its checks of counts notice what they should.

import { expect, it } from "vitest";
import { load } from "../stress/load/load.ts";

it("counts, limits and pets reconcile after mixed traffic with a kill", async () => {
  const { figures, problems } = await load({ seconds: 8, keys: 7, kills: 1 });
  expect(problems).toEqual([]);
  // The run has tested something.
  for (const name of ["refused", "windows that reached their limit", "acknowledged pets", "interrupted pets"])
    expect([name, figures[name]]).toEqual([name, expect.toSatisfy((count) => count > 0)]);
});
