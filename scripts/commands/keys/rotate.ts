// npx petstore keys rotate: replaces a key by a new one with the same ID, and prints it once.

import { FRESH_MS } from "../../../src/d1/freshness.ts";
import { rotateKey } from "../../../src/operators/admin.ts";
import { findActive, IN_FORCE, printSecret, unchanged, withKeys } from "../../keys/context.ts";
import { AN_ID, CHANGE, ID, YES } from "../../keys/options.ts";
import { keyOwner } from "../../keys/text.ts";
import { defineCommand, integer } from "../../lib/command.ts";
import { formatTime } from "../../lib/time.ts";

export const MAX_GRACE_DAYS = 30;

export default defineCommand({
  arguments: [ID],
  options: {
    grace: {
      placeholder: "seconds",
      description: `how long the old key keeps working, up to ${MAX_GRACE_DAYS} days`,
      parse: integer(0, MAX_GRACE_DAYS * 86_400),
      default: 0,
    },
    ...CHANGE,
    yes: YES,
  },
  examples: [AN_ID, `${AN_ID} --grace 86400 --yes`],
  handler: (io, options, id) =>
    withKeys(io, options, async (context) => {
      const { database, operator } = context;
      const before = await findActive(context, id);
      const graceMs = options.grace * 1000;
      const untilMs = Math.min(operator.nowMs + graceMs, before.expiresAtMs ?? Number.POSITIVE_INFINITY);
      // Isolates cache a key for longer than a shorter grace lasts.
      const end = graceMs < FRESH_MS ? IN_FORCE : `at ${formatTime(untilMs)}`;
      await io.confirm(
        `The current key of ${keyOwner(before)} stops working everywhere ${end}.`,
        options.yes,
      );
      const changed = await rotateKey(database, id, graceMs, operator);
      if (!changed.ok) throw unchanged(id, changed);
      await printSecret(context, options, "Rotated", changed.key, changed.secret);
    }),
});
