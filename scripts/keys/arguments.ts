// The arguments and options of `npm run keys`, and how each is read.

import { userInfo } from "node:os";
import { Argument, InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { MAX_LIMIT, PLANS, PLANS_WITH_OWN_LIMITS, type Plan } from "../../src/keys/plans.ts";
import { withoutSecrets } from "../../src/keys/secret.ts";
import { EXPIRING_DAYS, LIST_ORDERS, LIST_STATES, type ListQuery } from "../../src/operators/records.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { TARGET_OPTIONS, type TargetOptions } from "../cloudflare/target.ts";
import { integer, matching, UsageError } from "../lib/command.ts";
import { parseTime } from "../lib/time.ts";

export const PAGE_SIZE = 50;
export const MAX_GRACE_DAYS = 30;
/** Keys of one command, and lines of one page. */
export const MAX_COUNT = 100_000;
const MANY = integer(1, MAX_COUNT);
const WITH_OWN_LIMITS = PLANS_WITH_OWN_LIMITS.join(" and ");

const keyId = matching(
  /^key_[0-9A-Za-z]{12}$/,
  "It must be a public ID such as key_0123456789Ab, as npm run keys -- list shows it, never the key itself.",
);
export const ID = new Argument("<id>", "the key's public ID").argParser(keyId);
export const ANY_ID = new Argument("[id]", "the key's public ID; without it, all keys").argParser(keyId);
export const NAME = new Argument("<name>", "the new name").argParser(keyName);
export const PLAN = new Argument("<plan>", "the new plan").choices(PLANS);
export const DATE = new Argument(
  "<date>",
  'the UTC day whose beginning ends the key, a time, or "never"',
).argParser<number | null>((text) => (text === "never" ? null : expiry(text, ", or never")));

/** The options of every subcommand. */
export const COMMON = [...TARGET_OPTIONS, new Option("--json", "print one JSON value")];
/** The options of a subcommand that changes a key. */
export const CHANGE = [
  ...COMMON,
  new Option("--by <name>", "who makes the change, for the record (default: your login name)").argParser(
    changedBy,
  ),
];
const LIMITS = [
  new Option("--per-minute <n>", `requests per minute, for ${WITH_OWN_LIMITS}`).argParser(
    integer(1, MAX_LIMIT),
  ),
  new Option("--per-day <n>", `requests per day, for ${WITH_OWN_LIMITS}`).argParser(integer(1, MAX_LIMIT)),
];
const JSON_LINES = new Option("--json-lines", "print one JSON value per line").conflicts("json");
const YES = new Option("--yes", "don't ask");

export const CREATE = [
  new Option("--name <name>", "the owner's name").argParser(keyName).makeOptionMandatory(),
  new Option("--plan <plan>", "the plan").choices(PLANS).makeOptionMandatory(),
  ...LIMITS,
  new Option("--expires <date>", "when the key ends: the beginning of a UTC day, or a time").argParser(
    expiry,
  ),
  new Option("--count <n>", "how many keys, with numbered names; --json-lines prints them as they are made")
    .argParser(MANY)
    .default(1),
  ...CHANGE,
  JSON_LINES,
];
export const LIST = [
  new Option(
    "--search <text>",
    "a part of the name or the ID, or the last four characters of the key",
  ).argParser(matching(/^(?!--)/, "It looks like an option.")),
  new Option("--plan <plan>", "only this plan").choices(PLANS),
  new Option("--state <state>", `only this state; expiring is within ${EXPIRING_DAYS} days`).choices(
    LIST_STATES,
  ),
  new Option("--sort <order>", "the order").choices(LIST_ORDERS).default("created"),
  new Option("--limit <n>", `keys per page (default: ${PAGE_SIZE}; all with --json)`).argParser(MANY),
  new Option("--page <n>", "the page (default: 1)").argParser(MANY),
  ...COMMON,
  JSON_LINES,
];
export const LOG = [
  new Option("--limit <n>", "how many, the latest first").argParser(MANY).default(PAGE_SIZE),
  ...COMMON,
];
export const SET_PLAN = [...LIMITS, ...CHANGE];
export const REVOKE = [...CHANGE, YES];
export const ROTATE = [
  new Option("--grace <seconds>", `how long the old key keeps working, up to ${MAX_GRACE_DAYS} days`)
    .argParser(integer(0, MAX_GRACE_DAYS * 86_400))
    .default(0),
  ...REVOKE,
];

export interface Options extends TargetOptions {
  json?: true;
  jsonLines?: true;
  by?: string;
  yes?: true;
}

export interface LimitOptions extends Options {
  perMinute?: number;
  perDay?: number;
}

export interface CreateOptions extends LimitOptions {
  name: string;
  plan: Plan;
  expires?: number;
  count: number;
}

export type ListOptions = Options & ListQuery & { page?: number };

/** The limits of the key's own; undefined for a plan whose limits are fixed. Throws UsageError. */
export function readLimits(plan: Plan, { perMinute, perDay }: LimitOptions): Limits | undefined {
  if (!PLANS_WITH_OWN_LIMITS.includes(plan)) {
    if (perMinute === undefined && perDay === undefined) return undefined;
    throw new UsageError(
      `--per-minute and --per-day are for ${WITH_OWN_LIMITS} only: ${plan} has fixed limits`,
    );
  }
  if (perMinute !== undefined && perDay !== undefined) return { minute: perMinute, day: perDay };
  throw new UsageError(`${plan} needs --per-minute and --per-day: it has no default limits`);
}

/** The login name, where there is one. */
export function loginName(): string {
  try {
    return userInfo().username;
  } catch {
    return "unknown";
  }
}

function keyName(text: string): string {
  // commander takes the next word as the value, also if it is an option.
  if (text.startsWith("--")) throw new InvalidArgumentError("It must be a name, and looks like an option.");
  if (withoutSecrets(text) !== text) throw new InvalidArgumentError("It must not contain an API key.");
  const { length } = [...text];
  if (length >= 1 && length <= 255 && text.isWellFormed()) return text;
  throw new InvalidArgumentError("It must be 1 to 255 characters.");
}

function changedBy(text: string): string {
  if (/^(?!--)[^\p{Cc}]{1,100}$/u.test(text) && withoutSecrets(text) === text) return text;
  throw new InvalidArgumentError("It must be 1 to 100 characters, and no API key.");
}

/** The end of a key (Unix time in milliseconds). */
function expiry(text: string, orElse: unknown): number {
  const expiresAtMs = parseTime(text);
  if (expiresAtMs === undefined) {
    const more = typeof orElse === "string" ? orElse : "";
    throw new InvalidArgumentError(
      `It must be a UTC date such as 2027-01-31, a time such as 2027-01-31T12:00:00Z${more}.`,
    );
  }
  if (expiresAtMs > Date.now()) return expiresAtMs;
  throw new InvalidArgumentError("It must be in the future.");
}
