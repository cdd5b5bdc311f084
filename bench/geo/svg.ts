// A bar chart as SVG: for each group a pair of bars, the median solid and the 95th percentile lighter. It has its own background,
// so that it is readable on a page of any colour.

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

const WIDTH = 760;
const LEFT = 190;
const RIGHT = 600;
const TOP = 104;
const BAR = 13;
const GROUP = 42;
const LINE = 17;

const STYLE = `
    text { font: 12px system-ui, sans-serif; fill: #1f2328; }
    .title { font-size: 16px; font-weight: 600; }
    .note { fill: #59636e; font-size: 11px; }
    .background { fill: #fff; stroke: #d1d9e0; }
    .grid { stroke: #d1d9e0; }
    .first { fill: #0a7d55; }
    .second { fill: #b35c00; }
    .p95 { opacity: 0.35; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .note { fill: #9198a1; }
      .background { fill: #0d1117; stroke: #3d444d; }
      .grid { stroke: #3d444d; }
      .first { fill: #3fb68b; }
      .second { fill: #e0913d; }
    }`;

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
    const y = 48 + index * LINE;
    lines.push(`<rect class="${classOf(index)}" x="20" y="${y}" width="11" height="11"/>`);
    lines.push(label(38, y + 10, each));
  }
  for (const [group, { name, bars }] of groups.entries()) {
    const top = TOP + group * GROUP;
    lines.push(label(LEFT - 12, top + BAR + 5, name, 'text-anchor="end"'));
    for (const [index, { p50Ms, p95Ms }] of bars.entries()) {
      const y = top + index * (BAR + 2);
      // The smallest bars would be invisible otherwise.
      const bar = (ms: number) => Math.max(2, round(x(ms) - LEFT));
      lines.push(
        `<rect class="${classOf(index)} p95" x="${LEFT}" y="${y}" width="${bar(p95Ms)}" height="${BAR}"/>`,
        `<rect class="${classOf(index)}" x="${LEFT}" y="${y}" width="${bar(p50Ms)}" height="${BAR}"/>`,
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
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="title">
  <title id="title">${escaped(title)}</title>
  <style>${STYLE}
  </style>
  <rect class="background" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8"/>
  ${label(20, 30, title, 'class="title"')}
  ${lines.join("\n  ")}
</svg>
`;
}

function classOf(index: number): string {
  return index === 0 ? "first" : "second";
}

function label(x: number, y: number, text: string, attributes = ""): string {
  return `<text x="${round(x)}" y="${y}"${attributes && ` ${attributes}`}>${escaped(text)}</text>`;
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

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
