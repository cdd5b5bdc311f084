// The bar chart and the table of a key's days, oldest first, as markup. Each bar stacks refused requests on admitted ones. Patterns
// tell them apart without colours. The markup contains only numbers and dates from the service, so it needs no escaping.

import type { UsageDay } from "../../keys/usage/usage-body.ts";
import { formatNumber } from "../text.ts";

const WIDTH = 640;
const HEIGHT = 220;
const LEFT = 48;
const BOTTOM = 24;
const TOP = 8;

/** The parts of a bar, from below. */
const PARTS = ["admitted", "refusedByMinute", "refusedByDay"] as const;

/** Slanted lines for requests that the limit per minute has refused, and upright ones for those of the limit per day. */
const PATTERNS = `
  <defs>
    <pattern id="refusedByMinute" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect class="ground" width="6" height="6"/><rect class="mark" width="3" height="6"/>
    </pattern>
    <pattern id="refusedByDay" width="4" height="4" patternUnits="userSpaceOnUse">
      <rect class="ground" width="4" height="4"/><rect class="mark" width="2.5" height="4"/>
    </pattern>
  </defs>`;

export function chartSvg(days: UsageDay[]): string {
  const most = Math.max(1, ...days.map((each) => sum(PARTS.map((part) => each[part]))));
  const ticks = ticksUpTo(most);
  const top = ticks.at(-1) ?? most;
  const y = (value: number) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * value) / top;
  const step = (WIDTH - LEFT) / days.length;
  const total = (part: (typeof PARTS)[number]) => formatNumber(sum(days.map((each) => each[part])));

  const lines = ticks.map(
    (tick) => `
    <line x1="${LEFT}" x2="${WIDTH}" y1="${y(tick)}" y2="${y(tick)}"/>
    <text x="${LEFT - 8}" y="${y(tick) + 4}" text-anchor="end">${compact(tick)}</text>`,
  );
  const bars = days.map((each, index) => {
    const x = LEFT + index * step;
    let from = 0;
    const bar = PARTS.map((part) => {
      const to = from + each[part];
      const place = `x="${x + 1.5}" width="${step - 3}" y="${y(to)}" height="${y(from) - y(to)}"`;
      from = to;
      return each[part] > 0 ? `<rect class="${part}" ${place} fill="url(#${part})"/>` : "";
    });
    return `
    <g>
      <title>${shortDate(each.date)}: ${counts((part) => formatNumber(each[part]))}</title>
      <rect class="hit" x="${x}" width="${step}" y="${TOP}" height="${HEIGHT - BOTTOM - TOP}"/>
      ${bar.join("")}
    </g>`;
  });
  const labels = days.flatMap(({ date }, index) =>
    // Every seventh day, and today.
    (days.length - 1 - index) % 7 === 0
      ? [
          `<text x="${LEFT + (index + 1) * step}" y="${HEIGHT - 6}" text-anchor="end">${shortDate(date)}</text>`,
        ]
      : [],
  );
  return `
  <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Requests per day in the last ${days.length} days, in total ${counts(total)}. The table below has the figures.">
    ${PATTERNS}
    <g class="grid">${lines.join("")}</g>${bars.join("")}
    <g class="labels">${labels.join("")}</g>
  </svg>`;
}

/** The rows of the table, the latest day first. */
export function tableRows(days: UsageDay[]): string {
  return days
    .toReversed()
    .map(
      (each) =>
        `<tr><th scope="row">${shortDate(each.date)}</th>${[...PARTS, "busiestMinute" as const]
          .map((name) => `<td>${formatNumber(each[name])}</td>`)
          .join("")}</tr>`,
    )
    .join("");
}

function counts(count: (part: (typeof PARTS)[number]) => string): string {
  return `${count("admitted")} admitted, ${count("refusedByMinute")} refused by the limit per minute, ${count("refusedByDay")} by the limit per day`;
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** About four round numbers, from 0 to the first that is at least `most`. */
function ticksUpTo(most: number): number[] {
  const power = 10 ** Math.floor(Math.log10(most));
  const step =
    [0.2, 0.5, 1, 2, 5].map((factor) => Math.max(1, factor * power)).find((each) => most / each <= 4) ??
    power;
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => index * step);
}

/** `1.2K`, `100K`. */
function compact(value: number): string {
  return value.toLocaleString("en", { notation: "compact" });
}

function shortDate(date: string): string {
  return new Date(`${date}T00:00:00Z`).toLocaleDateString("en-GB", {
    day: "numeric",
    month: "short",
    timeZone: "UTC",
  });
}
