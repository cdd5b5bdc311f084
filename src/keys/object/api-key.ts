// The Durable Object that is an API key; its name is the key's id. It has the key's record (record-reader.ts) and counts its requests
// (acquire.ts). Both are stored as one value, and the output gate holds the response until that is durable, so a crash or an eviction
// loses no acknowledged change. Nothing is stored for a key that does not exist. Windows roll over at the next call. The object's
// alarm, which survives a crash, records a ban, or deletes the storage after at least 40 days without a request.

import { DurableObject } from "cloudflare:workers";
import { logRun } from "../../http/log.ts";
import { RUNTIME } from "../../lib/runtime.ts";
import {
  type AcquireAnswer,
  type AcquireRequest,
  DAY_MS,
  type NoRecord,
  type RecordAnswer,
  type UsageAnswer,
} from "../protocol.ts";
import { problemOf } from "../record.ts";
import { findRecord } from "../store.ts";
import { acquire, isCounted, statusOf } from "./acquire.ts";
import { recordBan } from "./ban-record.ts";
import { liftBan } from "./bans.ts";
import { Delays } from "./delays.ts";
import { type Quota, rollOver, UNUSED_QUOTA } from "./quota.ts";
import { type ReadRecord, RecordReader } from "./record-reader.ts";

/** From the start of the last request's day. */
const KEPT_UNUSED_MS = 41 * DAY_MS;

/** After a failed attempt to record a ban, until the ban ends. */
const RECORD_PAUSE_MS = 30_000;

/** An incompatible shape of the stored state gets a new key, so that older values are ignored. */
const STATE_KEY = "state-1";

/** The key's id, if the platform does not hand over the object's name: see `usage`. */
const ID_KEY = "key-id";

/** What is stored: the counts, and the record as it was last read when they changed. */
type State = { quota: Quota; read: ReadRecord | undefined };

/** The clock and timers, how a record is read, and the log: tests replace them. */
const OPTIONS = { runtime: RUNTIME, findRecord, log: logRun };

export class ApiKey extends DurableObject<Env> {
  readonly #now: () => number;
  readonly #log: typeof logRun;
  readonly #record: RecordReader;
  /** Unknown if the object was neither called by its name nor used before. */
  #keyId: string | undefined;
  #quota: Quota;
  readonly #delays = new Delays();

  constructor(ctx: DurableObjectState, env: Env, { runtime, findRecord, log } = OPTIONS) {
    super(ctx, env);
    const { quota, read } = ctx.storage.kv.get<State>(STATE_KEY) ?? { quota: UNUSED_QUOTA, read: undefined };
    this.#quota = quota;
    this.#now = runtime.now;
    this.#log = log;
    this.#keyId = ctx.id.name ?? read?.record?.id ?? ctx.storage.kv.get<string>(ID_KEY);
    this.#record = new RecordReader(runtime, read, {
      load: async () => {
        if (this.#keyId === undefined) throw new Error("the object does not know its name");
        return findRecord(env.KEYS_DB, this.#keyId);
      },
      // Of a key that was never counted, nothing is stored.
      onChange: () => this.#quota !== UNUSED_QUOTA && this.#put(),
      onFailure: (error) => log("record_not_read", { keyId: this.#keyId, cause: `${error}` }),
    });
  }

  /** Counts a batch. Calls are serial, because there is no `await` between deciding and storing. */
  async acquire(request: AcquireRequest): Promise<AcquireAnswer | NoRecord> {
    const answer = await this.#answer(request.secret, false, request.waitedMs);
    if ("unavailable" in answer || answer.record === null) return answer;
    const { record } = answer;
    const nowMs = this.#now();
    const { secret } = request;
    const isInvalid = secret !== undefined && problemOf(record, secret, nowMs) !== undefined;
    // A repeated call gets its result, although the secret's grace may have ended since the call was counted.
    if (isInvalid && !isCounted(this.#quota, request)) return answer;
    const before = liftBan(this.#quota, record.bansLiftedUntilMs);
    const { result, quota } = acquire(before, record.limits, request, nowMs, this.#delays.longestMs(nowMs));
    this.#store(quota);
    return { ...answer, result };
  }

  /** The record, with the secret that has this SHA-256 if that exists. Counts nothing. */
  identify(secret: string): Promise<RecordAnswer | NoRecord> {
    return this.#answer(secret, true);
  }

  /**
   * The status of the key, and the totals of earlier days. Changes no counts. `keyId` is for callers from another Worker, for which the
   * local runtime does not hand over the object's name. Nor does it for later calls of an object that such a call has started, so the
   * object stores the id.
   */
  async usage(keyId?: string): Promise<UsageAnswer | NoRecord> {
    if (this.#keyId === undefined && keyId !== undefined) {
      this.#keyId = keyId;
      this.ctx.storage.kv.put(ID_KEY, keyId);
    }
    const answer = await this.#answer();
    if ("unavailable" in answer || answer.record === null) return answer;
    const { limits, bansLiftedUntilMs } = answer.record;
    const nowMs = this.#now();
    const quota = rollOver(liftBan(this.#quota, bansLiftedUntilMs), limits, nowMs);
    return { ...answer, usage: { status: statusOf(quota, limits, nowMs), pastDays: quota.pastDays } };
  }

  /** Records a ban, and deletes the storage of an unused key. */
  override async alarm(): Promise<void> {
    const { storage } = this.ctx;
    const { bannedUntilMs, counts } = this.#quota;
    const nowMs = this.#now();
    const deletedMs = counts.day.startMs + KEPT_UNUSED_MS;
    if (nowMs >= deletedMs) {
      this.#quota = UNUSED_QUOTA;
      return storage.deleteAll();
    }
    let nextMs = deletedMs;
    if (bannedUntilMs > nowMs) {
      const keyId = this.#keyId ?? "";
      try {
        await recordBan(this.env.KEYS_DB, keyId, bannedUntilMs);
      } catch (error) {
        this.#log("ban_not_recorded", { keyId, cause: `${error}` });
        nextMs = nowMs + RECORD_PAUSE_MS;
      }
    }
    // Another ban may have begun meanwhile.
    void storage.setAlarm(this.#quota.bannedUntilMs > bannedUntilMs ? nowMs : nextMs);
  }

  /** An error would lose its class on the way to the isolate, so the answer says that there is no record. */
  async #answer(secret?: string, isPatient?: boolean, waitedMs = 0): Promise<RecordAnswer | NoRecord> {
    const end = this.#delays.begin(this.#now() - waitedMs);
    const answer = this.#record.answer(secret, isPatient).catch((error) => ({ unavailable: `${error}` }));
    return answer.finally(() => end(this.#now()));
  }

  /** Stores changed counts as one row, and sets the alarm once a day and at the beginning of a ban. */
  #store(quota: Quota): void {
    const before = this.#quota;
    if (quota.revision === before.revision) return;
    const { storage } = this.ctx;
    this.#put(quota);
    const nowMs = this.#now();
    const { startMs } = quota.counts.day;
    // The output gate waits for the alarm, as for every write. A new day must not replace the alarm that records a ban.
    if (quota.bannedUntilMs > before.bannedUntilMs) void storage.setAlarm(nowMs);
    else if (startMs !== before.counts.day.startMs && quota.bannedUntilMs <= nowMs)
      void storage.setAlarm(startMs + KEPT_UNUSED_MS);
  }

  /** If the write fails, the counts in memory stay as they were. */
  #put(quota = this.#quota): void {
    const state: State = { quota, read: this.#record.latest };
    this.ctx.storage.kv.put(STATE_KEY, state);
    this.#quota = quota;
  }
}
