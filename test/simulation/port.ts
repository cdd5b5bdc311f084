// The one file of the simulation that knows how the limiter is built: an isolate, which is asked; the object, which answers calls; what the
// object stores; and the messages between them.

import { KEY_POLICY, type Key, type SecretProblem } from "../../src/keys/key.ts";
import { writeUsage } from "../../src/keys/reports.ts";
import { credentialOf } from "../../src/keys/secret.ts";
import type { Runtime } from "../../src/lib/runtime.ts";
import type * as callers from "../../src/limits/isolate/caller.ts";
import type { KeyRequest } from "../../src/limits/isolate/caller.ts";
import type { KeysOptions } from "../../src/limits/isolate/key-calls.ts";
import { KnownKeys } from "../../src/limits/isolate/known-keys.ts";
import { acquire, statusOf } from "../../src/limits/object/acquire.ts";
import { afterChange, alarmMs, NOTHING_UNWRITTEN } from "../../src/limits/object/alarm.ts";
import { liftBan } from "../../src/limits/object/bans.ts";
import type { ReadKey } from "../../src/limits/object/key-reader.ts";
import { LimitedObject } from "../../src/limits/object/limited-object.ts";
import { rollOver, unusedQuota } from "../../src/limits/object/quota.ts";
import { RESERVED_SHARE } from "../../src/limits/object/reservation.ts";
import type { Memory } from "../../src/limits/object/state.ts";
import { daysOf } from "../../src/limits/object/totals.ts";
import type { KeyPolicy } from "../../src/limits/policy.ts";
import type * as protocol from "../../src/limits/protocol.ts";
import type { Status, UsableKey } from "../../src/limits/protocol.ts";
import type { Decision, Limits } from "../../src/limits/windows.ts";
import { KEY_ID, NO_REQUESTS } from "../support/key-record.ts";

export { banEndMs } from "../../src/limits/object/bans.ts";
export type AcquireAnswer = protocol.AcquireAnswer<object>;
export type { AcquireRequest, AcquireResult, NoKey, Status } from "../../src/limits/protocol.ts";

/** An API that counts with the limiter: its policy, and its key for a key of ours. */
export interface Service {
  policy: KeyPolicy<object, SecretProblem>;
  keyOf(key: Key): object;
  /** What its keys don't have: changes of a key, by their names in a scenario. */
  lacks?: readonly string[];
}

export const PETSTORE: Service = {
  policy: KEY_POLICY as Service["policy"],
  keyOf: (key) => key,
};

/** The decision is absent if the secret is not valid. */
export type Answer = {
  caller: callers.Caller<object, SecretProblem>;
  decision?: Decision | undefined;
};

/** What an isolate knows of keys. */
export class IsolatePort {
  readonly keys: KnownKeys<object, SecretProblem>;
  readonly #keyOf: Service["keyOf"];
  readonly #now: () => number;

  constructor({ policy, keyOf }: Service, options: Omit<KeysOptions<Key>, "policy" | "credentialOf">) {
    const load = async (id: string) => keyOf((await options.load(id)) as Key);
    this.keys = new KnownKeys({ ...options, load, policy, credentialOf });
    this.#keyOf = keyOf;
    this.#now = options.runtime.now;
  }

  /** What the isolate knows of the key: another object once it was evicted. `id`: under which the key's object knows the isolate. */
  get calls(): { readonly id: string } {
    return this.#calls.state;
  }

  get #calls() {
    return this.keys.callsOf(KEY_ID);
  }

  /** Asks about a request. `isJudged`: the isolate knows the secret, or that it does not exist. */
  ask(request: KeyRequest): { isJudged: boolean; answer: Promise<Answer> } {
    const { keys } = this;
    const caller = keys.peekCaller(request.credential, request.arrivedMs);
    const answer = async () => {
      if (caller === undefined) return keys.askAndCount(request);
      return { caller, decision: caller.key && (await keys.count(request)) };
    };
    return { isJudged: caller !== undefined, answer: answer() };
  }

  /** Hands over a status that was asked for at `sentMs`, as GET /v1/usage does. */
  learnStatus(status: Status, sentMs: number): void {
    this.#calls.state.learnStatus(status, sentMs, this.#now());
  }

  /** Hands over a key that was asked for at `sentMs`. */
  learnKey({ key, usableMs }: UsableKey<Key>, sentMs: number): void {
    this.#calls.state.learnKey({ key: key && this.#keyOf(key), usableMs }, sentMs, this.#now());
  }
}

/** What the object has in memory, and what it stores. */
export type { Memory } from "../../src/limits/object/state.ts";
export type Stored = Memory & { read: ReadKey<object> | undefined };

export interface ObjectOptions {
  service: Service;
  storage: { kv: object; setAlarm: (atMs: number) => void };
  database: object;
  runtime: Runtime;
  load: () => Promise<Key>;
  /** By default as in production; with 0 it stores each change. */
  reservedShare?: number | undefined;
  /** Is told of each change in memory. */
  onChange: (memory: Memory) => void;
}

/** A life of the key's object. */
export function newObject({
  service,
  storage,
  database,
  reservedShare = RESERVED_SHARE,
  load,
  ...rest
}: ObjectOptions) {
  const ctx = { storage, id: { name: KEY_ID, toString: () => "an object" } };
  return new LimitedObject(ctx as never, {
    ...{ ...rest, reservedShare, policy: service.policy },
    load: async () => service.keyOf(await load()),
    onUsage: (usage) => writeUsage(database as D1Database, usage),
  });
}

export type LimiterObject = Pick<LimitedObject<object>, "acquire" | "identify" | "usage" | "alarm">;

/**
 * What a value says that is stored or in memory: the counts, whether the minute has a refusal, the latest call and the lease of each isolate,
 * and whether operators see all usage.
 */
export function contentOf({ quota: { revision, counts, isolates, refusals }, unwritten }: Memory) {
  const [hasRefusal, isRecorded] = [refusals.firstMs > 0, unwritten.days.length === 0];
  return { revision, counts, hasRefusal, isolates, isRecorded };
}

/** Without the key, as after a long sleep. */
export function withoutRecord<State extends Stored>(state: State): State {
  return { ...state, read: undefined };
}

/** What is stored after requests that were counted at `nowMs`, and when its alarm is due. */
export function storedAfter(
  service: Service,
  requests: number,
  limits: Limits,
  nowMs: number,
): Stored & { alarmMs: number } {
  const call = { ...NO_REQUESTS, isolate: "prefill", number: 1, requests };
  const unused = unusedQuota(service.policy.windows);
  const { quota } = acquire(unused, limits, call, nowMs);
  const unwritten = afterChange(NOTHING_UNWRITTEN, unused, quota, nowMs);
  return { quota, read: undefined, unwritten, alarmMs: alarmMs(unwritten) };
}

/** What an object with this in memory would answer to GET /v1/usage at `nowMs`, if it had this key. */
export function usageOf(service: Service, memory: Memory | undefined, key: Key, nowMs: number) {
  const { limits, bansLiftedUntilMs } = key;
  const known = memory?.quota ?? unusedQuota(service.policy.windows);
  const quota = rollOver(liftBan(known, bansLiftedUntilMs), limits, nowMs);
  return { status: statusOf(quota, limits, nowMs), days: daysOf(quota.totals) };
}
