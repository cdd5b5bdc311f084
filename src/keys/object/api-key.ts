// The Durable Object that is an API key; its name is the key's id. It has the key's record (record-reader.ts) and counts its requests
// (acquire.ts). Both are stored as one value, and the output gate holds the response until that is durable, so a crash or an eviction
// loses no acknowledged change. Nothing is stored for a key that does not exist. Windows roll over at the next call. The object's
// alarm, which survives a crash, writes bans and usage for operators (alarm.ts), and deletes the storage after at least 40 days without a
// request.

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
import {
  afterBan,
  afterChange,
  afterUsage,
  alarmMs,
  isOverdue,
  NOTHING_UNWRITTEN,
  type Unwritten,
  writeBan,
  writeUsage,
} from "./alarm.ts";
import { liftBan } from "./bans.ts";
import { Delays } from "./delays.ts";
import { type Quota, rollOver, UNUSED_QUOTA } from "./quota.ts";
import { type ReadRecord, RecordReader } from "./record-reader.ts";
import { daysOf } from "./totals.ts";

/** From the start of the last request's day. */
const KEPT_UNUSED_MS = 41 * DAY_MS;

/** Of the object's id, which is random: 64 bits tell the objects of a key's previews apart. */
const OBJECT_ID_LENGTH = 16;

/** An incompatible shape of the stored state gets a new key, so that older values are ignored. */
const STATE_KEY = "state-4";

/** What is stored: the key's id, the counts, the record as it was last read, and what the alarm has to write. */
type State = {
  keyId: string | undefined;
  quota: Quota;
  read: ReadRecord | undefined;
  unwritten: Unwritten;
};

const UNUSED_STATE: State = {
  keyId: undefined,
  quota: UNUSED_QUOTA,
  read: undefined,
  unwritten: NOTHING_UNWRITTEN,
};

/** The clock and timers, what reads and writes the keys database, and the log: tests replace them. */
const OPTIONS = { runtime: RUNTIME, findRecord, writeBan, writeUsage, log: logRun };

export class ApiKey extends DurableObject<Env> {
  readonly #now: () => number;
  readonly #options: typeof OPTIONS;
  readonly #record: RecordReader;
  /** Unknown if the object was neither called by its name nor used before. */
  readonly #keyId: string | undefined;
  #quota: Quota;
  #unwritten: Unwritten;
  readonly #delays = new Delays();

  constructor(ctx: DurableObjectState, env: Env, options = OPTIONS) {
    super(ctx, env);
    const { runtime, findRecord, log } = options;
    const { keyId, quota, read, unwritten } = ctx.storage.kv.get<State>(STATE_KEY) ?? UNUSED_STATE;
    this.#quota = quota;
    this.#unwritten = unwritten;
    this.#now = runtime.now;
    this.#options = options;
    // The platform does not hand over the name for an alarm, and the database may have lost the record.
    this.#keyId = ctx.id.name ?? keyId;
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

  /** The status of the key, and the totals of its days. Changes no counts. */
  async usage(): Promise<UsageAnswer | NoRecord> {
    const answer = await this.#answer();
    if ("unavailable" in answer || answer.record === null) return answer;
    const { limits, bansLiftedUntilMs } = answer.record;
    const nowMs = this.#now();
    const quota = rollOver(liftBan(this.#quota, bansLiftedUntilMs), limits, nowMs);
    return { ...answer, usage: { status: statusOf(quota, limits, nowMs), days: daysOf(quota.totals) } };
  }

  /** Writes a ban and usage, and deletes the storage of an unused key. What fails is tried again later. */
  override async alarm(): Promise<void> {
    const { storage } = this.ctx;
    if (this.#now() >= this.#deletedMs && this.#unwritten.days.length === 0) {
      this.#quota = UNUSED_QUOTA;
      this.#unwritten = NOTHING_UNWRITTEN;
      return storage.deleteAll();
    }
    await this.#writeBan();
    await this.#writeUsage();
    void storage.setAlarm(alarmMs(this.#unwritten, this.#deletedMs));
    this.#put();
  }

  async #writeBan(): Promise<void> {
    const { bannedUntilMs } = this.#quota;
    if (this.#now() < this.#unwritten.banMs) return;
    const isWritten =
      this.#now() >= bannedUntilMs ||
      (await this.#write(
        "ban_not_recorded",
        this.#options.writeBan(this.env.KEYS_DB, this.#id, bannedUntilMs),
      ));
    // Unless another ban has begun meanwhile.
    if (!isWritten || this.#quota.bannedUntilMs === bannedUntilMs)
      this.#unwritten = afterBan(this.#unwritten, isWritten, this.#now());
  }

  async #writeUsage(): Promise<void> {
    const { days, usageMs } = this.#unwritten;
    if (days.length === 0 || this.#now() < usageMs) return;
    const quota = this.#quota;
    const counter = { keyId: this.#id, object: this.ctx.id.toString().slice(0, OBJECT_ID_LENGTH) };
    const isWritten = await this.#write(
      "usage_not_recorded",
      this.#options.writeUsage(this.env.KEYS_DB, counter, quota, days),
    );
    const written = isWritten ? days : [];
    this.#unwritten = afterUsage(this.#unwritten, written, quota.totals, this.#quota.totals, this.#now());
  }

  /** Waits for a write. Logs a failure as `event`. */
  async #write(event: string, writing: Promise<void>): Promise<boolean> {
    try {
      await writing;
      return true;
    } catch (error) {
      this.#options.log(event, { keyId: this.#id, cause: `${error}` });
      return false;
    }
  }

  /** The key's id. Every object that has something to record knows it. */
  get #id(): string {
    return this.#keyId ?? "";
  }

  get #deletedMs(): number {
    return this.#quota.counts.day.startMs + KEPT_UNUSED_MS;
  }

  async #answer(secret?: string, isPatient?: boolean, waitedMs = 0): Promise<RecordAnswer | NoRecord> {
    const end = this.#delays.begin(this.#now() - waitedMs);
    return this.#record.answer(secret, isPatient).finally(() => end(this.#now()));
  }

  /** Stores changed counts as one row, and sets the alarm if it has something to do earlier than before, or was lost. */
  #store(quota: Quota): void {
    const before = this.#quota;
    if (quota.revision === before.revision) return;
    const nowMs = this.#now();
    const unwritten = afterChange(this.#unwritten, before, quota, nowMs);
    const needsAlarm = isOverdue(this.#unwritten, nowMs) || alarmMs(unwritten) < alarmMs(this.#unwritten);
    // The output gate waits for the alarm, as for every write.
    if (needsAlarm) void this.ctx.storage.setAlarm(alarmMs(unwritten));
    this.#put(quota, unwritten);
  }

  /** If the write fails, the state in memory stays as it was. */
  #put(quota = this.#quota, unwritten = this.#unwritten): void {
    const state: State = { keyId: this.#keyId, quota, read: this.#record.latest, unwritten };
    this.ctx.storage.kv.put(STATE_KEY, state);
    this.#quota = quota;
    this.#unwritten = unwritten;
  }
}
