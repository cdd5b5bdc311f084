// How a request waits for what another one is doing: it looks again and again, by timers of its own. It could await a promise of
// the other request (since the compatibility date 2024-10-14), but then it hangs if that request is cut off, for instance
// because its client has left, and Cloudflare has cancelled such waiting requests (cloudflare-docs#29797). The wait is too long
// by at most a fifth.

const FIRST_PAUSE_MS = 1;
const PAUSE_SHARE = 0.2;

/** Waits until a condition holds, for at most `maxMs`. */
export async function poll(isDone: () => boolean, maxMs = Number.POSITIVE_INFINITY): Promise<void> {
  for (let waitedMs = 0; waitedMs < maxMs && !isDone(); ) {
    const pauseMs = Math.max(FIRST_PAUSE_MS, Math.floor(PAUSE_SHARE * waitedMs));
    await scheduler.wait(pauseMs);
    waitedMs += pauseMs;
  }
}
