/** The nearest-rank percentile: the smallest value that at least `share` of the values (above 0, at most 1) do not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Fewer values have no such interval: five of five lie on the same side of the median in 6 % of all cases. */
export const LEAST_FOR_INTERVAL = 6;

/**
 * A 95 % confidence interval of the median, whatever the distribution. As each value lies below the true median with probability
 * 1/2, the number of those below is binomially distributed. The interval is from the k-th smallest to the k-th largest value,
 * with the largest k for which fewer than k values lie below, or above, with a probability of at most 2.5 % each.
 */
export function medianInterval(values: readonly number[]): { low: number; high: number } {
  const sorted = values.toSorted((a, b) => a - b);
  const count = sorted.length;
  // The probability that exactly, and that at most, `below` values lie below the median.
  let exactly = 0.5 ** count;
  let atMost = exactly;
  let below = 0;
  while (atMost <= 0.025) {
    below += 1;
    exactly *= (count - below + 1) / below;
    atMost += exactly;
  }
  // Here k is `below`; with fewer than 6 values it is 0.
  return { low: sorted[below - 1] ?? Number.NaN, high: sorted[count - below] ?? Number.NaN };
}

/** The arithmetic mean. */
export function mean(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0) / values.length;
}
