// npx petstore keys plan: changes the plan of a key.

import { changePlan } from "../../../src/operators/admin.ts";
import { changeKey, warnOfLimits } from "../../keys/context.ts";
import { AN_ID, CHANGE, ID, LIMITS, PLAN, readLimits } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [ID, { name: "plan", ...PLAN, description: "the new plan" }],
  options: { ...LIMITS, ...CHANGE },
  examples: [`${AN_ID} business`, `${AN_ID} enterprise --per-minute 5000 --per-day 1000000`],
  async handler(io, options, id, plan) {
    const limits = readLimits(plan, options);
    await changeKey(io, options, id, "Changed", ({ database, operator }) => {
      warnOfLimits(io, limits);
      return changePlan(database, id, plan, limits, operator);
    });
  },
});
