// What commands on keys share: the database, the operator, the search for a key, warnings, and how a new secret is printed.

import { DatabaseFull, DatabaseUnavailable } from "../../src/d1/statements.ts";
import { type Limits, noLimits } from "../../src/keys/plans.ts";
import { KEY_MS } from "../../src/limits/index.ts";
import type { Operator } from "../../src/operators/admin.ts";
import { findKeyById, type ListedKey, listKeys } from "../../src/operators/records.ts";
import { apiErrorOf } from "../cloudflare/account.ts";
import {
  NOT_MIGRATED,
  openDatabases,
  pendingMigrations,
  pendingText,
  targetOptions,
} from "../cloudflare/database.ts";
import { announceTarget, readTarget } from "../cloudflare/target.ts";
import type { OptionValues } from "../lib/command.ts";
import { type Io, messageOf } from "../lib/io.ts";
import { petstoreLine } from "../lib/line.ts";
import { type COMMON, loginName, smallerLimit } from "./options.ts";
import { keyAndPlan, keyJson, keyOwner, stateText } from "./text.ts";

/** When a change is in force. */
export const IN_FORCE = `within ${KEY_MS / 1000} seconds`;

export interface Context {
  io: Io;
  /** The keys. */
  database: D1Database;
  /** Who makes a change, and the time at which this is read: a question may have taken minutes. */
  readonly operator: Operator;
  /** The options that choose the database, for another command line. */
  where: string[];
}

export type Options = OptionValues<typeof COMMON> & { by?: string | undefined };

/** Does the work on the selected database of keys, which must exist. A pending migration matters only if the work needs it. */
export async function withKeys(
  io: Io,
  options: Options,
  work: (context: Context) => Promise<void>,
): Promise<void> {
  const target = readTarget(io, options);
  const where = targetOptions(target);
  announceTarget(io, target);
  const opened = await openDatabases(target, "keys");
  try {
    const pending = await pendingMigrations(opened.keys, "keys");
    const advice = `${pendingText(target)} (${pending.join(", ")})`;
    if (pending.length > 0) io.warn(advice);
    const by = options.by ?? loginName();
    const context = {
      database: opened.keys,
      io,
      where,
      get operator() {
        return { by, nowMs: Date.now() };
      },
    };
    await work(context).catch((error) => {
      throw pending.length > 0 && NOT_MIGRATED.test(messageOf(error)) ? new Error(advice) : error;
    });
  } catch (error) {
    throw withAdvice(error, where);
  } finally {
    await opened.close();
  }
}

/** Adds what to do if the outcome of a change (of the key `id`) is unknown, or if there was no room for it. */
export function withAdvice(error: unknown, where: string[], id?: string): unknown {
  if (error instanceof DatabaseFull)
    return new Error(
      `${error.message}; access, suspend, resume, revoke, end-grace and unban need no room in it, only on the disk`,
    );
  const mayBeMade = error instanceof DatabaseUnavailable && error.wasWriting;
  if (!mayBeMade || apiErrorOf(error)?.mayHaveHappened === false) return error;
  const log = petstoreLine("keys log", ...(id ? [id] : []), ...where);
  return new Error(`${error.message}; the change may have been made: see ${log}`);
}

export async function findKey(
  { database, operator, where }: Pick<Context, "database" | "operator" | "where">,
  id: string,
): Promise<ListedKey> {
  const key = await findKeyById(database, id, operator.nowMs);
  if (key === undefined) throw unknownKey(id, where);
  return key;
}

export function unknownKey(id: string, where: string[]): Error {
  return new Error(`there is no key ${id}: see ${petstoreLine("keys list", ...where)}`);
}

export async function warnOfName({ io, database, operator }: Context, name: string, id?: string) {
  const { keys } = await listKeys(database, operator.nowMs, { names: [name] });
  for (const other of keys)
    if (other.id !== id) io.warn(`another key has this name: ${keyOwner(other)}: ${stateText(other)}`);
}

/** Names the keys that the service can't use. */
export function warnOfPlans({ io, where }: Context, keys: ListedKey[]): void {
  for (const key of keys.filter(({ limits }) => limits === undefined))
    io.warn(
      `${noLimits(key)}. Its requests get a 503: deploy a version that has some, or change it: ${petstoreLine("keys plan", key.id, "PLAN", ...where)}`,
    );
}

export function warnOfLimits(io: Io, limits: Limits | undefined): void {
  const problem = limits && smallerLimit(limits);
  if (problem) io.warn(problem);
}

/** Prints a new secret, and what was `done`. `again`: the options with which a lost secret is to be replaced. */
export async function printSecret(
  context: Context,
  { json }: Options,
  done: string,
  key: ListedKey,
  secret: string,
  again?: string[],
): Promise<void> {
  const text = json ? JSON.stringify({ id: key.id, key: secret, ...keyJson(key) }) : secret;
  await printOnce(context, key.id, text, again);
  if (!json) context.io.note(`\nThis key is shown only once.\n${done} ${keyAndPlan(key)}.`);
}

/** Prints the new secret of a key. Throws what to do if it was not written. */
export async function printOnce({ io, where }: Context, id: string, text: string, again: string[] = []) {
  await io.printOnce(text).catch((error) => {
    const rotate = petstoreLine("keys rotate", id, ...again, ...where);
    const revoke = petstoreLine("keys revoke", id, ...where);
    const problem = `the new key of ${id} exists, and nobody has seen it (${messageOf(error)})`;
    throw new Error(`${problem}: replace it with ${rotate}, or end it with ${revoke}`);
  });
}
