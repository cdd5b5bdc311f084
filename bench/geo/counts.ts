// What is counted because it is paid for, and what that costs.

/** Operations, as they are billed. Rows are those of the database and of the objects together: they cost the same. */
export interface Counts {
  workerRequests: number;
  objectRequests: number;
  rowsWritten: number;
  rowsRead: number;
}

export const NOTHING: Counts = { workerRequests: 0, objectRequests: 0, rowsWritten: 0, rowsRead: 0 };

/**
 * Dollars per million, beyond what a subscription includes, from Cloudflare's documentation (the pricing pages of Workers,
 * Durable Objects and D1), November 2026. Left out: CPU time, which is $0.02 for each millisecond that a request takes, and
 * the time that an object is awake; neither can be told from a run in which all share one process.
 */
export const PRICES: Counts = { workerRequests: 0.3, objectRequests: 0.15, rowsWritten: 1, rowsRead: 0.001 };

export const OPERATIONS = Object.keys(PRICES) as (keyof Counts)[];

/** All of them together. */
export function sum(all: readonly Counts[]): Counts {
  const total = { ...NOTHING };
  for (const each of all) {
    for (const operation of OPERATIONS) total[operation] += each[operation];
  }
  return total;
}

/** What a million requests cost, in dollars, by operation: so many operations were counted for so many `requests`. */
export function dollarsPerMillion(counts: Counts, requests: number): Counts & { total: number } {
  const dollars = { ...NOTHING };
  for (const operation of OPERATIONS) dollars[operation] = (counts[operation] / requests) * PRICES[operation];
  return { ...dollars, total: OPERATIONS.reduce((total, operation) => total + dollars[operation], 0) };
}
