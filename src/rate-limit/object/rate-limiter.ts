// The Durable Object that counts one API key's requests; its name is the key's id. quota.ts decides. Each change is stored as one
// value, and the output gate holds the response until it is durable, so a crash or an eviction loses no acknowledged change.
// Windows roll over at the next call. The object's alarm, which survives a crash, records a ban, or deletes the quota after at least
// 40 days without a request.

import { DurableObject } from "cloudflare:workers";
import { logRun } from "../../http/log.ts";
import { type AcquireRequest, type AcquireResult, DAY_MS } from "../protocol.ts";
import type { Limits } from "../windows.ts";
import { recordBan } from "./ban-record.ts";
import { acquire, type Quota, rollOver, statusOf, UNUSED_QUOTA } from "./quota.ts";

/** From the start of the last request's day. */
const KEPT_UNUSED_MS = 41 * DAY_MS;

/** After a failed attempt to record a ban, until the ban ends. */
const RECORD_PAUSE_MS = 30_000;

/** An incompatible shape of the stored quota gets a new key, so that older values are ignored. */
const QUOTA_KEY = "quota-3";
const KEY_ID_KEY = "key-id";

export class RateLimiter extends DurableObject<Env> {
  /** A copy of the stored value; undefined until it is read. */
  #quota: Quota | undefined;

  /** Counts a batch. Calls are serial, because there is no `await` between reading and writing. */
  acquire(limits: Limits, request: AcquireRequest): AcquireResult {
    const { result, quota } = acquire(this.#read(), limits, request, Date.now());
    this.#store(quota);
    return result;
  }

  /** The status of the key, and the totals of earlier days. Changes nothing. */
  usage(limits: Limits) {
    const nowMs = Date.now();
    const quota = rollOver(this.#read(), limits, nowMs);
    return { status: statusOf(quota, limits, nowMs), pastDays: quota.pastDays };
  }

  /** Records a ban, and deletes the quota of an unused key. */
  override async alarm(): Promise<void> {
    const { storage, id } = this.ctx;
    const { bannedUntilMs, counts } = this.#read();
    const nowMs = Date.now();
    const deletedMs = counts.day.startMs + KEPT_UNUSED_MS;
    if (nowMs >= deletedMs) return storage.deleteAll();
    let nextMs = deletedMs;
    if (bannedUntilMs > nowMs) {
      // An alarm may start an object that nobody has named yet.
      const keyId = id.name ?? storage.kv.get<string>(KEY_ID_KEY) ?? "";
      try {
        await recordBan(this.env.DB, keyId, bannedUntilMs);
      } catch (error) {
        logRun("ban_not_recorded", { keyId, cause: `${error}` });
        nextMs = nowMs + RECORD_PAUSE_MS;
      }
    }
    // Another ban may have begun meanwhile.
    void storage.setAlarm(this.#read().bannedUntilMs > bannedUntilMs ? nowMs : nextMs);
  }

  #read(): Quota {
    this.#quota ??= this.ctx.storage.kv.get<Quota>(QUOTA_KEY) ?? UNUSED_QUOTA;
    return this.#quota;
  }

  /** Stores a changed quota as one row, and sets the alarm once a day and at the beginning of a ban. */
  #store(quota: Quota): void {
    const before = this.#read();
    if (quota.revision === before.revision) return;
    const { storage } = this.ctx;
    storage.kv.put(QUOTA_KEY, quota);
    const nowMs = Date.now();
    const { startMs } = quota.counts.day;
    // The output gate waits for the alarm, as for every write. A new day must not replace the alarm that records a ban.
    if (quota.bannedUntilMs > before.bannedUntilMs) {
      storage.kv.put(KEY_ID_KEY, this.ctx.id.name ?? "");
      void storage.setAlarm(nowMs);
    } else if (startMs !== before.counts.day.startMs && quota.bannedUntilMs <= nowMs)
      void storage.setAlarm(startMs + KEPT_UNUSED_MS);
    this.#quota = quota;
  }
}
