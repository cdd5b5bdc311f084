// The bar chart and the table of a key's days, oldest first, as markup. Each bar stacks refused requests on admitted ones, and has a mark
// below for each limit that was used up. Patterns and shapes tell them apart without colours. The markup contains only numbers and dates
// from the service, so it needs no escaping.

import { SHORT_WINDOWS, WINDOW_NAMES } from "../../keys/plans.ts";
import { type MarkedDay, sum } from "../../keys/usage/demand.ts";
import type { UsageDay } from "../../keys/usage/usage-body.ts";
import { formatNumber } from "../text.ts";

const WIDTH = 640;
const HEIGHT = 240;
const TOP = 8;
const MARK = 10;
/** From one mark to the next. */
const ROW = 12;
/** The space for the marks, and below them for the dates. */
const MARKS = WINDOW_NAMES.length * ROW + 4;
const BOTTOM = MARKS + 24;

/** Of a digit in the type for narrow windows. */
const DIGIT_WIDTH = 11;

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

/** 1 for the shortest window, 0 for the longest. */
const shortness = (index: number) => 1 - index / Math.max(1, WINDOW_NAMES.length - 1);

/** Lines for refused requests, slanted for the shortest window, upright for the longest. */
const PATTERNS = `<defs>${WINDOW_NAMES.map(
  (_, index) => `
    <pattern id="refused-${index}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(${45 * shortness(index)})">
      <rect class="ground" width="6" height="6"/><rect class="mark mark-${index}" width="3" height="6"/>
    </pattern>`,
).join("")}</defs>`;

/** The mark of a limit that was used up, round for the shortest window, square for the longest. */
function mark(index: number, x: number, y: number): string {
  const radius = (MARK / 2) * shortness(index);
  return `<rect class="mark mark-${index}" x="${x}" y="${y}" width="${MARK}" height="${MARK}" rx="${radius}"/>`;
}

export function chartSvg(days: MarkedDay[]): string {
  const most = Math.max(1, ...days.map((each) => sum(PARTS.map(({ of }) => of(each)))));
  const ticks = ticksUpTo(most);
  const top = ticks.at(-1) ?? most;
  const bottom = HEIGHT - BOTTOM;
  const y = (value: number) => bottom - ((bottom - TOP) * value) / top;
  const left = 8 + DIGIT_WIDTH * formatNumber(top).length;
  const step = (WIDTH - left) / days.length;
  const total = ({ of }: Part) => formatNumber(sum(days.map(of)));

  const lines = ticks.map(
    (tick) => `
    <line x1="${left}" x2="${WIDTH}" y1="${y(tick)}" y2="${y(tick)}"/>
    <text x="${left - 8}" y="${y(tick) + 4}" text-anchor="end">${formatNumber(tick)}</text>`,
  );
  const bars = days.map((each, index) => {
    const x = left + index * step;
    let from = 0;
    const bar = PARTS.map(({ name, of }) => {
      const to = from + of(each);
      const place = `x="${x + 1.5}" width="${step - 3}" y="${y(to)}" height="${y(from) - y(to)}"`;
      from = to;
      return of(each) > 0 ? `<rect class="${name}" ${place} fill="url(#${name})"/>` : "";
    });
    const marks = WINDOW_NAMES.map((name, row) =>
      each.usedUp.includes(name) ? mark(row, x + (step - MARK) / 2, bottom + 4 + row * ROW) : "",
    );
    const used = each.usedUp.length > 0 ? `; used up: ${each.usedUp.join(", ")}` : "";
    return `
    <g>
      <title>${shortDate(each.date)}: ${counts(({ of }) => formatNumber(of(each)))}${used}</title>
      <rect class="hit" x="${x}" width="${step}" y="${TOP}" height="${bottom + MARKS - TOP}"/>
      ${bar.join("")}${marks.join("")}
    </g>`;
  });
  const labels = days.map(({ date }, index) => {
    const isLabelled = (days.length - 1 - index) % 7 === 0;
    const place = `x="${left + (index + 1) * step}" y="${HEIGHT - 6}" text-anchor="end"`;
    return isLabelled ? `<text ${place}>${shortDate(date)}</text>` : "";
  });
  return `
  <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Requests per day in the last ${days.length} days, in total ${counts(total)}. The table below has the figures.">
    ${PATTERNS}
    <g class="grid">${lines.join("")}</g>${bars.join("")}
    <g class="labels">${labels.join("")}</g>
  </svg>`;
}

/** A bar for each day without texts, with a dot above a day of refusals. `label` says what it shows, to those who can't see it. */
export function smallChart(days: Pick<UsageDay, "date" | "admitted" | "refusedBy">[], label: string): string {
  const sent = days.map(({ admitted, refusedBy }) => {
    const refused = sum(Object.values(refusedBy));
    return { admitted: Math.max(0, admitted), refused, total: Math.max(0, admitted) + refused };
  });
  const most = Math.max(1, ...sent.map(({ total }) => total));
  const bars = sent.map(({ admitted, refused, total }, index) => {
    const place = (from: number, to: number) =>
      `x="${4 * index}" width="3" y="${28 - (22 * to) / most}" height="${(22 * (to - from)) / most}"`;
    const dot = refused > 0 ? `<circle class="mark" cx="${4 * index + 1.5}" cy="2" r="1.5"/>` : "";
    const refusals = `<rect class="mark mark-0" ${place(admitted, total)}/>`;
    return `<rect class="admitted" ${place(0, admitted)}/>${refused > 0 ? refusals : ""}${dot}`;
  });
  return `<svg viewBox="0 0 ${4 * days.length} 28" role="img" aria-label="${label}">${bars.join("")}</svg>`;
}

/** What each pattern and each mark means. Days of all keys have no marks. */
export function legend(hasMarks = true): string {
  const fill = (name: string) => `<rect class="${name}" width="12" height="12" fill="url(#${name})"/>`;
  const entries = [
    ...PARTS.map(({ name, text }) => ({ text, drawing: fill(name) })),
    ...(hasMarks ? WINDOW_NAMES : []).map((name, row) => ({
      text: `limit per ${name} used up`,
      drawing: mark(row, 1, 1),
    })),
  ];
  const svg = (drawing: string) => `<svg viewBox="0 0 12 12" aria-hidden="true">${drawing}</svg>`;
  return entries.map(({ text, drawing }) => `<span>${svg(drawing)}${text}</span>`).join("");
}

/** The table, the latest day first. */
export function tableOf(days: MarkedDay[]): string {
  const busiest = SHORT_WINDOWS.map((name) => `busiest ${name}`);
  const titles = ["day", ...PARTS.map(({ text }) => text), ...busiest, "used up"];
  const header = titles.map((title) => `<th scope="col">${title}</th>`).join("");
  const rows = days.toReversed().map((each) => {
    const numbers = [
      ...PARTS.map(({ of }) => of(each)),
      ...SHORT_WINDOWS.map((name) => each.busiest[name] ?? 0),
    ];
    const cells = [...numbers.map(formatNumber), each.usedUp.join(", ")].map((cell) => `<td>${cell}</td>`);
    return `<tr><th scope="row">${shortDate(each.date)}</th>${cells.join("")}</tr>`;
  });
  const table = `<table><thead><tr>${header}</tr></thead><tbody>${rows.join("")}</tbody></table>`;
  return `<div class="wide" role="group" aria-label="Table of the days" tabindex="0">${table}</div>`;
}

function counts(count: (part: Part) => string): string {
  return PARTS.map((part) => `${count(part)} ${part.text}`).join(", ");
}

/** About four round numbers, from 0 to the first that is at least `most`. */
function ticksUpTo(most: number): number[] {
  const power = 10 ** Math.floor(Math.log10(most));
  const steps = [0.2, 0.5, 1, 2, 5].map((factor) => Math.max(1, factor * power));
  const step = steps.find((each) => most / each <= 4) ?? power;
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => index * step);
}

function shortDate(date: string): string {
  return new Date(date).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}
