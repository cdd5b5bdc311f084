// How an isolate has the requests of one key counted: by a lease if it holds one, else by the key's Durable Object. What
// the object last said is remembered: while a key is banned nobody has to be asked, and while the object can't be reached
// the isolate decides alone, by the same rules. Deciding alone is lax by nature, because every isolate
// does it by itself; whom it let in, it reports as soon as the object answers again.

import { randomBase62 } from "../base62.ts";
import { CallQueue, type Waiting } from "./call-queue.ts";
import { HeldLeases, LEASE_MS, NO_WISH, type Wish } from "./lease.ts";
import {
  type Admission,
  decide,
  MAX_UNREPORTED,
  standing,
  TAKE_ID_LENGTH,
  type Take,
  UNUSED_METER,
  type Verdict,
} from "./meter.ts";
import { count, type Decision, type Limits, unusedWindow, WINDOW_SECONDS, type Window } from "./window.ts";

/** What an isolate has of time: its clock, which may step, and timers, which do not. */
interface Clock {
  /** Unix time. */
  now(): number;
  wait(ms: number): Promise<unknown>;
  /** Lets work go on after its request was answered, or its client has left. */
  keepAlive(work: Promise<unknown>): void;
}

/** Asks the object, within a deadline; throws what the platform throws, or DeadlineExceeded. */
export type AskObject = (take: Take) => Promise<Verdict>;

/** A decision, and why the isolate had to make it alone, if it had to. */
interface Counted {
  decision: Decision;
  failure?: unknown;
}

/** What an isolate knows of the meter of one key. */
export class KeyMeter {
  readonly #clock: Clock;
  readonly #queue: CallQueue<Counted>;
  readonly #leases = new HeldLeases();
  /** What is known, whoever said it, and as of when by the object's clock. */
  #meter = UNUSED_METER;
  #asOfMs = 0;
  /** The answer to the latest call, and when it came: what is shown while a lease is used up. */
  #answer: { windows: Window[]; nowMs: number; cameAtMs: number } | undefined;
  /** Not so while the object is of an earlier version, which looks at the first request of a call only. */
  #sharesCalls = true;
  #lastRequestMs = Number.NEGATIVE_INFINITY;
  #unreported: readonly Admission[] = [];

  /** `maxCallMs`: how long asking the object may take. */
  constructor(clock: Clock, maxCallMs: number) {
    this.#clock = clock;
    this.#queue = new CallQueue(clock, maxCallMs);
  }

  /** The refusal of a key that is known to be banned. Asks nobody. */
  ban(limits: Limits, nowMs: number): Decision | undefined {
    return nowMs < this.#meter.bannedUntilMs ? standing(this.#meter, limits, nowMs) : undefined;
  }

  /** Whether the object would have refused a request when it was last heard of. */
  isUsedUp(limits: Limits, nowMs: number): boolean {
    return !standing(this.#meter, limits, nowMs).admitted;
  }

  /** Remembers how the key stands, unless more is known: answers can overtake each other. */
  remember({ windows, bannedUntilMs = 0, nowMs }: Decision): void {
    const isNewer = nowMs > this.#asOfMs;
    // What the object has not been told of is not in what it says.
    const untold = (startMs: number) =>
      this.#unreported.reduce((sum, { atMs, requests = 1 }) => sum + (atMs >= startMs ? requests : 0), 0);
    this.#asOfMs = Math.max(this.#asOfMs, nowMs);
    this.#meter = {
      ...UNUSED_METER,
      windows: windows.map((window, index) => {
        // An object of an earlier version says nothing of refusals.
        const told = { ...unusedWindow(window.name, window.limit), ...window };
        const complete = { ...told, used: told.used + untold(told.startMs) };
        return later(this.#meter.windows[index] ?? complete, complete, isNewer);
      }),
      bannedUntilMs: Math.max(this.#meter.bannedUntilMs, bannedUntilMs),
    };
  }

  /** What the object says, without what it has leased to this isolate and is not used. */
  asSeenHere(decision: Decision): Decision {
    const windows = decision.windows.map((window) => {
      // An answer that was given before the latest one may know less than the leases do.
      const used = Math.max(0, window.used - this.#leases.notUsedSince(window.startMs));
      return { ...window, used };
    });
    return { ...decision, windows };
  }

  /**
   * Counts one request, at once if nobody has to be asked. Its time of arrival, `nowMs` (Unix time), only matters if the
   * isolate must decide alone; then `onUnavailable` is told why.
   */
  take(
    limits: Limits,
    ask: AskObject,
    nowMs: number,
    onUnavailable: (error: unknown) => void,
  ): Decision | Promise<Decision> {
    // A client that comes less often than a lease lasts meets none: its numbers are exact.
    const isQuick = Math.abs(this.#clock.now() - this.#lastRequestMs) < LEASE_MS;
    this.#lastRequestMs = this.#clock.now();
    return (
      this.#takeAtOnce(limits, ask, nowMs) ?? this.#takeByCall(limits, ask, nowMs, onUnavailable, isQuick)
    );
  }

  /** Decides about a request from what is known and held here, if that is enough. */
  #takeAtOnce(limits: Limits, ask: AskObject, nowMs: number): Decision | undefined {
    const ban = this.ban(limits, nowMs);
    // What the object has not heard yet it should hear even so.
    if (ban !== undefined) return this.#unreported.length === 0 ? ban : undefined;
    const currentMs = this.#clock.now();
    const decision = this.#takeFromLease(currentMs);
    if (decision !== undefined && this.#leases.isDue(currentMs)) this.#renewLease(limits, ask);
    return decision;
  }

  /** Has a request counted by the next call, whoever makes it. */
  async #takeByCall(
    limits: Limits,
    ask: AskObject,
    nowMs: number,
    onUnavailable: (error: unknown) => void,
    isQuick: boolean,
  ): Promise<Decision> {
    let decision: Decision | undefined;
    while (decision === undefined) {
      let counted: Counted | undefined;
      if (this.#queue.isCalling && this.#sharesCalls) {
        counted = await this.#queue.join();
      } else {
        const call = this.#call(limits, ask, nowMs, 1, isQuick);
        // Others may wait for it, so it has to go on when this request's client leaves.
        this.#clock.keepAlive(call);
        counted = await call;
      }
      if (counted !== undefined && "failure" in counted) onUnavailable(counted.failure);
      decision = counted?.decision ?? this.#takeAtOnce(limits, ask, nowMs);
    }
    return decision;
  }

  /** Lets a request in that the object has counted already. */
  #takeFromLease(nowMs: number): Decision | undefined {
    if (this.#answer === undefined || !this.#leases.use(nowMs)) return undefined;
    return this.asSeenHere({ admitted: true, nowMs: this.#objectMs(nowMs), windows: this.#answer.windows });
  }

  /** What time it is by the clock of the object, or a little earlier, because its answer has been on the way. */
  #objectMs(nowMs: number): number {
    const { nowMs: answeredAtMs, cameAtMs } = this.#answer ?? { nowMs, cameAtMs: nowMs };
    return answeredAtMs + Math.max(0, nowMs - cameAtMs);
  }

  /** Renews a lease, unless a call is under way. */
  #renewLease(limits: Limits, ask: AskObject): void {
    if (this.#queue.isCalling) return;
    this.#clock.keepAlive(this.#call(limits, ask, this.#clock.now(), 0, true));
  }

  /**
   * Has `own` requests (one, or none) counted, and those that wait, and asks for a lease if others will probably follow.
   * Returns what became of the own one.
   */
  async #call(
    limits: Limits,
    ask: AskObject,
    nowMs: number,
    own: 0 | 1,
    isQuick: boolean,
  ): Promise<Counted | undefined> {
    const askedAtMs = this.#clock.now();
    const call = this.#queue.begin();
    const { aboard } = call;
    const requests = own + aboard.length;
    const wantsLease = isQuick || aboard.length > 0;
    const wish = wantsLease ? this.#leases.wish(askedAtMs, requests, this.#minuteLeftMs(askedAtMs)) : NO_WISH;
    const take = this.#newTake(requests, wish);
    // It runs from before the object knows of the lease, so that it ends before the object's time for it is over.
    const leaseTime = wish.size > 0 ? this.#clock.wait(wish.forMs) : undefined;
    let counted: Counted[];
    try {
      const verdict = await ask(take);
      this.#hear(verdict, take);
      if (verdict.lease !== undefined) {
        this.#leases.add(verdict.lease, askedAtMs, this.#clock.now());
        this.#clock.keepAlive(this.#endLease(verdict.lease.id, leaseTime, ask));
      }
      counted = this.#split(verdict, requests);
    } catch (failure) {
      if (wish.size > 0) this.#leases.lose(take.id, wish.size);
      const decideAlone = (undecided: Required<Take>) =>
        this.#decideAlone(limits, undecided, nowMs).map((decision) => ({ decision, failure }));
      counted = decideAlone(take);
      // Whoever waits for the next call would only wait for that to fail.
      const waiting = this.#queue.dismiss();
      const results = decideAlone({ ...take, id: newTakeId(), requests: waiting.length, unreported: [] });
      giveResults(waiting, results);
    }
    giveResults(aboard, counted.slice(own));
    this.#queue.end(call);
    return own > 0 ? counted[0] : undefined;
  }

  /** A take with all that the object has to be told. Each admission is handed over once, so that no two takes report it. */
  #newTake(requests: number, wish: Wish): Required<Take> {
    const { unused } = this.#leases;
    const unreported = this.#unreported;
    this.#unreported = [];
    const { bannedUntilMs } = this.#meter;
    return { id: newTakeId(), requests, wish, unused, unreported, bannedUntilMs };
  }

  /** Remembers what the object has answered. */
  #hear(verdict: Verdict, take: Required<Take>): void {
    this.#leases.gaveBack(take.unused);
    this.remember(verdict);
    // What is still held then would count in one window and be shown in another: the object's clock has stepped.
    if (!areSame(this.#answer?.windows ?? [], verdict.windows)) this.#leases.endAll();
    this.#answer = { windows: verdict.windows, nowMs: verdict.nowMs, cameAtMs: this.#clock.now() };
    this.#sharesCalls = verdict.admissions !== undefined;
  }

  /** Ends a lease by a timer: a client that pauses gets back what it has not used, and a timer does not step. */
  async #endLease(id: string, leaseTime: Promise<unknown> | undefined, ask: AskObject): Promise<void> {
    await leaseTime;
    this.#leases.end(id);
    if (this.#leases.unused.length > 0) await this.#giveBack(ask);
  }

  /** Gives back what was left of leases, beside whatever call is under way: what is given back twice counts once. */
  async #giveBack(ask: AskObject): Promise<void> {
    const take = this.#newTake(0, NO_WISH);
    try {
      this.#hear(await ask(take), take);
    } catch {
      this.#unreported = [...take.unreported, ...this.#unreported].slice(-MAX_UNREPORTED);
    }
  }

  /** How long the minute will last, by the clock of the object, as far as that is known. */
  #minuteLeftMs(nowMs: number): number {
    const minuteMs = WINDOW_SECONDS.minute * 1000;
    return minuteMs - (this.#objectMs(nowMs) % minuteMs);
  }

  /** The decisions about each request of a take, in their order; fewer if the object has not looked at all of them. */
  #split(verdict: Verdict, requests: number): Counted[] {
    const {
      admissions = verdict.admitted ? 1 : 0,
      lease: _,
      ...decision
    } = this.asSeenHere(verdict) as Verdict;
    const { nowMs, windows } = decision;
    const looked = verdict.admissions === undefined ? Math.min(requests, 1) : requests;
    return Array.from({ length: looked }, (_, index) => {
      if (index >= admissions) return { decision: { ...decision, admitted: false } };
      const laterOnes = admissions - 1 - index;
      return { decision: { admitted: true, nowMs, windows: count(windows, -laterOnes, 0) } };
    });
  }

  /** What the object would decide if it knew what is known here, and neither more nor less. */
  #decideAlone(limits: Limits, take: Required<Take>, arrivedAtMs: number): Decision[] {
    const decisions: Decision[] = [];
    // It has waited since then.
    const nowMs = Math.max(arrivedAtMs, this.#clock.now());
    for (let request = 0; request < take.requests; request += 1) {
      // Each is a take of its own here; the object will hear of all of them under the one id that it may know.
      const single = { id: newTakeId(), unreported: [], bannedUntilMs: 0 };
      const { verdict, meter } = decide(this.#meter, limits, single, nowMs);
      this.#meter = meter;
      decisions.push(verdict);
    }
    const requests = decisions.filter(({ admitted }) => admitted).length;
    const admissions = requests > 0 ? [{ id: take.id, atMs: nowMs, requests }] : [];
    this.#unreported = [...take.unreported, ...this.#unreported, ...admissions].slice(-MAX_UNREPORTED);
    return decisions;
  }
}

function newTakeId(): string {
  return randomBase62(TAKE_ID_LENGTH);
}

/** Leaves each of those who wait its result; the last ones have none if the object has not looked at all of them. */
function giveResults(waiting: readonly Waiting<Counted>[], results: readonly Counted[]): void {
  for (const [index, result] of results.entries()) {
    const each = waiting[index];
    if (each !== undefined) each.result = result;
  }
}

/** Whether windows are the same ones, whatever has happened in them. */
function areSame(some: readonly Window[], others: readonly Window[]): boolean {
  return some.every(({ startMs }, index) => startMs === others[index]?.startMs);
}

/** Of two states of one window, the one that has happened later. Of one window, less can be used if it was given back. */
function later(one: Window, other: Window, isOtherNewer: boolean): Window {
  if (one.startMs !== other.startMs) return one.startMs > other.startMs ? one : other;
  if (isOtherNewer) return other;
  return {
    ...other,
    used: Math.max(one.used, other.used),
    refused: Math.max(one.refused, other.refused),
  };
}
