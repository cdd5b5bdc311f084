// Reads what the arguments of `npm run keys` say about a key. Each function throws UsageError.

import type { NewKey } from "../../src/keys/admin.ts";
import { MAX_LIMIT, PLAN_LIMITS, type Plan } from "../../src/rate-limit/plans.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { UsageError } from "../lib/command.ts";

/** RFC 3339 has no later years; a time with an offset can fall into one. */
const YEAR_10000_MS = Date.UTC(10_000, 0);

/** 30 days. */
export const MAX_GRACE_SECONDS = 30 * 86_400;

const ID = /^key_[0-9A-Za-z]{12}$/;

export interface KeyValues {
  name?: string | undefined;
  plan?: string | undefined;
  "per-minute"?: string | undefined;
  "per-day"?: string | undefined;
  expires?: string | undefined;
  grace?: string | undefined;
}

export function readNewKey(values: KeyValues, nowMs: number): NewKey {
  const { name, expires } = values;
  if (name === undefined) throw new UsageError("--name is missing: give the name of the key's owner");
  const length = [...name].length;
  if (length < 1 || length > 255 || !name.isWellFormed())
    throw new UsageError("--name must be 1 to 255 characters");
  const plan = readPlan("--plan", values.plan);
  const expiresAtMs = expires === undefined ? null : readExpiry(expires, nowMs);
  const limits = readLimits(plan, values);
  return { name, plan, expiresAtMs, ...(limits && { limits }) };
}

/** The message does not repeat the argument, which may be a secret. */
export function readId(text: string | undefined, command: string): string {
  if (text === undefined) throw new UsageError(`${command} needs the ID of a key: see npm run keys -- list`);
  if (ID.test(text)) return text;
  throw new UsageError(
    "ID must be a key's public ID, such as key_0123456789Ab, never the key itself: see npm run keys -- list",
  );
}

/** `argument` is the argument's name in the message. */
export function readPlan(argument: string, text: string | undefined): Plan {
  if (text !== undefined && Object.hasOwn(PLAN_LIMITS, text)) return text as Plan;
  throw new UsageError(`${argument} must be one of ${Object.keys(PLAN_LIMITS).join(", ")}`);
}

/** The limits of an enterprise key; undefined for the other plans, whose limits are fixed. */
export function readLimits(plan: Plan, values: KeyValues): Limits | undefined {
  const { "per-minute": perMinute, "per-day": perDay } = values;
  if (plan !== "enterprise") {
    if (perMinute === undefined && perDay === undefined) return undefined;
    throw new UsageError(`--per-minute and --per-day are for enterprise only: ${plan} has fixed limits`);
  }
  if (perMinute === undefined || perDay === undefined) {
    throw new UsageError("enterprise needs --per-minute and --per-day: it has no default limits");
  }
  return { minute: readLimit("--per-minute", perMinute), day: readLimit("--per-day", perDay) };
}

/** In milliseconds. */
export function readGrace(text = "0"): number {
  const seconds = /^[0-9]{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (seconds <= MAX_GRACE_SECONDS) return seconds * 1000;
  throw new UsageError(`--grace must be a number of seconds from 0 to ${MAX_GRACE_SECONDS} (30 days)`);
}

function readLimit(option: string, text: string): number {
  const limit = /^[0-9]{1,10}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MAX_LIMIT)
    throw new UsageError(`${option} must be a number from 1 to ${MAX_LIMIT}`);
  return limit;
}

function readExpiry(text: string, nowMs: number): number {
  const expiresAtMs = parseTime(text);
  if (expiresAtMs === undefined) {
    throw new UsageError(
      "--expires must be a date such as 2027-01-31 or a time such as 2027-01-31T12:00:00Z",
    );
  }
  if (expiresAtMs <= nowMs) throw new UsageError(`--expires must be in the future, got ${text}`);
  return expiresAtMs;
}

/** The Unix time of a UTC date or an RFC 3339 time, in milliseconds; undefined if `text` is neither. */
export function parseTime(text: string): number | undefined {
  const [, date, timeOfDay = "T00:00:00Z"] =
    text
      .toUpperCase()
      .match(/^(\d{4}-\d{2}-\d{2})(T(?!24)\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2}))?$/) ?? [];
  if (date === undefined) return undefined;
  const timeMs = Date.parse(date + timeOfDay);
  // Date.parse takes 31 February for 3 March.
  const exists = new Date(Date.parse(`${date}T00:00:00Z`)).getUTCDate() === Number(date.slice(8));
  // NaN fails this comparison too.
  return exists && timeMs < YEAR_10000_MS ? timeMs : undefined;
}
