// npm run keys: creates, lists, revokes, rotates and changes API keys. Wrong usage ends with exit code 1 and one line on
// standard error. With --json, standard output is exactly one JSON value.

import { FRESH_MS } from "../src/d1/freshness.ts";
import { DatabaseUnavailable } from "../src/d1/statements.ts";
import { changePlan, createKey, revokeKey, rotateKey, type Unchanged } from "../src/keys/admin.ts";
import { type KeyRecord, listKeys } from "../src/keys/store.ts";
import { MAX_LIMIT } from "../src/rate-limit/plans.ts";
import { databaseExists, openDatabase, pendingMigrations, type Target } from "./cloudflare/database.ts";
import { readTarget, TARGET_OPTIONS, targetOptions } from "./cloudflare/target.ts";
import { MAX_GRACE_SECONDS, readGrace, readId, readLimits, readNewKey, readPlan } from "./keys/arguments.ts";
import { formatTime, keyAndPlan, keyJson, keyLabel, keyTable } from "./keys/text.ts";
import { print, readArguments, runCommand, UsageError } from "./lib/command.ts";

const USAGE = `npm run keys -- create --name NAME --plan free|pro|business|enterprise
                       [--per-minute N --per-day N] [--expires DATE]
npm run keys -- list
npm run keys -- revoke ID
npm run keys -- rotate ID [--grace SECONDS]
npm run keys -- plan ID free|pro|business|enterprise [--per-minute N --per-day N]

ID is the key's public ID, as shown by list, never the key itself.
--per-minute, --per-day: the limits of an enterprise key, 1 to ${MAX_LIMIT}. Other plans have fixed limits.
--expires: a UTC date (2027-01-31: the key expires when that day begins) or a time (2027-01-31T12:00:00Z).
--grace: how long the old key keeps working, 0 to ${MAX_GRACE_SECONDS} seconds (default 0).
All commands accept --json. They use the local database, unless one of these selects another:
--persist-to DIR (the folder given to npm start), --preview NAME, --remote (production).
Key changes take effect everywhere within 30 seconds.`;

const KEY_OPTIONS = {
  name: { type: "string" },
  plan: { type: "string" },
  "per-minute": { type: "string" },
  "per-day": { type: "string" },
  expires: { type: "string" },
  grace: { type: "string" },
} as const;

const OPTIONS = {
  ...KEY_OPTIONS,
  ...TARGET_OPTIONS,
  json: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
} as const;

type KeyOption = keyof typeof KEY_OPTIONS;
type Values = ReturnType<typeof parse>["values"];

interface Command {
  positionals: string[];
  options: KeyOption[];
  run(values: Values, positionals: string[]): Promise<void>;
}

const COMMANDS: Record<string, Command> = {
  create: { positionals: [], options: ["name", "plan", "per-minute", "per-day", "expires"], run: create },
  list: { positionals: [], options: [], run: list },
  revoke: { positionals: ["ID"], options: [], run: revoke },
  rotate: { positionals: ["ID"], options: ["grace"], run: rotate },
  plan: { positionals: ["ID", "PLAN"], options: ["per-minute", "per-day"], run: plan },
};

/** Runs the command with these arguments. Errors are for `runCommand`. */
export async function keys(args: string[]): Promise<void> {
  const { values, positionals } = parse(args);
  const [name = "", ...rest] = positionals;
  if (values.help) return print(USAGE);
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) {
    const names = Object.keys(COMMANDS).join(", ");
    throw new UsageError(`the command must be one of ${names}: see npm run keys -- --help`);
  }
  const [extra] = rest.slice(command.positionals.length);
  if (extra !== undefined) {
    // Without the "--", npm consumes the names of options and passes on their values.
    throw new UsageError(`unexpected argument "${extra}" (did you forget -- after npm run keys?)`);
  }
  for (const option of Object.keys(KEY_OPTIONS) as KeyOption[]) {
    if (values[option] !== undefined && !command.options.includes(option)) {
      throw new UsageError(`${name} does not accept --${option}: see npm run keys -- --help`);
    }
  }
  await command.run(values, rest);
}

function parse(args: string[]) {
  return readArguments("keys", { args, options: OPTIONS, allowPositionals: true });
}

async function create(values: Values): Promise<void> {
  const nowMs = Date.now();
  const newKey = readNewKey(values, nowMs);
  const { key, secret } = await withDatabase(values, (database) => createKey(database, newKey, nowMs));
  if (values.json) return printSecretJson(key, secret);
  const expiry = key.expiresAtMs === null ? "" : `, expires ${formatTime(key.expiresAtMs)}`;
  print(`${secret}\n\nThis key is shown only once.\nCreated ${keyAndPlan(key)}${expiry}.`);
}

async function list(values: Values): Promise<void> {
  const keys = await withDatabase(values, listKeys);
  const nowMs = Date.now();
  if (values.json) return printJson(keys.map((key) => keyJson(key, nowMs)));
  if (keys.length === 0) return print("No keys yet: npm run keys -- create --name NAME --plan free");
  print(keyTable(keys, nowMs));
}

async function revoke(values: Values, [id]: string[]): Promise<void> {
  const keyId = readId(id, "revoke");
  const nowMs = Date.now();
  const changed = await withDatabase(values, (database) => revokeKey(database, keyId, nowMs));
  if (!changed.ok) throw unchanged(keyId, changed);
  if (values.json) return printJson(keyJson(changed.key, nowMs));
  print(`Revoked ${keyLabel(changed.key)} permanently. It stops working everywhere within 30 seconds.`);
}

async function rotate(values: Values, [id]: string[]): Promise<void> {
  const keyId = readId(id, "rotate");
  const graceMs = readGrace(values.grace);
  const nowMs = Date.now();
  const changed = await withDatabase(values, (database) => rotateKey(database, keyId, graceMs, nowMs));
  if (!changed.ok) throw unchanged(keyId, changed);
  const { key, secret } = changed;
  if (values.json) return printSecretJson(key, secret);
  print(`${secret}\n\nThis key is shown only once.\nRotated ${keyAndPlan(key)}.`);
  // Isolates cache a key for longer than a shorter grace lasts.
  print(
    graceMs < FRESH_MS
      ? "The old key stops working everywhere within 30 seconds."
      : `The old key works until ${formatTime(Math.min(nowMs + graceMs, key.expiresAtMs ?? Number.POSITIVE_INFINITY))}.`,
  );
}

async function plan(values: Values, [id, planName]: string[]): Promise<void> {
  const keyId = readId(id, "plan");
  const newPlan = readPlan("the plan", planName);
  const limits = readLimits(newPlan, values);
  const nowMs = Date.now();
  const changed = await withDatabase(values, (database) =>
    changePlan(database, keyId, newPlan, limits, nowMs),
  );
  if (!changed.ok) throw unchanged(keyId, changed);
  if (values.json) return printJson(keyJson(changed.key, nowMs));
  print(`Changed ${keyAndPlan(changed.key)}. This takes effect everywhere within 30 seconds.`);
  print("Requests already counted in the current minute and day still count.");
}

function unchanged(id: string, { problem }: Unchanged): UsageError {
  if (problem === "unknown") return new UsageError(`there is no key ${id}: see npm run keys -- list`);
  const state = problem === "revoked" ? "is already revoked" : "has expired";
  return new UsageError(`${id} ${state}: create another key with npm run keys -- create`);
}

/** Calls `work` with the selected database, which must exist and have all migrations. */
async function withDatabase<Result>(
  values: Values,
  work: (database: D1Database) => Promise<Result>,
): Promise<Result> {
  const target = readTarget(values);
  const command = target.kind === "local" ? "npm start" : "npm run migrate";
  const options = targetOptions(target);
  const update = options === "" ? command : `${command} --${options}`;
  if (target.kind === "local" && !databaseExists(target.state)) {
    throw new UsageError(`there is no database in ${target.state}: create it with ${update}`);
  }
  const { database, close } = await openDatabase(target);
  try {
    if ((await pendingMigrations(database)).length > 0) {
      throw new UsageError(`${describe(target)} has pending migrations: apply them with ${update}`);
    }
    return await work(database);
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable && error.wasWriting)) throw error;
    throw new Error(`${error.message}; the change may have been made: see npm run keys -- list`);
  } finally {
    await close();
  }
}

function describe(target: Target): string {
  if (target.kind === "local") return `the database in ${target.state}`;
  return target.kind === "preview" ? "the preview database" : "the production database";
}

function printSecretJson({ id, name, plan, limits }: KeyRecord, secret: string): void {
  printJson({ id, key: secret, name, plan, perMinute: limits.minute, perDay: limits.day });
}

function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

if (import.meta.main) await runCommand("keys", () => keys(process.argv.slice(2)));
