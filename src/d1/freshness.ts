// How long an isolate uses what it has read from D1.

/** An operator's change takes effect everywhere within this time. */
export const FRESH_MS = 30_000;

/** From this age on, a value in use is reloaded in the background, so that no request waits for the reload. */
export const REVALIDATE_MS = 20_000;
