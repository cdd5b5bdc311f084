// The chart of the section `scale`: a panel for each dimension, with sizes and ratios on logarithmic axes. All panels have the same
// axis of ratios. A bar at a point is the 95 % confidence interval.

import { whole } from "../measure/report.ts";
import { LINE, label, legendEntry, round, SERIES, svgDocument, WIDTH } from "../measure/svg.ts";
import { type ScalePoint, type ScaleSeries, TARGET } from "./scale.ts";

const PANEL = { width: WIDTH / 2, height: 262, left: 52, right: 44, top: 76, bottom: 34 };
const TOP = 44;

/** The ratios at which the axis has a line. */
const TICKS = [0.2, 0.5, 1, 2, 5, 10, 20, 50];

const TITLE = "Processor time of a request as the service grows";
const NOTES = [
  "Relative to the smallest size, to ten connections, and to a cache that is not full. Dashed: the target. Bars: 95 % confidence intervals.",
  "Measured by npm run bench -- --only scale --svg.",
];

export function scaleChart(series: ScaleSeries[]): string {
  const panels = Map.groupBy(series, ({ dimension }) => dimension);
  const ratios = series.flatMap(({ points }) =>
    points.flatMap(({ low, high, relative }) => [low, high, relative]),
  );
  const lowest = TICKS.findLast((tick) => tick <= Math.min(...ratios, 1)) ?? 0.2;
  const highest = TICKS.find((tick) => tick >= Math.max(...ratios, 2)) ?? 50;
  const height = TOP + Math.ceil(panels.size / 2) * PANEL.height + 12 + NOTES.length * LINE;
  const lines = [...panels].flatMap(([dimension, each], index) => {
    const x = (index % 2) * PANEL.width;
    const y = TOP + Math.floor(index / 2) * PANEL.height;
    return [`<g transform="translate(${x} ${y})">`, ...panel(dimension, each, [lowest, highest]), "</g>"];
  });
  for (const [index, note] of NOTES.entries()) {
    lines.push(label(20, height - 12 - (NOTES.length - 1 - index) * LINE, note, 'class="note"'));
  }
  const description = series
    .map(({ dimension, name, points }) => `${name}: ${points.map(pointText(dimension)).join(", ")}`)
    .join("; ");
  return svgDocument({ title: TITLE, description, height }, lines);
}

function pointText(dimension: string): (point: ScalePoint) => string {
  return ({ size, relative }) => `${relative.toFixed(2)} with ${whole(size)} ${dimension}`;
}

function panel(dimension: string, series: ScaleSeries[], [lowest, highest]: [number, number]): string[] {
  const sizes = [...new Set(series.flatMap(({ points }) => points.map(({ size }) => size)))];
  const [right, bottom] = [PANEL.width - PANEL.right, PANEL.height - PANEL.bottom];
  const x = scale([Math.min(...sizes), Math.max(...sizes)], [PANEL.left, right]);
  const y = scale([lowest, highest], [bottom, PANEL.top]);
  const lines = [label(20, 10, dimension, 'class="panel"')];
  for (const tick of TICKS.filter((each) => each >= lowest && each <= highest)) {
    lines.push(`<line class="grid" x1="${PANEL.left}" y1="${y(tick)}" x2="${right}" y2="${y(tick)}"/>`);
    lines.push(label(PANEL.left - 8, y(tick) + 4, `${tick} ×`, 'class="note" text-anchor="end"'));
  }
  lines.push(`<line class="target" x1="${PANEL.left}" y1="${y(TARGET)}" x2="${right}" y2="${y(TARGET)}"/>`);
  for (const size of sizes) {
    lines.push(label(x(size), bottom + 16, whole(size), 'class="note" text-anchor="middle"'));
  }
  for (const [index, { name, points }] of series.entries()) {
    const corners = points.map(({ size, relative }) => `${x(size)},${y(relative)}`).join(" ");
    lines.push(
      ...legendEntry(20, 20 + index * LINE, index, name),
      `<polyline class="${SERIES[index]} line" points="${corners}"/>`,
    );
    for (const { size, relative, low, high, note } of points) {
      lines.push(
        `<line class="${SERIES[index]} line" x1="${x(size)}" y1="${y(low)}" x2="${x(size)}" y2="${y(high)}"/>`,
        `<circle class="${SERIES[index]}" cx="${x(size)}" cy="${y(relative)}" r="3.5"/>`,
      );
      if (note !== undefined)
        lines.push(
          label(x(size) + 6, y(Math.max(relative, high)) - 8, note, 'class="note" text-anchor="end"'),
        );
    }
  }
  return lines;
}

/** A logarithmic scale: maps a range of values to a range of coordinates. */
function scale([from, to]: [number, number], [start, end]: [number, number]): (value: number) => number {
  return (value) => round(start + ((end - start) * Math.log(value / from)) / Math.log(to / from));
}
