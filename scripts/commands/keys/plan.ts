// ./petstore keys plan: changes the plan of keys.

import { changePlan } from "../../../src/operators/admin.ts";
import { changeKeys } from "../../keys/change.ts";
import { warnOfLimits } from "../../keys/context.ts";
import { AN_ID, CHANGE_SEVERAL, IDS, LIMITS, PLAN, readLimits } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [IDS, { name: "plan", ...PLAN, description: "the new plan" }],
  options: { ...LIMITS, ...CHANGE_SEVERAL },
  examples: [
    `${AN_ID} business`,
    `${AN_ID} enterprise --per-minute 5000 --per-day 1000000`,
    "- pro --yes < ids.txt",
  ],
  async handler(io, options, id, plan) {
    const limits = readLimits(plan, options);
    warnOfLimits(io, limits);
    await changeKeys(io, options, id, {
      done: "Changed",
      effect: (keys) => `This changes the plan of ${keys} to ${plan}.`,
      already: () => `is on the plan ${plan} already${limits ? ", with these limits" : ""}`,
      make: (database, key, operator) => changePlan(database, key.id, plan, limits, operator),
    });
  },
});
