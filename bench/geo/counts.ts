// The operations that Cloudflare charges for, and their prices.

/** Billed operations. Rows of the database and of the objects are added up, because they cost the same. */
export interface Counts {
  workerRequests: number;
  objectRequests: number;
  rowsWritten: number;
  rowsRead: number;
}

export const NO_COUNTS: Counts = { workerRequests: 0, objectRequests: 0, rowsWritten: 0, rowsRead: 0 };

/**
 * Dollars per million, beyond what a subscription includes, from Cloudflare's pricing pages of Workers, Durable Objects and D1,
 * November 2026. Not included: CPU time ($0.02 per million milliseconds) and the duration of objects, because neither can be
 * measured when everything runs in one process.
 */
export const PRICES: Counts = { workerRequests: 0.3, objectRequests: 0.15, rowsWritten: 1, rowsRead: 0.001 };

export const OPERATIONS = Object.keys(PRICES) as (keyof Counts)[];

export function sum(all: readonly Counts[]): Counts {
  const total = { ...NO_COUNTS };
  for (const each of all) {
    for (const operation of OPERATIONS) total[operation] += each[operation];
  }
  return total;
}

/** The cost of a million requests in dollars, by operation, given the counts of some `requests`. */
export function dollarsPerMillion(counts: Counts, requests: number): Counts & { total: number } {
  const dollars = { ...NO_COUNTS };
  for (const operation of OPERATIONS) dollars[operation] = (counts[operation] / requests) * PRICES[operation];
  return { ...dollars, total: OPERATIONS.reduce((total, operation) => total + dollars[operation], 0) };
}
