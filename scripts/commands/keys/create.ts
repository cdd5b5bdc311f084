// npx petstore keys create: creates keys, and prints each once.

import { createKeys } from "../../../src/operators/admin.ts";
import { printSecret, secretJson, warnOfLimits, warnOfName, withKeys } from "../../keys/context.ts";
import { CHANGE, expiry, JSON_LINES, keyName, LIMITS, MANY, PLAN, readLimits } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  options: {
    name: { placeholder: "name", description: "the owner's name", parse: keyName, isRequired: true },
    plan: { placeholder: "plan", ...PLAN, isRequired: true },
    ...LIMITS,
    expires: {
      placeholder: "date",
      description: "when the key ends: the beginning of a UTC day, or a time",
      parse: (text: string) => expiry(text),
    },
    count: {
      placeholder: "n",
      description: "how many keys, with numbered names; --json-lines prints them as they are made",
      parse: MANY,
      default: 1,
    },
    ...CHANGE,
    jsonLines: JSON_LINES,
  },
  examples: [
    '--name "Jo\'s shop" --plan pro',
    "--name Acme --plan enterprise --per-minute 5000 --per-day 1000000 --expires 2027-12-31",
  ],
  async handler(io, options) {
    const { name, plan, expires, count, json, jsonLines } = options;
    const limits = readLimits(plan, options);
    await withKeys(io, options, async (context) => {
      warnOfLimits(io, limits);
      await warnOfName(context, count === 1 ? name : `${name} 1`);
      const newKeys = Array.from({ length: count }, (_, index) => ({
        name: count === 1 ? name : `${name} ${index + 1}`,
        plan,
        expiresAtMs: expires ?? null,
        ...(limits && { limits }),
      }));
      const all: object[] = [];
      for await (const { key, secret } of createKeys(context.database, newKeys, context.operator)) {
        if (json) all.push(secretJson(key, secret));
        else if (jsonLines) io.printJson(secretJson(key, secret));
        else if (count > 1) io.print(`${secret}  ${key.id}  ${key.name}`);
        else printSecret(io, "Created", key, secret);
      }
      if (json) io.printJson(count === 1 ? all[0] : all);
      if (count > 1) io.note(`Created ${count} keys. They are shown only once.`);
    });
  },
});
