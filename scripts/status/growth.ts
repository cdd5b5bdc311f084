// How fast a database grows, from its recorded sizes.

import { DAY_MS } from "../../src/limits/index.ts";

/** `bytes` at the first measurement of a UTC day, such as `2026-11-20`. */
export interface DaySize {
  day: string;
  bytes: number;
}

/** On average in `days`; negative if the database has shrunk. */
export interface Growth {
  bytesPerDay: number;
  days: number;
}

/** The growth from the first to the last of these days, which are in order; undefined for fewer than two. Days may be missing between them. */
export function growthOf(sizes: DaySize[]): Growth | undefined {
  const [first, last] = [sizes[0], sizes.at(-1)];
  if (first === undefined || last === undefined || first === last) return undefined;
  const days = (Date.parse(last.day) - Date.parse(first.day)) / DAY_MS;
  return { bytesPerDay: (last.bytes - first.bytes) / days, days };
}

/** In how many whole days a database of `bytes` has `maxBytes` at this growth; null if it never has. */
export function daysUntil(maxBytes: number, bytes: number, bytesPerDay: number): number | null {
  if (bytes >= maxBytes) return 0;
  return bytesPerDay > 0 ? Math.floor((maxBytes - bytes) / bytesPerDay) : null;
}
