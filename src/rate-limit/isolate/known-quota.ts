// An isolate's copy of a key's quota: the object's last status, and the local decisions that the object has not acknowledged.
// With it the isolate answers during a ban without a call, and decides locally while the object can't be reached. Isolates then
// don't know of each other's requests, so together they may exceed the limit.

import type { Runtime } from "../../lib/runtime.ts";
import { acquire, liftBan, type Quota, UNUSED_QUOTA } from "../object/quota.ts";
import type { AcquireRequest, AcquireResult, Lease, Report, Status } from "../protocol.ts";
import type { Count, KeyDecision, KeyWindows, Limits } from "../windows.ts";
import { mapWindows, peek, withLimits } from "../windows.ts";
import type { HeldLeases } from "./held-leases.ts";

/** If an outage has more batches than this, the oldest are never charged. */
const MAX_OUTBOX = 100;

export class KnownQuota {
  readonly #runtime: Runtime;
  readonly #leases: HeldLeases;
  #quota: Quota = UNUSED_QUOTA;
  /** When the last status was made, by the object's clock, and when it came, by the isolate's (Unix time). */
  #status: { madeMs: number; receivedMs: number } | undefined;
  #outbox: Report["outbox"] = [];
  #localBanMs = 0;
  #bansLiftedUntilMs = 0;

  constructor(runtime: Runtime, leases: HeldLeases) {
    this.#runtime = runtime;
    this.#leases = leases;
  }

  /** The time by the object's clock, less the time that the last status took to arrive. */
  get objectMs(): number {
    const nowMs = this.#runtime.now();
    const { madeMs, receivedMs } = this.#status ?? { madeMs: nowMs, receivedMs: nowMs };
    return madeMs + Math.max(0, nowMs - receivedMs);
  }

  /** The start of the last counted minute, by the object's clock (Unix time). */
  get minuteMs(): number {
    return this.#quota.counts.minute.startMs;
  }

  /** Whether there was a ban, even if it has ended. */
  get wasBanned(): boolean {
    return this.#quota.bannedUntilMs > 0;
  }

  /** Forgets the bans that an operator has lifted (see LimitedKey). The next call tells the object. */
  liftBans(untilMs: number): void {
    if (untilMs <= this.#bansLiftedUntilMs) return;
    this.#bansLiftedUntilMs = untilMs;
    this.#quota = liftBan(this.#quota, untilMs);
  }

  /** Whether a request would be admitted. */
  peek(limits: Limits): KeyDecision {
    const nowMs = this.objectMs;
    const { counts, bannedUntilMs } = this.#quota;
    const decision = peek(withLimits(counts, limits), nowMs);
    // If the clock has stepped back to before the last status, the end of the ban is unknown.
    const isBanned = nowMs < bannedUntilMs && this.#runtime.now() >= (this.#status?.receivedMs ?? 0);
    return isBanned ? { ...decision, admitted: false, bannedUntilMs } : decision;
  }

  /** The windows without the unused requests of this isolate's leases. */
  windows(limits: Limits): KeyWindows {
    const windows = withLimits(this.#quota.counts, limits);
    return this.excludingHeldLeases({ windows, leases: this.#quota.leases });
  }

  excludingHeldLeases({ windows, leases }: { windows: KeyWindows; leases: readonly Lease[] }): KeyWindows {
    return mapWindows(windows, (each) => {
      let { used } = each;
      for (const lease of leases) if (lease.grantedMs >= each.startMs) used -= this.#leases.unused(lease);
      return { ...each, used };
    });
  }

  /** Stores a status, and returns it as a decision without the unused requests of held leases. */
  apply(limits: Limits, status: Status): KeyDecision {
    this.#store(status);
    const { bannedUntilMs } = this.#quota;
    const ban = status.nowMs < bannedUntilMs ? { bannedUntilMs } : {};
    return { admitted: true, nowMs: status.nowMs, windows: this.windows(limits), ...ban };
  }

  /** Stores a status, unless a newer one is known: responses can overtake each other. */
  #store({ revision, nowMs, bannedUntilMs = 0, windows, leases }: Status): void {
    const isOlder = revision === this.#quota.revision && nowMs < (this.#status?.madeMs ?? 0);
    if (revision < this.#quota.revision || isOlder) return;
    const unreported = (each: Count) =>
      this.#outbox.reduce((sum, { atMs, requests }) => sum + (atMs >= each.startMs ? requests : 0), 0);
    this.#status = { madeMs: nowMs, receivedMs: this.#runtime.now() };
    const known = {
      ...UNUSED_QUOTA,
      revision,
      counts: mapWindows(windows, (each) => ({ ...each, used: each.used + unreported(each) })),
      bannedUntilMs: Math.max(bannedUntilMs, this.#localBanMs),
      leases,
    };
    // The object may not know yet that the ban was lifted.
    this.#quota = liftBan(known, this.#bansLiftedUntilMs);
  }

  /** Decides a batch locally, by the object's rules. */
  decide(limits: Limits, batch: Pick<AcquireRequest, "id" | "requests" | "waitedMs">): AcquireResult {
    const atMs = this.objectMs;
    const { revision, leases } = this.#quota;
    const request = { ...batch, released: [], outbox: [], bannedUntilMs: 0, bansLiftedUntilMs: 0 };
    const { result, quota } = acquire({ ...this.#quota, leases: [] }, limits, request, atMs);
    this.#quota = { ...quota, revision, leases };
    const { admitted, bannedUntilMs = 0 } = result;
    const admission = { id: batch.id, requests: admitted, atMs };
    if (admitted > 0) this.#outbox = [...this.#outbox, admission].slice(-MAX_OUTBOX);
    this.#localBanMs = Math.max(this.#localBanMs, bannedUntilMs);
    return result;
  }

  /** What the object has not acknowledged. */
  report(): Report {
    return {
      released: this.#leases.ended,
      outbox: this.#outbox,
      bannedUntilMs: this.#localBanMs,
      bansLiftedUntilMs: this.#bansLiftedUntilMs,
    };
  }

  /** Removes what the object has acknowledged, and stores the status of its response. */
  acknowledge({ released, outbox, bannedUntilMs }: Report, status: Status): void {
    this.#leases.acknowledge(released);
    this.#outbox = this.#outbox.filter((each) => !outbox.includes(each));
    if (bannedUntilMs === this.#localBanMs) this.#localBanMs = 0;
    this.#store(status);
  }
}
