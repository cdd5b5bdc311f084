// npm run keys: how an operator hands out keys, takes them back, and changes them. Every wrong use ends with exit code 1
// and one line on standard error that says what to do. With --json, standard output is exactly one JSON value.

import { parseArgs } from "node:util";
import { FRESH_MS } from "../src/d1/freshness.ts";
import { DatabaseUnavailable } from "../src/d1/statements.ts";
import { changePlan, createKey, revokeKey, rotateKey, type Unchanged } from "../src/keys/admin.ts";
import { type KeyRecord, listKeys } from "../src/keys/store.ts";
import { MAX_LIMIT } from "../src/rate-limit/plans.ts";
import { databaseExists, openDatabase, pendingMigrations, type Target } from "./cloudflare/database.ts";
import {
  persistTo,
  print,
  readTarget,
  runCommand,
  TARGET_OPTIONS,
  targetWords,
  UsageError,
} from "./cloudflare/target.ts";
import { MAX_GRACE_SECONDS, readGrace, readId, readLimits, readNewKey, readPlan } from "./keys/arguments.ts";
import { keyTable, nameOf, planOf, publicKey, time } from "./keys/text.ts";

const USAGE = `npm run keys -- create --name NAME --plan free|pro|business|enterprise
                       [--per-minute N --per-day N] [--expires DATE]
npm run keys -- list
npm run keys -- revoke ID
npm run keys -- rotate ID [--grace SECONDS]
npm run keys -- plan ID free|pro|business|enterprise [--per-minute N --per-day N]

ID is the key's public id, which list shows, never the key itself.
--per-minute and --per-day belong to enterprise, and only to it: each 1 to ${MAX_LIMIT}.
--expires takes a UTC date (2027-01-31: the key ends as that day begins) or a time (2027-01-31T12:00:00Z).
--grace is how long the old key stays good after a rotation: 0 to ${MAX_GRACE_SECONDS} seconds, 0 if it is left out.
All take --json, and one of these, or work on the local database:
--persist-to DIR (the folder that npm start was given), --preview NAME, --remote (production).
What is changed is in force everywhere within 30 s.`;

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
type Values = ReturnType<typeof readArguments>["values"];

interface Command {
  /** The arguments that follow it. */
  words: string[];
  options: KeyOption[];
  run(values: Values, words: string[]): Promise<void>;
}

const COMMANDS: Record<string, Command> = {
  create: { words: [], options: ["name", "plan", "per-minute", "per-day", "expires"], run: create },
  list: { words: [], options: [], run: list },
  revoke: { words: ["ID"], options: [], run: revoke },
  rotate: { words: ["ID"], options: ["grace"], run: rotate },
  plan: { words: ["ID", "PLAN"], options: ["per-minute", "per-day"], run: plan },
};

/** Runs the command with these arguments. Throws as `runCommand` wants it. */
export async function keys(args: string[]): Promise<void> {
  const { values, positionals } = readArguments(args);
  const [name = "", ...words] = positionals;
  if (values.help) return print(USAGE);
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) {
    const names = Object.keys(COMMANDS).join(", ");
    throw new UsageError(`the command must be one of ${names}: see npm run keys -- --help`);
  }
  const extra = words.slice(command.words.length);
  if (extra.length > 0) {
    // npm takes options that stand before a "--" for its own, and leaves their values.
    throw new UsageError(`"${extra.join(" ")}" is too much, or the -- after "npm run keys" is missing`);
  }
  for (const option of Object.keys(KEY_OPTIONS) as KeyOption[]) {
    if (values[option] !== undefined && !command.options.includes(option)) {
      throw new UsageError(`--${option} does not belong to ${name}: see npm run keys -- --help`);
    }
  }
  await command.run(values, words);
}

function readArguments(args: string[]) {
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true });
  } catch (error) {
    // Node goes on with advice about its own syntax after the first sentence.
    const [problem] = `${error instanceof Error ? error.message : error}`.split(/\. |\.?\n/);
    throw new UsageError(`${problem}: see npm run keys -- --help`);
  }
}

async function create(values: Values): Promise<void> {
  const nowMs = Date.now();
  const newKey = readNewKey(values, nowMs);
  const { key, secret } = await withDatabase(values, (database) => createKey(database, newKey, nowMs));
  if (values.json) return printSecretJson(key, secret);
  const until = key.expiresAtMs === null ? "" : `, until ${time(key.expiresAtMs)}`;
  print(`${secret}\n`);
  print("This is the only time the key is shown.");
  print(`It is ${nameOf(key)}, on ${planOf(key)}${until}.`);
}

async function list(values: Values): Promise<void> {
  const keys = await withDatabase(values, listKeys);
  const nowMs = Date.now();
  if (values.json) return printJson(keys.map((key) => publicKey(key, nowMs)));
  if (keys.length === 0)
    return print("There are no keys yet: npm run keys -- create --name NAME --plan free");
  print(keyTable(keys, nowMs));
}

async function revoke(values: Values, [word]: string[]): Promise<void> {
  const id = readId(word, "revoke");
  const nowMs = Date.now();
  const changed = await withDatabase(values, (database) => revokeKey(database, id, nowMs));
  if (!changed.ok) throw unchanged(id, changed);
  if (values.json) return printJson(publicKey(changed.key, nowMs));
  print(`${nameOf(changed.key)} is revoked, for good. Within 30 s it is refused everywhere.`);
}

async function rotate(values: Values, [word]: string[]): Promise<void> {
  const id = readId(word, "rotate");
  const graceMs = readGrace(values.grace);
  const nowMs = Date.now();
  const changed = await withDatabase(values, (database) => rotateKey(database, id, graceMs, nowMs));
  if (!changed.ok) throw unchanged(id, changed);
  const { key, secret } = changed;
  if (values.json) return printSecretJson(key, secret);
  print(`${secret}\n`);
  print("This is the only time the key is shown.");
  print(`It is the new one of ${nameOf(key)}, on ${planOf(key)}.`);
  // A shorter grace is over before every isolate has heard of it.
  print(
    graceMs < FRESH_MS
      ? "The old one is refused everywhere within 30 s."
      : `The old one stays good until ${time(Math.min(nowMs + graceMs, key.expiresAtMs ?? Number.POSITIVE_INFINITY))}.`,
  );
}

async function plan(values: Values, [idWord, planWord]: string[]): Promise<void> {
  const id = readId(idWord, "plan");
  const newPlan = readPlan("the plan", planWord);
  const limits = readLimits(newPlan, values);
  const nowMs = Date.now();
  const changed = await withDatabase(values, (database) => changePlan(database, id, newPlan, limits, nowMs));
  if (!changed.ok) throw unchanged(id, changed);
  if (values.json) return printJson(publicKey(changed.key, nowMs));
  print(`${nameOf(changed.key)} is on ${planOf(changed.key)}. Within 30 s that is in force everywhere.`);
  print("What the key has used up of its minute and its day stays used up.");
}

function unchanged(id: string, { problem }: Unchanged): UsageError {
  if (problem === "unknown") return new UsageError(`there is no key ${id}: see npm run keys -- list`);
  const state = problem === "revoked" ? "is revoked already" : "has expired";
  return new UsageError(`${id} ${state}, for good: make another key with npm run keys -- create`);
}

/** Does `work` on the database that the arguments name, if there is one and it is up to date. */
async function withDatabase<Result>(
  values: Values,
  work: (database: D1Database) => Promise<Result>,
): Promise<Result> {
  const target = readTarget(values);
  const update = howToUpdate(target);
  if (target.kind === "local" && !databaseExists(target.state)) {
    throw new UsageError(`there is no database in ${target.state} yet: run ${update} once, which makes it`);
  }
  const { database, close } = await openDatabase(target);
  try {
    if ((await pendingMigrations(database)).length > 0) {
      throw new UsageError(
        `the database${placeOf(target)} is not up to date: run ${update} once, which mends that`,
      );
    }
    return await work(database);
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable && error.wasWriting)) throw error;
    throw new Error(`${error.message}; whether the change was made is unknown: see npm run keys -- list`);
  } finally {
    await close();
  }
}

function howToUpdate(target: Target): string {
  if (target.kind !== "local") return `npm run migrate --${targetWords(target)}`;
  const words = persistTo(target.state);
  return words === "" ? "npm start" : `npm start --${words}`;
}

function placeOf(target: Target): string {
  return target.kind === "local"
    ? ` in ${target.state}`
    : ` of ${target.kind === "preview" ? "the previews" : "production"}`;
}

function printSecretJson({ id, name, plan, limits }: KeyRecord, secret: string): void {
  printJson({ id, key: secret, name, plan, perMinute: limits.minute, perDay: limits.day });
}

function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

if (import.meta.main) await runCommand("keys", () => keys(process.argv.slice(2)));
