// A short run of the proof crash with one kill. test/unit/load.test.ts shows that its checks of counts notice what they should.

import { expect, it } from "vitest";
import { load } from "../stress/load/load.ts";

it("counts, limits and pets reconcile after mixed traffic with a kill", async () => {
  expect(await load({ seconds: 8, keys: 7, kills: 1 })).toMatchObject({ problems: [] });
});
