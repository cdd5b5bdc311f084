// The parts of the reference page that are made from the document and the guide.

import { Marked } from "marked";
import type { OpenApiDocument } from "./document.ts";

/** The guide as HTML, and its table of contents as list items. */
export function guideAsHtml(markdown: string): { guide: string; contents: string } {
  const entries: string[] = [];
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        const id = text.toLowerCase().replace(/[^a-z0-9]+/g, "-");
        const html = this.parser.parseInline(tokens);
        entries.push(`<li><a href="#${id}">${html}</a></li>`);
        return `<h${depth} id="${id}">${html}</h${depth}>\n`;
      },
    },
  });
  // Wide blocks scroll within themselves on a phone, also with the keyboard.
  const guide = marked
    .parse(markdown, { async: false })
    .replaceAll("<pre>", '<pre tabindex="0">')
    .replaceAll("<table>", '<div class="wide" role="group" aria-label="Table" tabindex="0"><table>')
    .replaceAll("</table>", "</table></div>");
  return { guide, contents: entries.join("\n          ") };
}

/** The operations as list items, for readers without the viewer. */
export function operationsAsHtml({ paths }: OpenApiDocument): string {
  return Object.entries(paths)
    .flatMap(([path, operations]) =>
      Object.entries(operations).map(
        ([method, { summary }]) => `<li><code>${method.toUpperCase()} /v1${path}</code> ${summary}</li>`,
      ),
    )
    .join("\n              ");
}
