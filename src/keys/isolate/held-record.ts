// The record of one key that an isolate holds. It is used for at most FRESH_MS since the object began to read it. All times are the isolate's
// (Unix time); the record is at least as young by them, because its time runs from before the call that brought it.

import type { UsableRecord } from "../protocol.ts";
import { hasSecret, type KeyRecord } from "../record.ts";

/** A record in use is renewed after this share of its time. More: requests that wait for it; less: more calls. */
const RENEW_SHARE = 1 / 2;

export class HeldRecord {
  #record: KeyRecord | null = null;
  #sinceMs = 0;
  #renewMs = 0;
  #untilMs = 0;

  /** The record, if it may be used. After the clock steps back, its age is unknown. */
  at(nowMs: number): KeyRecord | undefined {
    return this.#sinceMs <= nowMs && nowMs < this.#untilMs ? (this.#record ?? undefined) : undefined;
  }

  /** Whether a request renews the record. */
  isDue(nowMs: number): boolean {
    return nowMs >= this.#renewMs;
  }

  /** Whether this was a secret of the key when the isolate last had a record. */
  hadSecret(secret: string): boolean {
    return hasSecret(this.#record, secret);
  }

  /** Takes a record that was asked for at `sentMs`, unless a newer one is held. Returns whether it did. */
  take({ record, usableMs }: UsableRecord, sentMs: number, nowMs: number): boolean {
    const untilMs = sentMs + usableMs;
    if (this.at(nowMs) !== undefined && untilMs < this.#untilMs) return false;
    this.#record = record;
    [this.#sinceMs, this.#renewMs, this.#untilMs] = [sentMs, sentMs + usableMs * RENEW_SHARE, untilMs];
    return true;
  }
}
