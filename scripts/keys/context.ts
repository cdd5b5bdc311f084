// What commands on keys share: the database, the operator, the search for a key, warnings, and how a new secret is printed.

import { existsSync } from "node:fs";
import { FRESH_MS } from "../../src/d1/freshness.ts";
import { DatabaseFull, DatabaseUnavailable } from "../../src/d1/statements.ts";
import { noLimits } from "../../src/keys/plans.ts";
import type { Operator } from "../../src/operators/admin.ts";
import { type ListedKey, listKeys } from "../../src/operators/records.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { databaseFile, openDatabases, pendingMigrations } from "../cloudflare/database.ts";
import { readTarget, startLine, type TargetOptions, targetOptions } from "../cloudflare/target.ts";
import type { Io } from "../lib/io.ts";
import { loginName } from "./options.ts";
import { keyAndPlan, keyOwner, type NamedKey, printable } from "./text.ts";

/** When a change is in force. */
export const IN_FORCE = `within ${FRESH_MS / 1000} seconds`;

export interface Context {
  io: Io;
  /** The keys. */
  database: D1Database;
  /** Who makes a change, and the time at which this is read: a question may have taken minutes. */
  readonly operator: Operator;
}

export type Options = TargetOptions & { json?: true | undefined; by?: string | undefined };

/** Does the work on the selected database of keys, which must exist and have all its migrations. */
export async function withKeys(
  io: Io,
  options: Options,
  work: (context: Context) => Promise<void>,
): Promise<void> {
  const target = readTarget(options);
  const isLocal = target.kind === "local";
  const update = isLocal ? startLine(target) : `npx petstore migrate${targetOptions(target)}`;
  const owner = { local: "this machine's", preview: "the previews'", production: "production's" };
  const place = `${owner[target.kind]} database of keys`;
  if (target.kind === "local" && !existsSync(databaseFile(target.state, "keys"))) {
    throw new Error(`there is no database of keys in ${target.state}: create it with ${update}`);
  }
  const open = () => openDatabases(target, "keys");
  const opened = await (isLocal ? open() : io.step(`Opening ${place}`, open));
  try {
    if ((await pendingMigrations(opened.keys, "keys")).length > 0) {
      throw new Error(`${place} has pending migrations: apply them with ${update}`);
    }
    const by = options.by ?? loginName();
    await work({
      database: opened.keys,
      io,
      get operator() {
        return { by, nowMs: Date.now() };
      },
    });
  } catch (error) {
    throw withAdvice(error);
  } finally {
    await opened.close();
  }
}

/** Adds what to do if the outcome of a change is unknown, or if there was no room for it. */
export function withAdvice(error: unknown): unknown {
  if (error instanceof DatabaseFull)
    return new Error(`${error.message}; suspend and revoke work nevertheless`);
  if (!(error instanceof DatabaseUnavailable && error.wasWriting)) return error;
  return new Error(`${error.message}; the change may have been made: see npx petstore keys log`);
}

export async function findKey({ database, operator }: Context, id: string): Promise<ListedKey> {
  const { keys } = await listKeys(database, operator.nowMs, { ids: [id] });
  if (keys[0] === undefined) throw unknownKey(id);
  return keys[0];
}

export function unknownKey(id: string): Error {
  return new Error(`there is no key ${id}: see npx petstore keys list`);
}

export async function warnOfName(
  { io, database, operator }: Context,
  name: string,
  id?: string,
): Promise<void> {
  const { keys } = await listKeys(database, operator.nowMs, { search: name });
  const other = keys.find((key) => key.name === name && key.id !== id && key.revokedAtMs === null);
  if (printable(name) !== name)
    io.note('warning: some characters of the name are not printable: "?" is shown');
  if (other !== undefined) io.note(`warning: another key has this name: ${keyOwner(other)}`);
}

/** Names the keys that the service can't use. */
export function warnOfPlans(io: Io, keys: ListedKey[]): void {
  const advice = (id: string) =>
    `deploy a version that has some, or change it: npx petstore keys plan ${id} PLAN`;
  for (const key of keys)
    if (key.limits === undefined)
      io.note(`warning: ${noLimits(key)}. Its requests get a 503: ${advice(key.id)}`);
}

export function warnOfLimits(io: Io, limits: Limits | undefined): void {
  if (limits === undefined || limits.day >= limits.minute) return;
  io.note(`warning: the day's limit (${limits.day}) is smaller than the minute's (${limits.minute})`);
}

export function printSecret(io: Io, done: string, key: NamedKey, secret: string): void {
  io.print(secret);
  io.note(`\nThis key is shown only once.\n${done} ${keyAndPlan(key)}.`);
}

export function secretJson({ id, name, plan, limits }: NamedKey, key: string) {
  return { id, key, name, plan, perMinute: limits?.minute ?? null, perDay: limits?.day ?? null };
}
