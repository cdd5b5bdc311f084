// The bar chart and the table of a key's days, oldest first, as markup. Each bar stacks refused requests on admitted ones. Patterns
// tell them apart without colours. The markup contains only numbers and dates from the service, so it needs no escaping.

import { SHORT_WINDOWS, WINDOW_NAMES } from "../../keys/plans.ts";
import type { UsageDay } from "../../keys/usage/usage-body.ts";
import { formatNumber } from "../text.ts";

const WIDTH = 640;
const HEIGHT = 220;
const LEFT = 48;
const BOTTOM = 24;
const TOP = 8;

/** A part of a bar: its class, what it is, and its requests. */
type Part = { name: string; text: string; of: (day: UsageDay) => number };

/** From below: admitted requests, and those that each limit has refused. */
const PARTS: Part[] = [
  { name: "admitted", text: "admitted", of: ({ admitted }) => admitted },
  ...WINDOW_NAMES.map((name, index) => ({
    name: `refused-${index}`,
    text: `${index === 0 ? "refused " : ""}by the limit per ${name}`,
    of: ({ refusedBy }: UsageDay) => refusedBy[name],
  })),
];

/** Lines for refused requests, slanted for the shortest window, upright for the longest. */
const PATTERNS = `<defs>${WINDOW_NAMES.map((_, index) => {
  const degrees = 45 * (1 - index / Math.max(1, WINDOW_NAMES.length - 1));
  return `
    <pattern id="refused-${index}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(${degrees})">
      <rect class="ground" width="6" height="6"/><rect class="mark" width="3" height="6"/>
    </pattern>`;
}).join("")}</defs>`;

export function chartSvg(days: UsageDay[]): string {
  const most = Math.max(1, ...days.map((each) => sum(PARTS.map(({ of }) => of(each)))));
  const ticks = ticksUpTo(most);
  const top = ticks.at(-1) ?? most;
  const y = (value: number) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * value) / top;
  const step = (WIDTH - LEFT) / days.length;
  const total = ({ of }: Part) => formatNumber(sum(days.map(of)));

  const lines = ticks.map(
    (tick) => `
    <line x1="${LEFT}" x2="${WIDTH}" y1="${y(tick)}" y2="${y(tick)}"/>
    <text x="${LEFT - 8}" y="${y(tick) + 4}" text-anchor="end">${compact(tick)}</text>`,
  );
  const bars = days.map((each, index) => {
    const x = LEFT + index * step;
    let from = 0;
    const bar = PARTS.map(({ name, of }) => {
      const to = from + of(each);
      const place = `x="${x + 1.5}" width="${step - 3}" y="${y(to)}" height="${y(from) - y(to)}"`;
      from = to;
      return of(each) > 0 ? `<rect class="${name}" ${place} fill="url(#${name})"/>` : "";
    });
    return `
    <g>
      <title>${shortDate(each.date)}: ${counts(({ of }) => formatNumber(of(each)))}</title>
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

/** What each pattern means. */
export function legend(): string {
  return PARTS.map(({ name, text }) => {
    const mark = `<rect class="${name}" width="12" height="12" fill="url(#${name})"/>`;
    return `<span class="legend"><svg viewBox="0 0 12 12" aria-hidden="true">${mark}</svg>${text}</span>`;
  }).join("");
}

/** The header of the table, and its rows, the latest day first. */
export function tableOf(days: UsageDay[]): string {
  const columns = [
    ...PARTS.map(({ text, of }) => ({ text, of })),
    ...SHORT_WINDOWS.map((name) => ({
      text: `busiest ${name}`,
      of: ({ busiest }: UsageDay) => busiest[name] ?? 0,
    })),
  ];
  const header = columns.map(({ text }) => `<th scope="col">${text}</th>`).join("");
  const rows = days.toReversed().map((each) => {
    const cells = columns.map(({ of }) => `<td>${formatNumber(of(each))}</td>`).join("");
    return `<tr><th scope="row">${shortDate(each.date)}</th>${cells}</tr>`;
  });
  return `<thead><tr><th scope="col">day</th>${header}</tr></thead><tbody>${rows.join("")}</tbody>`;
}

function counts(count: (part: Part) => string): string {
  return PARTS.map((part) => `${count(part)} ${part.text}`).join(", ");
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
