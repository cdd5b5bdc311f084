// One key: why its requests are refused, its days, its changes and bans, and the commands that change it.

import { html, raw } from "hono/html";
import { noLimits, SHORT_WINDOWS, WINDOW_NAMES } from "../../src/keys/plans.ts";
import { mostSent, smallestPlan } from "../../src/keys/usage/demand.ts";
import type { ChangeRecord } from "../../src/operators/records.ts";
import { asOfPage } from "../../src/operators/usage.ts";
import { chartSvg, legend, tableOf } from "../../src/site/usage/chart.ts";
import { type KeyDetails, keyFacts, lastTimes } from "../keys/details.ts";
import { clipped, counted, suspensionText } from "../keys/text.ts";
import { withSeparators } from "../lib/report.ts";
import { agoText } from "../lib/time.ts";
import { command, commandFor, facts, type Html, meter, type Page, part, table, time } from "./layout.ts";
import type { Readings } from "./readings.ts";

const SHOWN_CHANGES = 50;
const CHART_DAYS = 30;

export async function keyPage(readings: Readings, id: string): Promise<Page> {
  const reading = await readings.key(id, SHOWN_CHANGES);
  const line = commandFor(readings.where);
  const content = (details: KeyDetails) => html`
    ${facts([["ID", id], ...keyFacts(details)])}
    <h2>Why is it refused?</h2>
    ${facts(reasons(details), "lines")}
    ${days(details)}
    <h2>Changes and bans</h2>
    ${changesTable(details.changes)}
    <p>Changes: ${details.changes.length} of ${details.changeCount}. All: ${command(line("keys log", id))}</p>
    <h2>Commands</h2>
    <p>${commandsOf(details, line).map((each) => html`${command(each)}<br>`)}</p>`;
  return {
    title: "problem" in reading ? id : clipped(reading.value.key.name),
    readings: [reading],
    commands: [line("keys show", id, "--json"), line("usage", id, "--days", `${CHART_DAYS}`, "--json")],
    content: part("The key", reading, content),
  };
}

/** What can be the reason for a 401, a 403, a 429 or a 503, in the order in which it is looked for. */
function reasons(details: KeyDetails): [string, unknown][] {
  const { key, ban, days } = details;
  const today = days.at(-1);
  const { lastRefusedMs } = lastTimes(days);
  const { limits } = key;
  const windows = WINDOW_NAMES.toReversed().map((name): [string, unknown] => {
    const refused = withSeparators(today?.refusedBy[name] ?? 0);
    const isShort = SHORT_WINDOWS.includes(name);
    const used = (isShort ? today?.busiest[name] : today?.admitted) ?? 0;
    const limit = limits?.[name] ?? 0;
    const when = isShort ? `in the fullest ${name} of today` : "today";
    const text = `${withSeparators(used)} of ${withSeparators(limit)} ${when}`;
    return [
      `429, the limit per ${name}`,
      html`<strong>${refused} refused today.</strong> ${meter(used / limit, text)}`,
    ];
  });
  const now =
    key.bannedUntilMs === null ? "None is in force" : html`<strong>Until ${time(key.bannedUntilMs)}</strong>`;
  const last =
    lastRefusedMs !== null && html`${time(lastRefusedMs)}, ${agoText((Date.now() - lastRefusedMs) / 1000)}.`;
  return [
    ["401, the key itself", ended(key) ?? "It is valid. An older secret may have ended: see Old keys."],
    [
      "403, its access",
      key.access === "read" ? html`<strong>It may only read.</strong>` : "It may read and write.",
    ],
    [
      "429, a ban",
      html`${now}${ban ? html`; the last began ${time(ban.atMs)}` : ""}. A client that goes on after a 429 is banned.`,
    ],
    ...(limits === undefined ? [["503, no limits", noLimits(key)] as [string, string]] : windows),
    [
      "The last refusal by a limit",
      last ? html`${last} One by the minute ends with the minute.` : "None is recorded.",
    ],
    [
      "429, none of these",
      html`A message about <em>unknown API keys</em> is about the client's address. A response without a <code>code</code> is Cloudflare's.
        What happened in a certain minute is in the log: filter <code>keyId</code> = <code>${key.id}</code> and <code>code</code> =
        <code>rate_limit_exceeded</code>; <code>window</code> names the limit.`,
    ],
  ];
}

function ended({ revokedAtMs, suspendedAtMs, states, ...key }: KeyDetails["key"]): Html | undefined {
  if (revokedAtMs !== null) return html`<strong>It is revoked.</strong>`;
  if (suspendedAtMs !== null)
    return html`<strong>It is suspended</strong>: ${suspensionText({ suspendedAtMs, ...key, revokedAtMs, states })}.`;
  return states.includes("expired") ? html`<strong>It has expired.</strong>` : undefined;
}

function days({ days: all, key }: KeyDetails): Html {
  const shown = all.slice(-CHART_DAYS).map(asOfPage);
  const full = shown.filter(({ usedUp }) => usedUp.length > 0).length;
  const enough = smallestPlan(mostSent(shown));
  const advice = () => {
    if (key.limits === undefined) return "";
    if (full === 0) return "No limit was used up: a larger plan would have changed nothing.";
    const plan =
      enough === undefined ? "No plan with fixed limits" : html`The plan <strong>${enough}</strong>`;
    return html`A limit was used up on ${counted(full, "day")}. ${plan} would have been enough for these requests. A client that waits may need more.`;
  };
  return html`
    <h2>The last ${counted(shown.length, "day")}</h2>
    <figure class="chart card">${raw(chartSvg(shown))}<figcaption class="legend">${raw(legend())}</figcaption></figure>
    <p>${advice()}</p>
    <details><summary>Show as a table</summary>${raw(tableOf(shown))}</details>`;
}

function changesTable(changes: ChangeRecord[]): Html {
  const rows = changes.map(({ atMs, change, from, to, by }) => [
    time(atMs),
    ...[change, from ?? "", to ?? "", by].map((value) => clipped(value)),
  ]);
  return table("Changes and bans", ["Time", "Change", "From", "To", "By"], rows);
}

/** What operators do about such a key. Words in capitals are to be replaced. */
function commandsOf({ key }: KeyDetails, line: ReturnType<typeof commandFor>): string[] {
  const { id } = key;
  if (key.revokedAtMs !== null) return ["It is revoked, for good: nothing about it can be changed."];
  return [
    ...(key.bannedUntilMs === null ? [] : [line("keys unban", id)]),
    ...(key.states.includes("in-grace") ? [line("keys end-grace", id)] : []),
    line("keys plan", id, "PLAN"),
    key.suspendedAtMs === null ? line("keys suspend", id, "--reason", "TEXT") : line("keys resume", id),
    line("keys rotate", id),
    line("keys rotate", id, "--grace", "86400"),
    line("keys access", id, key.access === "read" ? "write" : "read"),
    line("keys expire", id, "DATE"),
    line("keys revoke", id),
  ];
}
