// Waits that end by their time or by a signal, and leave neither a timer nor a listener behind.

/** The longest that setTimeout can wait. */
const MAX_TIMER_MS = 2_147_483_647;

/** With what `within` rejects if the time is over. */
export const TIME_OVER = {};

/** What an abort ends, by signal. A signal has one listener for all calls, because Node warns of more than ten. */
const endsOf = new WeakMap<AbortSignal, Set<() => void>>();

function endAll({ target }: Event): void {
  for (const end of endsOf.get(target as AbortSignal) ?? []) end();
}

/** Where a test service puts its clock: most fake timers fake Date, but not performance.now(). The package has several copies of this. */
export const CLOCK: unique symbol = Symbol.for("petstore-client.clock");

/** The time since an arbitrary moment, in ms. Steps of the clock don't change it. */
export function now(): number {
  return (globalThis as { [CLOCK]?: () => number })[CLOCK]?.() ?? performance.now();
}

/** Ends a wait early, while there is one. */
export interface Sleeper {
  wake?: () => void;
}

/** Waits until the time is over, the signal is aborted, or `sleeper.wake` is called. */
export function sleep(timeMs: number, signal: AbortSignal | undefined, sleeper: Sleeper = {}): Promise<void> {
  return new Promise((resolve) => {
    const ends = (signal && endsOf.get(signal)) ?? new Set();
    const end = () => {
      clearTimeout(timer);
      if (ends.delete(end) && ends.size === 0) signal?.removeEventListener("abort", endAll);
      resolve();
    };
    const timer = setTimeout(end, Math.min(timeMs, MAX_TIMER_MS));
    sleeper.wake = end;
    if (!signal) return;
    if (signal.aborted) return end();
    endsOf.set(signal, ends.add(end));
    // The same listener again is no second one.
    signal.addEventListener("abort", endAll);
  });
}

/** Does the work. Rejects at once with TIME_OVER or the reason of the signal, also if the work ignores the signal that it gets. */
export async function within<Done>(
  timeMs: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<Done>,
): Promise<Done> {
  const ended = new AbortController();
  const sleeper: Sleeper = {};
  const over = sleep(timeMs, signal, sleeper).then(() => {
    throw signal?.aborted ? signal.reason : TIME_OVER;
  });
  try {
    return await Promise.race([work(ended.signal), over]);
  } catch (error) {
    ended.abort();
    throw error;
  } finally {
    over.catch(() => {});
    sleeper.wake?.();
  }
}
