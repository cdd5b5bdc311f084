// Three rounds of npm run crash.

import { expect, it } from "vitest";
import { crash } from "../stress/crash/crash.ts";

it("three kills under load lose no acknowledged write, duplicate no pet, and exceed no limit", async () => {
  const { violations } = await crash(3);
  expect(violations).toEqual([]);
}, 180_000);
