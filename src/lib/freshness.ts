// For how long an isolate may believe what it has read: 30 s. What is in use is read again in the background before that
// is over, so that no request waits for it; if that fails, the next request after the 30 s does wait.
//
// Ages are of the isolate's clock. After a step back nobody knows how old something is: it is then not believed.

export const REFRESHES_AHEAD: boolean = true;

/** How long whoever has read something may believe it: what an operator changes is in force everywhere after this time. */
export const BELIEVED_MS = 30_000;

/** When it is read again in the background, if it is in use. */
const REFRESHED_AFTER_MS = 20_000;

/** Milliseconds since something was read, at `readAtMs`. */
export function ageMs(readAtMs: number, nowMs: number): number {
  return readAtMs <= nowMs ? nowMs - readAtMs : Number.POSITIVE_INFINITY;
}

/** Whether what was read at `readAtMs` may be believed. Times are Unix time. */
export function isBelieved(readAtMs: number, nowMs: number): boolean {
  return ageMs(readAtMs, nowMs) < BELIEVED_MS;
}

/** Whether it is time to read it again. */
export function isDue(readAtMs: number, nowMs: number): boolean {
  return REFRESHES_AHEAD && ageMs(readAtMs, nowMs) >= REFRESHED_AFTER_MS;
}
