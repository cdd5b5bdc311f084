// npm run keys: creates API keys, shows them, and changes them. A new key is printed once, on standard output.

import { Argument, Option } from "@commander-js/extra-typings";
import { FRESH_MS } from "../src/d1/freshness.ts";
import { DatabaseUnavailable } from "../src/d1/statements.ts";
import * as admin from "../src/keys/admin.ts";
import {
  findKeyById,
  LIST_ORDERS,
  LIST_STATES,
  type ListedKey,
  listChanges,
  listKeys,
} from "../src/keys/records.ts";
import type { Plan } from "../src/rate-limit/plans.ts";
import type { Limits } from "../src/rate-limit/windows.ts";
import {
  databaseExists,
  type OpenDatabase,
  openDatabase,
  pendingMigrations,
  type Target,
} from "./cloudflare/database.ts";
import { readTarget, type TargetOptions, targetOptions } from "./cloudflare/target.ts";
import {
  expiry,
  expiryOrNever,
  graceSeconds,
  keyId,
  keyName,
  loginName,
  PLANS,
  readLimits,
  withChangeOptions,
  withCommonOptions,
  withLimitOptions,
} from "./keys/arguments.ts";
import { detailsJson, detailsText, readDetails } from "./keys/show.ts";
import { changeJson, changeTable, keyAndPlan, keyJson, keyOwner, keyTable } from "./keys/text.ts";
import { type Define, type Io, integer, newCommand, withExamples } from "./lib/command.ts";
import { formatTime } from "./lib/time.ts";

const RUN = "npm run keys --";
const PAGE_SIZE = 50;
const JSON_LINES = new Option("--json-lines", "print one JSON value per line").conflicts("json");

interface Options extends TargetOptions {
  json?: true | undefined;
  by?: string | undefined;
}

const define: Define = (io) => {
  const keys = newCommand(
    "npm run keys",
    "Creates, shows and changes API keys. ID is a key's public ID, as list shows it, never the key itself.",
    'create --name "Jo\'s shop" --plan pro',
    "list --state banned --remote",
  );
  const planOption = (description: string) => new Option("--plan <plan>", description).choices(PLANS);
  const command = (name: string, summary: string, ...examples: string[]) =>
    withExamples(
      keys.command(name).summary(summary).description(summary),
      ...examples.map((each) => `${RUN} ${each}`),
    );
  /** A subcommand that takes the ID of a key. */
  const keyCommand = (name: string, summary: string, ...examples: string[]) =>
    command(name, summary, ...examples).argument("<id>", "the key's public ID", keyId);
  const yes = new Option("--yes", "don't ask");

  withLimitOptions(
    withChangeOptions(
      command(
        "create",
        "create a key, or several, and print it",
        'create --name "Jo\'s shop" --plan pro',
        "create --name Acme --plan enterprise --per-minute 5000 --per-day 1000000 --expires 2027-12-31",
      ),
    ),
  )
    .addOption(new Option("--name <name>", "the owner's name").argParser(keyName).makeOptionMandatory())
    .addOption(planOption("the plan").makeOptionMandatory())
    .option("--expires <date>", "when the key ends: the beginning of a UTC day, or a time", expiry)
    .option("--count <n>", "how many keys; their names get a number", integer(1, 100_000), 1)
    .addOption(JSON_LINES)
    .action((options) => {
      const limits = readLimits(options.plan, options);
      warnOfLimits(io, limits);
      return withDatabase(io, options, (opened) => create(io, opened, options, limits));
    });

  withCommonOptions(
    command(
      "list",
      "list keys, with their states and bans",
      "list --search shop --plan pro",
      "list --state expiring --sort expires --json",
    ),
  )
    .option("--search <text>", "a part of the name or the ID, or the last four characters of the key")
    .addOption(planOption("only this plan"))
    .addOption(new Option("--state <state>", "only this state").choices(LIST_STATES))
    .addOption(new Option("--sort <order>", "the order").choices(LIST_ORDERS).default("created" as const))
    .option("--limit <n>", `keys per page (default: ${PAGE_SIZE}; all with --json)`, integer(1, 100_000))
    .option("--page <n>", "the page", integer(1, 100_000), 1)
    .addOption(JSON_LINES)
    .action((options) => withDatabase(io, options, (opened) => list(io, opened, options)));

  withCommonOptions(
    keyCommand("show", "show all about a key", "show key_0123456789Ab", "show key_0123456789Ab --remote"),
  ).action((id, options) =>
    withDatabase(io, options, async (opened) => {
      const nowMs = Date.now();
      const details = await readDetails(opened, await find(opened, id), readTarget(options), nowMs);
      if (options.json) io.printJson(detailsJson(details));
      else io.print(detailsText(details, nowMs));
    }),
  );

  withChangeOptions(
    keyCommand(
      "rename",
      "rename a key",
      'rename key_0123456789Ab "Jo & Ann"',
      "rename key_0123456789Ab Acme --remote",
    ).argument("<name>", "the new name", keyName),
  ).action((id, name, options) =>
    change(io, options, id, "Renamed", async ({ database }, operator) => {
      await warnOfName(io, database, name, operator.nowMs, id);
      return admin.renameKey(database, id, name, operator);
    }),
  );

  withChangeOptions(
    keyCommand(
      "expire",
      "set or remove the expiry of a key",
      "expire key_0123456789Ab 2027-12-31",
      "expire key_0123456789Ab never",
    ).argument("<date>", 'a UTC day, which is then not part of it, a time, or "never"', expiryOrNever),
  ).action((id, expiresAtMs, options) =>
    change(io, options, id, "Changed the expiry of", ({ database }, operator) =>
      admin.setExpiry(database, id, expiresAtMs, operator),
    ),
  );

  withLimitOptions(
    withChangeOptions(
      keyCommand(
        "plan",
        "change the plan of a key; what it has used stays counted",
        "plan key_0123456789Ab business",
        "plan key_0123456789Ab enterprise --per-minute 5000 --per-day 1000000",
      ).addArgument(new Argument("<plan>", "the new plan").choices(PLANS)),
    ),
  ).action((id, plan, options) => {
    const limits = readLimits(plan, options);
    warnOfLimits(io, limits);
    return change(io, options, id, "Changed", ({ database }, operator) =>
      admin.changePlan(database, id, plan, limits, operator),
    );
  });

  withChangeOptions(
    keyCommand(
      "rotate",
      "replace a key by a new one with the same ID, and print it",
      "rotate key_0123456789Ab",
      "rotate key_0123456789Ab --grace 86400 --yes",
    ),
  )
    .option("--grace <seconds>", "how long the old key keeps working, up to 30 days", graceSeconds, 0)
    .addOption(yes)
    .action((id, options) => withDatabase(io, options, (opened) => rotate(io, opened, id, options)));

  withChangeOptions(
    keyCommand("revoke", "end a key for good", "revoke key_0123456789Ab", "revoke key_0123456789Ab --yes"),
  )
    .addOption(yes)
    .action((id, options) =>
      change(io, options, id, "Revoked", async (opened, operator) => {
        const owner = keyOwner(await find(opened, id));
        await io.confirm(`This ends ${owner} for good: it can't be undone.`, options.yes);
        return admin.revokeKey(opened.database, id, operator);
      }),
    );

  withChangeOptions(
    keyCommand("unban", "lift the ban of a key", "unban key_0123456789Ab", "unban key_0123456789Ab --remote"),
  ).action((id, options) =>
    change(io, options, id, "Lifted the ban of", async (opened, operator) => {
      const { bannedUntilMs } = await find(opened, id);
      if (bannedUntilMs === null) io.note("No ban is recorded. If there is one all the same, it is lifted.");
      return admin.unbanKey(opened.database, id, operator);
    }),
  );

  withCommonOptions(
    command("log", "show the changes of a key, or of all keys", "log", "log key_0123456789Ab --limit 100")
      .argument("[id]", "the key's public ID", keyId)
      .option("--limit <n>", "how many, the latest first", integer(1, 100_000), PAGE_SIZE),
  ).action((id, options) =>
    withDatabase(io, options, async ({ database }) => {
      const changes = await listChanges(database, id, options.limit);
      if (options.json) return io.printJson(changes.map(changeJson));
      io.print(changes.length === 0 ? "No changes are recorded." : changeTable(changes, id === undefined));
    }),
  );
  return keys;
};

export default define;

interface CreateOptions extends Options {
  name: string;
  plan: Plan;
  expires?: number | undefined;
  count: number;
  jsonLines?: true | undefined;
}

async function create(
  io: Io,
  { database }: OpenDatabase,
  options: CreateOptions,
  limits: Limits | undefined,
): Promise<void> {
  const { name, plan, expires = null, count } = options;
  const operator = operatorOf(options);
  await warnOfName(io, database, name, operator.nowMs);
  const newKey = { plan, expiresAtMs: expires, ...(limits && { limits }) };
  const newKeys = Array.from({ length: count }, (_, index) => ({
    ...newKey,
    name: count === 1 ? name : `${name} ${index + 1}`,
  }));
  const all: object[] = [];
  for await (const { key, secret } of admin.createKeys(database, newKeys, operator)) {
    if (options.json) all.push(secretJson(key, secret));
    else if (options.jsonLines) io.printJson(secretJson(key, secret));
    else io.print(count === 1 ? secret : `${secret}  ${key.id}  ${key.name}`);
    if (count > 1 || options.json || options.jsonLines) continue;
    io.note(`\nThis key is shown only once.\nCreated ${keyAndPlan(key)}.`);
  }
  if (options.json) io.printJson(count === 1 ? all[0] : all);
  if (count > 1) io.note(`Created ${count} keys. They are shown only once.`);
}

interface ListOptions extends Options {
  search?: string | undefined;
  plan?: Plan | undefined;
  state?: (typeof LIST_STATES)[number] | undefined;
  sort: (typeof LIST_ORDERS)[number];
  limit?: number | undefined;
  page: number;
  jsonLines?: true | undefined;
}

async function list(io: Io, { database }: OpenDatabase, options: ListOptions): Promise<void> {
  const isTable = !options.json && !options.jsonLines;
  const { page, limit = isTable ? PAGE_SIZE : -1, ...query } = options;
  const offset = (page - 1) * Math.max(limit, 0);
  const { keys, total } = await listKeys(database, Date.now(), { ...query, limit, offset });
  if (options.json) return io.printJson(keys.map(keyJson));
  if (options.jsonLines) for (const key of keys) io.printJson(keyJson(key));
  if (options.jsonLines) return;
  if (keys.length === 0 && offset > 0) return io.note(`There is no page ${page}.`);
  if (keys.length === 0) return io.note(`No key matches. Next: ${RUN} create --name NAME --plan free`);
  io.print(keyTable(keys));
  const last = offset + keys.length;
  const next = last < total ? `; --page ${page + 1} shows the next` : "";
  if (total > keys.length) io.note(`Keys ${offset + 1} to ${last} of ${total}${next}.`);
}

async function rotate(
  io: Io,
  opened: OpenDatabase,
  id: string,
  options: Options & { grace: number; yes?: true | undefined },
): Promise<void> {
  const before = await find(opened, id);
  const operator = operatorOf(options);
  const graceMs = options.grace * 1000;
  const untilMs = Math.min(operator.nowMs + graceMs, before.expiresAtMs ?? Number.POSITIVE_INFINITY);
  // Isolates cache a key for longer than a shorter grace lasts.
  const end = graceMs < FRESH_MS ? "within 30 seconds" : `at ${formatTime(untilMs)}`;
  const consequence = `The current key of ${keyOwner(before)} stops working everywhere ${end}.`;
  await io.confirm(consequence, options.yes);
  const changed = await admin.rotateKey(opened.database, id, graceMs, operator);
  if (!changed.ok) throw unchanged(id, changed);
  if (options.json) return io.printJson(secretJson(changed.key, changed.secret));
  io.print(changed.secret);
  io.note(`\nThis key is shown only once.\nRotated ${keyAndPlan(changed.key)}.`);
}

/** Runs a subcommand that changes a key, and prints what was `done`, such as "Renamed". */
async function change(
  io: Io,
  options: Options,
  id: string,
  done: string,
  work: (opened: OpenDatabase, operator: admin.Operator) => ReturnType<typeof admin.revokeKey>,
): Promise<void> {
  await withDatabase(io, options, async (opened) => {
    const changed = await work(opened, operatorOf(options));
    if (!changed.ok) throw unchanged(id, changed);
    if (options.json) return io.printJson(keyJson(changed.key));
    io.print(`${done} ${keyAndPlan(changed.key)}.`);
    io.note("This takes effect everywhere within 30 seconds.");
  });
}

function operatorOf({ by = loginName() }: Options): admin.Operator {
  return { by, nowMs: Date.now() };
}

async function find({ database }: OpenDatabase, id: string): Promise<ListedKey> {
  const key = await findKeyById(database, id, Date.now());
  if (key === undefined) throw unchanged(id, { ok: false, problem: "unknown" });
  return key;
}

function unchanged(id: string, { problem }: admin.Unchanged): Error {
  if (problem === "unknown") return new Error(`there is no key ${id}: see ${RUN} list`);
  if (problem === "expired") return new Error(`${id} has expired: ${RUN} expire ${id} DATE moves its end`);
  return new Error(`${id} is already revoked: create another key with ${RUN} create`);
}

async function warnOfName(io: Io, database: D1Database, name: string, nowMs: number, id?: string) {
  const { keys } = await listKeys(database, nowMs, { search: name });
  const other = keys.find((key) => key.name === name && key.id !== id && key.revokedAtMs === null);
  if (other !== undefined) io.note(`warning: another key has this name: ${keyOwner(other)}`);
}

function warnOfLimits(io: Io, limits: Limits | undefined): void {
  if (limits === undefined || limits.day >= limits.minute) return;
  io.note(`warning: the day's limit (${limits.day}) is smaller than the minute's (${limits.minute})`);
}

function secretJson(
  { id, name, plan, limits }: { id: string; name: string; plan: Plan; limits: Limits },
  key: string,
) {
  return { id, key, name, plan, perMinute: limits.minute, perDay: limits.day };
}

/** Calls `work` with the selected database, which must exist and have all migrations. */
async function withDatabase(
  io: Io,
  options: Options,
  work: (opened: OpenDatabase) => Promise<void>,
): Promise<void> {
  const target = readTarget(options);
  const selected = targetOptions(target);
  const command = target.kind === "local" ? "npm start" : "npm run migrate";
  const update = selected === "" ? command : `${command} --${selected}`;
  if (target.kind === "local" && !databaseExists(target.state)) {
    throw new Error(`there is no database in ${target.state}: create it with ${update}`);
  }
  const open = () => openDatabase(target);
  const opened = await (target.kind === "local" ? open() : io.step(`Opening ${describe(target)}`, open));
  try {
    if ((await pendingMigrations(opened.database)).length > 0) {
      throw new Error(`${describe(target)} has pending migrations: apply them with ${update}`);
    }
    await work(opened);
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable && error.wasWriting)) throw error;
    throw new Error(`${error.message}; the change may have been made: see ${RUN} log`);
  } finally {
    await opened.close();
  }
}

function describe(target: Target): string {
  if (target.kind === "local") return `the database in ${target.state}`;
  return target.kind === "preview" ? "the database of the previews" : "the production database";
}
