// What the alarm of a key's object has to write for operators: a ban, at once, and the totals of days, at most once in ten minutes. No request
// waits for it, and a ban does not depend on it. The object stores what is not written yet, so a crash loses none.

import type { Quota } from "./quota.ts";
import type { Totals } from "./totals.ts";

/** The least time between two writes of usage, also of failed ones. Longer: fewer writes; shorter: more recent figures. */
export const USAGE_EVERY_MS = 600_000;
/** From the first change on. Longer: a burst is written once; shorter: a key's first requests show earlier. */
const USAGE_DELAY_MS = 60_000;
/** After a failed write of a ban, until the ban ends. */
const BAN_PAUSE_MS = 30_000;

export const NEVER = Number.POSITIVE_INFINITY;

/** What is not written yet. All times are Unix time. */
export interface Unwritten {
  /** When the ban is to be written, or NEVER. */
  banMs: number;
  /** The dates of the days that have changed since they were written. */
  days: readonly string[];
  /** When they are due, or when the next write of usage may be. */
  usageMs: number;
}

export const NOTHING_UNWRITTEN: Unwritten = { banMs: NEVER, days: [], usageMs: 0 };

/** When the alarm is due (Unix time): `otherwiseMs` if all usage is written. */
export function alarmMs({ banMs, days, usageMs }: Unwritten, otherwiseMs = NEVER): number {
  return Math.min(banMs, days.length > 0 ? usageMs : otherwiseMs);
}

/** Whether the platform has given up the alarm, as it does after several failures. */
export function isOverdue(unwritten: Unwritten, nowMs: number): boolean {
  return alarmMs(unwritten) < nowMs - USAGE_EVERY_MS;
}

export function afterChange(
  { banMs, days, usageMs }: Unwritten,
  before: Quota,
  { bannedUntilMs, totals }: Quota,
  nowMs: number,
): Unwritten {
  // On a new day all days are due, because a restore of the database may have lost some.
  const isNewDay = !before.totals.days.some(({ date }) => date === totals.days.at(-1)?.date);
  const due = isNewDay ? totals.days.map(({ date }) => date) : changedDays(before.totals, totals);
  const changed = due.filter((each) => !days.includes(each));
  // A day that the totals have forgotten can't be written.
  const kept = days.filter((each) => totals.days.some(({ date }) => date === each));
  const nextMs = days.length > 0 ? usageMs : Math.max(usageMs, nowMs + USAGE_DELAY_MS);
  return {
    banMs: bannedUntilMs > before.bannedUntilMs ? nowMs : banMs,
    days: [...kept, ...changed],
    // The bound is for a clock that has stepped back.
    usageMs: Math.min(nextMs, nowMs + USAGE_EVERY_MS),
  };
}

/** After an attempt to write the ban. Nothing is left of one that is over. */
export function afterBan(unwritten: Unwritten, isWritten: boolean, nowMs: number): Unwritten {
  return { ...unwritten, banMs: isWritten ? NEVER : nowMs + BAN_PAUSE_MS };
}

/** After an attempt to write usage: `written` are the days that were, of the totals `before`, which have become `after` meanwhile. */
export function afterUsage(
  { banMs, days }: Unwritten,
  written: readonly string[],
  before: Totals,
  after: Totals,
  nowMs: number,
): Unwritten {
  const changed = changedDays(before, after);
  const left = days.filter((each) => !written.includes(each) || changed.includes(each));
  return { banMs, days: left, usageMs: nowMs + USAGE_EVERY_MS };
}

/** The days that differ: each change makes a new object. */
function changedDays(before: Totals, after: Totals): string[] {
  return after.days.filter((each) => !before.days.includes(each)).map(({ date }) => date);
}
