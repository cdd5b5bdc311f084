// The commands that each make one change of keys: of the one with an ID, or of those whose IDs are on standard input.

import { ACCESSES } from "../../../src/keys/key.ts";
import {
  changeAccess,
  changePlan,
  endGraces,
  renameKey,
  resumeKey,
  revokeKey,
  setExpiry,
  setNote,
  setRef,
  suspendKey,
  unbanKey,
} from "../../../src/operators/admin.ts";
import { asRecorded } from "../../../src/operators/names.ts";
import { changeKeys } from "../../keys/change.ts";
import { warnOfLimits, warnOfName } from "../../keys/context.ts";
import {
  AN_ID,
  CHANGE,
  CHANGE_SEVERAL,
  expiry,
  ID,
  IDS,
  keyName,
  LIMITS,
  NOTE,
  orNone,
  PLAN,
  REF,
  readLimits,
  recordedText,
} from "../../keys/options.ts";
import { suspensionText } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
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
      already: () => "has this name already",
      make: (database, _, operator) => renameKey(database, id, name, operator),
      explain: (context) => warnOfName(context, name, id),
    }),
});

const REF_ARGUMENT = {
  name: "ref",
  description: `${REF.description}; "" removes it`,
  parse: orNone(REF.parse),
} as const;

/** Sets or removes the ref of keys. */
export const ref = defineCommand({
  arguments: [IDS, REF_ARGUMENT],
  options: CHANGE_SEVERAL,
  examples: [`${AN_ID} cus_4711`, `${AN_ID} ""`, '- "" --yes < ids.txt'],
  handler: (io, options, id, ref) =>
    changeKeys(io, options, id, {
      done: "Changed the ref of",
      isForOperators: true,
      effect: (keys) => `This changes the ref of ${keys}.`,
      already: () => (ref === null ? "has no ref already" : "has this ref already"),
      make: (database, key, operator) => setRef(database, key.id, ref, operator),
    }),
});

const NOTE_ARGUMENT = {
  name: "note",
  description: `${NOTE.description}; "" removes it`,
  parse: orNone(NOTE.parse),
} as const;

/** Sets or removes the note of keys. */
export const note = defineCommand({
  arguments: [IDS, NOTE_ARGUMENT],
  options: CHANGE_SEVERAL,
  examples: [`${AN_ID} "pays by invoice"`, `${AN_ID} ""`, '- "" --yes < ids.txt'],
  handler: (io, options, id, note) =>
    changeKeys(io, options, id, {
      done: "Changed the note of",
      isForOperators: true,
      effect: (keys) => `This changes the note of ${keys}.`,
      already: () => (note === null ? "has no note already" : "has this note already"),
      make: (database, key, operator) => setNote(database, key.id, note, operator),
    }),
});

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
      already: () => "has this expiry already",
      make: (database, key, operator) => setExpiry(database, key.id, expiresAtMs, operator),
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
      already: () => `is on the plan ${plan} already${limits ? ", with these limits" : ""}`,
      make: (database, key, operator) => changePlan(database, key.id, plan, limits, operator),
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
      already: () => `has the access ${access} already`,
      make: (database, key, operator) => changeAccess(database, key.id, access, operator),
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
      effect: (keys) => `This ends replaced keys for good, and none that is current. Of: ${keys}.`,
      isFinal: ({ graceUntilMs }) => graceUntilMs !== null,
      make: (database, key, operator) => endGraces(database, key.id, operator),
      already: ({ revokedAtMs }) =>
        revokedAtMs === null ? "has no replaced key that works" : "is revoked, and its replaced keys with it",
      explain: (_context, { id: each, states, graceUntilMs }) => {
        if (states.includes("in-grace") && graceUntilMs !== null)
          io.note(`The replaced keys of ${each} work until ${formatTime(graceUntilMs)} at most.`);
      },
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
        return suspendKey(database, each, reason, options.replace === true, operator);
      },
      already: (key) => `is suspended already, ${suspensionText(key)}`,
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
      already: () => "is not suspended",
      make: (database, { id: each, suspensionReason }, operator) => {
        const { reason = null } = options;
        return resumeKey(database, each, reason && asRecorded(reason, suspensionReason), operator);
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
      already: () => "is revoked already",
      make: (database, key, operator) => revokeKey(database, key.id, operator),
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
      make: (database, key, operator) => unbanKey(database, key.id, operator),
      explain: (_context, { id: each, bannedUntilMs }) => {
        if (bannedUntilMs === null)
          io.note(`${each} is not banned, by what is recorded. A ban without a record would be lifted too.`);
      },
    }),
});
