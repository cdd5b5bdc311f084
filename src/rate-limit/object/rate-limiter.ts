// The Durable Object that counts one API key's requests; its name is the key's id. quota.ts decides. Each change is stored as one
// value, and the output gate holds the response until it is durable, so a crash or an eviction loses no acknowledged change.
// There is no timer: windows roll over at the next call. The alarm fires after at least 40 days without a request.

import { DurableObject } from "cloudflare:workers";
import { type AcquireRequest, type AcquireResult, DAY_MS, type Report, type Status } from "../protocol.ts";
import type { Limits } from "../windows.ts";
import { recordBan } from "./ban-record.ts";
import { acquire, type Quota, reconcile, rollOver, statusOf, UNUSED_QUOTA } from "./quota.ts";

/** From the start of the last request's day. */
const KEPT_UNUSED_MS = 41 * DAY_MS;

/** An incompatible shape of the stored quota gets a new key, so that older values are ignored. */
const QUOTA_KEY = "quota-2";

export class RateLimiter extends DurableObject<Env> {
  /** A copy of the stored value; undefined until it is read. */
  #quota: Quota | undefined;

  /** Counts a batch. Calls are serial, because there is no `await` between reading and writing. */
  acquire(limits: Limits, request: AcquireRequest): AcquireResult {
    const { result, quota } = acquire(this.#read(), limits, request, Date.now());
    this.#store(quota);
    return result;
  }

  /** Applies a report. */
  release(limits: Limits, report: Report): Status {
    const nowMs = Date.now();
    const quota = reconcile(rollOver(this.#read(), limits, nowMs), report, nowMs);
    this.#store(quota);
    return statusOf(quota, limits, nowMs);
  }

  /** The status of the key, and the totals of earlier days. Changes nothing. */
  usage(limits: Limits) {
    const nowMs = Date.now();
    const quota = rollOver(this.#read(), limits, nowMs);
    return { status: statusOf(quota, limits, nowMs), pastDays: quota.pastDays };
  }

  /** Deletes the quota, unless the clock was set back after the alarm was set: then a request of another day sets it again. */
  override async alarm(): Promise<void> {
    if (Date.now() < this.#read().counts.day.startMs + KEPT_UNUSED_MS) return;
    await this.ctx.storage.deleteAll();
  }

  #read(): Quota {
    this.#quota ??= this.ctx.storage.kv.get<Quota>(QUOTA_KEY) ?? UNUSED_QUOTA;
    return this.#quota;
  }

  /** Stores a changed quota as one row, and sets the alarm once a day. */
  #store(quota: Quota): void {
    const before = this.#read();
    if (quota.revision === before.revision) return;
    const { storage } = this.ctx;
    storage.kv.put(QUOTA_KEY, quota);
    // Isolates that decided a ban locally may extend it by moments: that is the same ban.
    const isBan = quota.bannedUntilMs > before.bannedUntilMs && before.bannedUntilMs <= Date.now();
    if (isBan) this.ctx.waitUntil(recordBan(this.env.DB, this.ctx.id.name ?? "", quota.bannedUntilMs));
    const { startMs } = quota.counts.day;
    // The output gate waits for it, as for every write.
    if (startMs !== before.counts.day.startMs) void storage.setAlarm(startMs + KEPT_UNUSED_MS);
    this.#quota = quota;
  }
}
