// What an isolate knows of a key's quota: the object's last status, and what the isolate has decided locally since and the object has
// not acknowledged. It answers during a ban without a call, and decides while the object can't be reached: isolates then don't
// know of each other, so together they may exceed the limit.

import type { Runtime } from "../../lib/runtime.ts";
import { acquire, type Quota, UNUSED_QUOTA } from "../object/quota.ts";
import type { AcquireRequest, AcquireResult, Lease, Report, Status } from "../protocol.ts";
import {
  type Count,
  type KeyDecision,
  type KeyWindows,
  type Limits,
  mapWindows,
  peek,
  withLimits,
} from "../windows.ts";
import type { HeldLeases } from "./held-leases.ts";

/** In an outage with more batches than this, the admissions of the others are never charged. */
const MAX_OUTBOX = 100;

export class KnownQuota {
  readonly #runtime: Runtime;
  readonly #leases: HeldLeases;
  #quota: Quota = UNUSED_QUOTA;
  /** When the last status was made, by the object's clock, and when it came, by this isolate's (Unix time). */
  #status: { madeMs: number; cameMs: number } | undefined;
  #outbox: Report["outbox"] = [];
  #localBanMs = 0;

  /** `leases`: what the isolate holds, which the object has charged. */
  constructor(runtime: Runtime, leases: HeldLeases) {
    this.#runtime = runtime;
    this.#leases = leases;
  }

  /** What time it is by the clock of the object, or a little earlier, because its status has been on the way. */
  get objectMs(): number {
    const nowMs = this.#runtime.now();
    const { madeMs, cameMs } = this.#status ?? { madeMs: nowMs, cameMs: nowMs };
    return madeMs + Math.max(0, nowMs - cameMs);
  }

  /** When the minute began that was counted last, by the object's clock (Unix time). */
  get minuteMs(): number {
    return this.#quota.counts.minute.startMs;
  }

  /** Whether there has been a ban, which may be over. */
  get wasBanned(): boolean {
    return this.#quota.bannedUntilMs > 0;
  }

  /** Whether a request would be admitted. */
  peek(limits: Limits): KeyDecision {
    const nowMs = this.objectMs;
    const { counts, bannedUntilMs } = this.#quota;
    const decision = peek(withLimits(counts, limits), nowMs);
    // If the clock has stepped back to before the status came, the end of the ban is unknown.
    const isBanned = nowMs < bannedUntilMs && this.#runtime.now() >= (this.#status?.cameMs ?? 0);
    return isBanned ? { ...decision, admitted: false, bannedUntilMs } : decision;
  }

  /** The windows, without the unused requests of leases that this isolate holds. */
  windows(limits: Limits): KeyWindows {
    return this.excludingHeldLeases({
      windows: withLimits(this.#quota.counts, limits),
      leases: this.#quota.leases,
    });
  }

  excludingHeldLeases({ windows, leases }: { windows: KeyWindows; leases: readonly Lease[] }): KeyWindows {
    return mapWindows(windows, (each) => {
      let { used } = each;
      for (const lease of leases) if (lease.grantedMs >= each.startMs) used -= this.#leases.unused(lease);
      return { ...each, used };
    });
  }

  /** Remembers a status that the object gave. Returns what is known now, without the unused requests of held leases. */
  apply(limits: Limits, status: Status): KeyDecision {
    this.remember(status);
    const { bannedUntilMs } = this.#quota;
    const ban = status.nowMs < bannedUntilMs ? { bannedUntilMs } : {};
    return { admitted: true, nowMs: status.nowMs, windows: this.windows(limits), ...ban };
  }

  /** Remembers a status, unless a newer one is known: answers can overtake each other. */
  remember({ revision, nowMs, bannedUntilMs = 0, windows, leases }: Status): void {
    const isOlder = revision === this.#quota.revision && nowMs < (this.#status?.madeMs ?? 0);
    if (revision < this.#quota.revision || isOlder) return;
    const unreported = (each: Count) =>
      this.#outbox.reduce((sum, { atMs, requests }) => sum + (atMs >= each.startMs ? requests : 0), 0);
    this.#status = { madeMs: nowMs, cameMs: this.#runtime.now() };
    this.#quota = {
      ...UNUSED_QUOTA,
      revision,
      counts: mapWindows(windows, (each) => ({ ...each, used: each.used + unreported(each) })),
      bannedUntilMs: Math.max(bannedUntilMs, this.#localBanMs),
      leases,
    };
  }

  /** Decides about a batch as the object would if it knew what is known here. */
  decide(limits: Limits, batch: Pick<AcquireRequest, "id" | "requests" | "waitedMs">): AcquireResult {
    const atMs = this.objectMs;
    const { revision, leases } = this.#quota;
    const request = { ...batch, released: [], outbox: [], bannedUntilMs: 0 };
    const { result, quota } = acquire({ ...this.#quota, leases: [] }, limits, request, atMs);
    this.#quota = { ...quota, revision, leases };
    const { admitted, bannedUntilMs = 0 } = result;
    if (admitted > 0)
      this.#outbox = [...this.#outbox, { id: batch.id, requests: admitted, atMs }].slice(-MAX_OUTBOX);
    this.#localBanMs = Math.max(this.#localBanMs, bannedUntilMs);
    return result;
  }

  /** What the object has not acknowledged. */
  report(): Report {
    return { released: this.#leases.ended, outbox: this.#outbox, bannedUntilMs: this.#localBanMs };
  }

  /** Forgets a report that the object has received, and remembers the status that it has answered. */
  acknowledge({ released, outbox, bannedUntilMs }: Report, status: Status): void {
    this.#leases.acknowledge(released);
    this.#outbox = this.#outbox.filter((each) => !outbox.includes(each));
    if (bannedUntilMs === this.#localBanMs) this.#localBanMs = 0;
    this.remember(status);
  }
}
