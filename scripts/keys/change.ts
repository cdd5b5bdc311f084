// How a command changes keys: the one with an ID, or those whose IDs are on standard input. It asks, makes each change, and prints what
// became of each key. A key that can't be changed does not keep the others from it.

import type { Operator, Outcome, Unchanged } from "../../src/operators/admin.ts";
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
import { keyAndPlan, keyJson, keyOwner, keyOwners } from "./text.ts";

interface Change {
  /** What was done, such as "Renamed". */
  done: string;
  /** A sentence that says what the change does to the keys, which it names. */
  effect(keys: string): string;
  /** The change can't be undone: it asks also about a single key, and is refused if that was rotated since. */
  isFinal?: true;
  make(database: D1Database, id: string, operator: Operator): Promise<Outcome>;
  /** Says more about a key before its change. */
  explain?(context: Context, key: ListedKey): void | Promise<void>;
  /** What else is to be noted down if the change can't be recorded. */
  detail?: string;
}

type ChangeOptions = Options & { yes?: true | undefined };

/** Makes a change of the key `id`, or of all keys on standard input. */
export async function changeKeys(io: Io, options: ChangeOptions, id: string, change: Change): Promise<void> {
  const ids = id === STDIN ? await readIds(io) : undefined;
  if (ids === undefined) return withKeys(io, options, (context) => changeOne(context, options, id, change));
  await waitingForCalls(() =>
    withKeys(io, options, (context) => changeSeveral(context, options, ids, change)),
  );
}

async function changeOne(context: Context, { json, yes }: ChangeOptions, id: string, change: Change) {
  const { io, where } = context;
  const key = await findKey(context, id);
  if (key.revokedAtMs !== null) throw unchanged(id, { ok: false, problem: "revoked" }, where);
  await change.explain?.(context, key);
  if (change.isFinal) await io.confirm(change.effect(keyOwner(key)), yes);
  const changed = await make(context, key, change);
  if (json) return io.printJson(keyJson(changed));
  io.print(`${change.done} ${keyAndPlan(changed)}.`);
  io.note(`This takes effect everywhere ${IN_FORCE}.`);
}

async function changeSeveral(context: Context, { json, yes }: ChangeOptions, ids: string[], change: Change) {
  const { io, database, where } = context;
  const { keys } = await listKeys(database, context.operator.nowMs, { ids });
  const known = new Map(keys.map((key) => [key.id, key]));
  if (keys.length > 0) io.note(change.effect(keyOwners(ids.flatMap((id) => known.get(id) ?? []))));
  const unknown = ids.filter((id) => !known.has(id));
  if (unknown.length > 0)
    io.report(`Unknown: ${unknown.slice(0, 5).join(", ")}${unknown.length > 5 ? ", …" : ""}`);
  if (!yes)
    throw new UsageError("standard input has the IDs, so nobody can answer there: add --yes to do it");
  const all: object[] = [];
  let failed = 0;
  let done = 0;
  let isRefused = false;
  const changeEach = async (isInterrupted: () => Promise<boolean>) => {
    for (const id of ids) {
      if (await isInterrupted()) throw new Error("interrupted");
      if (isRefused) throw new Error("the other keys were not tried");
      done += 1;
      try {
        const key = known.get(id);
        if (key === undefined) throw unknownKey(id, where);
        await change.explain?.(context, key);
        const changed = await make(context, key, change);
        if (json) all.push(keyJson(changed));
        else io.print(`${change.done} ${keyAndPlan(changed)}.`);
      } catch (error) {
        failed += 1;
        isRefused = apiErrorOf(error)?.refusesAll ?? false;
        const failure = withAdvice(error, where, id);
        io.report(failureLine(failure));
        all.push({ id, error: messageOf(failure) });
      }
    }
  };
  const ending: unknown = await untilInterrupted(changeEach).catch((error) => error);
  if (json) io.printJson(all);
  io.note(`Changed ${done - failed} of ${ids.length} keys.`);
  if (failed < done) io.note(`This takes effect everywhere ${IN_FORCE}.`);
  if (ending !== undefined) throw ending;
  if (failed > 0) throw new ReportedError();
}

/** The key after its change. */
async function make(
  { io, database, operator, where }: Context,
  key: ListedKey,
  change: Change,
): Promise<ListedKey> {
  const { id, hash } = key;
  const confirmed = change.isFinal ? { ...operator, confirmedHash: hash } : operator;
  const changed = await change.make(database, id, confirmed);
  if (!changed.ok) throw unchanged(id, changed, where);
  if (!changed.isRecorded) {
    const what = [change.done.toLowerCase(), id, ...(change.detail ? [`(${change.detail})`] : [])].join(" ");
    io.warn(
      `the database of keys is full: the change was made, but not recorded. Note down: ${formatTime(operator.nowMs)} ${operator.by} ${what}`,
    );
  }
  return changed.key;
}

/** Why a change was refused. */
export function unchanged(id: string, outcome: Unchanged, where: string[]): Error {
  switch (outcome.problem) {
    case "unknown":
      return unknownKey(id, where);
    case "revoked":
      return new Error(`${id} is revoked, for good: nothing about it can be changed`);
    case "expired":
      return new Error(
        `${id} has expired: ${petstoreLine("keys expire", id, "DATE", ...where)} moves its end`,
      );
    case "not suspended":
      return new Error(`${id} is not suspended`);
    case "rotated": {
      const { rotation } = outcome;
      const by = rotation ? ` by ${rotation.by}, at ${formatTime(rotation.atMs)}` : "";
      return new Error(
        `${id} was rotated meanwhile${by}: nothing was changed. See ${petstoreLine("keys log", id, ...where)}, and begin again if it is still necessary`,
      );
    }
  }
}
