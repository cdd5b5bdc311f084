// npm run keys: creates API keys, shows them, and changes them. A new key is printed once, on standard output.

import { existsSync } from "node:fs";
import type { Argument, Option } from "@commander-js/extra-typings";
import { FRESH_MS } from "../src/d1/freshness.ts";
import { DatabaseUnavailable } from "../src/d1/statements.ts";
import { noLimits, type Plan } from "../src/keys/plans.ts";
import { stateOf } from "../src/keys/record.ts";
import * as admin from "../src/operators/admin.ts";
import { findKeyById, type ListedKey, listChanges, listKeys } from "../src/operators/records.ts";
import type { Limits } from "../src/rate-limit/windows.ts";
import { databaseFile, type OpenDatabases, openDatabases, pendingMigrations } from "./cloudflare/database.ts";
import { describeDatabase, readTarget, targetOptions } from "./cloudflare/target.ts";
import * as args from "./keys/arguments.ts";
import { detailsJson, detailsText, readDetails } from "./keys/show.ts";
import {
  changeJson,
  changeTable,
  keyAndPlan,
  keyJson,
  keyOwner,
  keyTable,
  type NamedKey,
  printable,
} from "./keys/text.ts";
import { type Define, type Io, newCommand, withExamples } from "./lib/command.ts";
import { formatTime } from "./lib/time.ts";

const { ID, CHANGE } = args;
const RUN = "npm run keys --";
const AN_ID = "key_0123456789Ab";
/** When a change is in force. */
const IN_FORCE = `within ${FRESH_MS / 1000} seconds`;

/** What a subcommand works with. */
interface Context extends Pick<OpenDatabases, "objects"> {
  io: Io;
  /** The keys. */
  database: D1Database;
  options: args.Options;
  operator: admin.Operator;
}

type Work = (context: Context) => Promise<void>;

type Open = typeof openDatabases<"keys">;

/** The command, on databases that `open` opens. */
const define = (io: Io, open: Open = openDatabases): ReturnType<Define> => {
  const keys = newCommand(
    "npm run keys",
    "Creates, shows and changes API keys. ID is a key's public ID, as list shows it, never the key itself.",
    'create --name "Jo\'s shop" --plan pro',
    "list --state banned --remote",
  );
  /** Adds a subcommand. `prepare` reads its arguments, and returns its work. The second example is by default for production. */
  function add(
    [name, ...words]: [string, ...Argument[]],
    summary: string,
    options: Option[],
    [example, another = `${example} --remote`]: string[],
    prepare: (options: never, ...words: never[]) => Work,
  ) {
    const command = keys.command(name).summary(summary).description(summary);
    for (const word of words) command.addArgument(word);
    for (const option of options) command.addOption(option);
    withExamples(command, `${RUN} ${name} ${example}`.trimEnd(), `${RUN} ${name} ${another}`);
    command.action((...given: unknown[]) => {
      const chosen = given[words.length] as args.Options;
      return withDatabase(
        io,
        open,
        chosen,
        prepare(chosen as never, ...(given.slice(0, words.length) as never[])),
      );
    });
  }
  const enterprise = "enterprise --per-minute 5000 --per-day 1000000";
  const created = ['--name "Jo\'s shop" --plan pro', `--name Acme --plan ${enterprise} --expires 2027-12-31`];
  const listed = ["--search shop --plan pro", "--state expiring --sort expires --json"];
  add(["create"], "create a key, or several, and print it", args.CREATE, created, create);
  add(["list"], "list keys, with their states and bans", args.LIST, listed, list);
  add(["show", ID], "show all about a key", args.COMMON, [AN_ID], show);
  add(["rename", ID, args.NAME], "rename a key", CHANGE, [`${AN_ID} "Jo & Ann"`], rename);
  add(
    ["expire", ID, args.DATE],
    "set or remove the expiry of a key",
    CHANGE,
    [`${AN_ID} 2027-12-31`, `${AN_ID} never`],
    expire,
  );
  add(
    ["plan", ID, args.PLAN],
    "change the plan of a key; what it has used stays counted",
    args.SET_PLAN,
    [`${AN_ID} business`, `${AN_ID} ${enterprise}`],
    setPlan,
  );
  add(
    ["rotate", ID],
    "replace a key by a new one with the same ID, and print it",
    args.ROTATE,
    [AN_ID, `${AN_ID} --grace 86400 --yes`],
    rotate,
  );
  add(["revoke", ID], "end a key for good", args.REVOKE, [AN_ID, `${AN_ID} --yes`], revoke);
  add(["unban", ID], "lift the ban of a key", CHANGE, [AN_ID], unban);
  add(
    ["log", args.ANY_ID],
    "show the changes of a key, or of all keys",
    args.LOG,
    ["", `${AN_ID} --limit 100`],
    log,
  );
  return keys;
};

export default define;

function create(options: args.CreateOptions): Work {
  const { name, plan, expires, count, json, jsonLines } = options;
  const limits = args.readLimits(plan, options);
  return async (context) => {
    const { io, database, operator } = context;
    warnOfLimits(io, limits);
    await warnOfName(context, count === 1 ? name : `${name} 1`);
    const newKeys = Array.from({ length: count }, (_, index) => ({
      name: count === 1 ? name : `${name} ${index + 1}`,
      plan,
      expiresAtMs: expires ?? null,
      ...(limits && { limits }),
    }));
    const all: object[] = [];
    for await (const { key, secret } of admin.createKeys(database, newKeys, operator)) {
      if (json) all.push(secretJson(key, secret));
      else if (jsonLines) io.printJson(secretJson(key, secret));
      else if (count > 1) io.print(`${secret}  ${key.id}  ${key.name}`);
      else printSecret(io, "Created", key, secret);
    }
    if (json) io.printJson(count === 1 ? all[0] : all);
    if (count > 1) io.note(`Created ${count} keys. They are shown only once.`);
  };
}

function list({
  json,
  jsonLines,
  page,
  limit = (json || jsonLines) && page === undefined ? -1 : args.PAGE_SIZE,
  ...query
}: args.ListOptions): Work {
  return async ({ io, database, operator }) => {
    const offset = ((page ?? 1) - 1) * Math.max(limit, 0);
    const { keys, total } = await listKeys(database, operator.nowMs, { ...query, limit, offset });
    warnOfPlans(io, keys);
    if (json) return io.printJson(keys.map(keyJson));
    if (jsonLines) return keys.map(keyJson).forEach(io.printJson, io);
    if (keys.length === 0 && offset > 0) return io.note(`There is no page ${page}.`);
    const isAll = !query.search && !query.plan && !query.state;
    if (keys.length === 0 && isAll)
      return io.note(`No keys yet. Next: ${RUN} create --name NAME --plan free`);
    if (keys.length === 0) return io.note("No key matches.");
    io.print(keyTable(keys));
    const last = offset + keys.length;
    const next = last < total ? `; --page ${(page ?? 1) + 1} shows the next` : "";
    if (total > keys.length) io.note(`Keys ${offset + 1} to ${last} of ${total}${next}.`);
  };
}

function show(options: args.Options, id: string): Work {
  return async (context) => {
    const { io, operator } = context;
    const key = await find(context, id);
    warnOfPlans(io, [key]);
    const details = await readDetails(context, key, readTarget(options), operator.nowMs);
    if (options.json) io.printJson(detailsJson(details));
    else io.print(detailsText(details, operator.nowMs));
  };
}

function rename(_: args.Options, id: string, name: string): Work {
  return change(id, "Renamed", async (context) => {
    await warnOfName(context, name, id);
    return admin.renameKey(context.database, id, name, context.operator);
  });
}

function expire(_: args.Options, id: string, expiresAtMs: number | null): Work {
  return change(id, "Changed the expiry of", ({ database, operator }) =>
    admin.setExpiry(database, id, expiresAtMs, operator),
  );
}

function setPlan(options: args.LimitOptions, id: string, plan: Plan): Work {
  const limits = args.readLimits(plan, options);
  return change(id, "Changed", ({ io, database, operator }) => {
    warnOfLimits(io, limits);
    return admin.changePlan(database, id, plan, limits, operator);
  });
}

function rotate({ grace, json, yes }: args.Options & { grace: number }, id: string): Work {
  return async (context) => {
    const { io, database, operator } = context;
    const before = await findActive(context, id);
    const untilMs = Math.min(operator.nowMs + grace * 1000, before.expiresAtMs ?? Number.POSITIVE_INFINITY);
    // Isolates cache a key for longer than a shorter grace lasts.
    const end = grace * 1000 < FRESH_MS ? IN_FORCE : `at ${formatTime(untilMs)}`;
    await io.confirm(`The current key of ${keyOwner(before)} stops working everywhere ${end}.`, yes);
    const changed = await admin.rotateKey(database, id, grace * 1000, operator);
    if (!changed.ok) throw unchanged(id, changed);
    if (json) return io.printJson(secretJson(changed.key, changed.secret));
    printSecret(io, "Rotated", changed.key, changed.secret);
  };
}

function revoke({ yes }: args.Options, id: string): Work {
  return change(id, "Revoked", async (context) => {
    const key = await find(context, id);
    if (key.revokedAtMs !== null) throw unchanged(id, { ok: false, problem: "revoked" });
    const owner = keyOwner(key);
    await context.io.confirm(`This ends ${owner} for good: it can't be undone.`, yes);
    return admin.revokeKey(context.database, id, context.operator);
  });
}

function unban(_: args.Options, id: string): Work {
  return change(id, "Lifted any ban of", async (context) => {
    const { bannedUntilMs } = await findActive(context, id);
    if (bannedUntilMs === null) context.io.note("No ban is recorded. A ban without a record is lifted too.");
    return admin.unbanKey(context.database, id, context.operator);
  });
}

function log({ json, limit }: args.Options & { limit: number }, id: string | undefined): Work {
  return async ({ io, database }) => {
    const changes = await listChanges(database, id, limit);
    if (json) return io.printJson(changes.map(changeJson));
    io.print(changes.length === 0 ? "No changes are recorded." : changeTable(changes, id === undefined));
  };
}

/** Makes a change, and prints what was `done`, such as "Renamed". */
function change(
  id: string,
  done: string,
  work: (context: Context) => ReturnType<typeof admin.revokeKey>,
): Work {
  return async (context) => {
    const { io, options } = context;
    const changed = await work(context);
    if (!changed.ok) throw unchanged(id, changed);
    if (options.json) return io.printJson(keyJson(changed.key));
    io.print(`${done} ${keyAndPlan(changed.key)}.`);
    io.note(`This takes effect everywhere ${IN_FORCE}.`);
  };
}

async function find({ database, operator }: Context, id: string): Promise<ListedKey> {
  const key = await findKeyById(database, id, operator.nowMs);
  if (key === undefined) throw unchanged(id, { ok: false, problem: "unknown" });
  return key;
}

async function findActive(context: Context, id: string): Promise<ListedKey> {
  const key = await find(context, id);
  const problem = stateOf(key, context.operator.nowMs);
  if (problem !== "active") throw unchanged(id, { ok: false, problem });
  return key;
}

function unchanged(id: string, { problem }: admin.Unchanged): Error {
  if (problem === "unknown") return new Error(`there is no key ${id}: see ${RUN} list`);
  if (problem === "expired") return new Error(`${id} has expired: ${RUN} expire ${id} DATE moves its end`);
  return new Error(`${id} is revoked, for good: nothing about it can be changed`);
}

async function warnOfName({ io, database, operator }: Context, name: string, id?: string): Promise<void> {
  const { keys } = await listKeys(database, operator.nowMs, { search: name });
  const other = keys.find((key) => key.name === name && key.id !== id && key.revokedAtMs === null);
  if (printable(name, 255) !== name)
    io.note('warning: some characters of the name are not printable: "?" is shown');
  if (other !== undefined) io.note(`warning: another key has this name: ${keyOwner(other)}`);
}

/** Names the keys that the service can't use. */
function warnOfPlans(io: Io, keys: ListedKey[]): void {
  const advice = (id: string) => `deploy a version that has some, or change it: ${RUN} plan ${id} PLAN`;
  for (const key of keys)
    if (key.limits === undefined)
      io.note(`warning: ${noLimits(key)}. Its requests get a 503: ${advice(key.id)}`);
}

function warnOfLimits(io: Io, limits: Limits | undefined): void {
  if (limits === undefined || limits.day >= limits.minute) return;
  io.note(`warning: the day's limit (${limits.day}) is smaller than the minute's (${limits.minute})`);
}

function printSecret(io: Io, done: string, key: NamedKey, secret: string): void {
  io.print(secret);
  io.note(`\nThis key is shown only once.\n${done} ${keyAndPlan(key)}.`);
}

function secretJson({ id, name, plan, limits }: NamedKey, key: string) {
  return { id, key, name, plan, perMinute: limits?.minute ?? null, perDay: limits?.day ?? null };
}

/** Does the work on the selected database of keys, which must exist and have all its migrations. */
async function withDatabase(io: Io, open: Open, options: args.Options, work: Work): Promise<void> {
  const target = readTarget(options);
  const selected = targetOptions(target);
  const command = target.kind === "local" ? "npm start" : "npm run migrate";
  const update = selected === "" ? command : `${command} --${selected}`;
  const place = describeDatabase(target, "keys");
  if (target.kind === "local" && !existsSync(databaseFile(target.state, "keys"))) {
    throw new Error(`there is no database of keys in ${target.state}: create it with ${update}`);
  }
  const opening = () => open(target, "keys");
  const opened = await (target.kind === "local" ? opening() : io.step(`Opening ${place}`, opening));
  const { keys: database, objects } = opened;
  try {
    if ((await pendingMigrations(database, "keys")).length > 0) {
      throw new Error(`${place} has pending migrations: apply them with ${update}`);
    }
    const operator = { by: options.by ?? args.loginName(), nowMs: Date.now() };
    await work({ database, ...(objects && { objects }), io, options, operator });
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable && error.wasWriting)) throw error;
    throw new Error(`${error.message}; the change may have been made: see ${RUN} log`);
  } finally {
    await opened.close();
  }
}
