// The parts of the reference page that are made from the document and the guide.

import { Marked } from "marked";
import type { Release } from "./changes.ts";
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
        return `<div class="heading"><h${depth} id="${id}">${html}</h${depth}>${anchor(id, text)}</div>\n`;
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

/** A link to a part of the page, which the reader can copy. */
function anchor(id: string, name: string): string {
  return `<a class="anchor" href="#${id}" aria-label="Link to ${name}">#</a>`;
}

/** The operations as list items, for readers without the viewer, and their entries in the table of contents. */
export function operationsAsHtml({ paths }: OpenApiDocument): { operations: string; operationLinks: string } {
  const all = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { operationId, summary, tags }]) => {
      const name = `${method.toUpperCase()} /v1${path}`;
      return { id: `/${tags[0]}/${operationId}`, name, summary };
    }),
  );
  const list = all.map(({ id, name, summary }) => `<li id="${id}"><code>${name}</code> ${summary}</li>`);
  const links = all.map(({ id, summary }) => `<li><a href="#${id}">${summary}</a></li>`);
  return { operations: list.join("\n              "), operationLinks: links.join("\n              ") };
}

/** The changes of each release, as a section of Markdown. */
export function changesAsHtml(releases: Release[]): string {
  const details = releases.map(
    ({ name, text }, index) =>
      `<details${index === 0 ? " open" : ""}>\n<summary>${name}</summary>\n\n${text}\n\n</details>`,
  );
  return ['<section class="changes">', "## Changes", ...details, "</section>"].join("\n\n");
}
