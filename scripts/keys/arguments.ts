// What an operator says about a key on the command line, read into values. Every wrong use is a UsageError.

import type { NewKey } from "../../src/keys/admin.ts";
import { MAX_LIMIT, PLAN_LIMITS, type Plan } from "../../src/rate-limit/plans.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { UsageError } from "../cloudflare/target.ts";

/** RFC 3339 ends here; an offset can lead beyond. */
const YEAR_10000_MS = Date.UTC(10_000, 0);

/** A month: a grace that is never over is no rotation. */
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

/** What `create` asks for. */
export function readNewKey(values: KeyValues, nowMs: number): NewKey {
  const { name, expires } = values;
  if (name === undefined) throw new UsageError("--name is missing: say whose key it is");
  const length = [...name].length;
  if (length < 1 || length > 255 || !name.isWellFormed())
    throw new UsageError("--name must be 1 to 255 characters");
  const plan = readPlan("--plan", values.plan);
  const expiresAtMs = expires === undefined ? null : readDate(expires, nowMs);
  const limits = readLimits(plan, values);
  return { name, plan, expiresAtMs, ...(limits && { limits }) };
}

/** The id of a key. What looks like a secret is not repeated: it would stay in the terminal's memory. */
export function readId(text: string | undefined, command: string): string {
  if (text === undefined) throw new UsageError(`${command} needs the ID of a key: see npm run keys -- list`);
  if (ID.test(text)) return text;
  throw new UsageError(
    "the ID must be a key's public id, such as key_0123456789Ab, never the key itself: see npm run keys -- list",
  );
}

/** A plan, where `what` names the argument. */
export function readPlan(what: string, text: string | undefined): Plan {
  if (text !== undefined && isPlan(text)) return text;
  throw new UsageError(`${what} must be one of ${Object.keys(PLAN_LIMITS).join(", ")}`);
}

/** The limits of an enterprise key; undefined for the other plans, which have their own. */
export function readLimits(plan: Plan, values: KeyValues): Limits | undefined {
  const { "per-minute": perMinute, "per-day": perDay } = values;
  if (plan !== "enterprise") {
    if (perMinute === undefined && perDay === undefined) return undefined;
    throw new UsageError(`--per-minute and --per-day belong to enterprise: the limits of ${plan} are fixed`);
  }
  if (perMinute === undefined || perDay === undefined) {
    throw new UsageError("enterprise needs --per-minute and --per-day: its limits are agreed per key");
  }
  return { minute: readLimit("--per-minute", perMinute), day: readLimit("--per-day", perDay) };
}

/** Milliseconds for which a replaced secret stays good: none if nothing is said. */
export function readGrace(text = "0"): number {
  const seconds = /^[0-9]{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (seconds <= MAX_GRACE_SECONDS) return seconds * 1000;
  throw new UsageError(
    `--grace must be a number of seconds from 0 to ${MAX_GRACE_SECONDS}, which is 30 days`,
  );
}

function isPlan(text: string): text is Plan {
  return Object.hasOwn(PLAN_LIMITS, text);
}

function readLimit(option: string, text: string): number {
  const limit = /^[0-9]{1,10}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MAX_LIMIT)
    throw new UsageError(`${option} must be a number from 1 to ${MAX_LIMIT}`);
  return limit;
}

/** The instant of a UTC date or an RFC 3339 time, which must lie ahead. */
function readDate(text: string, nowMs: number): number {
  const expiresAtMs = instantOf(text);
  if (expiresAtMs === undefined) {
    throw new UsageError(
      "--expires must be a date such as 2027-01-31 or a time such as 2027-01-31T12:00:00Z",
    );
  }
  if (expiresAtMs <= nowMs) throw new UsageError(`--expires must lie ahead, and ${text} does not`);
  return expiresAtMs;
}

/** The instant (Unix time) of a UTC date or an RFC 3339 time; undefined if `text` is none. */
export function instantOf(text: string): number | undefined {
  const [, date, timeOfDay = "T00:00:00Z"] =
    text
      .toUpperCase()
      .match(/^(\d{4}-\d{2}-\d{2})(T(?!24)\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2}))?$/) ?? [];
  if (date === undefined) return undefined;
  const instantMs = Date.parse(date + timeOfDay);
  // Date.parse takes 31 February for 3 March.
  const exists = new Date(Date.parse(`${date}T00:00:00Z`)).getUTCDate() === Number(date.slice(8));
  // NaN is not less than anything.
  return exists && instantMs < YEAR_10000_MS ? instantMs : undefined;
}
