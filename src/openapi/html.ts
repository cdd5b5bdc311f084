// The reference page, made from the document, the guide and the changes. It is complete without a script: the script of the page makes its
// forms work.

import { Marked, type Tokens } from "marked";
import { ERROR_STATUS } from "../http/errors.ts";
import type { Input, Operation } from "../samples/operation.ts";
import type { Release } from "./changes.ts";
import type { OpenApiDocument } from "./document.ts";
import { consoleOperation } from "./inputs.ts";
import { DESCRIPTIONS } from "./operations.ts";
import {
  code,
  type DescribedOperation,
  type DescribedResponse,
  describeOperations,
  describeSchemas,
  type Field,
} from "./reference.ts";

/** A longer text of a cell does not fit beside others on a phone. */
const MAX_SHORT_CELL = 24;

/** The operations as the console knows them. */
export function consoleOperations(document: OpenApiDocument): Operation[] {
  return describeOperations(document).map(({ id }) => consoleOperation(id, DESCRIPTIONS[id]));
}

/** The parts of the page: each as HTML, and the entries of all in the table of contents. */
export function pageParts(document: OpenApiDocument, releases: Release[]) {
  const operations = describeOperations(document);
  const [start = "", ...topics] = document.info.description.split(/^(?=## )/m);
  const schemas = describeSchemas(document).map(
    ({ name, description, fields, words }) =>
      `<section>${heading(3, name.toLowerCase(), escaped(name))}
      <p>${inline(description)}${words && ` It is a JSON ${inline(words)}.`}</p>${fieldList(fields, name)}</section>`,
  );
  const beginning = guideAsHtml(start);
  const sections = topics.map(guideAsHtml);
  const links = operations.map(({ anchor, summary }) => link(anchor, escaped(summary)));
  return {
    start: beginning.guide,
    operations: operations.map(operationAsHtml).join("\n"),
    guide: sections.map(({ guide }) => `<section>${guide}</section>`).join("\n"),
    schemas: schemas.join("\n"),
    changes: guideAsHtml(changesAsMarkdown(releases)).guide,
    contents: `${beginning.contents}
      <li><a href="#operations">Operations</a><ul>${links.join("")}</ul></li>
      ${sections.map(({ contents }) => contents).join("")}${link("schemas", "Schemas")}${link("changes", "Changes")}`,
  };
}

/** Markdown as HTML, and its headings as entries of a table of contents. An error code is a row of one table only: that with its cause. */
export function guideAsHtml(markdown: string): { guide: string; contents: string } {
  const entries: string[] = [];
  const codes = new Set<string>(Object.keys(ERROR_STATUS));
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        const id = text.toLowerCase().replace(/[^a-z0-9]+/g, "-");
        const html = this.parser.parseInline(tokens);
        entries.push(link(id, html));
        return heading(depth, id, html, text);
      },
      table({ header, rows }) {
        const isLong = rows.flat().some(({ text }) => text.length > MAX_SHORT_CELL);
        const cells = (row: Tokens.TableCell[], tag: string) =>
          row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join("");
        // The first row of an error code is the one that explains it.
        const lines = rows.map((row) => {
          const found = row.map(({ text }) => text.slice(1, -1)).find((text) => codes.delete(text));
          return `<tr${found === undefined ? "" : ` id="${found}"`}>${cells(row, "td")}</tr>`;
        });
        // It scrolls within itself on a phone, also with the keyboard.
        return `<div class="wide${isLong ? " long" : ""}" role="group" aria-label="Table" tabindex="0"><table>
          <thead><tr>${cells(header, "th")}</tr></thead><tbody>${lines.join("")}</tbody></table></div>`;
      },
      code: ({ text }) => codeBlock(text, "Example"),
    },
  });
  return { guide: marked.parse(markdown, { async: false }), contents: entries.join("") };
}

function operationAsHtml(operation: DescribedOperation): string {
  const { id, anchor, summary, method, path, description, inputs, bodyFields, responses } = operation;
  const [success] = responses.filter(({ status }) => status.startsWith("2"));
  return `
  <section class="operation" id="${anchor}" aria-labelledby="${id}">
    <div class="text">
      ${heading(3, id, escaped(summary), summary, anchor)}
      <p class="path"><b class="${method.toLowerCase()}">${method}</b> <code>${path}</code>${operation.isDeprecated ? " <em>deprecated</em>" : ""}</p>
      <p>${inline(description)}</p>
      ${inputs.length === 0 ? "" : "<h4>Request</h4>"}
      ${fieldList(inputs, id)}${fieldList(bodyFields, id)}
    </div>
    ${consoleAsHtml(operation, consoleOperation(id, DESCRIPTIONS[id]), success)}
    <div class="responses">
      <h4>Responses</h4>
      ${responses.map(responseAsHtml).join("\n")}
    </div>
  </section>`;
}

function responseAsHtml({ status, content, description, headers, example }: DescribedResponse) {
  const list = headers.length === 0 ? "" : ` Headers: ${headers.map(code).join(", ")}.`;
  const isSuccess = status.startsWith("2");
  return `<details class="response">
        <summary><b>${status}</b> ${isSuccess ? escaped(description) : inline(content)}</summary>
        ${marked(isSuccess ? `${content}.${list}` : `${description}${list}`)}
        <p>${escaped(example.summary)}</p>${codeBlock(example.json, `Example of ${status}`)}
      </details>`;
}

/** The samples, the response that they get, and the form. */
function consoleAsHtml(
  { summary, samples }: DescribedOperation,
  { id, inputs }: Operation,
  success?: DescribedResponse,
): string {
  const languages = samples.map(
    ({ label }, index) =>
      `<label><input type="radio" name="language" value="${label}"${index === 0 ? " checked" : ""}>${label}</label>`,
  );
  const programs = samples.map(
    ({ label, source }) =>
      `<pre class="sample" data-language="${label}" tabindex="0" role="group" aria-label="${label} sample">${escaped(source)}</pre>`,
  );
  return `
    <form class="console card" id="console-${id}" aria-label="${escaped(summary)}" autocomplete="off" novalidate>
      <div class="bar"><fieldset><legend>Language</legend>${languages.join("")}</fieldset>
        <button type="button" class="copy">Copy</button></div>
      ${programs.join("\n")}
      <div class="inputs">
        <div class="whole"><label>API key${REQUIRED}<input name="key" class="masked" aria-describedby="${id}-key-wrong" ${PLAIN} placeholder="e.g. pet_…" required></label><span class="wrong" id="${id}-key-wrong"></span></div>
        ${inputs.map((each) => inputAsHtml(each, id)).join("\n")}
      </div>
      <p class="actions"><button class="send" disabled>Send</button><button type="button" class="stop" hidden>Stop</button></p>
      <div class="outcome" role="status"></div>
      <div class="answer" hidden>
        <p class="actions"><button type="button" class="next">Next page</button><button type="button" class="copy-body">Copy body</button><button type="button" class="copy-curl">Copy as curl</button></p>
        <pre class="body" tabindex="0" role="group" aria-label="Response body"></pre>
        <details><summary>Headers</summary><pre class="headers" tabindex="0" role="group" aria-label="Response headers"></pre></details>
      </div>
      <div class="example"><p>Example response ${success?.status}: ${escaped(success?.example.summary ?? "")}</p>
        ${codeBlock(success?.example.json ?? "", "Example of the response")}</div>
    </form>`;
}

function inputAsHtml({ name, isRequired, type, choices, example }: Input, id: string): string {
  const wrong = `${id}-${name}-wrong`;
  const attributes = `name="${name}" aria-describedby="${wrong} ${id}-${name}"${isRequired ? " required" : ""}`;
  const options = choices?.map((each) => `<option>${each}</option>`);
  const keyboard = type === "integer" ? "numeric" : "text";
  const field =
    options === undefined
      ? `<input ${attributes} inputmode="${keyboard}" ${PLAIN} placeholder="e.g. ${escaped(example)}">`
      : `<select ${attributes}><option></option>${options.join("")}</select>`;
  return `<div><label>${name}${isRequired ? REQUIRED : ""}${field}</label><span class="wrong" id="${wrong}"></span></div>`;
}

/** `owner`: makes the names of fields unique on the page. */
function fieldList(fields: Field[], owner: string): string {
  const items = fields.map(({ name, facts, description }) => {
    const id = `${owner}-${name}`;
    return `<dt id="${id}"><code>${name}</code> <small>${inline(facts)}</small></dt><dd>${inline(description)}</dd>`;
  });
  return items.length === 0 ? "" : `<dl class="fields">${items.join("")}</dl>`;
}

function heading(depth: number, id: string, html: string, name = html, fragment = id): string {
  return `<div class="heading"><h${depth} id="${id}">${html}</h${depth}><a class="anchor" href="#${fragment}" aria-label="Link to ${name}">#</a></div>\n`;
}

/** The changes of each release. */
export function changesAsMarkdown(releases: Release[]): string {
  const details = releases.map(
    ({ name, text }, index) =>
      `<details${index === 0 ? " open" : ""}>\n<summary>${name}</summary>\n\n${text}\n\n</details>`,
  );
  return ['<section class="changes">', "## Changes", ...details, "</section>"].join("\n\n");
}

const REQUIRED = " <small>required</small>";

/** Browsers change nothing of what is typed. */
const PLAIN = 'autocapitalize="off" spellcheck="false"';

const link = (id: string, html: string) => `<li><a href="#${id}">${html}</a></li>`;

/** Its focus lets the keyboard scroll it. */
const codeBlock = (text: string, label: string) =>
  `<pre tabindex="0" role="group" aria-label="${label}"><code>${escaped(text)}</code></pre>`;

const inline = (markdown: string) => new Marked().parseInline(markdown, { async: false });
const marked = (markdown: string) => new Marked().parse(markdown, { async: false });

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
