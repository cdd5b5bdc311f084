// The state of a target as text: a line for each part, and tables.

import { clipped } from "../keys/text.ts";
import { petstoreLine } from "../lib/line.ts";
import { percent, withSeparators } from "../lib/report.ts";
import { factsText, tableText } from "../lib/table.ts";
import { agoText } from "../lib/time.ts";
import { isUnknown, MAX_BYTES, MAX_BYTES_FREE, type Problem, type Status } from "./read.ts";

/** A part that was read. */
type Known<Part extends keyof Status> = Exclude<NonNullable<Status[Part]>, Problem>;

export function statusText(status: Status, target: string[]): string {
  const { lastHour } = status;
  const requests = lastHour === null || isUnknown(lastHour) ? [] : lastHour.statuses;
  return [factsText(statusFacts(status, target)), sizesTable(status), statusTable(requests)]
    .filter((text) => text !== "")
    .join("\n\n");
}

/** A text for each part. */
export function statusFacts(status: Status, target: string[]): [name: string, text: string][] {
  const { build, keysDatabase, petsDatabase, growth, restore, backup, keys, lastHour } = status;
  const facts: [string, string][] = [
    ["Build", textOf(build, (each) => `${clipped(each.build)} at ${each.url}`)],
    ["Keys database", textOf(keysDatabase, (each) => databaseText(each, target))],
    ["Pets database", textOf(petsDatabase, (each) => databaseText(each, target))],
    ["Growth", growthText(growth)],
    ["Backup", textOf(backup, backupText)],
    ["Restore", textOf(restore, restoreText)],
    ["Keys", textOf(keys, keysText)],
  ];
  return lastHour === null ? facts : [...facts, ["Last hour", textOf(lastHour, requestsText)]];
}

function textOf<Part extends object>(part: Part, text: (known: Exclude<Part, Problem>) => string): string {
  return isUnknown(part) ? `unknown: ${clipped(part.problem)}` : text(part as Exclude<Part, Problem>);
}

function sizesTable(status: Status): string {
  const rows = sizesOf(status);
  return rows.length === 0 ? "" : tableText([["TABLE", "ROWS", "MB WITHOUT INDEXES"], ...rows], [1, 2]);
}

/** The tables that were counted, the largest first: names such as `keys.key_usage`, numbers of rows, and megabytes. */
export function sizesOf({ keysDatabase, petsDatabase }: Status): string[][] {
  return Object.entries({ keys: keysDatabase, pets: petsDatabase })
    .flatMap(([contents, each]) =>
      isUnknown(each) ? [] : (each.tables ?? []).map((table) => ({ contents, ...table })),
    )
    .sort((a, b) => b.bytes - a.bytes)
    .map(({ contents, name, rows, bytes }) => [
      `${contents}.${name}`,
      withSeparators(rows),
      megabytes(bytes),
    ]);
}

export function megabytes(bytes: number): string {
  return (bytes / 1e6).toLocaleString("en", { maximumSignificantDigits: 3 });
}

/** `12.3 MB used, 0.1% of 10 GB; no pending migrations` */
function databaseText(
  { bytes, pendingMigrations: pending, missingTables: missing }: Known<"keysDatabase">,
  target: string[],
): string {
  const free = `, or ${percent(bytes / MAX_BYTES_FREE)} of ${MAX_BYTES_FREE / 1e6} MB on Workers Free`;
  // No larger database is on Workers Free.
  const mayBeFree = bytes > MAX_BYTES_FREE / 10 && bytes <= MAX_BYTES_FREE;
  const size = `${megabytes(bytes)} MB used, ${percent(bytes / MAX_BYTES)} of ${MAX_BYTES / 1e9} GB${mayBeFree ? free : ""}`;
  if (missing.length > 0) return `${size}; its tables are lost: ${missing.join(", ")}`;
  if (pending.length === 0) return `${size}; no pending migrations`;
  return `${size}; pending: ${pending.join(", ")}, which ${petstoreLine("migrate", ...target)} applies`;
}

/** `keys 0.12 MB a day in 29 days, full in 80,000 days (on Workers Free in 3,900); pets …` */
function growthText({ keys, pets }: Status["growth"]): string {
  const [ofKeys, ofPets] = [textOf(keys, rateText), textOf(pets, rateText)];
  return ofKeys === ofPets && isUnknown(keys) ? ofKeys : `keys ${ofKeys}; pets ${ofPets}`;
}

function rateText(growth: Exclude<Status["growth"]["keys"], Problem>): string {
  const { bytesPerDay, days, daysUntilFull, daysUntilFullOnFree } = growth;
  const rate = `${megabytes(bytesPerDay)} MB a day in ${daysText(days)}`;
  if (daysUntilFull === null) return `${rate}, never full like this`;
  // A database that is larger than Workers Free allows is not on it.
  const free = daysUntilFullOnFree ? ` (on Workers Free in ${withSeparators(daysUntilFullOnFree)})` : "";
  return `${rate}, full in ${daysText(daysUntilFull)}${free}`;
}

const daysText = (days: number) => `${withSeparators(days)} day${days === 1 ? "" : "s"}`;

/** `last 2026-11-22T03:17:00Z, 6 days ago, by jo` */
function backupText({ last }: Known<"backup">): string {
  return last === null ? "none yet" : `last ${last.at}, ${agoText(last.ageSeconds)}, by ${clipped(last.by)}`;
}

function restoreText({ unfinished }: Known<"restore">): string {
  if (unfinished === null) return "none is unfinished";
  const { at, by, finish } = unfinished;
  return `unfinished, begun by ${clipped(by)} at ${at}: finish it with ${finish}`;
}

/** `20: 18 active, 1 banned, 1 revoked` */
function keysText({ total, states }: Known<"keys">): string {
  const counts = Object.entries(states).filter(([, count]) => count > 0);
  const texts = counts.map(([state, count]) => `${withSeparators(count)} ${state}`);
  return withSeparators(total) + (texts.length === 0 ? "" : `: ${texts.join(", ")}`);
}

type LastHour = Known<"lastHour">;

function requestsText({ statuses, isSampled }: LastHour): string {
  const sum = (least: number) =>
    withSeparators(
      statuses.reduce((total, { status, requests }) => total + (status >= least ? requests : 0), 0),
    );
  const text = `${sum(0)} requests, ${sum(500)} with a status of 500 or above`;
  return isSampled ? `about ${text}, because Cloudflare left out lines` : text;
}

function statusTable(statuses: LastHour["statuses"]): string {
  const header = ["STATUS", "REQUESTS", "MEDIAN MS", "P95 MS"];
  const rows = statuses.map(({ status, requests, medianMs, p95Ms }) => [
    `${status}`,
    ...[requests, Math.round(medianMs), Math.round(p95Ms)].map(withSeparators),
  ]);
  return rows.length === 0 ? "" : tableText([header, ...rows], [1, 2, 3]);
}
