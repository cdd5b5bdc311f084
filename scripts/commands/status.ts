// ./petstore status: the state of a target at a glance. What can't be read is said in its place, and the rest is shown. Then the
// command fails if the service at a given URL does not answer, or a database is damaged: a monitor looks at the exit code.

import { read } from "../../src/d1/statements.ts";
import { countKeys } from "../../src/operators/records.ts";
import { measureTable, tablesOf } from "../backup/tables.ts";
import { waitingForCalls } from "../cloudflare/account.ts";
import { DatabaseDamaged } from "../cloudflare/d1-file.ts";
import {
  type Contents,
  databaseFile,
  missingTables,
  NOT_MIGRATED,
  openDatabases,
  pendingMigrations,
  pendingText,
  type Target,
  targetOptions,
} from "../cloudflare/database.ts";
import { logByStatus } from "../cloudflare/log-query.ts";
import { announceTarget, readTarget } from "../cloudflare/target.ts";
import { findUnfinished, finishLine } from "../cloudflare/time-travel.ts";
import { readOrigin } from "../deploy/smoke-test.ts";
import { COMMON } from "../keys/options.ts";
import { printable } from "../keys/text.ts";
import { defineCommand } from "../lib/command.ts";
import { messageOf } from "../lib/io.ts";
import { petstoreLine } from "../lib/line.ts";
import { factsText, tableText } from "../lib/table.ts";
import { formatTime } from "../lib/time.ts";
import { withSeparators } from "../usage/text.ts";

const LOCAL_URL = "http://localhost:8787";
/** Longer: patience with a slow service; shorter: a command that does not hang without one. */
const ANSWER_MS = 5_000;
/** Of a D1 database on Workers Paid and on Workers Free. */
const MAX_BYTES = 10_000_000_000;
const MAX_BYTES_FREE = 500_000_000;
const HOUR_MS = 3_600_000;

export default defineCommand({
  description:
    "Shows which build answers, how full the databases are (what deletions have freed does not count), migrations that are pending, a restore that is unfinished, and how many keys are in each state (a key can be in several); for production also the requests of the last hour, from Cloudflare's log. Always shows all of that. Exits with 1 if no service answers at a given --url, or if a database or one of its tables can't be read. Of local databases, every page is checked, of others one row of each table.",
  options: {
    url: {
      placeholder: "url",
      description: `the service's URL (default: ${LOCAL_URL} with the local databases)`,
      parse: readOrigin,
    },
    tables: {
      description:
        "also show which tables are large, and find damage anywhere in them: reads every row, for $0.001 a million",
    },
    ...COMMON,
  },
  examples: ["", "--remote --url https://petstore.example", "--preview staging --json"],
  async handler(io, { url, json, tables = false, ...options }) {
    const target = readTarget(io, options);
    const isLocal = target.kind === "local";
    announceTarget(io, target);
    const open = () => openEach(target);
    const opened = await (isLocal ? open() : io.step("Opening the databases", open));
    const read = () => readStatus(target, opened, url, tables, Date.now());
    const status = await (tables ? io.step("Counting rows", () => waitingForCalls(read)) : read());
    await Promise.allSettled(Object.values(opened).map(async (each) => (await each).close()));
    if (json) io.printJson(status);
    else io.print(statusText(status, targetOptions(target)));
    const { build, keysDatabase, petsDatabase, restore, keys } = status;
    const needed = [...(url === undefined ? [] : [build]), keysDatabase, petsDatabase, restore, keys];
    const known = [keysDatabase, petsDatabase].flatMap((each) => (isUnknown(each) ? [] : [each]));
    const lost = known.flatMap(({ missingTables }) => missingTables);
    const problems = new Set(needed.filter(isUnknown).map(({ problem }) => problem));
    if (lost.length > 0) problems.add(`tables are lost: ${lost.join(", ")}`);
    const isNew = known.some(({ pendingMigrations: [first] }) => first?.startsWith("0001_"));
    if (isNew) problems.add(pendingText(target));
    if (problems.size > 0) throw new Error([...problems].join("; "));
  },
});

/** Opens each database by itself: one that can't be opened must not hide the other. Throws if none can be opened. */
async function openEach(target: Target) {
  const opened = { keys: openDatabases(target, "keys"), pets: openDatabases(target, "pets") };
  await Promise.any(Object.values(opened)).catch(({ errors: [first] }) => {
    throw first;
  });
  return opened;
}

type Status = Awaited<ReturnType<typeof readStatus>>;

async function readStatus(
  target: Target,
  opened: Awaited<ReturnType<typeof openEach>>,
  url: string | undefined,
  measuresTables: boolean,
  nowMs: number,
) {
  const isProduction = target.kind === "production";
  const read = (database: D1Database, contents: Contents) =>
    readDatabase(target, database, contents, measuresTables);
  const ofKeys = <Value>(readFrom: (keys: D1Database) => Promise<Value>) =>
    orProblem(opened.keys.then(({ keys }) => orPending(target, keys, readFrom(keys))));
  const [build, keysDatabase, petsDatabase, restore, keys, lastHour] = await Promise.all([
    orProblem(readBuild(url, target)),
    orProblem(opened.keys.then(({ keys }) => read(keys, "keys"))),
    orProblem(opened.pets.then(({ pets }) => read(pets, "pets"))),
    ofKeys((keys) => readRestore(keys, targetOptions(target))),
    ofKeys((keys) => countKeys(keys, nowMs)),
    isProduction ? orProblem(logByStatus(nowMs - HOUR_MS, nowMs)) : null,
  ]);
  return { build, keysDatabase, petsDatabase, restore, keys, lastHour };
}

/** What was read, or why it is unknown. */
async function orProblem<Value>(reading: Promise<Value>): Promise<Value | { problem: string }> {
  return reading.catch((error) => ({ problem: messageOf(error) }));
}

/** What was read. Throws what to do if it needs a migration that is not applied. */
async function orPending<Value>(target: Target, keys: D1Database, reading: Promise<Value>): Promise<Value> {
  return reading.catch(async (error) => {
    const mayLack = NOT_MIGRATED.test(messageOf(error));
    const lacks = mayLack && (await pendingMigrations(keys, "keys")).length > 0;
    throw lacks ? new Error(pendingText(target)) : error;
  });
}

async function readBuild(given: string | undefined, { kind }: Target) {
  const url = given ?? (kind === "local" ? LOCAL_URL : undefined);
  if (url === undefined) throw new Error("add --url URL");
  const request = { signal: AbortSignal.timeout(ANSWER_MS), redirect: "manual" } as const;
  const response = await fetch(`${url}/version`, request).catch(() => undefined);
  const { build } = ((await response?.json().catch(() => undefined)) ?? {}) as { build?: unknown };
  if (typeof build !== "string")
    throw new Error(`no service answers at ${url}${given ? "" : ": add --url URL"}`);
  return { build, url };
}

async function readDatabase(
  target: Target,
  database: D1Database,
  contents: Contents,
  measuresTables: boolean,
) {
  const readAll = async () => {
    if (target.kind === "local") {
      const pages = await database.prepare("PRAGMA quick_check(1)").first<{ quick_check: string }>();
      const [found = ""] = pages?.quick_check.split("\n").slice(-1) ?? [];
      if (found !== "ok") throw new DatabaseDamaged(contents, databaseFile(target.state, contents), found);
    }
    const found = await read(() => tablesOf(database, contents));
    const first = found.map(({ name }) => database.prepare(`SELECT * FROM ${name} LIMIT 1`));
    const [answer] = await read(() => database.batch([database.prepare("SELECT 1"), ...first]));
    const measured = [];
    for (const table of measuresTables ? found : [])
      measured.push({ name: table.name, ...(await measureTable(database, table)) });
    return {
      // D1 says in each answer how large the database is.
      bytes: answer?.meta.size_after ?? 0,
      maxBytes: MAX_BYTES,
      maxBytesOnFree: MAX_BYTES_FREE,
      tables: measuresTables ? measured.sort((a, b) => b.bytes - a.bytes) : null,
      pendingMigrations: await pendingMigrations(database, contents),
      missingTables: await missingTables(database, contents),
    };
  };
  return readAll().catch((error) => {
    if (error instanceof DatabaseDamaged) throw error;
    throw new Error(`the database of ${contents} can't be read: ${messageOf(error)}`);
  });
}

async function readRestore(keys: D1Database, where: string[]) {
  const unfinished = await findUnfinished(keys);
  if (unfinished === null) return { unfinished: null };
  const { beganAtMs, begunBy } = unfinished;
  return { unfinished: { at: formatTime(beganAtMs), by: begunBy, finish: finishLine(unfinished, where) } };
}

function statusText(
  { build, keysDatabase, petsDatabase, restore, keys, lastHour }: Status,
  target: string[],
) {
  const facts = [
    ["Build", isUnknown(build) ? unknown(build) : `${printable(build.build)} at ${build.url}`],
    ["Keys database", isUnknown(keysDatabase) ? unknown(keysDatabase) : databaseText(keysDatabase, target)],
    ["Pets database", isUnknown(petsDatabase) ? unknown(petsDatabase) : databaseText(petsDatabase, target)],
    ["Restore", isUnknown(restore) ? unknown(restore) : restoreText(restore)],
    ["Keys", isUnknown(keys) ? unknown(keys) : keysText(keys)],
  ];
  if (lastHour !== null)
    facts.push(["Last hour", isUnknown(lastHour) ? unknown(lastHour) : requestsText(lastHour)]);
  const sizes = [keysDatabase, petsDatabase].flatMap((each) => (isUnknown(each) ? [] : (each.tables ?? [])));
  const requests = lastHour === null || isUnknown(lastHour) ? [] : lastHour.statuses;
  return [factsText(facts), sizesTable(sizes), statusTable(requests)]
    .filter((text) => text !== "")
    .join("\n\n");
}

/** The largest first. */
function sizesTable(sizes: { name: string; rows: number; bytes: number }[]): string {
  const rows = sizes
    .sort((a, b) => b.bytes - a.bytes)
    .map(({ name, rows, bytes }) => [name, withSeparators(rows), megabytes(bytes)]);
  return rows.length === 0 ? "" : tableText([["TABLE", "ROWS", "MB WITHOUT INDEXES"], ...rows], [1, 2]);
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toLocaleString("en", { maximumSignificantDigits: 3 });
}

function isUnknown(part: object): part is { problem: string } {
  return "problem" in part;
}

const unknown = ({ problem }: { problem: string }) => `unknown: ${printable(problem)}`;

/** `12.3 MB used, 0.1% of 10 GB; no pending migrations` */
function databaseText(
  { bytes, pendingMigrations: pending, missingTables: missing }: Awaited<ReturnType<typeof readDatabase>>,
  target: string[],
): string {
  const shareOf = (max: number) =>
    (bytes / max).toLocaleString("en", { style: "percent", maximumFractionDigits: 1 });
  const free = `, or ${shareOf(MAX_BYTES_FREE)} of ${MAX_BYTES_FREE / 1e6} MB on Workers Free`;
  // No larger database is on Workers Free.
  const mayBeFree = bytes > MAX_BYTES_FREE / 2 && bytes <= MAX_BYTES_FREE;
  const size = `${megabytes(bytes)} MB used, ${shareOf(MAX_BYTES)} of ${MAX_BYTES / 1e9} GB${mayBeFree ? free : ""}`;
  if (missing.length > 0) return `${size}; its tables are lost: ${missing.join(", ")}`;
  if (pending.length === 0) return `${size}; no pending migrations`;
  return `${size}; pending: ${pending.join(", ")}, which ${petstoreLine("migrate", ...target)} applies`;
}

function restoreText({ unfinished }: Awaited<ReturnType<typeof readRestore>>): string {
  if (unfinished === null) return "none is unfinished";
  const { at, by, finish } = unfinished;
  return `unfinished, begun by ${printable(by)} at ${at}: finish it with ${finish}`;
}

/** `20: 18 active, 1 banned, 1 revoked` */
function keysText({ total, states }: Awaited<ReturnType<typeof countKeys>>): string {
  const counts = Object.entries(states).filter(([, count]) => count > 0);
  return [
    withSeparators(total),
    counts.map(([state, count]) => `${withSeparators(count)} ${state}`).join(", "),
  ]
    .filter((text) => text !== "")
    .join(": ");
}

type LastHour = Awaited<ReturnType<typeof logByStatus>>;

function requestsText({ statuses, isSampled }: LastHour): string {
  const sum = (isCounted: (status: number) => boolean) =>
    withSeparators(
      statuses.reduce((total, { status, requests }) => total + (isCounted(status) ? requests : 0), 0),
    );
  const text = `${sum(() => true)} requests, ${sum((status) => status >= 500)} with a status of 500 or above`;
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
