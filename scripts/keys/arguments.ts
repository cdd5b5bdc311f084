// The arguments of `npm run keys`: how each is read, and the options that several subcommands have.

import { userInfo } from "node:os";
import { type Command, InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { MAX_LIMIT, PLAN_LIMITS, type Plan } from "../../src/rate-limit/plans.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { withTargetOptions } from "../cloudflare/target.ts";
import { integer, matching, UsageError } from "../lib/command.ts";
import { parseTime } from "../lib/time.ts";

/** 30 days. */
const MAX_GRACE_SECONDS = 30 * 86_400;

export const PLANS = Object.keys(PLAN_LIMITS) as Plan[];

export const keyId = matching(
  /^key_[0-9A-Za-z]{12}$/,
  "It must be a key's public ID, such as key_0123456789Ab, never the key itself: see npm run keys -- list.",
);

export const graceSeconds = integer(0, MAX_GRACE_SECONDS);

/** The options of every subcommand. */
export function withCommonOptions<Args extends unknown[], Opts extends Record<string, unknown>>(
  command: Command<Args, Opts>,
) {
  return withTargetOptions(command).option("--json", "print one JSON value");
}

/** The options of a subcommand that changes a key. */
export function withChangeOptions<Args extends unknown[], Opts extends Record<string, unknown>>(
  command: Command<Args, Opts>,
) {
  return withCommonOptions(command).option(
    "--by <name>",
    "who makes the change, for the record (default: your login name)",
    changedBy,
  );
}

/** The options of a subcommand that sets a plan. */
export function withLimitOptions<Args extends unknown[], Opts extends Record<string, unknown>>(
  command: Command<Args, Opts>,
) {
  return command
    .addOption(
      new Option("--per-minute <n>", "requests per minute, of an enterprise key").argParser(
        integer(1, MAX_LIMIT),
      ),
    )
    .addOption(
      new Option("--per-day <n>", "requests per day, of an enterprise key").argParser(integer(1, MAX_LIMIT)),
    );
}

/** The limits of an enterprise key; undefined for the other plans, whose limits are fixed. */
export function readLimits(
  plan: Plan,
  { perMinute, perDay }: { perMinute?: number | undefined; perDay?: number | undefined },
): Limits | undefined {
  if (plan !== "enterprise") {
    if (perMinute === undefined && perDay === undefined) return undefined;
    throw new UsageError(`--per-minute and --per-day are for enterprise only: ${plan} has fixed limits`);
  }
  if (perMinute === undefined || perDay === undefined) {
    throw new UsageError("enterprise needs --per-minute and --per-day: it has no default limits");
  }
  return { minute: perMinute, day: perDay };
}

export function keyName(text: string): string {
  // The shell passes on what follows, also if the name was forgotten.
  if (text.startsWith("--")) throw new InvalidArgumentError("It must be a name, and looks like an option.");
  const { length } = [...text];
  if (length >= 1 && length <= 255 && text.isWellFormed()) return text;
  throw new InvalidArgumentError("It must be 1 to 255 characters.");
}

/** The end of a key (Unix time in milliseconds). */
export function expiry(text: string): number {
  const expiresAtMs = parseTime(text);
  if (expiresAtMs === undefined) {
    throw new InvalidArgumentError(
      "It must be a UTC date such as 2027-01-31, whose beginning is meant, or a time such as 2027-01-31T12:00:00Z.",
    );
  }
  if (expiresAtMs > Date.now()) return expiresAtMs;
  throw new InvalidArgumentError("It must be in the future.");
}

/** As `expiry`, or null for `never`. */
export function expiryOrNever(text: string): number | null {
  return text === "never" ? null : expiry(text);
}

/** The login name, where there is one. */
export function loginName(): string {
  try {
    return userInfo().username;
  } catch {
    return "unknown";
  }
}

function changedBy(text: string): string {
  if (/^[^\p{Cc}]{1,100}$/u.test(text) && !text.startsWith("--")) return text;
  throw new InvalidArgumentError("It must be 1 to 100 characters.");
}
