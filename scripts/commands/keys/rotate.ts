// ./petstore keys rotate: replaces a key by a new one with the same ID, and prints it once. Or several keys, each in a step of its own: what
// ends the command between making and printing a key, such as kill -9, hides that one only.

import { stateOf } from "../../../src/keys/key.ts";
import { KEY_MS } from "../../../src/limits/index.ts";
import { type Operator, rotateKey } from "../../../src/operators/admin.ts";
import type { ListedKey } from "../../../src/operators/records.ts";
import { changeIds, refusal } from "../../keys/change.ts";
import { findKey, IN_FORCE, type Options, printOnce, printSecret, withKeys } from "../../keys/context.ts";
import { AN_ID, CHANGE_SEVERAL, IDS, STDIN } from "../../keys/options.ts";
import { keyOwner, SECRETS_HEADER, secretLine } from "../../keys/text.ts";
import { defineCommand, integer } from "../../lib/command.ts";
import { type Io, UsageError } from "../../lib/io.ts";
import { petstoreLine } from "../../lib/line.ts";
import { formatTime } from "../../lib/time.ts";

export const MAX_GRACE_DAYS = 30;

type RotateOptions = Options & { grace: number; yes?: true | undefined };

export default defineCommand({
  description: `replaces a key by a new one with the same ID, and prints it. With ${STDIN}, replaces the keys whose IDs are on standard input, and prints name,id,key for each`,
  arguments: [IDS],
  options: {
    grace: {
      placeholder: "seconds",
      description: `how long the old key keeps working, up to ${MAX_GRACE_DAYS} days`,
      parse: integer(0, MAX_GRACE_DAYS * 86_400),
      default: 0,
    },
    ...CHANGE_SEVERAL,
  },
  examples: [AN_ID, `${AN_ID} --grace 86400 --yes`, "- --yes < ids.txt > keys.csv"],
  handler: (io, options, id) => (id === STDIN ? rotateSeveral(io, options) : rotateOne(io, options, id)),
});

async function rotateSeveral(io: Io, options: RotateOptions): Promise<void> {
  if (options.json) throw new UsageError("rotate - prints lines of CSV, each at once: leave out --json");
  const graceMs = options.grace * 1000;
  const end = graceMs < KEY_MS ? IN_FORCE : `at ${formatTime(Date.now() + graceMs)} at the earliest`;
  const change = {
    done: "Rotated",
    effect: (keys: string) => `The current keys of ${keys} stop working everywhere ${end}.`,
    isFinal: () => true,
    make: (database: D1Database, key: ListedKey, operator: Operator) =>
      rotateKey(database, key.id, graceMs, operator),
  };
  await changeIds(io, options, change, {
    header: SECRETS_HEADER,
    print: (context, { key, secret }) =>
      printOnce(context, key.id, secretLine(key, secret), graceOption(options)),
  });
}

const graceOption = ({ grace }: RotateOptions) => (grace > 0 ? ["--grace", `${grace}`] : []);

function rotateOne(io: Io, options: RotateOptions, id: string): Promise<void> {
  return withKeys(io, options, async (context) => {
    const { where } = context;
    const before = await findKey(context, id);
    const { nowMs } = context.operator;
    const state = stateOf({ ...before, suspendedAtMs: null }, nowMs);
    if (state === "revoked" || state === "expired") throw refusal(id, { ok: false, problem: state }, where);
    const graceMs = options.grace * 1000;
    const graceEndMs = nowMs + graceMs;
    const untilMs = Math.min(graceEndMs, before.expiresAtMs ?? Number.POSITIVE_INFINITY);
    // Isolates cache a key for longer than a shorter grace lasts.
    const end = graceMs < KEY_MS ? IN_FORCE : `at ${formatTime(untilMs)}`;
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
    if (!changed.ok) throw refusal(id, changed, where);
    await printSecret(context, options, "Rotated", changed.key, changed.secret, graceOption(options));
    if (before.suspendedAtMs !== null)
      io.note(
        `It is still suspended, so the new key is refused: ${petstoreLine("keys resume", id, ...where)}`,
      );
  });
}
