// All keys, with what they used on the last days: to search, to order, and as CSV.

import { html } from "hono/html";
import { PLANS, type Plan, SHORTEST, shortLimitsText, WINDOW_NAMES } from "../../src/keys/plans.ts";
import { LIST_STATES } from "../../src/operators/records.ts";
import type { DayUsage } from "../../src/operators/usage.ts";
import { clipped, stateText } from "../keys/text.ts";
import { type Column, csvHeader, csvRows, percent, timeOrNull, withSeparators } from "../lib/report.ts";
import { lastUsedMs, USAGE_COLUMNS } from "../usage/text.ts";
import {
  commandFor,
  type Html,
  meter,
  missing,
  type Page,
  part,
  select,
  sparkline,
  table,
  time,
} from "./layout.ts";
import type { Readings, Row } from "./readings.ts";

/** Rows of a page. */
const SHOWN_KEYS = 50;
const DAYS = ["30", "7", "90", "400"];
/** Days of the small charts. */
const CHART_DAYS = 30;

const sum = (counts: Record<string, number>) =>
  Object.values(counts).reduce((total, each) => total + each, 0);

/** The share of the shortest window's limit that the fullest one had; null without a limit. */
const fullest = ({ used: { busiest, limits } }: Row) =>
  limits === null ? null : (busiest[SHORTEST] ?? 0) / limits[SHORTEST];

/** By what keys can be ordered: the key with the largest value is the first one. */
const ORDERS: Record<string, (row: Row) => number | null> = {
  admitted: ({ used }) => used.admitted,
  refused: ({ used }) => sum(used.refusedBy),
  "at-limit": ({ used }) => Math.max(...Object.values(used.daysAtLimit)),
  share: ({ used }) => used.share,
  [`fullest ${SHORTEST}`]: fullest,
  bans: ({ key }) => key?.bans ?? 0,
  expires: ({ key }) => -(key?.expiresAtMs ?? Number.MAX_VALUE),
  "last-used": ({ used }) => lastUsedMs(used),
  created: ({ key }) => key?.createdAtMs ?? 0,
};

/** What the address asks for. A value that does not exist is as if it was not there. */
function readQuery(query: URLSearchParams) {
  const one = <Value extends string>(name: string, values: readonly Value[]) =>
    values.find((each) => each === query.get(name));
  return {
    search: query.get("search")?.trim() || undefined,
    plan: one<Plan>("plan", PLANS),
    state: one("state", LIST_STATES),
    days: one("days", DAYS) ?? `${DAYS[0]}`,
    sort: one("sort", Object.keys(ORDERS)) ?? "admitted",
    page: Math.max(1, Math.trunc(Number(query.get("page"))) || 1),
  };
}

type Query = ReturnType<typeof readQuery>;

/** The rows that match, in order. */
async function readRows(readings: Readings, { search, plan, state, days, sort }: Query) {
  const reading = await readings.rows({ search, plan, state }, Number(days));
  if ("problem" in reading) return reading;
  const value = (row: Row) => ORDERS[sort]?.(row) ?? Number.NEGATIVE_INFINITY;
  const inOrder = (a: Row, b: Row) =>
    Number(value(b) > value(a)) - Number(value(b) < value(a)) || (a.used.id < b.used.id ? -1 : 1);
  return { ...reading, value: reading.value.toSorted(inOrder) };
}

export async function keysPage(readings: Readings, parameters: URLSearchParams, base: string): Promise<Page> {
  const query = readQuery(parameters);
  const { search, plan, state, days } = query;
  const rows = await readRows(readings, query);
  const all = "problem" in rows ? [] : rows.value;
  const page = Math.min(query.page, Math.max(1, Math.ceil(all.length / SHOWN_KEYS)));
  const shown = all.slice((page - 1) * SHOWN_KEYS, page * SHOWN_KEYS);
  const ids = shown.map(({ used }) => used.id);
  const charts = await readings.days(ids, CHART_DAYS);
  const line = commandFor(readings.where);
  const filters = Object.entries({ search, plan, state }).flatMap(([name, value]) =>
    value ? [`--${name}`, value] : [],
  );
  const content = (matching: Row[]) => html`
    <p>${withSeparators(matching.length)} keys${matching.length > shown.length ? `, ${shown.length} of them here` : ""}.
      <a href="${base}/keys.csv?${queryText(query, {})}">CSV of all ${withSeparators(matching.length)}</a></p>
    ${"problem" in charts ? missing("The small charts", charts.problem) : ""}
    ${shown.length === 0 ? html`<p>No key matches.</p>` : keyTable(shown, "problem" in charts ? undefined : charts.value, base, days)}
    <p>${pageLink(query, page - 1, matching, base, "Previous keys")} ${pageLink(query, page + 1, matching, base, "Next keys")}</p>`;
  return {
    title: "Keys",
    readings: [rows, charts],
    commands: [
      line("keys list", ...filters, "--json"),
      line("usage", "--days", days, "--json"),
      line("usage", "--daily", "--days", `${CHART_DAYS}`, "--json"),
    ],
    content: html`${form(query)}${part("The list of keys", rows, content)}`,
  };
}

function form({ search = "", plan, state, sort, days }: Query): Html {
  const all: [string, string] = ["", "all"];
  return html`<form class="filters" role="search">
    <label>Name, ref, note, ID, last four <input type="search" name="search" value="${clipped(search)}"></label>
    ${select("plan", "Plan", [all, ...PLANS], plan)} ${select("state", "State", [all, ...LIST_STATES], state)}
    ${select("days", "Days", DAYS, days)} ${select("sort", "Order", Object.keys(ORDERS), sort)}
    <button>Show</button>
  </form>`;
}

/** The query of the first page, unless `changed` says another one. */
function queryText(query: Query, changed: Partial<Query>): string {
  const all = Object.entries({ ...query, page: 1, ...changed });
  return `${new URLSearchParams(all.flatMap(([name, value]) => (value ? [[name, `${value}`]] : [])))}`;
}

function pageLink(query: Query, page: number, rows: Row[], base: string, text: string): Html | string {
  const exists = page >= 1 && (page - 1) * SHOWN_KEYS < rows.length;
  return exists ? html`<a href="${base}/?${queryText(query, { page })}">${text}</a>` : "";
}

function keyTable(
  rows: Row[],
  charts: Map<string, DayUsage[]> | undefined,
  base: string,
  days: string,
): Html {
  const header = `Key/Plan/Requests in ${days} days; chart of ${CHART_DAYS}/Share of a day/Fullest ${SHORTEST}/Days at a limit/Bans/Expires/Last used`;
  const cells = rows.map((row) => {
    const { key, used } = row;
    const { id, name, ref, plan, limits, share, busiest, daysAtLimit, enough } = used;
    const refused = sum(used.refusedBy);
    const [most, limit] = [withSeparators(busiest[SHORTEST] ?? 0), withSeparators(limits?.[SHORTEST] ?? 0)];
    const atLimit = WINDOW_NAMES.filter((each) => daysAtLimit[each] > 0).map(
      (each) => `${daysAtLimit[each]} by ${each}`,
    );
    const facts = [id, ...(ref === null ? [] : [clipped(ref)]), key ? stateText(key) : "deleted"];
    const larger = enough === plan ? "larger limits" : enough;
    const needed = atLimit.length > 0 ? html`<strong>enough: ${larger}</strong>` : "";
    const lastMs = lastUsedMs(used);
    return [
      html`${key === undefined ? "a deleted key" : html`<a href="${base}/keys/${id}">${clipped(name ?? id)}</a>`} <small>${facts.join(" · ")}</small>`,
      html`${clipped(plan ?? "")} <small>${limits === null ? "without limits" : shortLimitsText(limits)}</small> ${needed}`,
      html`${withSeparators(used.admitted)} admitted, <span class="${refused > 0 ? "refused" : ""}">${withSeparators(refused)} refused</span>
        ${charts === undefined ? "" : sparkline(charts.get(id) ?? [])}`,
      share === null || limits === null
        ? ""
        : meter(share, `${percent(share)} of ${withSeparators(limits.day)}`),
      limits === null ? most : meter(fullest(row) ?? 0, `${most} of ${limit}`),
      atLimit.join(", ") || "none",
      `${key?.bans ?? ""}`,
      key?.expiresAtMs ? time(key.expiresAtMs) : "never",
      lastMs === null ? `not in ${days} days` : time(lastMs),
    ];
  });
  return table("Keys", header.split("/"), cells);
}

const CSV_COLUMNS: Column<Row>[] = [
  ...USAGE_COLUMNS.flatMap(({ csv, of }): Column<Row>[] =>
    csv === undefined ? [] : [{ csv, of: ({ used }) => of(used) }],
  ),
  { csv: "state", of: ({ key }) => key?.states.join(" ") ?? "deleted" },
  { csv: "bans", of: ({ key }) => key?.bans ?? null },
  { csv: "expires", of: ({ key }) => timeOrNull(key?.expiresAtMs ?? null) },
  { csv: "created", of: ({ key }) => timeOrNull(key?.createdAtMs ?? null) },
];

/** All keys that match, in the order of the page, with the byte order mark by which Excel knows UTF-8. Throws if they can't be read. */
export async function keysCsv(readings: Readings, parameters: URLSearchParams): Promise<string> {
  const rows = await readRows(readings, readQuery(parameters));
  if ("problem" in rows) throw new Error(rows.problem);
  return `\uFEFF${csvHeader(CSV_COLUMNS)}${csvRows(CSV_COLUMNS, rows.value)}`;
}
