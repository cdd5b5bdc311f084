// Virtual time: events run by time, then in the order in which they were added.

/** Events from one turn of the process's event loop to the next. */
const EVENTS_A_LOOP = 1_000;

/** More events than any scenario has. */
const MAX_EVENTS = 400_000;

export class Timeline {
  /** Unix time. */
  nowMs: number;
  /** The number of events that are no alarms. */
  events = 0;
  /** The next event is the last. */
  readonly #events: { atMs: number; run: () => unknown; isAlarm: boolean }[] = [];

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  after(ms: number, run: () => unknown, isAlarm = false): void {
    const atMs = this.nowMs + Math.max(0, Math.ceil(ms));
    const later = this.#events.findLastIndex((each) => each.atMs > atMs);
    this.#events.splice(later + 1, 0, { atMs, run, isAlarm });
    if (!isAlarm) this.events += 1;
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** When the next event is. */
  get nextMs(): number | undefined {
    return this.#events.at(-1)?.atMs;
  }

  /** Runs the next event, if there is one. */
  step(): void {
    const event = this.#events.pop();
    if (event === undefined) return;
    this.nowMs = Math.max(event.atMs, this.nowMs);
    if (!event.isAlarm) this.events -= 1;
    event.run();
  }

  /** Runs events until there is none except alarms, or until a time. `settle` runs all that follows from an event at its instant. */
  async run(untilMs = Number.POSITIVE_INFINITY, settle: () => Promise<unknown> = nextTurn): Promise<void> {
    await settle();
    const isOver = () => untilMs === Number.POSITIVE_INFINITY && this.events === 0;
    for (let events = 0; !isOver() && (this.nextMs ?? untilMs) < untilMs; events += 1) {
      if (events > MAX_EVENTS) throw new Error("the simulation does not end");
      this.step();
      await settle();
      if (events % EVENTS_A_LOOP === 0) await new Promise(setImmediate);
    }
    // Node reports a rejection that nothing has handled only now.
    await new Promise(setImmediate);
    if (Number.isFinite(untilMs)) this.nowMs = Math.max(this.nowMs, untilMs);
  }
}

/** Lets all promises that are settled now run on, without a turn of the event loop, which costs more than most events. */
export function nextTurn(): Promise<void> {
  // Within a promise's job, a tick comes when all jobs are done, also those that jobs have added.
  return new Promise((resolve) => process.nextTick(resolve));
}
