// The time limits of tests: they only end what hangs, so a slow machine must not reach them.

/** Of a test or a hook. Longer: a hang is noticed later. */
export const HANG_MS = 600_000;

/** Of a wait for one response, or for a part of a page: it ends before its test, and says what is missing. */
export const WAIT_MS = HANG_MS / 5;

/** Options of a client. Its own limits, 10 s for a request and 90 s for a call, are those of a service that is not on a busy machine. */
export const PATIENT = { timeoutMs: WAIT_MS, totalTimeoutMs: HANG_MS };
