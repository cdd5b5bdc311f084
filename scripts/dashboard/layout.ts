// What the pages of the dashboard share. `html` escapes each value; what is not printable in a text of a database becomes "?", as in a
// terminal.

import { html, raw } from "hono/html";
import { smallChart } from "../../src/site/usage/chart.ts";
import type { Target } from "../cloudflare/database.ts";
import { targetName } from "../cloudflare/target.ts";
import { clipped, counted } from "../keys/text.ts";
import { petstoreLine } from "../lib/line.ts";
import { withSeparators } from "../lib/report.ts";
import { agoText, formatTime } from "../lib/time.ts";
import { AGE_NOTE } from "../usage/text.ts";
import type { Reading } from "./readings.ts";

export type Html = ReturnType<typeof html>;

export interface Page {
  title: string;
  content: Html;
  /** What it was made from: the oldest says how old the page is. */
  readings: Reading<unknown>[];
  /** Commands that print its figures. */
  commands: string[];
}

/** The other pages, by their paths. */
const PAGES = { "/": "Keys", "/service": "Service" };

/** `base`: the beginning of each path, with the token. `here`: the path of the page with its query. */
export function layout(
  { title, content, readings, commands }: Page,
  target: Target,
  base: string,
  here: string,
) {
  const current = (name: string) => (name === title ? html` aria-current="page"` : "");
  const links = Object.entries(PAGES).map(
    ([path, name]) => html`<a href="${base}${path}"${current(name)}>${name}</a> `,
  );
  const readMs = Math.min(Date.now(), ...readings.map(({ atMs }) => atMs));
  const age = agoText((Date.now() - readMs) / 1000);
  const again = `${here}${here.includes("?") ? "&" : "?"}read=again`;
  return html`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>${title}: petstore dashboard</title>
    <link rel="stylesheet" href="${base}/style.css">
  </head>
  <body>
    <a class="skip" href="#content">Skip to content</a>
    <header class="top">
      <strong class="brand">Petstore dashboard</strong>
      <span>${targetName(target)}</span>
      <nav aria-label="Pages">${links}</nav>
    </header>
    <main id="content">
      <h1>${title}</h1>
      <p class="note">Read at ${time(readMs)}, ${age}. <a href="${again}">Read again</a>. ${AGE_NOTE}</p>
      ${content}
    </main>
    <footer class="note">
      The same figures at the command line: ${commands.map((each) => html`${command(each)} `)}
    </footer>
  </body>
</html>`;
}

/** What was read, or a sentence that says what is missing. */
export function part<Value>(what: string, reading: Reading<Value>, of: (value: Value) => Html): Html {
  return "problem" in reading ? missing(what, reading.problem) : of(reading.value);
}

export function missing(what: string, problem: string): Html {
  return html`<p class="problem">${what} can't be shown: ${clipped(problem, 1_000)}</p>`;
}

/** A line to copy. A click selects all of it. */
export function command(line: string): Html {
  return html`<code class="command">${line}</code>`;
}

/** A line of this command line, for the databases of `where`. */
export function commandFor(where: string[]) {
  return (words: string, ...more: string[]) => petstoreLine(words, ...more, ...where);
}

export function time(ms: number): Html {
  return html`<time>${formatTime(ms)}</time>`;
}

/** A share of a limit as a bar and as a text. */
export function meter(share: number, text: string): Html {
  const level = share >= 1 ? "full" : share >= 0.8 ? "low" : "fine";
  const width = Math.min(100, Math.max(share > 0 ? 2 : 0, 100 * share));
  return html`<span class="meter ${level}"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect class="ground" width="100" height="8"/><rect width="${width}" height="8"/></svg>${text}</span>`;
}

/** The requests of some days, as a small chart. */
export function sparkline(days: Parameters<typeof smallChart>[0]): Html {
  const most = Math.max(0, ...days.map(({ admitted }) => admitted));
  const label = `${counted(days.length, "day")}, at most ${withSeparators(most)} admitted on one`;
  return html`<span class="chart small">${raw(smallChart(days, label))}</span>`;
}

/** Pairs of a name and a value. `lines`: each is one. */
export function facts(pairs: [name: string, value: unknown][], style: "grid" | "lines" = "grid"): Html {
  return html`<dl class="facts ${style}">${pairs.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A table whose rows become blocks with labelled cells on a narrow screen. The roles stay what they are then. */
export function table(label: string, header: string[], rows: unknown[][]): Html {
  const cells = (row: unknown[]) =>
    row.map((cell, index) => html`<td role="cell" data-label="${header[index]}">${cell}</td>`);
  return html`<table role="table" aria-label="${label}" class="rows">
    <thead role="rowgroup"><tr role="row">
      ${header.map((name) => html`<th role="columnheader" scope="col">${name}</th>`)}
    </tr></thead>
    <tbody role="rowgroup">${rows.map((row) => html`<tr role="row">${cells(row)}</tr>`)}</tbody>
  </table>`;
}

/** A field to choose from some values; each is its own text, unless it is a pair. */
export function select(
  name: string,
  label: string,
  values: (string | [string, string])[],
  chosen = "",
): Html {
  const options = values.map((each) => {
    const [value, text] = typeof each === "string" ? [each, each] : each;
    return html`<option value="${value}"${value === chosen ? html` selected` : ""}>${text}</option>`;
  });
  return html`<label>${label} <select name="${name}">${options}</select></label>`;
}
