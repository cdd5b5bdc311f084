// What the object of a busy key stores: not each change, but a reservation: its quota with more requests charged than it has admitted.
// What is stored covers changes that stay in memory. An object that starts again goes on from it, so a crash costs at most what was
// reserved, and admits nothing twice. Pure functions, and how busy a key is.

import { formatDate } from "../../lib/rfc3339.ts";
import { type Limits, room, shortest, shortestLimit, withLimits } from "../windows.ts";
import { charge, type Quota } from "./quota.ts";

/** What is reserved, as a share of the shortest window's limit. Larger: fewer rows; smaller: a crash costs less. 0: each change is stored. */
export const RESERVED_SHARE = 1 / 20;
/** At most this share of what is left. Larger: fewer rows at the end of a window; smaller: a crash there costs less. */
const LEFT_SHARE = 1 / 4;
/**
 * So many changes, or changes in so many milliseconds, have a lower revision than what is stored. More: a crash loses more refusals; fewer:
 * more rows of a key that is refused.
 */
const REVISIONS = 20_000;

/** The alarm looks so long after the last change that it knows of. Longer: fewer alarms; but Cloudflare lets an object sleep after 10 s. */
export const SETTLE_MS = 9_000;
/** The alarm stores the exact quota after so much time without a change, and otherwise looks again. Longer: more alarms; shorter: more rows. */
const QUIET_MS = 4_000;
/** A key with fewer changes in this time, as a moving average, stores each. Fewer: alarms that cost more than they save; more: rows. */
const BUSY_CHANGES = 5;
const BUSY_MS = 20_000;

/** The quota with a reservation: this share of the shortest window's limit, but at most LEFT_SHARE of what is left. */
export function reserve(quota: Quota, limits: Limits, share: number): Quota {
  const windows = withLimits(quota.counts, limits);
  const charged = Math.floor(Math.min(shortestLimit(windows) * share, room(windows) * LEFT_SHARE));
  const reserved = charge(quota, shortest(windows).startMs, { charged });
  return { ...reserved, revision: quota.revision + REVISIONS };
}

/** Whether an object that goes on from `stored` admits nothing again, and loses only the latest refusals, times and peaks. */
export function covers(stored: Quota, quota: Quota): boolean {
  // Leases that have come back. No call names them again, so the object would credit them again.
  let credit = 0;
  for (const [id, { lease }] of stored.isolates)
    if (lease !== undefined && quota.isolates.get(id)?.lease?.id !== lease.id)
      credit += lease.size - lease.used;
  const fits = Object.entries(quota.counts).every(([name, { startMs, used }]) => {
    const before = stored.counts[name];
    return before !== undefined && startMs === before.startMs && used + credit <= before.used;
  });
  // A late report changes an earlier day.
  const { days } = stored.totals;
  const today = formatDate(shortest(quota.counts).startMs);
  const isToday = quota.totals.days.every((day) => day.date === today || days.includes(day));
  // The revision of what is stored is that of an object that has started again.
  const isBelow = quota.revision < stored.revision && quota.bannedUntilMs === stored.bannedUntilMs;
  return isBelow && isToday && fits;
}

/** How often a quota changes. */
export class Activity {
  /** The time of the latest change (Unix time), and the average then. */
  #changedMs = 0;
  #changes = 0;

  noteChange(nowMs: number): void {
    this.#changes = 1 + this.#changes * Math.exp(-Math.abs(nowMs - this.#changedMs) / BUSY_MS);
    this.#changedMs = nowMs;
  }

  get isBusy(): boolean {
    return this.#changes >= BUSY_CHANGES;
  }

  isQuiet(nowMs: number): boolean {
    return Math.abs(nowMs - this.#changedMs) >= QUIET_MS;
  }

  /** When the alarm looks whether to store the exact quota (Unix time). */
  get settlesMs(): number {
    return this.#changedMs + SETTLE_MS;
  }
}
