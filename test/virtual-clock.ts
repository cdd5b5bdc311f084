// A clock for tests of what measures time: it stands still until it is moved on.

/** A clock that is moved on, with timers that go off then, and that may step, which moves no timer. */
export function newClock() {
  let nowMs = Date.UTC(2026, 10, 20, 12, 34);
  let stepMs = 0;
  const timers = new Set<{ atMs: number; resolve: () => void }>();
  return {
    now: () => nowMs + stepMs,
    wait: (ms: number) =>
      new Promise<void>((resolve) => timers.add({ atMs: nowMs + Math.ceil(ms), resolve })),
    /** Lets time pass, one millisecond after the other, and whoever waits get as far as it can. */
    async pass(ms: number): Promise<void> {
      for (const endMs = nowMs + ms; nowMs < endMs; ) {
        nowMs += 1;
        for (const timer of [...timers].filter(({ atMs }) => atMs <= nowMs)) {
          timers.delete(timer);
          timer.resolve();
          // A promise that is handed on by a few functions needs a few turns.
          for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
        }
      }
    },
    step(ms: number): void {
      stepMs += ms;
    },
  };
}
