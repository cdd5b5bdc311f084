// The usage of keys as the command line shows it: the columns of its reports, in plain characters without colours.

import { SHORT_WINDOWS, shortLimitsText, WINDOW_NAMES } from "../../src/keys/plans.ts";
import { USAGE_EVERY_MS } from "../../src/limits/index.ts";
import type { DayUsage, KeyDayUsage, KeyUsage, MarkedDayUsage, Requests } from "../../src/operators/usage.ts";
import { type Column, percent, timeOrNull } from "../lib/report.ts";

/** For people: the objects of the keys write their counts by an alarm. */
export const AGE_NOTE = `The counts of today can be ${USAGE_EVERY_MS / 60_000} minutes old.`;

const BAR_LENGTH = 20;

/** The counts of a day, each with the character that draws it in a bar. */
const COUNTS: { title: string; csv: string; mark: string; of(used: Requests): number }[] = [
  { title: "ADMITTED", csv: "admitted", mark: "#", of: ({ admitted }) => admitted },
  ...WINDOW_NAMES.map((name, index) => ({
    title: `${index === 0 ? "REFUSED " : ""}BY ${name.toUpperCase()}`,
    csv: `refused_by_${name}`,
    mark: "-x+*"[index] ?? ".",
    of: ({ refusedBy }: Requests) => refusedBy[name],
  })),
];
const busiest = (name: string): Column<Requests> => ({
  csv: `busiest_${name}`,
  of: (used) => used.busiest[name] ?? null,
});
const DATE: Column<DayUsage> = { title: "DATE", csv: "date", of: ({ date }) => date };
const WHO: Column<Pick<KeyUsage, "id" | "name" | "ref" | "note">>[] = [
  { title: "ID", csv: "id", of: ({ id }) => id },
  { title: "NAME", csv: "name", of: ({ name }) => name },
  { title: "REF", csv: "ref", of: ({ ref }) => ref ?? "" },
  { csv: "note", of: ({ note }) => note },
];
const PLAN: Column<Pick<KeyUsage, "plan">> = { title: "PLAN", csv: "plan", of: ({ plan }) => plan };

/** A key on some days. */
export const USAGE_COLUMNS: Column<KeyUsage>[] = [
  ...WHO,
  {
    ...PLAN,
    text: ({ plan, limits }) => `${plan ?? "-"}${limits === null ? "" : ` ${shortLimitsText(limits)}`}`,
  },
  ...WINDOW_NAMES.map((name): Column<KeyUsage> => {
    return { csv: `per_${name}`, of: ({ limits }) => limits?.[name] ?? null };
  }),
  ...COUNTS,
  ...SHORT_WINDOWS.map((name) => ({ ...busiest(name), title: `BUSIEST ${name.toUpperCase()}` })),
  ...WINDOW_NAMES.map(
    (name, index): Column<KeyUsage> => ({
      title: `${index === 0 ? "DAYS " : ""}AT ${name.toUpperCase()} LIMIT`,
      csv: `days_at_limit_per_${name}`,
      of: ({ daysAtLimit }) => daysAtLimit[name],
    }),
  ),
  ...WINDOW_NAMES.map(
    (name): Column<KeyUsage> => ({ csv: `sent_per_${name}`, of: ({ sent }) => sent[name] }),
  ),
  {
    title: "SHARE",
    csv: "share_of_day",
    of: ({ share }) => share,
    text: ({ share }) => (share === null ? "-" : percent(share)),
  },
  { title: "ENOUGH", csv: "enough", of: ({ enough }) => enough },
  { title: "LAST USED", csv: "last_used", of: (used) => timeOrNull(lastUsedMs(used)) },
];

/** A key on a day. */
export const KEY_DAY_COLUMNS: Column<KeyDayUsage>[] = [
  ...[DATE, ...WHO, PLAN, ...COUNTS],
  ...SHORT_WINDOWS.map(busiest),
];

/** A day, with a bar that is scaled to the busiest one, and the limits that were used up if that is known. */
export function dayColumns(days: (DayUsage & Partial<MarkedDayUsage>)[]): Column<(typeof days)[number]>[] {
  // A correction can make a count negative.
  const countsOf = (day: Requests) => COUNTS.map(({ of }) => Math.max(0, of(day)));
  const max = Math.max(1, ...days.map((day) => countsOf(day).reduce((sum, count) => sum + count)));
  // Rounded up, so that small counts are visible.
  const lengthOf = (count: number) => Math.ceil((count / max) * BAR_LENGTH);
  const barOf = (day: Requests) =>
    countsOf(day).map((count, index) => COUNTS[index]?.mark.repeat(lengthOf(count)));
  return [
    DATE,
    ...COUNTS.map((count) => ({ ...count, title: `${count.title} ${count.mark}` })),
    ...SHORT_WINDOWS.map(busiest),
    {
      title: "USED UP",
      ...(days.some(({ usedUp }) => usedUp !== undefined) && { csv: "used_up" }),
      of: ({ usedUp = [] }) => usedUp.join(" "),
      text: ({ usedUp = [] }) => usedUp.join(", "),
    },
    { title: "", of: (day) => barOf(day).join("") },
  ];
}

/** When a request last arrived. */
export function lastUsedMs({ lastAdmittedMs, lastRefusedMs }: Requests): number | null {
  return Math.max(lastAdmittedMs ?? 0, lastRefusedMs ?? 0) || null;
}
