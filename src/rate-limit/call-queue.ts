// Of one key, one call to its object is under way in an isolate at a time. Requests that come meanwhile wait; the next call
// asks for all of them, and each gets a decision of its own. So a burst waits for one or two calls, not for one each, and
// the object has as many calls as there are isolates, not as there are requests.
//
// A Worker's request may not wait for a promise of another one, so it looks again and again, by timers of its own, at what
// the other has left. That also makes it independent of the other's fate: a call may be cut off with its client.

export const CALLS_ARE_SHARED: boolean = true;

/** How soon a waiting request looks for the first time, how much later each further time, and how seldom at most. */
const FIRST_LOOK_MS = 1;
const LOOK_GROWTH = 1.5;
const MAX_LOOK_MS = 10;

/** A request that waits for a call. */
export interface Waiting<Result> {
  /** What the call found out for it. */
  result?: Result;
  /** The call that has taken it along. */
  call?: Call<Result>;
}

/** A call, and the requests that it has taken along: whoever calls leaves each its result. */
interface Call<Result> {
  sinceMs: number;
  aboard: readonly Waiting<Result>[];
}

/** The requests of one key that wait, and the call that they wait for. Times are of the isolate's clock (Unix time). */
export class CallQueue<Result> {
  readonly #clock: { now(): number; wait(ms: number): Promise<unknown> };
  readonly #maxCallMs: number;
  #waiting: Waiting<Result>[] = [];
  #call: Call<Result> | undefined;

  /** `maxCallMs`: how long a call may take. */
  constructor(clock: { now(): number; wait(ms: number): Promise<unknown> }, maxCallMs: number) {
    this.#clock = clock;
    this.#maxCallMs = maxCallMs;
  }

  /** Whether a call is under way. One that has lasted too long was cut off, with the request that made it. */
  get isCalling(): boolean {
    if (!CALLS_ARE_SHARED || this.#call === undefined) return false;
    return Math.abs(this.#clock.now() - this.#call.sinceMs) <= this.#maxCallMs;
  }

  /**
   * Waits for the call that is under way, and for the next one if that takes this request along. Undefined if none does,
   * or if that one was given up.
   */
  async join(): Promise<Result | undefined> {
    const self: Waiting<Result> = {};
    this.#waiting.push(self);
    let lookMs = FIRST_LOOK_MS;
    do {
      await this.#clock.wait(lookMs);
      lookMs = Math.min(LOOK_GROWTH * lookMs, MAX_LOOK_MS);
    } while (self.result === undefined && this.isCalling && (self.call ?? this.#call) === this.#call);
    this.#waiting = this.#waiting.filter((each) => each !== self);
    return self.result;
  }

  /** Begins a call for all that wait. */
  begin(): Call<Result> {
    const call = { sinceMs: this.#clock.now(), aboard: this.#waiting };
    for (const each of call.aboard) each.call = call;
    this.#waiting = [];
    this.#call = call;
    return call;
  }

  /** Lets nobody wait any longer. Returns those who did: whoever calls leaves each its result. */
  dismiss(): readonly Waiting<Result>[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    return waiting;
  }

  /** Ends a call. Whoever still waits sees that, and calls next; not if the next one has begun, because this was given up. */
  end(call: Call<Result>): void {
    if (this.#call === call) this.#call = undefined;
  }
}
