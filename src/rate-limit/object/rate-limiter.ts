// The Durable Object that counts one API key's requests; its name is the key's id. quota.ts decides; this stores each change as
// one value, before the output gate lets its answer out. So a crash or an eviction loses nothing that was answered. No timer: a
// window rolls over when it is next looked at. One alarm: if it rings, nobody has used the key for 40 days.

import { DurableObject } from "cloudflare:workers";
import { type AcquireRequest, type AcquireResult, DAY_MS, type Report, type Status } from "../protocol.ts";
import type { Limits } from "../windows.ts";
import { acquire, type Quota, reconcile, rollOver, statusOf, UNUSED_QUOTA } from "./quota.ts";

/** From the beginning of the day of the last request, so at least 40 days after that request. */
const KEPT_UNUSED_MS = 41 * DAY_MS;

/** Where the quota is stored. An incompatible shape gets a new key: what an earlier one left is ignored. */
const QUOTA_KEY = "quota-2";

export class RateLimiter extends DurableObject<Env> {
  /** What is stored; undefined until it has been read. */
  #quota: Quota | undefined;

  /** Counts a batch. There is no `await` between reading and writing, so concurrent calls are decided one after the other. */
  acquire(limits: Limits, request: AcquireRequest): AcquireResult {
    const { result, quota } = acquire(this.#read(), limits, request, Date.now());
    this.#store(quota);
    return result;
  }

  /** Applies a report. Counts nothing. */
  release(limits: Limits, report: Report): Status {
    const nowMs = Date.now();
    const quota = reconcile(rollOver(this.#read(), limits, nowMs), report, nowMs);
    this.#store(quota);
    return statusOf(quota, limits, nowMs);
  }

  /** The status of the key, and its earlier days with a request, of the last 30 with today. Changes nothing. */
  usage(limits: Limits) {
    const nowMs = Date.now();
    const quota = rollOver(this.#read(), limits, nowMs);
    return { status: statusOf(quota, limits, nowMs), pastDays: quota.pastDays };
  }

  /** Deletes everything. Does nothing if the clock was set back since the alarm was set: the next day's request moves it. */
  override async alarm(): Promise<void> {
    if (Date.now() < this.#read().counts.day.startMs + KEPT_UNUSED_MS) return;
    await this.ctx.storage.deleteAll();
  }

  #read(): Quota {
    this.#quota ??= this.ctx.storage.kv.get<Quota>(QUOTA_KEY) ?? UNUSED_QUOTA;
    return this.#quota;
  }

  /** Stores a quota if it has changed: one row, and once a day the alarm. */
  #store(quota: Quota): void {
    const before = this.#read();
    if (quota.revision === before.revision) return;
    const { storage } = this.ctx;
    storage.kv.put(QUOTA_KEY, quota);
    const { startMs } = quota.counts.day;
    // Not awaited: the output gate waits for it as for every other write.
    if (startMs !== before.counts.day.startMs) void storage.setAlarm(startMs + KEPT_UNUSED_MS);
    this.#quota = quota;
  }
}
