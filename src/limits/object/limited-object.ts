// The Durable Object of a key, whose name is the key's id. It has a copy of the key (key-reader.ts) and counts its requests
// (acquire.ts). Both are stored as one value (state.ts), of a busy key with a reservation (reservation.ts), and the output gate holds the
// response until that is durable, so a crash or an eviction admits nothing twice. Nothing is stored for a key that does not exist. Windows
// roll over at the next call. The object's alarm, which survives a crash, stores the exact counts, hands over bans and usage for operators
// (alarm.ts), and deletes the storage after at least 40 days without a request.

import type { Runtime } from "../../lib/runtime.ts";
import { hasSecret, type KeyPolicy, limitsOf, loadKey, termsOf } from "../policy.ts";
import {
  type AcquireAnswer,
  type AcquireRequest,
  DAY_MS,
  type Day,
  type KeyAnswer,
  type NoKey,
  type UsageAnswer,
} from "../protocol.ts";
import { readAcquireRequest, readIdentifyRequest } from "../readers.ts";
import { longest, resetMs } from "../windows.ts";
import { acquire, isCounted, statusOf } from "./acquire.ts";
import { afterBan, afterChange, afterUsage, alarmMs, isOverdue, NEVER, NOTHING_UNWRITTEN } from "./alarm.ts";
import { liftBan } from "./bans.ts";
import { KeyReader } from "./key-reader.ts";
import { type Quota, rollOver, unusedQuota } from "./quota.ts";
import { Activity, covers, RESERVED_SHARE, reserve, SETTLE_MS } from "./reservation.ts";
import { type Memory, NOTHING_STORED, readState, STATE_KEY, type State } from "./state.ts";
import { daysOf } from "./totals.ts";

/** From the end of the last request's longest window. */
const KEPT_UNUSED_MS = 40 * DAY_MS;

/** No object tells a higher one. Above it would be too little room for changes: each raises the revision, a safe integer. */
const MOST_REVISION = (Number.MAX_SAFE_INTEGER - 1) / 2;

/** Of the object's id, which is random: 64 bits tell the objects of a key's previews apart. */
const OBJECT_ID_LENGTH = 16;

/** The part of a Durable Object's state that is needed. */
interface ObjectContext {
  /** Without a name in an alarm. */
  id: { name?: string | undefined; toString(): string };
  storage: {
    kv: { get(name: string): unknown; put(name: string, value: unknown): void };
    setAlarm(atMs: number): Promise<void>;
    deleteAll(): Promise<void>;
  };
}

/** Days of a key, as its object has counted them: totals, of which those with a larger revision are later. */
export interface Usage {
  id: string;
  /** The beginning of the object's own id, which in each preview is another one. */
  object: string;
  revision: number;
  days: readonly Day[];
}

export interface ObjectOptions<Key extends object> {
  policy: KeyPolicy<Key, string>;
  /** The clock and timers. */
  runtime: Runtime;
  /** Reads a key; null if it does not exist. What it throws is tried again, and told to `log`. */
  load(id: string): Promise<Key | null>;
  /** Writes a ban, which ends at `untilMs` (Unix time), for operators. It must be idempotent: what it throws is tried again. */
  onBan?(id: string, untilMs: number): Promise<void>;
  /** Writes usage for operators, first after a minute, then at most once in USAGE_EVERY_MS. It must be idempotent, as above. */
  onUsage?(usage: Usage): Promise<void>;
  /** Is told what has failed: `state_damaged`, `key_not_read`, `ban_not_recorded` or `usage_not_recorded`, with `keyId` and `cause`. */
  log?(event: string, fields: Record<string, unknown>): void;
}

/** What tests replace. */
interface Internals {
  reservedShare?: number;
  /** Is told of changes in memory. */
  onChange?(memory: Memory): void;
}

// biome-ignore lint/suspicious/noExplicitAny: TypeScript wants it of a mixin and its base
type Any = any;

/**
 * A class of Durable Objects, each of a key: `Base` is the platform's class. Its methods are those of the protocol, which isolates call, and
 * the alarm. They need the storage `sqlite` (wrangler.toml). Throws RangeError if the windows don't fit.
 */
export function limitedObject<Env, Key extends object, Base extends abstract new (...args: Any) => object>(
  Base: Base,
  optionsOf: (env: Env) => ObjectOptions<Key>,
) {
  abstract class Limited extends Base {
    readonly #object: LimitedObject<Key>;

    constructor(...args: Any[]) {
      super(...args);
      const [ctx, env] = args;
      this.#object = new LimitedObject(ctx, optionsOf(env));
    }

    acquire(request: AcquireRequest) {
      return this.#object.acquire(request);
    }

    identify(hash: string) {
      return this.#object.identify(hash);
    }

    usage() {
      return this.#object.usage();
    }

    alarm() {
      return this.#object.alarm();
    }
  }
  return Limited;
}

export class LimitedObject<Key extends object> {
  readonly #ctx: ObjectContext;
  readonly #now: () => number;
  readonly #options: ObjectOptions<Key> & Internals;
  readonly #reservedShare: number;
  readonly #key: KeyReader<Key>;
  /** Unknown if the object was neither called by its name nor used before. */
  readonly #keyId: string | undefined;
  #memory: Memory;
  /** What is stored of the counts: the same, or what covers them. */
  #stored: Quota;
  /** When the alarm looks whether to store the exact quota, or NEVER. */
  #settlesMs = NEVER;
  readonly #activity = new Activity();

  constructor(ctx: ObjectContext, options: ObjectOptions<Key> & Internals) {
    const { runtime, policy, reservedShare = RESERVED_SHARE } = options;
    const stored = ctx.storage.kv.get(STATE_KEY);
    const problems: string[] = [];
    const note = (problem: string) => void problems.push(problem);
    const { keyId, quota, read, unwritten } = readState(stored, runtime.now(), note, policy);
    this.#memory = { quota, unwritten };
    this.#stored = quota;
    this.#now = runtime.now;
    this.#ctx = ctx;
    this.#options = options;
    this.#reservedShare = reservedShare;
    // The platform does not hand over the name for an alarm, and the database may have lost the key.
    this.#keyId = ctx.id.name ?? keyId;
    for (const cause of problems) this.#log("state_damaged", cause);
    this.#key = new KeyReader(runtime, read, {
      load: async () => {
        if (this.#keyId === undefined) throw new Error("the object does not know its name");
        return loadKey(policy, options.load, this.#keyId);
      },
      hasSecret: (key, hash) => hasSecret(policy, key, hash),
      // Of a key that was never counted, nothing is stored.
      onChange: () => this.#memory.quota.revision > 0 && this.#put(),
      onFailure: (error) => this.#log("key_not_read", error),
    });
  }

  /** Counts a batch. Calls are serial, because there is no `await` between deciding and storing. */
  async acquire(message: AcquireRequest): Promise<AcquireAnswer<Key> | NoKey> {
    const request = readAcquireRequest(message);
    const answer = await this.#key.answer(request.secret);
    if ("unavailable" in answer || answer.key === null) return answer;
    const { key } = answer;
    const nowMs = this.#now();
    const { secret } = request;
    const { policy } = this.#options;
    const isInvalid = secret !== undefined && policy.problemOf(key, secret, nowMs) !== undefined;
    // A repeated call gets its result, although the secret's grace may have ended since the call was counted.
    if (isInvalid && !isCounted(this.#memory.quota, request)) return answer;
    const { limits, bansLiftedUntilMs } = termsOf(policy, key);
    const known = liftBan(this.#memory.quota, bansLiftedUntilMs);
    // The isolate knows a higher one if another object has replaced this one, or if another release has stored none.
    const told = Math.min(request.revision, MOST_REVISION);
    const before = { ...known, revision: Math.max(known.revision, told) };
    const { result, quota } = acquire(before, limits, request, nowMs);
    this.#change(quota, request);
    return { ...answer, result };
  }

  /** The key, with the secret that has this SHA-256 if it exists. Counts nothing. */
  async identify(hash: string): Promise<KeyAnswer<Key> | NoKey> {
    return this.#key.answer(readIdentifyRequest(hash), true);
  }

  /** The status of the key, and the totals of its days. Changes no counts. */
  async usage(): Promise<UsageAnswer<Key> | NoKey> {
    const answer = await this.#key.answer();
    if ("unavailable" in answer || answer.key === null) return answer;
    const { limits, bansLiftedUntilMs } = termsOf(this.#options.policy, answer.key);
    const nowMs = this.#now();
    const quota = rollOver(liftBan(this.#memory.quota, bansLiftedUntilMs), limits, nowMs);
    return { ...answer, usage: { status: statusOf(quota, limits, nowMs), days: daysOf(quota.totals) } };
  }

  /** Writes a ban and usage, stores the exact counts of a quiet key, and deletes an unused key's storage. What fails is tried again later. */
  async alarm(): Promise<void> {
    const { storage } = this.#ctx;
    if (this.#now() >= this.#deletedMs && this.#memory.unwritten.days.length === 0) {
      const quota = unusedQuota(this.#options.policy.windows);
      this.#keep({ quota, unwritten: NOTHING_UNWRITTEN });
      this.#stored = quota;
      return storage.deleteAll();
    }
    const isDue = this.#now() >= alarmMs(this.#memory.unwritten, this.#deletedMs);
    await this.#writeBan();
    await this.#writeUsage();
    const isExact = this.#stored === this.#memory.quota;
    // An alarm before that had something else to do, or its clock is ahead of the object's, and it would run again at once.
    const isTime = this.#now() >= this.#settlesMs;
    const settles = !isExact && isTime && !this.#activity.isQuiet(this.#now());
    this.#settlesMs = settles ? this.#activity.settlesMs : NEVER;
    void storage.setAlarm(Math.min(alarmMs(this.#memory.unwritten, this.#deletedMs), this.#settlesMs));
    if (isDue || !(isExact || settles)) this.#put();
  }

  async #writeBan(): Promise<void> {
    const { bannedUntilMs } = this.#memory.quota;
    if (this.#now() < this.#memory.unwritten.banMs) return;
    const isWritten =
      this.#now() >= bannedUntilMs ||
      (await this.#write("ban_not_recorded", async () => this.#options.onBan?.(this.#id, bannedUntilMs)));
    // Unless another ban has begun meanwhile.
    if (!isWritten || this.#memory.quota.bannedUntilMs === bannedUntilMs)
      this.#keep({ ...this.#memory, unwritten: afterBan(this.#memory.unwritten, isWritten, this.#now()) });
  }

  async #writeUsage(): Promise<void> {
    const { quota } = this.#memory;
    const { days, usageMs } = this.#memory.unwritten;
    if (days.length === 0 || this.#now() < usageMs) return;
    const usage: Usage = {
      id: this.#id,
      object: this.#ctx.id.toString().slice(0, OBJECT_ID_LENGTH),
      revision: quota.revision,
      days: daysOf(quota.totals).filter(({ date }) => days.includes(date)),
    };
    const isWritten = await this.#write("usage_not_recorded", async () => this.#options.onUsage?.(usage));
    const written = isWritten ? days : [];
    const { unwritten, quota: after } = this.#memory;
    this.#keep({
      quota: after,
      unwritten: afterUsage(unwritten, written, quota.totals, after.totals, this.#now()),
    });
  }

  /** Waits for a write. Logs a failure as `event`. */
  async #write(event: string, write: () => Promise<void>): Promise<boolean> {
    try {
      await write();
      return true;
    } catch (error) {
      this.#log(event, error);
      return false;
    }
  }

  #log(event: string, cause: unknown): void {
    this.#options.log?.(event, { keyId: this.#keyId, cause: `${cause}` });
  }

  /** The key's id. Every object that has something to record knows it. */
  get #id(): string {
    return this.#keyId ?? "";
  }

  get #deletedMs(): number {
    return resetMs(longest(this.#memory.quota.counts)) + KEPT_UNUSED_MS;
  }

  /** Keeps changed counts: in memory if what is stored covers them, otherwise as one row. Sets the alarm if it has something to do earlier. */
  #change(quota: Quota, request: AcquireRequest): void {
    const before = this.#memory;
    if (quota.revision === before.quota.revision) return;
    const nowMs = this.#now();
    this.#activity.noteChange(nowMs);
    const after = { quota, unwritten: afterChange(before.unwritten, before.quota, quota, nowMs) };
    const settles = this.#settles;
    if (settles && !this.#takesBack(request) && covers(this.#stored, quota)) {
      this.#keep(after);
      return;
    }
    const startsToSettle = !settles && this.#activity.isBusy && this.#reservedShare > 0;
    if (startsToSettle) this.#settlesMs = this.#activity.settlesMs;
    const isEarlier = alarmMs(after.unwritten) < alarmMs(before.unwritten);
    // The output gate waits for the alarm, as for every write.
    if (startsToSettle || isEarlier || isOverdue(before.unwritten, nowMs))
      void this.#ctx.storage.setAlarm(Math.min(alarmMs(after.unwritten), this.#settlesMs));
    this.#put(after);
  }

  /** Whether a call takes something back that is stored. After a crash its repetition would take that back once more. */
  #takesBack(request: AcquireRequest): boolean {
    const { number } = this.#stored.isolates.get(request.isolate) ?? {};
    return isCounted(this.#memory.quota, request) || request.decisions.some((each) => each.number === number);
  }

  /** Whether an alarm will store the exact quota. Not if it was lost, or the clock has stepped back. */
  get #settles(): boolean {
    return Math.abs(this.#settlesMs - this.#now()) <= SETTLE_MS;
  }

  /** If the write fails, the state in memory stays as it was. */
  #put(after = this.#memory): void {
    const { latest } = this.#key;
    let stored = after;
    if (latest?.key && this.#settles) {
      const limits = limitsOf(this.#options.policy, latest.key);
      const quota = reserve(after.quota, limits, this.#reservedShare);
      stored = { quota, unwritten: afterChange(after.unwritten, after.quota, quota, this.#now()) };
    }
    const state: State<Key> = { ...NOTHING_STORED, keyId: this.#keyId, ...stored, read: latest };
    this.#ctx.storage.kv.put(STATE_KEY, state);
    this.#stored = stored.quota;
    this.#keep(after);
  }

  #keep(after: Memory): void {
    this.#memory = after;
    this.#options.onChange?.(after);
  }
}
