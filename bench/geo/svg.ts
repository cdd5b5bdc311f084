// A bar chart as SVG: for each group a pair of bars, the median solid and the 95th percentile lighter.

import { LINE, label, legendEntry, round, SERIES, svgDocument } from "../measure/svg.ts";

/** Milliseconds. */
export interface Bar {
  p50Ms: number;
  p95Ms: number;
}

export interface Chart {
  title: string;
  /** A line for each bar of a group, in their order. */
  legend: readonly [string, string];
  groups: readonly { name: string; bars: readonly [Bar, Bar] }[];
  /** Lines below the bars. */
  notes: readonly string[];
}

const LEFT = 190;
const RIGHT = 600;
const TOP = 104;
const BAR = 13;
const GROUP = 42;

export function svg({ title, legend, groups, notes }: Chart): string {
  const longestMs = Math.max(...groups.flatMap(({ bars }) => bars.map(({ p95Ms }) => p95Ms)));
  const stepMs = axisStep(longestMs);
  const axisMs = Math.ceil(longestMs / stepMs) * stepMs;
  const x = (ms: number) => round(LEFT + ((RIGHT - LEFT) * ms) / axisMs);
  const bottom = TOP + groups.length * GROUP;
  const height = bottom + 34 + notes.length * LINE;
  const lines: string[] = [];
  for (let ms = 0; ms <= axisMs; ms += stepMs) {
    lines.push(`<line class="grid" x1="${x(ms)}" y1="${TOP - 8}" x2="${x(ms)}" y2="${bottom}"/>`);
    lines.push(
      label(x(ms), bottom + 15, `${ms}${ms === 0 ? " ms" : ""}`, 'class="note" text-anchor="middle"'),
    );
  }
  for (const [index, each] of legend.entries()) {
    lines.push(...legendEntry(20, 48 + index * LINE, index, each));
  }
  for (const [group, { name, bars }] of groups.entries()) {
    const top = TOP + group * GROUP;
    lines.push(label(LEFT - 12, top + BAR + 5, name, 'text-anchor="end"'));
    for (const [index, { p50Ms, p95Ms }] of bars.entries()) {
      const y = top + index * (BAR + 2);
      // The smallest bars would be invisible otherwise.
      const bar = (ms: number) => Math.max(2, round(x(ms) - LEFT));
      lines.push(
        `<rect class="${SERIES[index]} p95" x="${LEFT}" y="${y}" width="${bar(p95Ms)}" height="${BAR}"/>`,
        `<rect class="${SERIES[index]}" x="${LEFT}" y="${y}" width="${bar(p50Ms)}" height="${BAR}"/>`,
        label(
          LEFT + bar(p95Ms) + 6,
          y + BAR - 2,
          `${milliseconds(p50Ms)}, ${milliseconds(p95Ms)}`,
          'class="note"',
        ),
      );
    }
  }
  for (const [index, note] of notes.entries()) {
    lines.push(label(20, bottom + 38 + index * LINE, note, 'class="note"'));
  }
  const description = groups
    .map(({ name, bars }) => `${name}: ${bars.map(({ p50Ms }) => milliseconds(p50Ms)).join(" and ")} ms`)
    .join("; ");
  return svgDocument({ title, description, height }, lines);
}

/** The smallest of 1, 2 or 5 times a power of ten that needs at most six steps. */
function axisStep(longestMs: number): number {
  const power = 10 ** Math.floor(Math.log10(longestMs / 6));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => longestMs / each <= 6) ?? 10 * power;
}

/** Milliseconds as text, with one decimal below ten. */
export function milliseconds(ms: number): string {
  return ms < 9.95 ? ms.toFixed(1) : `${Math.round(ms)}`;
}
