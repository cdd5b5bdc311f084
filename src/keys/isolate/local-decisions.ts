// What an isolate has decided about a key's requests without a call, until the object has acknowledged it.

import { startOfWindowMs } from "../../rate-limit/windows.ts";
import type { LocalDecision } from "../protocol.ts";

/** If an outage has more batches than this, some are not reported: empty ones first, then the oldest. */
export const MAX_DECISIONS = 100;

export class LocalDecisions {
  decisions: readonly LocalDecision[] = [];
  /** The highest number of a call or local decision. */
  #number = 0;

  /** The number of a new call or local decision. */
  newNumber(): number {
    this.#number += 1;
    return this.#number;
  }

  /** Adds a local decision: to the latest one if no call has begun since and the minute is the same. */
  add(decision: Omit<LocalDecision, "number">, number?: number): void {
    const { atMs, arrivedMs, admitted, refused, refusedByDay, late } = decision;
    const latest = this.decisions.at(-1);
    const isInMinute = latest !== undefined && latest.atMs >= startOfWindowMs("minute", atMs);
    if (isInMinute && number === undefined && latest.number === this.#number) {
      latest.arrivedMs = Math.min(latest.arrivedMs, arrivedMs);
      latest.admitted += admitted;
      latest.refused += refused;
      latest.refusedByDay += refusedByDay;
      latest.late += late;
      return;
    }
    const added = { number: number ?? this.newNumber(), ...decision };
    const all = [...this.decisions, added];
    // An empty decision only cancels the charge of a failed call: without it, requests may stay charged. Without another one, requests
    // are never charged.
    const firstEmpty = all.findIndex((each) => each.admitted + each.refused === 0);
    if (all.length > MAX_DECISIONS) all.splice(Math.max(0, firstEmpty), 1);
    this.decisions = all;
  }

  /** Removes decisions that the object has acknowledged. */
  acknowledge(decisions: readonly LocalDecision[]): void {
    this.decisions = this.decisions.filter((each) => !decisions.includes(each));
  }
}
