// The time for which something holds: a key, a lease, a ban, a full window, a pause. What the answer of another machine has brought holds
// from before the call, for a duration by this isolate's clock. So it ends here before it ends there, whatever the difference of the clocks.

/** Unix time, by this isolate's clock. */
export type Loan = { sinceMs: number; untilMs: number };

export const OVER: Loan = { sinceMs: 0, untilMs: 0 };

export function lend(sinceMs: number, durationMs: number): Loan {
  return { sinceMs, untilMs: sinceMs + durationMs };
}

/** For how long a loan still holds. If the clock has stepped back behind its beginning, its age is unknown: it is over. */
export function leftOf({ sinceMs, untilMs }: Loan, nowMs: number): number {
  return sinceMs <= nowMs ? Math.max(0, untilMs - nowMs) : 0;
}
