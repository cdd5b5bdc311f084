// What the bench's charts share: the frame, the style and labels. A chart has its own background, so that it is readable on a page
// of any colour.

export const WIDTH = 760;

/** The height of a line of text. */
export const LINE = 17;

/** The classes of the series, in their order. */
export const SERIES = ["first", "second", "third"] as const;

const STYLE = `
    text { font: 12px system-ui, sans-serif; fill: #1f2328; }
    .title { font-size: 16px; font-weight: 600; }
    .panel { font-weight: 600; }
    .note { fill: #59636e; font-size: 11px; }
    .background { fill: #fff; stroke: #d1d9e0; }
    .grid { stroke: #d1d9e0; }
    .first { color: #0a7d55; fill: currentColor; }
    .second { color: #b35c00; fill: currentColor; }
    .third { color: #0969da; fill: currentColor; }
    .p95 { opacity: 0.35; }
    .line { fill: none; stroke: currentColor; stroke-width: 2; }
    .target { stroke: #59636e; stroke-dasharray: 5 4; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .note { fill: #9198a1; }
      .background { fill: #0d1117; stroke: #3d444d; }
      .grid { stroke: #3d444d; }
      .first { color: #3fb68b; }
      .second { color: #e0913d; }
      .third { color: #4493f8; }
      .target { stroke: #9198a1; }
    }`;

/** A document with a title. `description` is for people who can't see the chart. */
export function svgDocument(
  { title, description, height }: { title: string; description: string; height: number },
  lines: readonly string[],
): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="title" aria-describedby="description">
  <title id="title">${escaped(title)}</title>
  <desc id="description">${escaped(description)}</desc>
  <style>${STYLE}
  </style>
  <rect class="background" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8"/>
  ${label(20, 30, title, 'class="title"')}
  ${lines.join("\n  ")}
</svg>
`;
}

export function label(x: number, y: number, text: string, attributes = ""): string {
  return `<text x="${round(x)}" y="${round(y)}"${attributes && ` ${attributes}`}>${escaped(text)}</text>`;
}

/** A text with the square of its series before it. */
export function legendEntry(x: number, y: number, series: number, text: string): string[] {
  return [
    `<rect class="${SERIES[series]}" x="${x}" y="${y}" width="11" height="11"/>`,
    label(x + 18, y + 10, text),
  ];
}

export function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
