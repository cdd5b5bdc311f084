// How a command changes keys: the one with an ID, or those whose IDs are on standard input. It asks, makes each change, and prints what
// became of each key. A key that can't be changed does not keep the others from it.

import { text } from "node:stream/consumers";
import { withoutSecrets } from "../../src/keys/secret.ts";
import type { Operator, Outcome, Refused } from "../../src/operators/admin.ts";
import { type ListedKey, listKeys } from "../../src/operators/records.ts";
import { apiErrorOf, waitingForCalls } from "../cloudflare/account.ts";
import { untilInterrupted } from "../lib/interrupt.ts";
import { failureLine, type Io, messageOf, ReportedError, UsageError } from "../lib/io.ts";
import { petstoreLine } from "../lib/line.ts";
import { formatTime } from "../lib/time.ts";
import {
  type Context,
  findKey,
  IN_FORCE,
  type Options,
  printOnce,
  printSecret,
  unknownKey,
  withAdvice,
  withKeys,
} from "./context.ts";
import { keyId, STDIN } from "./options.ts";
import {
  clipped,
  counted,
  keyAndPlan,
  keyJson,
  keyOwner,
  keyOwners,
  SECRETS_HEADER,
  secretLine,
  someOf,
  suspensionText,
} from "./text.ts";

export interface Change {
  /** What was done, such as "Renamed". */
  done: string;
  /** Says what the change does to the keys, which it names, or to the only one. */
  effect(keys: string, only?: ListedKey): string;
  /** Whether the change of this key can't be undone: it asks also about a single one, and is refused if that was rotated since. */
  isFinal?(key: ListedKey): boolean;
  make(database: D1Database, key: ListedKey, operator: Operator): Promise<Outcome<NewSecret>>;
  /** Of a change that gives keys new secrets, which are printed: the options with which a lost one is replaced. */
  again?: string[];
  /** The command that changes a key although it is suspended for another reason. */
  despite?(id: string): [command: string, ...words: string[]];
  /** Says more about a single key before its change. */
  explain?(context: Context, key: ListedKey): Promise<void>;
  /** Whether only operators see it: the service does not read it. */
  isForOperators?: true;
  /** What else is to be noted down if the change can't be recorded. */
  detail?: string;
}

type NewSecret = { secret?: string };
type Changed = Outcome<NewSecret> & { ok: true };
type ChangeOptions = Options & { yes?: true | undefined };

/** Makes a change of the key `id`, or of all keys on standard input. */
export async function changeKeys(io: Io, options: ChangeOptions, id: string, change: Change): Promise<void> {
  if (id !== STDIN) return withKeys(io, options, (context) => changeOne(context, options, id, change));
  const ids = await readIds(io);
  await waitingForCalls(() =>
    withKeys(io, options, (context) => changeSeveral(context, options, ids, change)),
  );
}

/** The IDs on standard input, one a line, each once. Throws UsageError if a line is something else, or if there is none. */
async function readIds(io: Io): Promise<string[]> {
  const lines = (await text(io.stdin)).split("\n").map((line) => line.trim());
  const ids = lines.flatMap((line, index) => {
    if (line === "") return [];
    try {
      return [keyId(line)];
    } catch (error) {
      const shown = clipped(withoutSecrets(line), 40);
      throw new UsageError(
        `line ${index + 1} of standard input is no ID, and nothing was changed: ${shown}. ${messageOf(error)}`,
      );
    }
  });
  if (ids.length === 0) throw new UsageError("standard input has no IDs");
  return [...new Set(ids)];
}

async function changeOne(context: Context, options: ChangeOptions, id: string, change: Change) {
  const { io, where } = context;
  const key = await findKey(context, id);
  if (key.revokedAtMs === null) {
    await change.explain?.(context, key);
    if (change.isFinal?.(key)) await io.confirm(change.effect(keyOwner(key), key), options.yes);
  }
  const changed = await make(context, key, change);
  if (!changed.ok) throw refusal(id, changed, where, change);
  const { secret } = changed;
  if (secret) await printSecret(context, options, change.done, changed.key, secret, change.again);
  else if (options.json) io.printJson(changedJson(changed));
  else io.print(changedText(change, changed));
  if (changed.isChanged && !options.json) noteInForce(io, change);
}

async function changeSeveral(context: Context, options: ChangeOptions, ids: string[], change: Change) {
  const { io, database, where } = context;
  const { keys } = await listKeys(database, context.operator.nowMs, { ids });
  const known = new Map(keys.map((key) => [key.id, key]));
  const named = ids.flatMap((id) => known.get(id) ?? []);
  if (named.length > 0)
    io.note(
      `${change.effect(keyOwners(named))} A key that is so already, or can't be changed, stays as it is.`,
    );
  if (!options.yes) {
    const unknown = ids.filter((id) => !known.has(id));
    if (unknown.length > 0) io.report(`Unknown: ${someOf(unknown, 5)}`);
    throw new UsageError("standard input has the IDs, so nobody can answer there: add --yes to do it");
  }
  const all: object[] = [];
  const counts = { changed: 0, unchanged: 0, failed: 0 };
  let isRefused = false;
  const changeEach = async (isInterrupted: () => Promise<boolean>) => {
    if (change.again && !io.isAppending) await io.printOnce(SECRETS_HEADER);
    for (const id of ids) {
      if (await isInterrupted()) throw new Error("interrupted");
      if (isRefused) throw new Error("the other keys were not tried");
      const changed = await changeKnown(id);
      if (changed === undefined) continue;
      counts[changed.isChanged ? "changed" : "unchanged"] += 1;
      const { key, secret } = changed;
      if (secret) await printOnce(context, id, secretLine(key, secret), change.again);
      else if (options.json) all.push(changedJson(changed));
      else io.print(changedText(change, changed));
    }
  };
  const changeKnown = async (id: string) => {
    try {
      const key = known.get(id);
      if (key === undefined) throw unknownKey(id, where);
      const changed = await make(context, key, change);
      if (changed.ok) return changed;
      const failure = refusal(id, changed, where, change);
      if (changed.problem !== "other reason") throw failure;
      counts.unchanged += 1;
      io.note(failure.message);
      all.push(changedJson({ key: changed.key, isChanged: false }));
    } catch (error) {
      const failure = withAdvice(error, where, id);
      counts.failed += 1;
      isRefused = apiErrorOf(error)?.refusesAll ?? false;
      io.report(failureLine(failure));
      all.push({ id, error: messageOf(failure) });
    }
  };
  const ending: unknown = await untilInterrupted(changeEach).catch((error) => error);
  if (options.json) io.printJson(all);
  const unchanged = counts.unchanged > 0 ? ` Unchanged: ${counts.unchanged}.` : "";
  const failed = counts.failed > 0 ? ` Failed: ${counts.failed}.` : "";
  io.note(`Changed ${counts.changed} of ${counted(ids.length, "key")}.${unchanged}${failed}`);
  if (counts.changed > 0) noteInForce(io, change);
  if (ending !== undefined) throw ending;
  if (counts.failed > 0) throw new ReportedError();
}

async function make({ io, database, operator }: Context, key: ListedKey, change: Change) {
  const confirmed = change.isFinal ? { ...operator, confirmedHash: key.hash } : operator;
  const changed = await change.make(database, key, confirmed);
  if (changed.ok && !changed.isRecorded) {
    const detail = change.detail ? ` (${change.detail})` : "";
    const what = `${formatTime(operator.nowMs)} ${operator.by} ${change.done.toLowerCase()} ${key.id}${detail}`;
    io.warn(`the database of keys is full: the change was made, but not recorded. Note down: ${what}`);
  }
  return changed;
}

function noteInForce(io: Io, { isForOperators }: Change): void {
  if (!isForOperators) io.note(`This takes effect everywhere ${IN_FORCE}.`);
}

function changedText({ done }: Change, { key, isChanged }: Changed): string {
  return `${isChanged ? done : "Not changed:"} ${keyAndPlan(key)}.`;
}

function changedJson({ key, isChanged }: Pick<Changed, "key" | "isChanged">) {
  return { ...keyJson(key), isChanged };
}

/** Why a change was refused. */
function refusal(id: string, refused: Refused, where: string[], { despite }: Change): Error {
  switch (refused.problem) {
    case "unknown":
      return unknownKey(id, where);
    case "revoked":
      return new Error(`${id} is revoked, for good: nothing about it can be changed`);
    case "expired":
      return new Error(
        `${id} has expired: ${petstoreLine("keys expire", id, "DATE", ...where)} moves its end`,
      );
    case "other reason": {
      const advice = despite ? `; to replace that: ${petstoreLine(...despite(id), ...where)}` : "";
      return new Error(`${id} stays suspended: ${suspensionText(refused.key)}${advice}`);
    }
    case "rotated": {
      const { rotation } = refused;
      const by = rotation ? ` by ${rotation.by}, at ${formatTime(rotation.atMs)}` : "";
      return new Error(
        `${id} was rotated meanwhile${by}: nothing was changed. See ${petstoreLine("keys log", id, ...where)}, and begin again if it is still necessary`,
      );
    }
  }
}
