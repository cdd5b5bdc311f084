// An isolate's copy of a key's quota: the object's last status, the lease, and the local decisions that the object has not
// acknowledged. With it the isolate refuses without a call once a window is full or the key is banned, and decides by itself while
// the object can't be reached. Isolates then don't know of each other's requests, so together they may exceed the limit.

import type { Runtime } from "../../lib/runtime.ts";
import {
  add,
  type Counts,
  fullWindows,
  type KeyDecision,
  type KeyWindows,
  type Limits,
  mapWindows,
  type Outlook,
  refusingWindow,
  remaining,
  resetMs,
  rollOver,
  room,
  UNUSED_COUNT,
  withLimits,
} from "../../rate-limit/windows.ts";
import { isLate } from "../object/bans.ts";
import type { Status } from "../protocol.ts";
import type { Key } from "../record.ts";
import { HeldLease } from "./held-lease.ts";
import { LocalDecisions } from "./local-decisions.ts";

/** `sentMs`, `receivedMs`: when the call began and ended, by the isolate's clock (Unix time). */
type KnownStatus = Status & { sentMs: number; receivedMs: number };

const NOTHING_LEASED = { minute: 0, day: 0 };
const NOTHING_USED: Counts = { minute: UNUSED_COUNT, day: UNUSED_COUNT };

export class KnownQuota {
  readonly #runtime: Runtime;
  readonly lease = new HeldLease();
  #status: KnownStatus | undefined;
  readonly local = new LocalDecisions();
  /** The latest time that the minute's first local refusal can have had, by the object's clock (Unix time). */
  #firstRefusalMs = 0;
  /** From the record of the key. */
  #limits: Limits = { minute: 0, day: 0 };
  #bansLiftedUntilMs = 0;
  /** What responses have shown. Leases that come back must not make Remaining rise. */
  readonly #shown: Counts = { ...NOTHING_USED };

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Applies the record of the key. */
  learn({ limits, bansLiftedUntilMs }: Pick<Key, "limits" | "bansLiftedUntilMs">): void {
    this.#limits = limits;
    this.#bansLiftedUntilMs = bansLiftedUntilMs;
  }

  /** The earliest time that it can be by the object's clock: the last status is as old as it was when it arrived, or older. */
  get objectMs(): number {
    const nowMs = this.#runtime.now();
    const { nowMs: madeMs, receivedMs } = this.#status ?? { nowMs, receivedMs: nowMs };
    return madeMs + Math.max(0, nowMs - receivedMs);
  }

  /** The earliest time at which a request can have arrived, by the object's clock; 0 if nothing is known of that clock. */
  arrivedMs(localMs: number): number {
    return this.#status === undefined ? 0 : this.objectMs - Math.max(0, this.#runtime.now() - localMs);
  }

  /** The latest time that it can be by the object's clock; unknown after this clock has stepped back. */
  get #latestMs(): number {
    const nowMs = this.#runtime.now();
    if (this.#status === undefined || nowMs < this.#status.receivedMs) return Number.POSITIVE_INFINITY;
    return this.#status.nowMs + nowMs - this.#status.sentMs;
  }

  /** The time of a local decision, by the object's clock: if that has stepped back, its minute is in the future. */
  get decidedMs(): number {
    return Math.max(this.objectMs, this.minuteMs);
  }

  /** The start of the last known minute, by the object's clock (Unix time). */
  get minuteMs(): number {
    return this.#status?.windows.minute.startMs ?? 0;
  }

  /** Whether another minute with room begins within `ms`. Then nobody waits for the leases of this one. */
  hasNextMinute(ms: number): boolean {
    if (this.#status === undefined) return false;
    const { minute, day } = this.#status.windows;
    return this.#latestMs >= resetMs(minute, "minute") - ms && remaining(day) >= minute.limit;
  }

  /** Unix time; undefined if there is no ban, or if it may be over. */
  get #bannedUntilMs(): number | undefined {
    const { bannedUntilMs = 0 } = this.#status ?? {};
    return bannedUntilMs > this.#bansLiftedUntilMs && this.#latestMs < bannedUntilMs
      ? bannedUntilMs
      : undefined;
  }

  /** The known windows as of `objectMs`, as requests see them. */
  get windows(): KeyWindows {
    const counts = this.#status?.windows ?? NOTHING_USED;
    return this.adjust(rollOver(withLimits(counts, this.#limits), this.objectMs));
  }

  /** Windows of the object without the unused requests of the lease, but with the decisions that the object does not know. */
  adjust(windows: KeyWindows): KeyWindows {
    const own = mapWindows(windows, (each) => ({
      ...each,
      used: each.used - this.lease.unused(each.startMs),
    }));
    return this.local.decisions.reduce((sum, { atMs, admitted }) => add(sum, admitted, atMs), own);
  }

  /** A decision as the response shows it: leases of other isolates that have come back stay hidden until the window ends. */
  show(decision: KeyDecision): KeyDecision {
    const windows = mapWindows(decision.windows, (each, name) => {
      const shown = this.#shown[name];
      const used = shown.startMs === each.startMs ? Math.max(shown.used, each.used) : each.used;
      if (shown.startMs <= each.startMs) this.#shown[name] = { ...each, used };
      return { ...each, used };
    });
    // A refusal must not name a window that has requests left.
    return decision.admitted ? { ...decision, windows } : decision;
  }

  /** Whether the next request is admitted, as far as is known. */
  peek(): Outlook<KeyWindows> {
    const bannedUntilMs = this.#bannedUntilMs;
    const { windows } = this;
    const admitted = bannedUntilMs === undefined && room(windows) > 0;
    return { admitted, nowMs: this.objectMs, windows, ...(bannedUntilMs && { bannedUntilMs }) };
  }

  /** The refusal of a banned key. */
  ban(): KeyDecision | undefined {
    return this.#bannedUntilMs === undefined ? undefined : { ...this.peek(), by: "ban" };
  }

  /** Refuses a request that arrived at `localMs` if a window is full and no lease can make room before its end. */
  refuse(localMs: number): KeyDecision | undefined {
    const status = this.#status;
    if (status === undefined) return undefined;
    const { windows } = this;
    const isFull = (["minute", "day"] as const).some((name) => {
      const { startMs, used, limit } = windows[name];
      if (startMs !== status.windows[name].startMs || used - status.leased[name] < limit) return false;
      return this.#latestMs < resetMs(windows[name], name);
    });
    if (!isFull) return undefined;
    const { startMs } = windows.minute;
    const firstMs = [status.firstRefusalMs, this.#firstRefusalMs].find((each) => each >= startMs);
    if (firstMs === undefined) this.#firstRefusalMs = this.#latestMs;
    const arrivedMs = this.arrivedMs(localMs);
    const late = isLate(firstMs ?? 0, arrivedMs) ? 1 : 0;
    const refusedByDay = refusingWindow(windows, status.leased) === "day" ? 1 : 0;
    this.local.add({ atMs: this.decidedMs, arrivedMs, admitted: 0, refused: 1, refusedByDay, late });
    return {
      admitted: false,
      by: "full",
      nowMs: this.objectMs,
      windows: fullWindows(windows, status.leased),
    };
  }

  /** From now on, what other isolates may give back is not waited for. */
  forgetLeases(): void {
    if (this.#status !== undefined) this.#status = { ...this.#status, leased: NOTHING_LEASED };
  }

  /** Decides requests without the object, from what is known. `number`: that of the call that has sent them. */
  decide(requests: number, number?: number) {
    const atMs = this.decidedMs;
    const admitted = Math.min(requests, room(this.windows));
    const refused = requests - admitted;
    const leased = NOTHING_LEASED;
    const refusedByDay = refusingWindow(add(this.windows, admitted), leased) === "day" ? refused : 0;
    this.local.add({ atMs, arrivedMs: 0, admitted, refused, refusedByDay, late: 0 }, number);
    return { admitted, by: "local" as const, refused, nowMs: atMs, windows: this.windows, leased };
  }

  /** Stores a status, unless a newer one is known: that of GET /v1/usage can overtake that of a call. */
  store(status: Status, sentMs: number): void {
    const known = this.#status;
    if (known !== undefined && status.revision < known.revision) return;
    if (status.revision === known?.revision && status.nowMs < known.nowMs) return;
    this.#status = { ...status, sentMs, receivedMs: this.#runtime.now() };
  }
}
