// The usage of keys as the command line shows it, as text in plain characters without colours, and as JSON.

import { WINDOW_NAMES } from "../../src/keys/plans.ts";
import { USAGE_EVERY_MS } from "../../src/limits/index.ts";
import type { DayUsage, KeyUsage, Requests } from "../../src/operators/usage.ts";
import { printable, timeOrNull } from "../keys/text.ts";
import { tableText } from "../lib/table.ts";

/** For people: the objects of the keys write their counts by an alarm. */
export const AGE_NOTE = `The counts of today can be ${USAGE_EVERY_MS / 60_000} minutes old.`;

const BAR_LENGTH = 20;

/** Each column of counts of a day: its title, the character that draws it in a bar, and the counts. */
const PARTS: { title: string; mark: string; of: (used: Requests) => number }[] = [
  { title: "ADMITTED", mark: "#", of: ({ admitted }) => admitted },
  ...WINDOW_NAMES.map((name, index) => ({
    title: `${index === 0 ? "REFUSED " : ""}BY ${name.toUpperCase()}`,
    mark: "-x+*"[index] ?? ".",
    of: ({ refusedBy }: Requests) => refusedBy[name],
  })),
];
const TITLES = PARTS.map(({ title }) => title);

/** A line for each key. */
export function usageTable(keys: KeyUsage[]): string {
  const header = ["ID", "NAME", "PLAN", ...TITLES, "SHARE", "LAST USED"];
  const rows = keys.map((used) => {
    const { id, name, plan, share, lastAdmittedMs, lastRefusedMs } = used;
    return [
      id,
      printable(name ?? "-"),
      plan ?? "-",
      ...PARTS.map(({ of }) => withSeparators(of(used))),
      share === null ? "-" : share.toLocaleString("en", { style: "percent", maximumFractionDigits: 1 }),
      timeOrNull(Math.max(lastAdmittedMs ?? 0, lastRefusedMs ?? 0) || null) ?? "-",
    ];
  });
  return tableText(
    [header, ...rows],
    [...PARTS, "share"].map((_, index) => 3 + index),
  );
}

/** A line for each day, with its counts and a bar, scaled to the busiest day. */
export function daysTable(days: DayUsage[]): string {
  // A correction can make a count negative.
  const countsOf = (day: DayUsage) => PARTS.map(({ of }) => Math.max(0, of(day)));
  const max = Math.max(1, ...days.map((day) => countsOf(day).reduce((sum, count) => sum + count)));
  const rows = days.map((day) => {
    // Rounded up, so that small counts are visible.
    const bars = countsOf(day).map((count) => Math.ceil((count / max) * BAR_LENGTH));
    const bar = PARTS.map(({ mark }, index) => mark.repeat(bars[index] ?? 0)).join("");
    return [day.date, ...PARTS.map(({ of }) => withSeparators(of(day))), bar];
  });
  const header = ["DATE", ...PARTS.map(({ title, mark }) => `${title} ${mark}`), ""];
  return tableText(
    [header, ...rows],
    PARTS.map((_, index) => 1 + index),
  );
}

/** A key or a day in the output of `--json`. */
export function usageJson<Used extends Pick<Requests, "lastAdmittedMs" | "lastRefusedMs">>({
  lastAdmittedMs,
  lastRefusedMs,
  ...used
}: Used) {
  return {
    ...used,
    lastAdmittedAt: timeOrNull(lastAdmittedMs),
    lastRefusedAt: timeOrNull(lastRefusedMs),
  };
}

/** `1,000` */
export function withSeparators(value: number): string {
  return value.toLocaleString("en");
}
