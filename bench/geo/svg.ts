// A bar chart as SVG: bars in groups, the median solid and the 95th percentile lighter.

import { LINE, label, legendEntry, round, SERIES, svgDocument } from "../measure/svg.ts";

export interface Bar {
  name: string;
  /** An index into the legend. */
  series: number;
  p50Ms: number;
  p95Ms: number;
}

export interface Chart {
  title: string;
  /** A line for each series. */
  legend: readonly [string, string];
  /** All have as many bars. */
  groups: readonly { name: string; bars: readonly Bar[] }[];
  /** Lines below the bars. */
  notes: readonly string[];
}

const LEFT = 230;
const RIGHT = 600;
const TOP = 104;
const BAR = 13;
/** From a bar to the next. */
const STEP = BAR + 2;

export function svg({ title, legend, groups, notes }: Chart): string {
  const longestMs = Math.max(...groups.flatMap(({ bars }) => bars.map(({ p95Ms }) => p95Ms)));
  const stepMs = axisStep(longestMs);
  const axisMs = Math.ceil(longestMs / stepMs) * stepMs;
  const x = (ms: number) => round(LEFT + ((RIGHT - LEFT) * ms) / axisMs);
  const groupHeight = (groups[0]?.bars.length ?? 0) * STEP + 12;
  const bottom = TOP + groups.length * groupHeight;
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
    const top = TOP + group * groupHeight;
    lines.push(label(20, top + BAR - 2, name));
    for (const [index, { name, series, p50Ms, p95Ms }] of bars.entries()) {
      const y = top + index * STEP;
      // The smallest bars would be invisible otherwise.
      const bar = (ms: number) => Math.max(2, round(x(ms) - LEFT));
      lines.push(
        label(LEFT - 8, y + BAR - 2, name, 'class="note" text-anchor="end"'),
        `<rect class="${SERIES[series]} p95" x="${LEFT}" y="${y}" width="${bar(p95Ms)}" height="${BAR}"/>`,
        `<rect class="${SERIES[series]}" x="${LEFT}" y="${y}" width="${bar(p50Ms)}" height="${BAR}"/>`,
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
    .map(({ name, bars }) => `${name}: ${bars.map(({ p50Ms }) => milliseconds(p50Ms)).join(", ")} ms`)
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
