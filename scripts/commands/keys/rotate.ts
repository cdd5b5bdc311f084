// ./petstore keys rotate: replaces a key by a new one with the same ID, and prints it once.

import { FRESH_MS } from "../../../src/d1/freshness.ts";
import { stateOf } from "../../../src/keys/record.ts";
import { rotateKey } from "../../../src/operators/admin.ts";
import { unchanged } from "../../keys/change.ts";
import { findKey, IN_FORCE, printSecret, withKeys } from "../../keys/context.ts";
import { AN_ID, CHANGE, ID } from "../../keys/options.ts";
import { keyOwner } from "../../keys/text.ts";
import { defineCommand, integer } from "../../lib/command.ts";
import { petstoreLine } from "../../lib/line.ts";
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
    yes: { description: "don't ask" },
  },
  examples: [AN_ID, `${AN_ID} --grace 86400 --yes`],
  handler: (io, options, id) =>
    withKeys(io, options, async (context) => {
      const { where } = context;
      const before = await findKey(context, id);
      const { nowMs } = context.operator;
      const state = stateOf({ ...before, suspendedAtMs: null }, nowMs);
      if (state === "revoked" || state === "expired")
        throw unchanged(id, { ok: false, problem: state }, where);
      const graceMs = options.grace * 1000;
      const graceEndMs = nowMs + graceMs;
      const untilMs = Math.min(graceEndMs, before.expiresAtMs ?? Number.POSITIVE_INFINITY);
      // Isolates cache a key for longer than a shorter grace lasts.
      const end = graceMs < FRESH_MS ? IN_FORCE : `at ${formatTime(untilMs)}`;
      const { graceUntilMs } = before;
      const ending =
        graceUntilMs !== null && graceUntilMs > graceEndMs
          ? ` So do the keys that it has replaced, which would work until ${formatTime(graceUntilMs)}.`
          : "";
      await io.confirm(
        `The current key of ${keyOwner(before)} stops working everywhere ${end}.${ending}`,
        options.yes,
      );
      const operator = { ...context.operator, confirmedHash: before.hash };
      // The grace ends when the question said, however long the answer took.
      const leftMs = Math.max(0, graceEndMs - operator.nowMs);
      const changed = await rotateKey(context.database, id, leftMs, operator);
      if (!changed.ok) throw unchanged(id, changed, where);
      const again = options.grace > 0 ? ["--grace", `${options.grace}`] : [];
      await printSecret(context, options, "Rotated", changed.key, changed.secret, again);
      if (before.suspendedAtMs !== null)
        io.note(
          `It is still suspended, so the new key is refused: ${petstoreLine("keys resume", id, ...where)}`,
        );
    }),
});
