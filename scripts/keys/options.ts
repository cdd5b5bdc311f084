// Arguments and options that commands on keys share, and how each is read.

import { userInfo } from "node:os";
import { InvalidArgumentError } from "commander";
import {
  forEachWindow,
  type Limits,
  PLANS,
  PLANS_WITH_OWN_LIMITS,
  type Plan,
  WINDOW_NAMES,
  type WindowName,
} from "../../src/keys/plans.ts";
import { withoutSecrets } from "../../src/keys/secret.ts";
import { MAX_LIMIT } from "../../src/limits/index.ts";
import { TARGET_OPTIONS } from "../cloudflare/target.ts";
import { integer, matching, type OptionValues } from "../lib/command.ts";
import { UsageError } from "../lib/io.ts";
import { parseTime } from "../lib/time.ts";
import { capitalize, clipped, listOf, MAX_NAME_LENGTH } from "./text.ts";

export const PAGE_SIZE = 50;
/** Keys of one command, and lines of one page. */
export const MAX_COUNT = 100_000;
export const MANY = integer(1, MAX_COUNT);
export const LIMIT = integer(1, MAX_LIMIT);
const WITH_OWN_LIMITS = PLANS_WITH_OWN_LIMITS.join(" and ");

/** Of a rotation: how long the old key can go on. */
export const MAX_GRACE_DAYS = 30;

/** For examples. */
export const AN_ID = "key_0123456789Ab";

export const keyId = matching(
  /^key_[0-9A-Za-z]{12}$/,
  `It must be a public ID such as ${AN_ID}, as keys list shows it, never the key itself.`,
);

/** Stands for the IDs on standard input. */
export const STDIN = "-";

export const ID = { name: "id", description: "the key's public ID", parse: keyId } as const;
export const IDS = {
  name: "id",
  description: `the key's public ID; ${STDIN} reads IDs from standard input, one a line`,
  parse: (text: string) => (text === STDIN ? STDIN : keyId(text)),
} as const;
export const PLAN = { description: "the plan", choices: PLANS } as const;

/** The options of every command on keys. */
export const COMMON = { ...TARGET_OPTIONS, json: { description: "print one JSON value" } } as const;
/** The options of a command that changes a key. */
export const CHANGE = {
  ...COMMON,
  by: {
    placeholder: "name",
    description: "who makes the change, for the record (default: your login name)",
    parse: recordedText,
  },
} as const;
/** The options of a command that changes the keys of IDS. */
export const CHANGE_SEVERAL = {
  ...CHANGE,
  yes: { description: "don't ask; without it, - only says what it would change" },
} as const;
/** `perMinute`: the option `--per-minute`, and the field in JSON. */
export const limitName = <Name extends WindowName>(name: Name) =>
  `per${capitalize(name)}` as `per${Capitalize<Name>}`;

type LimitOption = { placeholder: "n"; description: string; parse: typeof LIMIT };
/** An option for the limit of each window. */
export const LIMITS = Object.fromEntries(
  WINDOW_NAMES.map((name) => {
    const description = `requests per ${name}, for ${WITH_OWN_LIMITS}`;
    return [limitName(name), { placeholder: "n", description, parse: LIMIT }];
  }),
) as Record<`per${Capitalize<WindowName>}`, LimitOption>;

/** The words of the options for these limits. */
export const limitWords = (limits: Limits | undefined): string[] =>
  WINDOW_NAMES.flatMap((name) => (limits ? [`--per-${name}`, `${limits[name]}`] : []));

/** The limits of the key's own; undefined for a plan whose limits are fixed. `names`: what people call them. Throws UsageError. */
export function agreedLimits(
  plan: Plan,
  given: Record<WindowName, number | undefined>,
  names: string[],
): Limits | undefined {
  const values = Object.values(given);
  const all = listOf(names);
  if (!PLANS_WITH_OWN_LIMITS.includes(plan)) {
    if (values.every((each) => each === undefined)) return undefined;
    throw new UsageError(`${all} are for ${WITH_OWN_LIMITS} only: ${plan} has fixed limits`);
  }
  if (values.every((each) => each !== undefined)) return given as Limits;
  throw new UsageError(`${plan} needs ${all}: it has no default limits`);
}

export function readLimits(plan: Plan, options: OptionValues<typeof LIMITS>): Limits | undefined {
  const given = forEachWindow((name) => options[limitName(name)]);
  return agreedLimits(
    plan,
    given,
    WINDOW_NAMES.map((name) => `--per-${name}`),
  );
}

/** Why a limit can't be reached: a shorter window has a larger one. */
export function smallerLimit(limits: Limits): string | undefined {
  for (const [index, longer] of WINDOW_NAMES.entries())
    for (const shorter of WINDOW_NAMES.slice(0, index))
      if (limits[longer] < limits[shorter])
        return `the ${longer}'s limit (${limits[longer]}) is smaller than the ${shorter}'s (${limits[shorter]})`;
  return undefined;
}

/** The login name, where there is one. */
export function loginName(): string {
  try {
    return userInfo().username;
  } catch {
    return "unknown";
  }
}

/** Parses the name of a key. */
export const keyName = (text: string) => notFormula(recordedText(text));

/** Longer: notes that belong into another system; shorter: less than a sentence. */
const MAX_NOTE_LENGTH = 200;
export const NOTE = {
  placeholder: "text",
  description: `a text about the customer, up to ${MAX_NOTE_LENGTH} characters`,
  parse: (text: string) => notFormula(recordedText(text, MAX_NOTE_LENGTH)),
} as const;

const REF_FORM = "1 to 64 visible ASCII characters, the first a letter or a digit";
export const REF = {
  placeholder: "ref",
  description: `the customer's ID in a system of yours: ${REF_FORM}`,
  parse: (text: string) => {
    const ref = text.trim();
    // No spreadsheet takes it for a formula.
    if (!/^[0-9A-Za-z][!-~]{0,63}$/.test(ref)) throw new InvalidArgumentError(`It must be ${REF_FORM}.`);
    // A spreadsheet writes a long number like this, the same for several.
    if (/^\d+([.,]\d+)?E[+-]?\d+$/i.test(ref))
      throw new InvalidArgumentError("It looks like a number that a spreadsheet has rounded.");
    return recordedText(ref);
  },
} as const;

/** Parses a value, or null for the empty text. */
export const orNone = <Value>(parse: (text: string) => Value) => {
  return (text: string) => (text === "" ? null : parse(text));
};

/** Spreadsheets write the value of a formula, so a formula is a mistake. */
function notFormula(text: string): string {
  if (text.startsWith("=")) throw new InvalidArgumentError("It looks like a formula.");
  return text;
}

/** Parses a text for the record of changes: who makes one, or why. Returns it without blanks around it. */
export function recordedText(text: string, maxLength = MAX_NAME_LENGTH): string {
  // commander takes the next word as the value, also if it is an option.
  if (text.startsWith("--")) throw new InvalidArgumentError("It looks like an option.");
  if (withoutSecrets(text) !== text) throw new InvalidArgumentError("It must not contain an API key.");
  const characters = [...text.trim()];
  const { length } = characters;
  if (length < 1 || length > maxLength || !text.isWellFormed())
    throw new InvalidArgumentError(
      `It must be 1 to ${maxLength} characters, not counting blanks around them.`,
    );
  const trimmed = characters.join("");
  const shown = [...clipped(trimmed, maxLength)];
  const hidden = characters.find((character, index) => character !== shown[index])?.codePointAt(0);
  if (hidden === undefined) return trimmed;
  const code = hidden.toString(16).toUpperCase().padStart(4, "0");
  throw new InvalidArgumentError(`It must have printable characters only, and has U+${code}.`);
}

/** Parses the beginning of a UTC day, or a time (Unix time in milliseconds). `other`: what else a text can be. */
export function time(text: string, other = ""): number {
  const timeMs = parseTime(text);
  if (timeMs !== undefined) return timeMs;
  const forms = `a UTC date such as 2027-01-31, a time such as 2027-01-31T12:00:00Z${other}`;
  throw new InvalidArgumentError(`It must be ${forms}.`);
}

/** Parses the end of a key: null for never. */
export function expiry(text: string): number | null {
  if (text.toLowerCase() === "never") return null;
  const expiresAtMs = time(text, ", or never");
  if (expiresAtMs > Date.now()) return expiresAtMs;
  throw new InvalidArgumentError("It must be in the future.");
}
