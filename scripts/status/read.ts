// The state of a target at a glance, part by part: what can't be read has its problem in its place, and the rest is there.

import { read } from "../../src/d1/statements.ts";
import { DAY_MS } from "../../src/limits/index.ts";
import { countKeys } from "../../src/operators/records.ts";
import { listSizes, type RecordedSize } from "../../src/operators/sizes.ts";
import { findLastBackup } from "../backup/backup.ts";
import { measureTable } from "../backup/tables.ts";
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
  tablesOf,
  targetOptions,
} from "../cloudflare/database.ts";
import { logByStatus } from "../cloudflare/log-query.ts";
import { findUnfinished, finishLine } from "../cloudflare/time-travel.ts";
import { messageOf } from "../lib/io.ts";
import { formatTime } from "../lib/time.ts";

export const LOCAL_URL = "http://localhost:8787";
/** Longer: patience with a slow service; shorter: a command that does not hang without one. */
const ANSWER_MS = 5_000;
/** Of a D1 database on Workers Paid and on Workers Free. */
export const MAX_BYTES = 10_000_000_000;
export const MAX_BYTES_FREE = 500_000_000;
const HOUR_MS = 3_600_000;
/** Longer: a change of growth shows later; shorter: a busy day counts more. */
const GROWTH_DAYS = 30;

/** Opens each database by itself: one that can't be opened must not hide the other. Throws if none can be opened. */
export async function openEach(target: Target) {
  const opened = { keys: openDatabases(target, "keys"), pets: openDatabases(target, "pets") };
  await requireOne(Object.values(opened));
  return opened;
}

/** Throws if none of these databases could be opened. */
export async function requireOne(opened: Promise<unknown>[]): Promise<void> {
  await Promise.any(opened).catch(({ errors: [first] }) => {
    throw first;
  });
}

export type Status = Awaited<ReturnType<typeof readStatus>>;

export async function readStatus(
  target: Target,
  opened: Awaited<ReturnType<typeof openEach>>,
  url: string | undefined,
  measuresTables: boolean,
  nowMs: number,
) {
  const isProduction = target.kind === "production";
  const ofDatabase = (opened: Promise<D1Database>, contents: Contents) =>
    orProblem(opened.then((database) => readDatabase(target, database, contents, measuresTables)));
  const ofKeys = <Value>(readFrom: (keys: D1Database) => Promise<Value>) =>
    orProblem(opened.keys.then(({ keys }) => orPending(target, keys, readFrom(keys))));
  const [build, keysDatabase, petsDatabase, restore, backup, keys, sizes, lastHour] = await Promise.all([
    orProblem(readBuild(url, target)),
    ofDatabase(
      opened.keys.then(({ keys }) => keys),
      "keys",
    ),
    ofDatabase(
      opened.pets.then(({ pets }) => pets),
      "pets",
    ),
    ofKeys((keys) => readRestore(keys, targetOptions(target))),
    ofKeys((keys) => readBackup(keys, nowMs)),
    ofKeys((keys) => countKeys(keys, nowMs)),
    ofKeys((keys) => listSizes(keys, nowMs, GROWTH_DAYS)),
    isProduction ? orProblem(logByStatus(nowMs - HOUR_MS, nowMs)) : null,
  ]);
  const growth = {
    keys: readGrowth(target, sizes, "keys", keysDatabase),
    pets: readGrowth(target, sizes, "pets", petsDatabase),
  };
  return { build, keysDatabase, petsDatabase, growth, restore, backup, keys, lastHour };
}

/** Why a part could not be read. */
export type Problem = { problem: string };

export function isUnknown(part: object): part is Problem {
  return "problem" in part;
}

/** What was read, or why it is unknown. */
async function orProblem<Value>(reading: Promise<Value>): Promise<Value | Problem> {
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
  try {
    if (target.kind === "local") {
      const pages = await database.prepare("PRAGMA quick_check(1)").first<{ quick_check: string }>();
      const [found = ""] = pages?.quick_check.split("\n").slice(-1) ?? [];
      if (found !== "ok") throw new DatabaseDamaged(contents, databaseFile(target.state, contents), found);
    }
    const found = await tablesOf(database);
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
  } catch (error) {
    if (error instanceof DatabaseDamaged) throw error;
    throw new Error(`the database of ${contents} can't be read: ${messageOf(error)}`);
  }
}

async function readRestore(keys: D1Database, where: string[]) {
  const unfinished = await findUnfinished(keys);
  if (unfinished === null) return { unfinished: null };
  const { beganAtMs, begunBy } = unfinished;
  return { unfinished: { at: formatTime(beganAtMs), by: begunBy, finish: finishLine(unfinished, where) } };
}

/** The age is negative if the clock of one of the two machines is wrong. */
async function readBackup(keys: D1Database, nowMs: number) {
  const last = await findLastBackup(keys);
  if (last === null) return { last: null };
  const ageSeconds = Math.floor((nowMs - last.beganAtMs) / 1000);
  return { last: { at: formatTime(last.beganAtMs), by: last.madeBy, ageSeconds } };
}

/** The growth of a database by its recorded sizes, and when it is full at that rate. */
function readGrowth(
  { kind }: Target,
  sizes: RecordedSize[] | Problem,
  contents: Contents,
  database: { bytes: number } | Problem,
) {
  if (isUnknown(sizes)) return sizes;
  if (isUnknown(database)) return database;
  const growth = growthOf(sizes.filter((size) => size.contents === contents));
  if (growth !== undefined) {
    const until = (maxBytes: number) => daysUntil(maxBytes, database.bytes, growth.bytesPerDay);
    return { ...growth, daysUntilFull: until(MAX_BYTES), daysUntilFullOnFree: until(MAX_BYTES_FREE) };
  }
  const problem =
    kind === "production"
      ? `two days of the last ${GROWTH_DAYS} are needed, and the cron trigger records one a day`
      : "only production has the cron trigger that records the size of a day";
  return { problem };
}

/** On average from the first to the last of these days, which are in order, with gaps. Undefined for fewer than two days. */
export function growthOf(sizes: Pick<RecordedSize, "day" | "bytes">[]) {
  const [first, last] = [sizes[0], sizes.at(-1)];
  if (first === undefined || last === undefined || first === last) return undefined;
  const days = (Date.parse(last.day) - Date.parse(first.day)) / DAY_MS;
  return { bytesPerDay: (last.bytes - first.bytes) / days, days };
}

/** In how many whole days a database of `bytes` has `maxBytes` at this growth; null if it never has. */
export function daysUntil(maxBytes: number, bytes: number, bytesPerDay: number): number | null {
  if (bytes >= maxBytes) return 0;
  return bytesPerDay > 0 ? Math.floor((maxBytes - bytes) / bytesPerDay) : null;
}
