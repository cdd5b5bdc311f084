// The bar chart and the table of a key's days, oldest first, as markup. Each bar stacks refused requests on admitted ones. The markup
// contains only numbers and dates from the service, so it needs no escaping.

import type { UsageDay } from "../../keys/usage/usage-body.ts";
import { formatNumber } from "../text.ts";

const WIDTH = 640;
const HEIGHT = 220;
const LEFT = 48;
const BOTTOM = 24;
const TOP = 8;

export function chartSvg(usage: UsageDay[]): string {
  const days = usage.map(withRefused);
  const most = Math.max(1, ...days.map(({ admitted, refused }) => admitted + refused));
  const ticks = ticksUpTo(most);
  const top = ticks.at(-1) ?? most;
  const y = (value: number) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * value) / top;
  const step = (WIDTH - LEFT) / days.length;
  const total = (name: "admitted" | "refused") => formatNumber(days.reduce((sum, day) => sum + day[name], 0));

  const lines = ticks.map(
    (tick) => `
    <line x1="${LEFT}" x2="${WIDTH}" y1="${y(tick)}" y2="${y(tick)}"/>
    <text x="${LEFT - 8}" y="${y(tick) + 4}" text-anchor="end">${compact(tick)}</text>`,
  );
  const bars = days.map(({ date, admitted, refused }, index) => {
    const x = LEFT + index * step;
    const bar = (name: string, from: number, to: number) =>
      to > from
        ? `<rect class="${name}" x="${x + 1.5}" width="${step - 3}" y="${y(to)}" height="${y(from) - y(to)}"/>`
        : "";
    return `
    <g>
      <title>${shortDate(date)}: ${formatNumber(admitted)} admitted, ${formatNumber(refused)} refused</title>
      <rect class="hit" x="${x}" width="${step}" y="${TOP}" height="${HEIGHT - BOTTOM - TOP}"/>
      ${bar("admitted", 0, admitted)}${bar("refused", admitted, admitted + refused)}
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
  <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Requests per day in the last ${days.length} days: ${total("admitted")} admitted, ${total("refused")} refused in total. The table below has the figures.">
    <g class="grid">${lines.join("")}</g>${bars.join("")}
    <g class="labels">${labels.join("")}</g>
  </svg>`;
}

function withRefused(day: UsageDay) {
  return { ...day, refused: day.refusedByMinute + day.refusedByDay };
}

/** The rows of the table, the latest day first. */
export function tableRows(days: UsageDay[]): string {
  return days
    .toReversed()
    .map(withRefused)
    .map(
      ({ date, admitted, refused }) =>
        `<tr><th scope="row">${shortDate(date)}</th><td>${formatNumber(admitted)}</td><td>${formatNumber(refused)}</td></tr>`,
    )
    .join("");
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
