// The Durable Object that is an API key; its name is the key's id. It has the key's record (record-reader.ts) and counts its requests
// (acquire.ts). Both are stored as one value, and the output gate holds the response until that is durable, so a crash or an eviction
// loses no acknowledged change. Nothing is stored for a key that does not exist. Windows roll over at the next call. The object's
// alarm, which survives a crash, records bans and usage (duties.ts), and deletes the storage after at least 40 days without a request.

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
import {
  type Duties,
  dueAlerts,
  dutyMs,
  isOverdue,
  NEVER,
  NO_DUTIES,
  withAlertAtOnce,
  withChange,
} from "./duties.ts";
import { type Quota, rollOver, UNUSED_QUOTA } from "./quota.ts";
import { newAlerts, withAlert, withoutOld } from "./quota-alert.ts";
import { type ReadRecord, RecordReader } from "./record-reader.ts";
import { daysOf } from "./totals.ts";
import { afterFailure, afterRecord, recordUsage } from "./usage-record.ts";

/** From the start of the last request's day. */
const KEPT_UNUSED_MS = 41 * DAY_MS;

/** Of the object's id, which is random: 64 bits tell the objects of a key's previews apart. */
const OBJECT_ID_LENGTH = 16;

/** After a failed attempt to record a ban, until the ban ends. */
const RECORD_PAUSE_MS = 30_000;

/** An incompatible shape of the stored state gets a new key, so that older values are ignored. */
const STATE_KEY = "state-4";

/** What is stored: the key's id, the counts, the record as it was last read, and what the alarm has to do. */
type State = { keyId: string | undefined; quota: Quota; read: ReadRecord | undefined; duties: Duties };

const UNUSED_STATE: State = {
  keyId: undefined,
  quota: UNUSED_QUOTA,
  read: undefined,
  duties: NO_DUTIES,
};

/** The clock and timers, what reads and writes the keys database, and the log: tests replace them. */
const OPTIONS = { runtime: RUNTIME, findRecord, recordBan, recordUsage, log: logRun };

export class ApiKey extends DurableObject<Env> {
  readonly #now: () => number;
  readonly #options: typeof OPTIONS;
  readonly #record: RecordReader;
  /** Unknown if the object was neither called by its name nor used before. */
  readonly #keyId: string | undefined;
  #quota: Quota;
  #duties: Duties;
  readonly #delays = new Delays();

  constructor(ctx: DurableObjectState, env: Env, options = OPTIONS) {
    super(ctx, env);
    const { runtime, findRecord, log } = options;
    const { keyId, quota, read, duties } = ctx.storage.kv.get<State>(STATE_KEY) ?? UNUSED_STATE;
    this.#quota = quota;
    this.#duties = duties;
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
    this.#store(quota, record.limits.day);
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

  /** Records a ban and usage, and deletes the storage of an unused key. What fails is tried again later. */
  override async alarm(): Promise<void> {
    const { storage } = this.ctx;
    if (this.#now() >= this.#deletedMs && this.#duties.usage.days.length === 0) {
      this.#quota = UNUSED_QUOTA;
      this.#duties = NO_DUTIES;
      return storage.deleteAll();
    }
    await this.#recordBan();
    await this.#recordUsage();
    void storage.setAlarm(dutyMs(this.#duties, this.#deletedMs));
    this.#put();
  }

  async #recordBan(): Promise<void> {
    const nowMs = this.#now();
    const { bannedUntilMs } = this.#quota;
    if (nowMs < this.#duties.banMs) return;
    try {
      if (nowMs < bannedUntilMs) await this.#options.recordBan(this.env.KEYS_DB, this.#id, bannedUntilMs);
      // Unless another ban has begun meanwhile.
      if (this.#quota.bannedUntilMs === bannedUntilMs) this.#duties = { ...this.#duties, banMs: NEVER };
    } catch (error) {
      this.#options.log("ban_not_recorded", { keyId: this.#id, cause: `${error}` });
      this.#duties = { ...this.#duties, banMs: nowMs + RECORD_PAUSE_MS };
    }
  }

  async #recordUsage(): Promise<void> {
    const { days, dueMs } = this.#duties.usage;
    if (days.length === 0 || this.#now() < dueMs) return;
    this.#alert(days);
    const { revision, totals } = this.#quota;
    // If an isolate ends with its lease, no later call would log the alert.
    const openDays = totals.days.filter(
      (day) => days.includes(day.startMs) && newAlerts(this.#duties.alerted, day).length > 0,
    );
    const counter = { keyId: this.#id, object: this.ctx.id.toString().slice(0, OBJECT_ID_LENGTH) };
    const recordUsage = () => this.#options.recordUsage(this.env.KEYS_DB, counter, revision, totals, days);
    const usage = await recordUsage().then(
      () => afterRecord(this.#duties.usage, totals, this.#quota.totals, openDays, this.#now()),
      (error) => {
        this.#options.log("usage_not_recorded", { keyId: this.#id, cause: `${error}` });
        return afterFailure(this.#duties.usage, this.#now());
      },
    );
    const alerted = withoutOld(this.#duties.alerted, usage.days);
    this.#duties = withAlertAtOnce({ ...this.#duties, usage, alerted }, this.#quota, this.#now());
  }

  /** Logs the alerts of these days. They are stored in the same step: a crash right then may repeat them. */
  #alert(days: readonly number[]): void {
    const changed = this.#quota.totals.days.filter(({ startMs }) => days.includes(startMs));
    for (const day of changed.toSorted((a, b) => a.startMs - b.startMs)) {
      const alerts = dueAlerts(this.#duties.alerted, this.#quota, day, this.#now());
      const percent = alerts.at(-1)?.percent;
      if (percent === undefined) continue;
      const alerted = withAlert(this.#duties.alerted, day.startMs, percent);
      this.#put(this.#quota, { ...this.#duties, alerted });
      for (const alert of alerts) this.#options.log("quota_alert", { keyId: this.#id, ...alert });
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
  #store(quota: Quota, dayLimit: number): void {
    const before = this.#quota;
    if (quota.revision === before.revision) return;
    const nowMs = this.#now();
    const duties = withChange(this.#duties, before, quota, dayLimit, nowMs);
    const needsAlarm = isOverdue(this.#duties, nowMs) || dutyMs(duties) < dutyMs(this.#duties);
    // The output gate waits for the alarm, as for every write.
    if (needsAlarm) void this.ctx.storage.setAlarm(dutyMs(duties));
    this.#put(quota, duties);
  }

  /** If the write fails, counts and duties in memory stay as they were. */
  #put(quota = this.#quota, duties = this.#duties): void {
    const state: State = { keyId: this.#keyId, quota, read: this.#record.latest, duties };
    this.ctx.storage.kv.put(STATE_KEY, state);
    this.#quota = quota;
    this.#duties = duties;
  }
}
