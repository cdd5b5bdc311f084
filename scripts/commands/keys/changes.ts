// The commands that each make one change of keys: of the one with an ID, or of those whose IDs are on standard input.

import { ACCESSES } from "../../../src/keys/key.ts";
import { KEY_MS } from "../../../src/limits/index.ts";
import * as admin from "../../../src/operators/admin.ts";
import { asRecorded } from "../../../src/operators/names.ts";
import { changeKeys } from "../../keys/change.ts";
import { IN_FORCE, warnOfLimits, warnOfName } from "../../keys/context.ts";
import {
  AN_ID,
  CHANGE,
  CHANGE_SEVERAL,
  expiry,
  ID,
  IDS,
  keyName,
  LIMITS,
  MAX_GRACE_DAYS,
  NOTE,
  orNone,
  PLAN,
  REF,
  readLimits,
  recordedText,
  STDIN,
} from "../../keys/options.ts";
import { defineCommand, integer } from "../../lib/command.ts";
import { UsageError } from "../../lib/io.ts";
import { formatTime } from "../../lib/time.ts";

export const rename = defineCommand({
  arguments: [ID, { name: "name", description: "the new name", parse: keyName }],
  options: CHANGE,
  examples: [`${AN_ID} "Jo & Ann"`, `${AN_ID} "Jo & Ann" --remote`],
  handler: (io, options, id, name) =>
    changeKeys(io, options, id, {
      done: "Renamed",
      isForOperators: true,
      effect: (keys) => `This renames ${keys}.`,
      make: (database, _, operator) => admin.renameKey(database, id, name, operator),
      explain: (context) => warnOfName(context, name, id),
    }),
});

/** A command that sets a text about the customer, or removes it. */
function customerCommand(
  name: "ref" | "note",
  { description, parse }: typeof REF | typeof NOTE,
  example: string,
  set: typeof admin.setRef,
) {
  const value = { name, description: `${description}; "" removes it`, parse: orNone(parse) } as const;
  return defineCommand({
    arguments: [IDS, value],
    options: CHANGE_SEVERAL,
    examples: [`${AN_ID} ${example}`, `${AN_ID} ""`, '- "" --yes < ids.txt'],
    handler: (io, options, id, text) =>
      changeKeys(io, options, id, {
        done: `Changed the ${name} of`,
        isForOperators: true,
        effect: (keys) => `This changes the ${name} of ${keys}.`,
        make: (database, key, operator) => set(database, key.id, text, operator),
      }),
  });
}

export const ref = customerCommand("ref", REF, "cus_4711", admin.setRef);
export const note = customerCommand("note", NOTE, '"pays by invoice"', admin.setNote);

const DATE = {
  name: "date",
  description: 'the UTC day whose beginning ends the key, a time, or "never"',
  parse: expiry,
} as const;

/** Sets or removes the end of keys. */
export const expire = defineCommand({
  arguments: [IDS, DATE],
  options: CHANGE_SEVERAL,
  examples: [`${AN_ID} 2027-12-31`, `${AN_ID} never`, "- 2027-12-31 --yes < ids.txt"],
  handler: (io, options, id, expiresAtMs) =>
    changeKeys(io, options, id, {
      done: "Changed the expiry of",
      effect: (keys) =>
        `This sets the expiry of ${keys} to ${expiresAtMs === null ? "never" : formatTime(expiresAtMs)}.`,
      make: (database, key, operator) => admin.setExpiry(database, key.id, expiresAtMs, operator),
    }),
});

/** Changes the plan of keys. */
export const plan = defineCommand({
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
      make: (database, key, operator) => admin.changePlan(database, key.id, plan, limits, operator),
    });
  },
});

/** Lets keys only read, or write too. It asks nothing, because it undoes itself. */
export const access = defineCommand({
  arguments: [
    IDS,
    { name: "access", description: "read: only GET and HEAD; write: all methods", choices: ACCESSES },
  ],
  options: CHANGE_SEVERAL,
  examples: [`${AN_ID} read`, `${AN_ID} write`, "- read --yes < ids.txt"],
  handler: (io, options, id, access) =>
    changeKeys(io, options, id, {
      done: "Changed the access of",
      effect: (keys) => `This changes the access of ${keys} to ${access}.`,
      make: (database, key, operator) => admin.changeAccess(database, key.id, access, operator),
      detail: access,
    }),
});

/** Ends the replaced secrets of keys, whose graces last. The current ones go on. */
export const endGrace = defineCommand({
  arguments: [IDS],
  options: CHANGE_SEVERAL,
  examples: [AN_ID, `${AN_ID} --yes`, "- --yes < ids.txt"],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Ended all replaced keys of",
      effect: (keys, only) => {
        const until = only?.graceUntilMs
          ? ` They would work until ${formatTime(only.graceUntilMs)} at most.`
          : "";
        return `This ends the replaced keys of ${keys} for good, and none that is current.${until}`;
      },
      isFinal: ({ graceUntilMs }) => graceUntilMs !== null,
      make: (database, key, operator) => admin.endGraces(database, key.id, operator),
    }),
});

/** Refuses keys until they are resumed. It asks nothing, because resume undoes it. */
export const suspend = defineCommand({
  arguments: [IDS],
  options: {
    reason: {
      placeholder: "text",
      description: "why, for the record",
      parse: recordedText,
      isRequired: true,
    },
    replace: { description: "also give another reason to keys that are suspended" },
    ...CHANGE_SEVERAL,
  },
  examples: [`${AN_ID} --reason "leaked in a public repository"`, '- --reason "unpaid" --yes < ids.txt'],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Suspended",
      effect: (keys) => `This suspends ${keys}.`,
      make: (database, { id: each, suspensionReason }, operator) => {
        const reason = asRecorded(options.reason, suspensionReason);
        return admin.suspendKey(database, each, reason, options.replace === true, operator);
      },
      despite: (each) => ["keys suspend", each, "--reason", options.reason, "--replace"],
      detail: options.reason,
    }),
});

/** Ends the suspension of keys. */
export const resume = defineCommand({
  arguments: [IDS],
  options: {
    reason: {
      placeholder: "text",
      description: "only a key that is suspended for this reason, compared without case",
      parse: recordedText,
    },
    ...CHANGE_SEVERAL,
  },
  examples: [AN_ID, '- --reason "unpaid" --yes < ids.txt'],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Resumed",
      effect: (keys) => `This ends the suspension of ${keys}.`,
      make: (database, { id: each, suspensionReason }, operator) => {
        const { reason = null } = options;
        return admin.resumeKey(database, each, reason && asRecorded(reason, suspensionReason), operator);
      },
    }),
});

/** Ends keys for good. */
export const revoke = defineCommand({
  arguments: [IDS],
  options: CHANGE_SEVERAL,
  examples: [AN_ID, `${AN_ID} --yes`, "- --yes < ids.txt"],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Revoked",
      effect: (keys) => `This ends ${keys} for good: it can't be undone.`,
      isFinal: ({ revokedAtMs }) => revokedAtMs === null,
      make: (database, key, operator) => admin.revokeKey(database, key.id, operator),
    }),
});

/** Lifts the bans of keys. */
export const unban = defineCommand({
  arguments: [IDS],
  options: CHANGE_SEVERAL,
  examples: [AN_ID, `${AN_ID} --remote`, "- --yes < ids.txt"],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Lifted any ban of",
      effect: (keys) => `This lifts any ban of ${keys}.`,
      make: (database, key, operator) => admin.unbanKey(database, key.id, operator),
    }),
});

/** What ends the command between making and printing one of several keys, such as kill -9, hides that one only. */
export const rotate = defineCommand({
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
  async handler(io, options, id) {
    const isOne = id !== STDIN;
    if (!isOne && options.json)
      throw new UsageError("rotate - prints lines of CSV, each at once: leave out --json");
    const graceMs = options.grace * 1000;
    const graceEndMs = Date.now() + graceMs;
    await changeKeys(io, options, id, {
      done: "Rotated",
      effect: (keys, only) => {
        const untilMs = Math.min(graceEndMs, only?.expiresAtMs ?? Number.POSITIVE_INFINITY);
        const at = `at ${formatTime(untilMs)}${isOne ? "" : " at the earliest"}`;
        // Isolates cache a key for longer than a shorter grace lasts.
        const end = graceMs < KEY_MS ? IN_FORCE : at;
        const earlierMs = only?.graceUntilMs ?? 0;
        const earlier =
          earlierMs > graceEndMs
            ? ` So do the keys that it has replaced, which would work until ${formatTime(earlierMs)}.`
            : "";
        return `This replaces the current key of ${keys}, which stops working everywhere ${end}.${earlier}`;
      },
      isFinal: ({ states }) => !states.includes("expired"),
      make: (database, key, operator) => {
        // The grace ends when the question said, however long the answer took.
        const leftMs = isOne ? Math.max(0, graceEndMs - operator.nowMs) : graceMs;
        return admin.rotateKey(database, key.id, leftMs, operator);
      },
      again: options.grace > 0 ? ["--grace", `${options.grace}`] : [],
    });
  },
});
