// The operations that Cloudflare charges for, with their prices.

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
 * measured here.
 */
const PRICES: Counts = { workerRequests: 0.3, objectRequests: 0.15, rowsWritten: 1, rowsRead: 0.001 };

export const OPERATIONS = Object.keys(PRICES) as (keyof Counts)[];

/** The cost of a million requests in dollars, given the counts of as many requests as `workerRequests` says. */
export function dollarsPerMillion(counts: Counts): number {
  const dollars = OPERATIONS.map(
    (operation) => (counts[operation] / counts.workerRequests) * PRICES[operation],
  );
  return dollars.reduce((total, each) => total + each);
}
