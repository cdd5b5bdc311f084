// npm run keys -- create | list: how an operator hands out keys. Every wrong use ends with exit code 1 and one line
// on standard error that says what to do. With --json, standard output is exactly one JSON value.

import { parseArgs } from "node:util";
import { createKey, type NewKey } from "../src/keys/manage.ts";
import { MAX_LIMIT, PLAN_LIMITS, type Plan } from "../src/keys/plans.ts";
import { type KeyRecord, listKeys } from "../src/keys/store.ts";
import type { Limits } from "../src/rate-limit/window.ts";
import { DEFAULT_STATE, databaseExists, openDatabase, pendingMigrations, persistTo } from "./database.ts";

const USAGE = `npm run keys -- create --name NAME --plan free|pro|business|enterprise
                       [--per-minute N --per-day N] [--expires DATE]
npm run keys -- list

--per-minute and --per-day belong to enterprise, and only to it: each 1 to ${MAX_LIMIT}.
--expires takes a UTC date (2027-01-31: the key ends as that day begins) or a time (2027-01-31T12:00:00Z).
Both take --persist-to DIR, the folder that npm start was given, and --json.`;

const OPTIONS = {
  name: { type: "string" },
  plan: { type: "string" },
  "per-minute": { type: "string" },
  "per-day": { type: "string" },
  expires: { type: "string" },
  "persist-to": { type: "string", default: DEFAULT_STATE },
  json: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
} as const;

/** RFC 3339 ends here; an offset can lead beyond. */
const YEAR_10000_MS = Date.UTC(10_000, 0);

/** A wrong use: what to tell whoever made it. */
class UsageError extends Error {}

type Values = ReturnType<typeof readArguments>["values"];

try {
  await main();
} catch (error) {
  const [message] = `${error instanceof Error ? error.message : error}`.split("\n");
  process.stderr.write(error instanceof UsageError ? `${message}\n` : `keys failed: ${message}\n`);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const { values, positionals } = readArguments();
  const [command, ...extra] = positionals;
  if (values.help) return print(USAGE);
  if (command !== "create" && command !== "list") {
    throw new UsageError("the command must be create or list: see npm run keys -- --help");
  }
  if (extra.length > 0) {
    // npm takes options that stand before a "--" for its own, and leaves their values.
    throw new UsageError(`"${extra.join(" ")}" is too much, or the -- after "npm run keys" is missing`);
  }
  return command === "create" ? create(values) : list(values);
}

function readArguments() {
  try {
    return parseArgs({ options: OPTIONS, allowPositionals: true });
  } catch (error) {
    // Node goes on with advice about its own syntax after the first sentence.
    const [problem] = `${error instanceof Error ? error.message : error}`.split(/\. |\n/);
    throw new UsageError(`${problem}: see npm run keys -- --help`);
  }
}

async function create(values: Values): Promise<void> {
  const nowMs = Date.now();
  const newKey = readNewKey(values, nowMs);
  const { key, secret } = await withDatabase(values, (database) => createKey(database, newKey, nowMs));
  const { id, name, plan, limits } = key;
  if (values.json) {
    return print(
      JSON.stringify({ id, key: secret, name, plan, perMinute: limits.minute, perDay: limits.day }),
    );
  }
  const until = key.expiresAtMs === null ? "" : `, until ${time(key.expiresAtMs)}`;
  print(`${secret}\n`);
  print("This is the only time the key is shown.");
  print(`It is ${id} ("${printable(name)}"), on ${describePlan(key)}${until}.`);
}

async function list(values: Values): Promise<void> {
  for (const option of ["name", "plan", "per-minute", "per-day", "expires"] as const) {
    if (values[option] !== undefined) throw new UsageError(`--${option} belongs to create, not to list`);
  }
  const keys = await withDatabase(values, listKeys);
  if (values.json) return print(JSON.stringify(keys.map(publicRecord)));
  if (keys.length === 0)
    return print("There are no keys yet: npm run keys -- create --name NAME --plan free");
  const nowMs = Date.now();
  print(
    table([
      ["ID", "NAME", "PLAN", "PER MINUTE", "PER DAY", "LAST FOUR", "CREATED", "EXPIRES", "STATE"],
      ...keys.map((key) => [
        key.id,
        shortened(printable(key.name)),
        key.plan,
        `${key.limits.minute}`,
        `${key.limits.day}`,
        key.lastFour,
        time(key.createdAtMs),
        key.expiresAtMs === null ? "never" : time(key.expiresAtMs),
        validity(key, nowMs),
      ]),
    ]),
  );
}

function readNewKey(values: Values, nowMs: number): NewKey {
  const name = values.name;
  if (name === undefined) throw new UsageError("--name is missing: say whose key it is");
  const length = [...name].length;
  if (length < 1 || length > 255 || !name.isWellFormed())
    throw new UsageError("--name must be 1 to 255 characters");

  const plan = values.plan;
  const plans = Object.keys(PLAN_LIMITS).join(", ");
  if (plan === undefined || !isPlan(plan)) throw new UsageError(`--plan must be one of ${plans}`);
  const expiresAtMs = values.expires === undefined ? null : readDate(values.expires, nowMs);
  const limits = readLimits(plan, values["per-minute"], values["per-day"]);
  return { name, plan, expiresAtMs, ...(limits && { limits }) };
}

function isPlan(text: string): text is Plan {
  return Object.hasOwn(PLAN_LIMITS, text);
}

function readLimits(
  plan: Plan,
  perMinute: string | undefined,
  perDay: string | undefined,
): Limits | undefined {
  if (plan !== "enterprise") {
    if (perMinute === undefined && perDay === undefined) return undefined;
    throw new UsageError(`--per-minute and --per-day belong to enterprise: the limits of ${plan} are fixed`);
  }
  if (perMinute === undefined || perDay === undefined) {
    throw new UsageError("enterprise needs --per-minute and --per-day: its limits are agreed per key");
  }
  return { minute: readLimit("--per-minute", perMinute), day: readLimit("--per-day", perDay) };
}

function readLimit(option: string, text: string): number {
  const limit = /^[0-9]{1,10}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MAX_LIMIT)
    throw new UsageError(`${option} must be a number from 1 to ${MAX_LIMIT}`);
  return limit;
}

/** The instant of a UTC date or an RFC 3339 time, which must lie ahead. */
function readDate(text: string, nowMs: number): number {
  const [, date, timeOfDay = "T00:00:00Z"] =
    text
      .toUpperCase()
      .match(/^(\d{4}-\d{2}-\d{2})(T(?!24)\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2}))?$/) ?? [];
  const expiresAtMs = date === undefined ? Number.NaN : Date.parse(date + timeOfDay);
  // Date.parse takes 31 February for 3 March.
  const exists =
    date !== undefined && new Date(Date.parse(`${date}T00:00:00Z`)).getUTCDate() === Number(date.slice(8));
  if (Number.isNaN(expiresAtMs) || !exists || expiresAtMs >= YEAR_10000_MS) {
    throw new UsageError(
      "--expires must be a date such as 2027-01-31 or a time such as 2027-01-31T12:00:00Z",
    );
  }
  if (expiresAtMs <= nowMs) throw new UsageError(`--expires must lie ahead, and ${text} does not`);
  return expiresAtMs;
}

/** Does `work` on the database that the arguments name, if there is one and it is up to date. */
async function withDatabase<Result>(
  values: Values,
  work: (database: D1Database) => Promise<Result>,
): Promise<Result> {
  const state = values["persist-to"];
  if (state === "") throw new UsageError("--persist-to must name a folder");
  const start = state === DEFAULT_STATE ? "npm start" : `npm start --${persistTo(state)}`;
  if (!databaseExists(state)) {
    throw new UsageError(`there is no database in ${state} yet: run ${start} once, which makes it`);
  }
  const { database, close } = await openDatabase(state);
  try {
    if ((await pendingMigrations(database)).length > 0) {
      throw new UsageError(`the database in ${state} is not up to date: run ${start} once, which mends that`);
    }
    return await work(database);
  } finally {
    await close();
  }
}

/** A key as `--json` shows it. */
function publicRecord({ id, name, plan, limits, lastFour, createdAtMs, expiresAtMs }: KeyRecord) {
  return {
    id,
    name,
    plan,
    perMinute: limits.minute,
    perDay: limits.day,
    lastFour,
    createdAt: time(createdAtMs),
    expiresAt: expiresAtMs === null ? null : time(expiresAtMs),
  };
}

function describePlan({ plan, limits }: KeyRecord): string {
  return `the ${plan} plan: ${limits.minute} requests a minute, ${limits.day} a day`;
}

function validity({ expiresAtMs }: KeyRecord, nowMs: number): string {
  return expiresAtMs !== null && expiresAtMs <= nowMs ? "expired" : "active";
}

function time(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}

/** A name without what could play tricks on a terminal. */
function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "?");
}

/** A name that leaves room for the other columns. */
function shortened(text: string): string {
  const characters = [...text];
  return characters.length > 32 ? `${characters.slice(0, 31).join("")}…` : text;
}

function table(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
