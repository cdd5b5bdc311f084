// How long an isolate uses what it has read from D1.

/** So long it is fresh: an operator's change takes effect everywhere within this time. */
export const FRESH_MS = 30_000;

/** From this age on it is read again in the background while it is used, so that no request waits for that. */
export const REVALIDATE_MS = 20_000;
