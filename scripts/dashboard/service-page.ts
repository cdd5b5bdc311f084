// The service: what it admitted and refused, the state of its databases, and where to look for errors and latency.

import { readFile } from "node:fs/promises";
import { html, raw } from "hono/html";
import { asOfPage } from "../../src/operators/usage.ts";
import { chartSvg, legend, tableOf } from "../../src/site/usage/chart.ts";
import { percent } from "../lib/report.ts";
import { isUnknown, type Status } from "../status/read.ts";
import { megabytes, sizesOf, statusFacts } from "../status/text.ts";
import { commandFor, facts, type Html, meter, type Page, part, table } from "./layout.ts";
import type { Readings } from "./readings.ts";

const CHART_DAYS = 30;
const QUERY_BUILDER =
  "https://dash.cloudflare.com/?to=/:account/workers/services/view/petstore/production/observability/logs";

export async function servicePage(readings: Readings, query: URLSearchParams): Promise<Page> {
  const measuresTables = query.get("tables") === "count";
  const status = await readings.status(measuresTables);
  const totals = await readings.totals(CHART_DAYS);
  const alerts = await alertQueries();
  const { where, url } = readings;
  const line = commandFor(where);
  return {
    title: "Service",
    readings: [status, totals],
    commands: [
      line(
        "status",
        ...(measuresTables ? ["--tables"] : []),
        ...(url === undefined ? [] : ["--url", url]),
        "--json",
      ),
      line("usage", "--total", "--days", `${CHART_DAYS}`, "--json"),
    ],
    content: html`
      <h2>Requests of all keys</h2>
      ${part("What was admitted and refused on each day", totals, (value) => {
        const days = value.map((day) => ({ ...asOfPage(day), usedUp: [] }));
        return html`
          <figure class="chart card">${raw(chartSvg(days))}<figcaption class="legend">${raw(legend(false))}</figcaption></figure>
          <details><summary>Show as a table</summary>${raw(tableOf(days))}</details>`;
      })}
      <h2>State</h2>
      ${part(
        "The state of the service",
        status,
        (value) => html`
        ${facts(statusFacts(value, where))}
        ${sizes(value)}
        ${measuresTables ? "" : html`<p><a href="?tables=count">Count the rows of each table</a>: reads every row, for $0.001 a million.</p>`}`,
      )}
      <h2>Errors and latency</h2>
      <p>They are in Cloudflare's log, by minute. <a href="${QUERY_BUILDER}">Open the Query Builder</a>, or use a query of the alerts:</p>
      ${alerts.map(({ title, sql }) => html`<details><summary>${title}</summary><pre tabindex="0"><code>${sql}</code></pre></details>`)}`,
  };
}

/** How full the databases are, and how large their tables, if they were counted. */
function sizes(status: Status): Html {
  const { keysDatabase, petsDatabase } = status;
  const bars = Object.entries({ Keys: keysDatabase, Pets: petsDatabase }).flatMap(([name, each]) => {
    if (isUnknown(each)) return [];
    const share = each.bytes / each.maxBytes;
    return [
      [name, meter(share, `${megabytes(each.bytes)} MB, ${percent(share)} of ${each.maxBytes / 1e9} GB`)],
    ];
  });
  const tables = sizesOf(status);
  return html`${table("Databases", ["Database", "Size"], bars)}
    ${tables.length === 0 ? "" : table("Tables", ["Table", "Rows", "MB without indexes"], tables)}`;
}

/** The queries of docs/alerts.md. */
async function alertQueries(): Promise<{ title: string; sql: string }[]> {
  const text = await readFile("docs/alerts.md", "utf8").catch(() => "");
  return text.split("\n## ").flatMap((section) => {
    const [title = ""] = section.split("\n");
    const [, sql] = section.match(/```sql\n([\s\S]*?)```/) ?? [];
    return sql === undefined ? [] : [{ title, sql }];
  });
}
