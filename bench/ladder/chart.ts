// Draws the ladder as an SVG: a column for each plan, a row for each figure, a line for each design by the number of isolates. Lines are the
// table's runs, dots those with other seeds.

import {
  above,
  DESIGNS,
  type Design,
  dollars,
  ISOLATES,
  type Loads,
  PLANS,
  type Rung,
  waitMs,
} from "./climb.ts";
import type { Traffic } from "./run.ts";

const PANEL = { width: 250, height: 150, gapX: 28, gapY: 58, left: 56, top: 118 };
const WIDTH = PANEL.left + PLANS.length * (PANEL.width + PANEL.gapX);

/** `max`: of the scale. A logarithmic scale begins at 1, where smaller values are too. */
interface Measure {
  title: string;
  max: number;
  ticks: number[];
  isLogarithmic?: boolean;
  of: (loads: Loads) => number;
}

const MEASURES: Measure[] = [
  {
    title: "Admitted above the limit, % (clients send 3 × the limit)",
    max: 210,
    ticks: [0, 50, 100, 150, 200],
    of: above,
  },
  {
    title: "Wait for a decision, p99 in ms (clients send the limit)",
    max: 5_000,
    ticks: [1, 10, 100, 1_000, 5_000],
    isLogarithmic: true,
    of: ({ full }) => waitMs(full, 99),
  },
  {
    title: "$ a million requests (clients send half of the limit)",
    max: 2,
    ticks: [0, 0.5, 1, 1.5, 2],
    of: ({ half }) => dollars(half),
  },
];
const HEIGHT = PANEL.top + MEASURES.length * (PANEL.height + PANEL.gapY);

/** The later one is drawn above the others, and is thinner, so equal lines show as stripes. */
const CLASSES: Record<Design, string> = {
  binding: "a",
  "object in memory": "b",
  "counters, 5 s": "c",
  "stored object": "e",
  petstore: "d",
};
const WIDTHS = { a: 8, b: 6, c: 4.5, e: 3.2, d: 1.8 } as Record<string, number>;

const STYLE = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .a { --color: #56b4e9 } .b { --color: #e69f00 } .c { --color: #cc79a7 } .d { --color: #00664a } .e { --color: #999 }
  path { fill: none; stroke: var(--color); stroke-linejoin: round }
  .bursty { stroke-dasharray: 7 5 }
  circle { fill: var(--color) }
  .page { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .grid { stroke: #3d444d } .page { fill: #0d1117 } .d { --color: #3fd08d }
  }`;

export function drawChart(rungs: readonly Rung[], others: readonly Rung[]): string {
  const panels = MEASURES.flatMap((measure, row) =>
    PLANS.map((plan, column) => {
      const x = PANEL.left + column * (PANEL.width + PANEL.gapX);
      const y = PANEL.top + row * (PANEL.height + PANEL.gapY);
      const ofPlan = (all: readonly Rung[]) => all.filter((each) => each.plan === plan);
      const lines = ofPlan(rungs).map((rung) => line(measure, rung));
      const dots = ofPlan(others).flatMap((rung) => points(measure, rung).map((point) => dot(point, rung)));
      const title = column === 0 ? text(0, -14, measure.title, "title") : "";
      const name =
        row === 0
          ? text(PANEL.width / 2, -36, plan[0]?.toUpperCase() + plan.slice(1), "title", "middle")
          : "";
      const parts = [axes(measure, column === 0), ...lines, ...dots, title, name];
      return `<g transform="translate(${x} ${y})">\n${parts.filter((each) => each !== "").join("\n")}\n</g>`;
    }),
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Designs of a rate limiter by the number of isolates">
<style>${STYLE}
</style>
<rect class="page" width="${WIDTH}" height="${HEIGHT}"/>
${legend()}
${panels.join("\n")}
</svg>
`;
}

function legend(): string {
  const designs = (Object.keys(DESIGNS) as Design[]).map((design, index) => {
    const x = PANEL.left + index * 155;
    const name = CLASSES[design];
    return `<path class="${name}" stroke-width="${WIDTHS[name]}" d="M${x} 24h30"/>${text(x + 38, 28, design)}`;
  });
  const traffics = (["even", "bursty"] as Traffic[]).map((traffic, index) => {
    const x = PANEL.left + index * 155;
    return `<path class="${traffic} d" stroke-width="2" d="M${x} 50h30"/>${text(x + 38, 54, `${traffic} traffic`)}`;
  });
  const x = PANEL.left + 2 * 155;
  const rest = `<circle class="d" cx="${x + 15}" cy="50" r="2.5"/>${text(x + 38, 54, "the same with other seeds; horizontal: isolates")}`;
  return [...designs, ...traffics, rest].join("\n");
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

function points(measure: Measure, { byIsolates }: Rung): [x: number, y: number][] {
  return [...byIsolates].map(([isolates, loads]) => [xOf(isolates), yOf(measure, measure.of(loads))]);
}

function line(measure: Measure, rung: Rung): string {
  const name = CLASSES[rung.design];
  const path = points(measure, rung).map((point) => point.join(" "));
  return `<path class="${name} ${rung.traffic}" stroke-width="${WIDTHS[name]}" d="M${path.join("L")}"/>`;
}

function dot([x, y]: [number, number], { design }: Rung): string {
  return `<circle class="${CLASSES[design]}" cx="${x}" cy="${y}" r="2.5"/>`;
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
