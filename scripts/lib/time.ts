// Times in arguments and output: dates, and times as in RFC 3339.

/** RFC 3339 has no later years; a time with an offset can fall into one. */
const YEAR_10000_MS = Date.UTC(10_000, 0);

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

const UNITS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
] as const;

/** Such as `6 days ago`, in the largest unit of which it is one or more; `in 6 days` for a negative age. */
export function agoText(seconds: number): string {
  const [unit, length] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? ["second", 1];
  return new Intl.RelativeTimeFormat("en").format(-Math.trunc(seconds / length), unit);
}

export { formatDate, formatTime } from "../../src/lib/rfc3339.ts";
