// Draws the ladder as an SVG: a row for each figure, a column for each kind of traffic, a line for each design by the number of isolates. One
// plan and large letters, because a telephone shows the chart 360 pixels wide.

import { type Design, ISOLATES } from "./climb.ts";
import { TRAFFICS } from "./run.ts";

const PANEL = { width: 176, height: 130, gapX: 30, gapY: 62, left: 58, top: 122 };
const WIDTH = PANEL.left + TRAFFICS.length * (PANEL.width + PANEL.gapX);

/** `max`: of the scale. A logarithmic scale begins at 1, where smaller values are too. */
interface Measure {
  title: string;
  max: number;
  ticks: number[];
  isLogarithmic?: boolean;
  column: string;
}

const MEASURES: Measure[] = [
  {
    title: "Admitted above the limit, % (sent: 3 × the limit)",
    max: 210,
    ticks: [0, 50, 100, 150, 200],
    column: "above_percent",
  },
  {
    title: "Wait for a decision, p99 in ms (sent: the limit)",
    max: 1_000,
    ticks: [1, 10, 100, 1_000],
    isLogarithmic: true,
    column: "p99_wait_ms_at_limit",
  },
  {
    title: "$ a million requests (sent: half of the limit)",
    max: 1.5,
    ticks: [0, 0.5, 1, 1.5],
    column: "dollars_per_million",
  },
];
const HEIGHT = PANEL.top + MEASURES.length * (PANEL.height + PANEL.gapY) - 8;

/** The later one is drawn above the others, and is thinner, so equal lines show as stripes. */
const CLASSES = {
  binding: "a",
  "object in memory": "b",
  "synced counters": "c",
  "stored object": "e",
  petstore: "d",
} satisfies Partial<Record<Design, string>>;
const SHOWN = Object.entries(CLASSES);
const WIDTHS = { a: 8, b: 6, c: 4.5, e: 3.2, d: 2 } as Record<string, number>;

const STYLE = `
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .a { --color: #56b4e9 } .b { --color: #e69f00 } .c { --color: #cc79a7 } .d { --color: #00664a } .e { --color: #999 }
  path { fill: none; stroke: var(--color); stroke-linejoin: round }
  .page { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .grid { stroke: #3d444d } .page { fill: #0d1117 } .d { --color: #3fd08d }
  }`;

/** `rows`: those of one plan in docs/limits.csv. */
export function drawChart(rows: readonly Record<string, string>[]): string {
  const panels = MEASURES.flatMap((measure, row) =>
    TRAFFICS.map((traffic, column) => {
      const x = PANEL.left + column * (PANEL.width + PANEL.gapX);
      const y = PANEL.top + row * (PANEL.height + PANEL.gapY);
      const lines = SHOWN.map(([design, name]) =>
        line(
          measure,
          name,
          rows.filter((each) => each.traffic === traffic && each.design === design),
        ),
      );
      const title = column === 0 ? text(-50, -16, measure.title, "title") : "";
      const name = row === 0 ? text(PANEL.width / 2, -44, `${traffic} traffic`, "title", "middle") : "";
      const parts = [axes(measure, column === 0), ...lines, title, name];
      return `<g transform="translate(${x} ${y})">\n${parts.filter((each) => each !== "").join("\n")}\n</g>`;
    }),
  );
  const below = text(WIDTH / 2, HEIGHT - 10, "isolates", "", "middle");
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Designs of a rate limiter by the number of isolates">
<style>${STYLE}
</style>
<rect class="page" width="${WIDTH}" height="${HEIGHT}"/>
${legend()}
${panels.join("\n")}
${below}
</svg>
`;
}

function legend(): string {
  const designs = SHOWN.map(([design, name], index) => {
    const x = [8, 144, 316][index % 3] as number;
    const y = 22 + Math.floor(index / 3) * 24;
    return `<path class="${name}" stroke-width="${WIDTHS[name]}" d="M${x} ${y}h26"/>${text(x + 34, y + 5, design)}`;
  });
  return designs.join("\n");
}

function axes(measure: Measure, hasLabels: boolean): string {
  const rows = measure.ticks.map((tick) => {
    const y = yOf(measure, tick);
    const words = measure.isLogarithmic && tick === 1 ? "0 to 1" : tick.toLocaleString("en");
    const label = hasLabels ? text(-8, y + 4, words, "", "end") : "";
    return `<line class="grid" x2="${PANEL.width}" y1="${y}" y2="${y}"/>${label}`;
  });
  const columns = ISOLATES.map((isolates) =>
    text(xOf(isolates), PANEL.height + 18, `${isolates}`, "", "middle"),
  );
  return [...rows, ...columns].join("\n");
}

function line(measure: Measure, name: string, rows: readonly Record<string, string>[]): string {
  const points = rows.map((each) => [xOf(Number(each.isolates)), yOf(measure, Number(each[measure.column]))]);
  return `<path class="${name}" stroke-width="${WIDTHS[name]}" d="M${points.map((point) => point.join(" ")).join("L")}"/>`;
}

function xOf(isolates: number): number {
  return round((PANEL.width * Math.log(isolates)) / Math.log(Math.max(...ISOLATES)));
}

function yOf({ max, isLogarithmic }: Measure, value: number): number {
  const share = isLogarithmic ? Math.log(Math.max(1, value)) / Math.log(max) : value / max;
  return round(PANEL.height * (1 - share));
}

function round(pixels: number): number {
  return Math.round(10 * pixels) / 10;
}

function text(x: number, y: number, words: string, name = "", anchor = "start"): string {
  return `<text${name && ` class="${name}"`} x="${x}" y="${y}" text-anchor="${anchor}">${words}</text>`;
}
