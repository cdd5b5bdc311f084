// How a command changes keys: the one with an ID, or those whose IDs are on standard input. It asks, makes each change, and prints what
// became of each key. A key that can't be changed does not keep the others from it.

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
  unknownKey,
  withAdvice,
  withKeys,
} from "./context.ts";
import { readIds } from "./input.ts";
import { STDIN } from "./options.ts";
import { counted, keyAndPlan, keyJson, keyOwner, keyOwners, someOf, suspensionText } from "./text.ts";

interface Change<More = unknown> {
  /** What was done, such as "Renamed". */
  done: string;
  /** A sentence that says what the change does to the keys, which it names. */
  effect(keys: string): string;
  /** Whether the change of this key can't be undone: it asks also about a single one, and is refused if that was rotated since. */
  isFinal?(key: ListedKey): boolean;
  make(database: D1Database, key: ListedKey, operator: Operator): Promise<Outcome<More>>;
  /** Why a key was as wished already, such as "has this name already". */
  already?(key: ListedKey): string;
  /** The command that changes a key although it is suspended for another reason. */
  despite?(id: string): [command: string, ...words: string[]];
  /** Says more about a key before its change. */
  explain?(context: Context, key: ListedKey): void | Promise<void>;
  /** Whether only operators see it: the service does not read it. */
  isForOperators?: true;
  /** What else is to be noted down if the change can't be recorded. */
  detail?: string;
}

/** A change of several keys that prints something else than a sentence or JSON. What `print` throws ends the work. */
interface Printing<More> {
  header?: string;
  print(context: Context, changed: Accepted<More>): Promise<void>;
}

type Accepted<More = unknown> = Extract<Outcome<More>, { ok: true }>;

type ChangeOptions = Options & { yes?: true | undefined };

/** Makes a change of the key `id`, or of all keys on standard input. */
export async function changeKeys(io: Io, options: ChangeOptions, id: string, change: Change): Promise<void> {
  if (id === STDIN) return changeIds(io, options, change);
  await withKeys(io, options, (context) => changeOne(context, options, id, change));
}

async function changeOne(context: Context, { json, yes }: ChangeOptions, id: string, change: Change) {
  const { io } = context;
  const key = await findKey(context, id);
  if (key.revokedAtMs === null) {
    await change.explain?.(context, key);
    if (change.isFinal?.(key)) await io.confirm(change.effect(keyOwner(key)), yes);
  }
  const changed = await make(context, key, change);
  if (json) return io.printJson(changedJson(changed));
  printChange(io, change, changed);
  if (changed.isChanged && !change.isForOperators) io.note(`This takes effect everywhere ${IN_FORCE}.`);
}

/** Changes the keys whose IDs are on standard input. */
export async function changeIds<More>(
  io: Io,
  options: ChangeOptions,
  change: Change<More>,
  printing?: Printing<More>,
): Promise<void> {
  const ids = await readIds(io);
  await waitingForCalls(() =>
    withKeys(io, options, (context) => changeSeveral(context, options, ids, change, printing)),
  );
}

async function changeSeveral<More>(
  context: Context,
  { json, yes }: ChangeOptions,
  ids: string[],
  change: Change<More>,
  printing: Printing<More> | undefined,
) {
  const { io, database, where } = context;
  const { keys } = await listKeys(database, context.operator.nowMs, { ids });
  const known = new Map(keys.map((key) => [key.id, key]));
  if (keys.length > 0)
    io.note(
      `${change.effect(keyOwners(ids.flatMap((id) => known.get(id) ?? [])))} A key that is so already, or can't be changed, stays as it is.`,
    );
  const unknown = ids.filter((id) => !known.has(id));
  if (!yes) {
    if (unknown.length > 0) io.report(`Unknown: ${someOf(unknown, 5)}`);
    throw new UsageError("standard input has the IDs, so nobody can answer there: add --yes to do it");
  }
  const all: object[] = [];
  const counts = { changed: 0, unchanged: 0, failed: 0 };
  let isRefused = false;
  const changeEach = async (isInterrupted: () => Promise<boolean>) => {
    if (printing?.header && !io.isAppending) await io.printOnce(printing.header);
    for (const id of ids) {
      if (await isInterrupted()) throw new Error("interrupted");
      if (isRefused) throw new Error("the other keys were not tried");
      const changed = await changeKnown(id);
      if (changed === undefined) continue;
      counts[changed.isChanged ? "changed" : "unchanged"] += 1;
      if (printing) await printing.print(context, changed);
      else if (json) all.push(changedJson(changed));
      else printChange(io, change, changed);
    }
  };
  const changeKnown = async (id: string) => {
    try {
      const key = known.get(id);
      if (key === undefined) throw unknownKey(id, where);
      if (key.revokedAtMs === null) await change.explain?.(context, key);
      return await make(context, key, change);
    } catch (error) {
      const failure = withAdvice(error, where, id);
      if (failure instanceof Skipped) {
        counts.unchanged += 1;
        io.note(failure.message);
        all.push({ ...keyJson(failure.key), isChanged: false });
        return;
      }
      counts.failed += 1;
      isRefused = apiErrorOf(error)?.refusesAll ?? false;
      io.report(failureLine(failure));
      all.push({ id, error: messageOf(failure) });
    }
  };
  const ending: unknown = await untilInterrupted(changeEach).catch((error) => error);
  if (json) io.printJson(all);
  const unchanged = counts.unchanged > 0 ? ` Unchanged: ${counts.unchanged}.` : "";
  const failed = counts.failed > 0 ? ` Failed: ${counts.failed}.` : "";
  io.note(`Changed ${counts.changed} of ${counted(ids.length, "key")}.${unchanged}${failed}`);
  if (counts.changed > 0 && !change.isForOperators) io.note(`This takes effect everywhere ${IN_FORCE}.`);
  if (ending !== undefined) throw ending;
  if (counts.failed > 0) throw new ReportedError();
}

/** The key after its change. */
async function make<More>(
  { io, database, operator, where }: Context,
  key: ListedKey,
  change: Change<More>,
): Promise<Accepted<More>> {
  const { id, hash } = key;
  const confirmed = change.isFinal ? { ...operator, confirmedHash: hash } : operator;
  const changed = await change.make(database, key, confirmed);
  if (!changed.ok) throw refusal(id, changed, where, change.despite?.(id));
  if (!changed.isRecorded) {
    const what = [change.done.toLowerCase(), id, ...(change.detail ? [`(${change.detail})`] : [])].join(" ");
    io.warn(
      `the database of keys is full: the change was made, but not recorded. Note down: ${formatTime(operator.nowMs)} ${operator.by} ${what}`,
    );
  }
  return changed;
}

/** Says what became of a key. */
function printChange(io: Io, change: Change, { key, isChanged }: Accepted): void {
  if (!isChanged && change.already) io.note(`${key.id} ${change.already(key)}.`);
  io.print(`${isChanged ? change.done : "Not changed:"} ${keyAndPlan(key)}.`);
}

function changedJson({ key, isChanged }: Accepted) {
  return { ...keyJson(key), isChanged };
}

/** A key that a command leaves as it is, because it does not match. */
class Skipped extends Error {
  readonly key: ListedKey;

  constructor(key: ListedKey, message: string) {
    super(message);
    this.key = key;
  }
}

/** Why a change was refused. `despite` as in Change. */
export function refusal(
  id: string,
  outcome: Refused,
  where: string[],
  despite?: [string, ...string[]],
): Error {
  switch (outcome.problem) {
    case "unknown":
      return unknownKey(id, where);
    case "revoked":
      return new Error(`${id} is revoked, for good: nothing about it can be changed`);
    case "expired":
      return new Error(
        `${id} has expired: ${petstoreLine("keys expire", id, "DATE", ...where)} moves its end`,
      );
    case "other reason":
      return new Skipped(
        outcome.key,
        `${id} stays suspended: ${suspensionText(outcome.key)}${despite ? `; to replace that: ${petstoreLine(...despite, ...where)}` : ""}`,
      );
    case "rotated": {
      const { rotation } = outcome;
      const by = rotation ? ` by ${rotation.by}, at ${formatTime(rotation.atMs)}` : "";
      return new Error(
        `${id} was rotated meanwhile${by}: nothing was changed. See ${petstoreLine("keys log", id, ...where)}, and begin again if it is still necessary`,
      );
    }
  }
}
