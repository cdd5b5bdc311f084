// The service under load, killed with no warning and started again, three times: test/stress/crash says how, and does it
// more often.

import { expect, it } from "vitest";
import { crash } from "../stress/crash/crash.ts";

it("loses nothing that it acknowledged, makes nothing twice, and admits no more than the limit", async () => {
  const { broken } = await crash(3);
  expect(broken).toEqual([]);
}, 180_000);
