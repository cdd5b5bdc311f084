// All that an isolate knows of one key, with every rule for it: the key, the object's last status, a lease, decisions that the object
// does not know yet, the requests that wait, and the call under way. Methods get the time, and none waits or calls: key-calls.ts does.
// Times are the isolate's (Unix time) unless they are said to be the object's.

import { DeadlineExceeded } from "../../lib/deadline.ts";
import { type Loan, leftOf, lend, OVER } from "../../lib/loan.ts";
import { LimiterUnavailable } from "../errors.ts";
import { hasSecret, type KeyPolicy, limitsOf, readKeyBy, type Terms, termsOf } from "../policy.ts";
import {
  type AcquireAnswer,
  type AcquireRequest,
  type KeyAnswer,
  LATE_MS,
  type Lease,
  type LocalDecision,
  MAX_WAIT_MS,
  RATE_MS,
  type Status,
  type UsableKey,
} from "../protocol.ts";
import type { Known } from "../readers.ts";
import {
  add,
  addEach,
  type ByWindow,
  type Counts,
  type Decision,
  fullWindows,
  giveBack,
  mapWindows,
  type Outlook,
  refusingWindow,
  remaining,
  resetMs,
  rollOver,
  room,
  shortest,
  startOfWindowMs,
  sum,
  unused,
  type Window,
  type Windows,
  withLimits,
} from "../windows.ts";
import { CALL_DEADLINE_MS } from "./call-object.ts";
import type { Recorder } from "./caller.ts";

/** A key in use is renewed after this share of its time. More: requests that wait for it; less: more calls. */
const RENEW_KEY_SHARE = 1 / 2;

/** A request renews a lease so long before its end: a share of its time, 1½ calls, a reserve. More: more calls; less: waits for the next. */
const RENEW_SHARE = 1 / 10;
const RENEW_CALLS = 1.5;
const RENEW_RESERVE_MS = 50;
/** A report of a lease's end gets the next if a request came within this share of its time. More: leases in vain; less: waits for new ones. */
const IN_USE_SHARE = 1 / 2;
/**
 * A report gets a lease only for so long after a request's call has got one. A timer belongs to that request, and Cloudflare ends it 30 s
 * after the response: then nothing would report the lease. Longer: leases that are lost; shorter: waits for new leases.
 */
const MAX_UNATTENDED_MS = 20_000;
/** A lease is also renewed if less than this share of what its last grant left is left: then the rate has risen. */
const LEAST_SHARE = 1 / 4;

/** The longest wait for the answer about a secret that the isolate can't judge. Longer: less time to ask the primary instead. */
export const MAX_ANSWER_MS = 4_000;
/** No call begins for a request that may wait for less. Longer: fewer calls in vain; shorter: more patience. */
const MIN_CALL_MS = 400;

/** The most calls of one isolate for one key in a second, without retries. More: shorter waits at the end of a window; less: a calmer object. */
const MAX_CALLS = 20;
/** The last of these is for reports, for which other isolates may wait. */
const REQUEST_CALLS = MAX_CALLS - 1;
export const SECOND_MS = 1_000;
/** The pause after an undecided answer if no lease ends before. Longer: longer waits; shorter: more calls if the holder of a lease has ended. */
const UNDECIDED_PAUSE_MS = 400;
/** A pause is up to so much longer, so that isolates do not ask at the same time. */
const SPREAD = 0.25;

/** If an outage has more batches than this, those of a shortest window are merged. More: larger reports; fewer: more that may be charged twice. */
const MAX_DECISIONS = 100;
/** A report pauses, and waits for its turn. One that has not called by then was cancelled together with its request. */
const MAX_REPORT_MS = MAX_WAIT_MS + 2 * SECOND_MS;

/** What an isolate admits of each limit if it does not know its share. More: more than the limit in an outage; less: false refusals then. */
const UNKNOWN_SHARE = 1 / 10;
/** Multiples of it are spread evenly between whole numbers (golden ratio). */
const GOLDEN = 0.618034;

const NONE: ByWindow<number> = {};

/** What is known of the object: `receivedMs` is when it arrived. A ban and the windows end with their loans. */
type KnownStatus = Status & { receivedMs: number; loans: ByWindow<Loan>; ban: Loan };

/**
 * A lease that the isolate holds. It is to be renewed once less than `renewMs` of its time or fewer than `least` requests are left. If it
 * `isOver`, it is kept until the object has acknowledged that. `isLast`: the object did not renew it, so requests don't ask again, and the
 * report of its end asks for no other one.
 */
export type HeldLease = Lease &
  Loan & { used: number; least: number; renewMs: number; isOver: boolean; isLast: boolean };

/** How a wait ends: with a decision, which has a `failure` if it was made without the object; or without, because nobody knows the secret. */
type Outcome = { decision: Decision; failure?: unknown } | { decision?: never; failure: unknown };

/** A request that waits. It is decided without the object only once the isolate can judge its secret. */
export interface Waiter<Key> {
  arrivedMs: number;
  timing?: Recorder | undefined;
  /** The hash of a secret that the isolate can't judge, until the object says that it is valid. */
  secret?: string | undefined;
  /** What the object has said of the secret. */
  answer?: KeyAnswer<Key>;
  outcome?: Outcome;
}

/** A call that counts the requests of `waiters`. It takes at most `maxMs`. */
export interface Call<Key> {
  reason: "request" | "report";
  request: AcquireRequest;
  waiters: readonly Waiter<Key>[];
  sentMs: number;
  maxMs: number;
}

/** What a request that waits has to do next. */
export type Next = { what: "nothing" | "call" } | { what: "wait"; ms: number };

/** How long a request may wait that arrived at `arrivedMs`. After the clock steps back, it waits anew. */
export function patienceMs(arrivedMs: number, nowMs: number, maxMs = MAX_WAIT_MS): number {
  return Math.max(0, Math.min(arrivedMs, nowMs) + maxMs - nowMs);
}

export class KeyState<Key extends object> {
  /** Under which the object knows this isolate. */
  readonly id: string;
  #key: { key: Key | null; renewMs: number } & Loan = { key: null, renewMs: 0, ...OVER };
  /** Of the last key, also of a key that was deleted since. Without one, there is no room. */
  #terms: Terms;
  #status: KnownStatus | undefined;
  #lease: HeldLease | undefined;
  /** The time of the latest request, and the moving average then. */
  #arrival = { atMs: 0, recent: 0 };
  /** What the object has not acknowledged. */
  #decisions: readonly LocalDecision[] = [];
  /** The highest number of a call or local decision. */
  #number = 0;
  /** Its part of the key's recent requests, as the object last reported it; undefined if it has not. */
  #share: number | undefined;
  /** How many requests the isolate has admitted in the shortest window. */
  #own = { startMs: 0, used: 0 };
  /** Where its share of each window begins to be rounded up: a number in [0, 1), drawn when it is needed. */
  #phase: number | undefined;
  readonly #policy: KeyPolicy<Key, string>;
  /** Until the object has told others. */
  readonly #unused: Counts;
  readonly #random: () => number;
  /** What responses have shown. Leases that come back must not make Remaining rise. */
  readonly #shown: Record<string, { startMs: number; used: number }> = {};
  /** In their order of arrival. */
  #waiters: Waiter<Key>[] = [];
  #call: Call<Key> | undefined;
  /** While timers of the request whose call has got the last lease are sure to run. */
  #timers = OVER;
  /** After a failed call: how long no other one is made for requests that exceed the share. */
  #away = OVER;
  /** The last calls, each for a second, and the pause after an undecided response. */
  #calls: Loan[] = [];
  #pause = OVER;
  /** Whether a report is to begin. */
  #needsReport = false;
  /** While a report may be under way that has not called yet. */
  #reporting = OVER;

  /** `random` returns a number in [0, 1). */
  constructor(policy: KeyPolicy<Key, string>, id: string, random: () => number) {
    this.#policy = policy;
    this.#unused = unused(policy.windows);
    this.#terms = { limits: mapWindows(this.#unused, () => 0), bansLiftedUntilMs: 0 };
    this.id = id;
    this.#random = random;
  }

  // The key.

  /** The key, if it may be used. */
  peekKey(nowMs: number): Key | undefined {
    return leftOf(this.#key, nowMs) > 0 ? (this.#key.key ?? undefined) : undefined;
  }

  /** Whether this was a secret of the key when the isolate last had a key. */
  hadSecret(hash: string): boolean {
    return hasSecret(this.#policy, this.#key.key, hash);
  }

  /** Takes a key that was asked for at `sentMs`, unless the one that is held may be used for longer. */
  learnKey({ key, usableMs }: UsableKey<Key>, sentMs: number, nowMs: number): void {
    const loan = lend(sentMs, usableMs);
    if (this.peekKey(nowMs) !== undefined && loan.untilMs < this.#key.untilMs) {
      // While the keys database fails, an answer brings no better one. The next request need not ask again at once.
      this.#key.renewMs = leftOf(this.#key, nowMs) * RENEW_KEY_SHARE;
      return;
    }
    this.#key = { key, renewMs: usableMs * RENEW_KEY_SHARE, ...loan };
    if (key !== null) this.#terms = termsOf(this.#policy, key);
  }

  // The status.

  /** Takes a status that was asked for at `sentMs`, unless a newer one is known, or it may lack a call or decisions of this isolate. */
  learnStatus(status: Status, sentMs: number, nowMs: number, isOfCall = false): void {
    const { windows, bannedUntilMs = 0 } = status;
    const { revision = 0, nowMs: madeMs = 0 } = this.#status ?? {};
    // That of GET /v1/usage can overtake that of a call.
    const isOld = status.revision < revision || (status.revision === revision && status.nowMs < madeMs);
    const isNewWindow = shortest(windows).startMs > this.#startMs;
    const isComplete = isOfCall || (this.#call === undefined && this.#decisions.length === 0);
    if (isOld || !(isNewWindow || isComplete)) return;
    const until = (atMs: number) => lend(sentMs, atMs - status.nowMs);
    const loans = mapWindows(windows, (each) => until(resetMs(each)));
    this.#status = { ...status, receivedMs: nowMs, loans, ban: until(bannedUntilMs) };
  }

  /** When the shortest window began of the last status, by the object's clock. */
  get #startMs(): number {
    return this.#status === undefined ? 0 : shortest(this.#status.windows).startMs;
  }

  /** The object's clock shows at least the time of the last status, plus the time since that has arrived. */
  #objectMs(nowMs: number): number {
    const { nowMs: madeMs, receivedMs } = this.#status ?? { nowMs, receivedMs: nowMs };
    return madeMs + Math.max(0, nowMs - receivedMs);
  }

  /** The time of a local decision, by the object's clock. After that has stepped back, the window begins later than it shows. */
  #decidedMs(nowMs: number): number {
    return Math.max(this.#objectMs(nowMs), this.#startMs);
  }

  /** By the object's clock; undefined if there is no ban, or if it may be over. */
  #bannedUntilMs(nowMs: number): number | undefined {
    const { bannedUntilMs = 0, ban = OVER } = this.#status ?? {};
    const isBanned = bannedUntilMs > this.#terms.bansLiftedUntilMs && leftOf(ban, nowMs) > 0;
    return isBanned ? bannedUntilMs : undefined;
  }

  /** The known windows, as requests see them. */
  #windows(nowMs: number): Windows {
    const counts = this.#status?.windows ?? this.#unused;
    return this.#adjust(rollOver(withLimits(counts, this.#terms.limits), this.#objectMs(nowMs)));
  }

  /** The windows as requests see them, and the time by the object's clock. */
  #view(nowMs: number) {
    return { nowMs: this.#objectMs(nowMs), windows: this.#windows(nowMs) };
  }

  /** Windows of the object without the unused requests of the lease, but with the decisions that the object does not know. */
  #adjust(windows: Windows): Windows {
    const { size = 0, used = 0, grantedMs = 0 } = this.#lease ?? {};
    const own = add(windows, used - size, grantedMs);
    return this.#decisions.reduce((sum, { atMs, admitted }) => add(sum, admitted, atMs), own);
  }

  /** Whether the next request would be admitted, as far as is known. */
  peek(nowMs: number): Outlook {
    const bannedUntilMs = this.#bannedUntilMs(nowMs);
    const view = this.#view(nowMs);
    const admitted = bannedUntilMs === undefined && room(view.windows) > 0;
    return { ...view, admitted, ...(bannedUntilMs && { bannedUntilMs }) };
  }

  /** Whether the next request will wait for a call that will probably admit it. */
  needsCall(nowMs: number): boolean {
    return !this.#hasLeased && this.peek(nowMs).admitted;
  }

  /** A decision as the response shows it: leases of other isolates that have come back stay hidden until the window ends. */
  show(decision: Decision): Decision {
    // What such a refusal shows as used are requests that this isolate must not admit, and others may.
    if (decision.by === "local" && !decision.admitted) return decision;
    const windows = mapWindows(decision.windows, (each, name) => {
      const { startMs, used: shown } = this.#shown[name] ?? { startMs: 0, used: 0 };
      const used = startMs === each.startMs ? Math.max(shown, each.used) : each.used;
      const after = { ...each, used };
      if (startMs <= each.startMs) this.#shown[name] = after;
      return after;
    });
    // A refusal must not name a window that has requests left.
    return decision.admitted ? { ...decision, windows } : decision;
  }

  /** What is known at `nowMs`, for an answer that does not say it. A secret that the isolate can't judge needs the key of an answer. */
  knownAt(nowMs: number, secret?: string): Known<Key> {
    const { revision = 0, windows: counts = this.#unused } = this.#status ?? {};
    const atMs = this.#objectMs(nowMs);
    return {
      readKey: readKeyBy(this.#policy),
      key: secret === undefined ? this.peekKey(nowMs) : undefined,
      statusBy: (key) => {
        const limits = key === null ? this.#terms.limits : limitsOf(this.#policy, key);
        return { revision, nowMs: atMs, windows: rollOver(withLimits(counts, limits), atMs), leased: NONE };
      },
    };
  }

  // Decisions without a call.

  /** A request with a valid secret arrives. Decides it if that needs no call. `isDue`: a call in the background should renew what is known. */
  arrive(nowMs: number, isAlone = false): { decision: Decision | undefined; isDue: boolean } {
    this.#giveUpCancelled(nowMs);
    this.#noteArrival(nowMs);
    const decision = this.decideAtOnce(nowMs) ?? (isAlone ? this.decideAlone(nowMs) : undefined);
    if (decision === undefined || this.#pauseMs(REQUEST_CALLS, nowMs) > 0) return { decision, isDue: false };
    const isKeyDue = leftOf(this.#key, nowMs) <= this.#key.renewMs;
    return { decision, isDue: isKeyDue || (decision.admitted && this.#isLeaseDue(nowMs)) };
  }

  #noteArrival(nowMs: number): void {
    this.#arrival = { atMs: nowMs, recent: 1 + this.#recent(nowMs) };
  }

  /** How many requests came within RATE_MS: an exponential moving average. */
  #recent(nowMs: number): number {
    const { atMs, recent } = this.#arrival;
    return recent * Math.exp(-Math.abs(nowMs - atMs) / RATE_MS);
  }

  /** Decides a request by a ban, from the lease, or by a full window. */
  decideAtOnce(nowMs: number): Decision | undefined {
    if (this.#bannedUntilMs(nowMs) !== undefined) return { ...this.peek(nowMs), by: "ban" };
    if (!this.#consume(nowMs)) return this.#refuse(nowMs);
    const view = this.#view(nowMs);
    this.#noteAdmitted(1, view.windows);
    return { ...view, admitted: true, by: "lease" };
  }

  #noteAdmitted(admitted: number, windows: Windows): void {
    const { startMs } = shortest(windows);
    const { startMs: before, used } = this.#own;
    // A repeated call can bring the window before.
    if (startMs >= before) this.#own = { startMs, used: startMs === before ? used + admitted : admitted };
  }

  /** Whether the lease has a request left. Its time may be over. */
  get #hasLeased(): boolean {
    return this.#lease !== undefined && !this.#lease.isOver && this.#lease.used < this.#lease.size;
  }

  /** Consumes one leased request, if there is one. */
  #consume(nowMs: number): boolean {
    const lease = this.#lease;
    if (lease === undefined || !this.#hasLeased) return false;
    // The object's clock may have stepped over the end of the lease's window.
    lease.isOver =
      leftOf(lease, nowMs) === 0 || lease.grantedMs < this.#startOfWindowMs(this.#decidedMs(nowMs));
    if (!lease.isOver) lease.used += 1;
    return !lease.isOver;
  }

  /** Whether a request that the lease has admitted renews it. */
  #isLeaseDue(nowMs: number): boolean {
    if (this.#lease === undefined || this.#lease.isLast) return false;
    const { used, size, least, renewMs } = this.#lease;
    return size - used < least || leftOf(this.#lease, nowMs) <= renewMs;
  }

  /** Refuses a request if a window is full and no lease can make room before its end, or if the share is used up just after a call has failed. */
  #refuse(nowMs: number): Decision | undefined {
    const { leased = NONE, loans } = this.#status ?? {};
    const known = this.#windows(nowMs);
    const least = giveBack(known, leased);
    let isFull = false;
    for (const name in least)
      isFull ||= remaining(least[name] as Window) === 0 && leftOf(loans?.[name] ?? OVER, nowMs) > 0;
    if (!isFull && (leftOf(this.#away, nowMs) === 0 || this.#leftAlone(known) > 0)) return undefined;
    const windows = isFull ? least : fullAlone(known);
    const refusedBy = { [refusingWindow(windows)]: 1 };
    this.#addDecision({ atMs: this.#decidedMs(nowMs), admitted: 0, refusedBy });
    return { admitted: false, by: isFull ? "full" : "local", nowMs: this.#objectMs(nowMs), windows };
  }

  // Requests that wait.

  /** Keeps the order of arrival, although a request whose secret was unknown comes late. */
  wait(waiter: Waiter<Key>): void {
    const before = this.#waiters.findLastIndex((each) => each.arrivedMs <= waiter.arrivedMs);
    this.#waiters.splice(before + 1, 0, waiter);
  }

  /** The requests with this secret, which the isolate can't judge. */
  #withSecret(hash: string | undefined): Waiter<Key>[] {
    return hash === undefined ? [] : this.#waiters.filter((each) => each.secret === hash);
  }

  /** Whether a request waits for an answer about this secret. */
  isIntroducing(hash: string): boolean {
    return this.#withSecret(hash).length > 0;
  }

  /** How long a request may wait. If the clock has stepped back, it has arrived now. */
  #patienceMs(waiter: Waiter<Key>, nowMs: number): number {
    waiter.arrivedMs = Math.min(waiter.arrivedMs, nowMs);
    return patienceMs(waiter.arrivedMs, nowMs, waiter.secret === undefined ? MAX_WAIT_MS : MAX_ANSWER_MS);
  }

  /** Gives the requests of a batch their decisions. Undecided requests get none. `failure`: why they are decided without the object. */
  #settle(
    waiters: readonly Waiter<Key>[],
    result: Omit<Outlook, "admitted"> & Pick<Decision, "by"> & { admitted: number; refused: number },
    full: Windows,
    failure?: unknown,
  ): void {
    const { admitted, by, refused, nowMs, windows, bannedUntilMs } = result;
    const refusal = { admitted: false, by, nowMs, windows: full, ...(bannedUntilMs && { bannedUntilMs }) };
    for (const [index, waiter] of waiters.entries()) {
      if (index >= admitted && index < waiters.length - refused) continue;
      const later = admitted - 1 - index;
      // The result of a retry may belong to a new window, in which nothing is used.
      const shown = () => mapWindows(windows, (each) => ({ ...each, used: Math.max(0, each.used - later) }));
      const decision = later < 0 ? refusal : { admitted: true, by, nowMs, windows: shown() };
      waiter.outcome = { decision, failure };
    }
    this.#removeSettled();
  }

  #removeSettled(): void {
    this.#waiters = this.#waiters.filter(({ outcome }) => outcome === undefined);
  }

  // When the isolate calls the object.

  /** What a request that waits does next: it calls for all that wait as soon as it may. If it can't wait longer, all that can't are decided. */
  next(waiter: Waiter<Key>, nowMs: number): Next {
    this.#giveUpCancelled(nowMs);
    const leftMs = this.#patienceMs(waiter, nowMs);
    const pauseMs = this.#pauseMs(REQUEST_CALLS, nowMs);
    if (leftMs <= (pauseMs === 0 ? MIN_CALL_MS : 0)) {
      this.#decideOverdue(leftMs, nowMs);
      return { what: "nothing" };
    }
    return pauseMs === 0 ? { what: "call" } : { what: "wait", ms: Math.min(pauseMs, leftMs) };
  }

  /** The call under way. */
  get call(): Call<Key> | undefined {
    return this.#call;
  }

  /** Gives up a call that takes longer than a call can: it was cancelled together with its request. */
  #giveUpCancelled(nowMs: number): void {
    const call = this.#call;
    if (call !== undefined && nowMs >= call.sentMs + call.maxMs + SECOND_MS) this.#decideOverdue(0, nowMs);
  }

  /** How long no call may begin: during another one, after `calls` in a second, and in the pause after an undecided response. */
  #pauseMs(calls: number, nowMs: number): number {
    if (this.#call !== undefined) return Number.POSITIVE_INFINITY;
    return Math.max(leftOf(this.#calls.at(-calls) ?? OVER, nowMs), leftOf(this.#pause, nowMs));
  }

  /** Sets a pause after an undecided answer. If a request has time for only one more call, it asks as late as it can. */
  #pauseAfter(callMs: number, untilEndMs: number, nowMs: number): void {
    const random = this.#random();
    const isSoon = untilEndMs < UNDECIDED_PAUSE_MS;
    const pauseMs = (isSoon ? untilEndMs : Math.max(UNDECIDED_PAUSE_MS, callMs)) * (1 + SPREAD * random);
    const reserveMs = LATE_MS * (1 + random);
    const leftMs = this.#waiters
      .map((each) => this.#patienceMs(each, nowMs) - MIN_CALL_MS)
      .find((ms) => ms > reserveMs);
    const isFinalCall = leftMs !== undefined && pauseMs + callMs + reserveMs > leftMs;
    this.#pause = lend(nowMs, Math.min(SECOND_MS, isFinalCall ? leftMs - reserveMs : pauseMs));
  }

  // Calls.

  /** Begins a call that counts the waiting requests, except those with another secret to judge; reports; and perhaps gets a lease. */
  beginCall(reason: Call<Key>["reason"], nowMs: number): Call<Key> {
    const isInUse = this.#waiters.length > 0 || this.#hasEndedInUse(nowMs);
    const wantsLease = reason === "request" || (isInUse && leftOf(this.#timers, nowMs) > 0);
    // A request with less time left would soon make the isolate give up the whole call.
    this.#decideOverdue(MIN_CALL_MS, nowMs);
    const secret = this.#waiters.find((each) => each.secret !== undefined)?.secret;
    const waiters = this.#waiters.filter((each) => each.secret === undefined || each.secret === secret);
    const [first] = waiters;
    const request: AcquireRequest = {
      isolate: this.id,
      number: this.#newNumber(),
      revision: this.#status?.revision ?? 0,
      requests: waiters.length,
      // An arrival is noted once its secret is known to be valid. For an invalid secret, the object ignores the rate.
      recent: this.#recent(nowMs) + this.#withSecret(secret).length,
      wantsLease,
      decisions: this.#decisions,
      lease: this.#lease ? reportOf(this.#lease) : null,
      ...(secret !== undefined && { secret }),
    };
    const maxMs = first === undefined ? MAX_WAIT_MS : this.#patienceMs(first, nowMs);
    this.#call = { reason, request, waiters, sentMs: nowMs, maxMs };
    this.#calls = [...this.#calls, lend(nowMs, SECOND_MS)].slice(-MAX_CALLS);
    return this.#call;
  }

  /** Whether requests still come although the lease is over. */
  #hasEndedInUse(nowMs: number): boolean {
    if (this.#lease === undefined || !this.#lease.isOver || this.#lease.isLast) return false;
    return nowMs - this.#arrival.atMs < this.#lease.durationMs * IN_USE_SHARE;
  }

  #newNumber(): number {
    this.#number += 1;
    return this.#number;
  }

  /** Applies the answer to a call. Returns the lease that it has granted or renewed. */
  endCall(call: Call<Key>, answer: AcquireAnswer<Key>, nowMs: number): HeldLease | undefined {
    // Otherwise it was given up.
    if (this.#call !== call) return undefined;
    if (answer.result === undefined && answer.key !== null && call.request.secret === undefined) {
      this.failCall(call, new Error("the object has not counted a valid call"), nowMs);
      return undefined;
    }
    this.#call = undefined;
    const { request, waiters, sentMs } = call;
    const introduced = this.#withSecret(request.secret);
    for (const each of introduced) each.answer = answer;
    if (request.secret !== undefined && answer.result === undefined) {
      // Nothing was counted or reported. The other requests are counted by the next call.
      this.#waiters = this.#waiters.filter((each) => !introduced.includes(each));
      this.#needsReport = true;
      return undefined;
    }
    for (const each of introduced) {
      each.secret = undefined;
      this.#noteArrival(nowMs);
    }
    this.#decisions = this.#decisions.filter(({ number }) => number > request.number);
    const { result } = answer;
    if (result === undefined) {
      this.#lease = undefined;
      this.#decideAll(new Error("the key has been deleted"), nowMs);
      return undefined;
    }
    this.learnStatus(result, sentMs, nowMs, true);
    const lease = this.#learnLease(call, result.lease, nowMs);
    if (lease !== undefined && call.reason === "request") this.#timers = lend(sentMs, MAX_UNATTENDED_MS);
    // An isolate that has reported no request yet has no share.
    if (result.share) this.#share = result.share;
    const windows = this.#adjust(result.windows);
    this.#noteAdmitted(result.admitted, windows);
    this.#away = OVER;
    this.#settle(waiters, { ...result, by: "object", windows }, fullWindows(windows, result.leased));
    for (const each of this.#waiters) {
      const decision = each.secret === undefined ? this.decideAtOnce(nowMs) : undefined;
      if (decision !== undefined) each.outcome = { decision };
    }
    this.#removeSettled();
    const { retryMs = Number.POSITIVE_INFINITY } = result;
    const callMs = Math.max(0, nowMs - sentMs);
    if (result.admitted + result.refused < request.requests)
      this.#pauseAfter(callMs, retryMs + LATE_MS - result.nowMs - callMs, nowMs);
    return lease;
  }

  /** Applies what a call has brought. Returns the lease, if one was granted or renewed. */
  #learnLease(
    { request, sentMs }: Call<Key>,
    lease: Lease | undefined,
    nowMs: number,
  ): HeldLease | undefined {
    const before = this.#lease;
    if (request.lease?.isOver) this.#lease = undefined;
    if (this.#lease !== undefined && request.wantsLease) this.#lease.isLast = true;
    // If the clock has stepped back, the age of the lease is unknown. No call names a new one, so the object takes it back.
    if (lease === undefined || nowMs < sentMs) return undefined;
    const renewMs = RENEW_SHARE * lease.durationMs + RENEW_CALLS * (nowMs - sentMs) + RENEW_RESERVE_MS;
    // The object may have forgotten the lease that this isolate holds, and granted a new one.
    const used = before?.id === lease.id ? before.used : 0;
    const least = (lease.size - used) * LEAST_SHARE;
    const loan = lend(sentMs, lease.durationMs);
    this.#lease = { ...lease, ...loan, used, least, renewMs, isOver: false, isLast: false };
    return this.#lease;
  }

  /**
   * After a failed call, decides requests: if the object has no key that tells of the call's secret, those with that secret; if only the
   * call's first request could wait no longer, those that can't either; otherwise all.
   */
  failCall(call: Call<Key>, failure: unknown, nowMs: number): void {
    if (this.#call !== call) return;
    const { secret } = call.request;
    const isOverdue = failure instanceof DeadlineExceeded && call.maxMs < CALL_DEADLINE_MS;
    if (secret !== undefined && failure instanceof LimiterUnavailable)
      this.#decide(this.#withSecret(secret), failure, nowMs);
    else if (isOverdue) this.#decideOverdue(0, nowMs, failure);
    else this.#decideAll(failure, nowMs);
  }

  // Decisions without the object, because it can't be reached. Each isolate admits its share of what is left, so together they admit about
  // the limit.

  /** Decides a request that could not ask the object about its secret, with a key from the primary. */
  decideAlone(nowMs: number): Decision {
    const waiter: Waiter<Key> = { arrivedMs: nowMs };
    this.#decideWithout([waiter], undefined, nowMs);
    return waiter.outcome?.decision as Decision;
  }

  /** Decides the requests that may wait for at most `ms`. */
  #decideOverdue(ms: number, nowMs: number, failure?: unknown): void {
    const overdue = this.#waiters.filter((each) => this.#patienceMs(each, nowMs) <= ms);
    if (overdue.length > 0 || this.#call !== undefined)
      this.#decide(overdue, failure ?? new DeadlineExceeded("the limiter", MAX_WAIT_MS), nowMs);
  }

  /** Decides all waiting requests: the next call would probably fail too. What other isolates may give back is not waited for any more. */
  #decideAll(failure: unknown, nowMs: number): void {
    if (this.#status !== undefined) this.#status = { ...this.#status, leased: NONE };
    this.#away = lend(nowMs, SECOND_MS);
    this.#decide(this.#waiters, failure, nowMs);
  }

  /** Decides requests, and gives up a call under way: the decision replaces what it was charged, and its other requests are sent again. */
  #decide(overdue: readonly Waiter<Key>[], failure: unknown, nowMs: number): void {
    const { request, waiters = [] } = this.#call ?? {};
    // What a call has reported is reported again.
    if (request !== undefined) this.#needsReport = true;
    this.#call = undefined;
    for (const each of overdue) if (each.secret !== undefined) each.outcome = { failure };
    const decided = overdue.filter(({ secret }) => secret === undefined);
    if (decided.length + waiters.length > 0) this.#decideWithout(decided, failure, nowMs, request?.number);
    this.#removeSettled();
  }

  /** Decides requests by what is known. `number`: that of the call that has sent them. */
  #decideWithout(waiters: readonly Waiter<Key>[], failure: unknown, nowMs: number, number?: number): void {
    const windows = this.#windows(nowMs);
    const admitted = Math.max(0, Math.min(waiters.length, this.#leftAlone(windows)));
    const refused = waiters.length - admitted;
    const after = add(windows, admitted);
    const full = fullAlone(after);
    const refusedBy = refused > 0 ? { [refusingWindow(full)]: refused } : {};
    this.#addDecision({ atMs: this.#decidedMs(nowMs), admitted, refusedBy }, number);
    this.#noteAdmitted(admitted, after);
    const result = { admitted, refused, by: "local", windows: after, nowMs: this.#objectMs(nowMs) } as const;
    this.#settle(waiters, result, full, failure);
  }

  /** How many more requests the isolate admits without the object. `windows`: as requests see them. */
  #leftAlone(windows: Windows): number {
    const window = shortest(windows);
    const own = this.#own.startMs === window.startMs ? this.#own.used : 0;
    const part = (requests: number, startMs: number) => this.#partOf(Math.max(0, requests), startMs);
    const left = Object.entries(windows).map(([name, { startMs, limit, used }]) => {
      // The object may admit the requests of a call under way.
      const known = limit - used - (this.#call?.request.requests ?? 0);
      // What the isolate has admitted since the object has last counted, and what is left of its lease, are its own.
      const counted = this.#status?.windows[name];
      const since = used - (counted?.startMs === startMs ? counted.used : 0);
      return Math.min(known, part(limit - used + since, startMs) - since);
    });
    // The share is that of the last shortest window, so it does not say who has used a longer one.
    return Math.min(...left, part(window.limit, window.startMs) - own);
  }

  /** This isolate's part of so many requests, in the window that began at `startMs`. */
  #partOf(requests: number, startMs: number): number {
    if (this.#share === undefined) return Math.max(1, Math.floor(UNKNOWN_SHARE * requests));
    // Rounded up in as many windows as the share says, by each isolate in others.
    this.#phase ??= this.#random();
    const index = startMs / (shortest(this.#unused).seconds * 1000);
    return Math.floor(this.#share * requests + ((this.#phase + index * GOLDEN) % 1));
  }

  /** Adds a local decision: to the latest one if no call has begun since and the shortest window is the same. */
  #addDecision(decision: Omit<LocalDecision, "number">, number?: number): void {
    this.#needsReport = true;
    const latest = this.#decisions.at(-1);
    const isInWindow = latest !== undefined && latest.atMs >= this.#startOfWindowMs(decision.atMs);
    if (isInWindow && number === undefined && latest.number === this.#number) {
      this.#decisions = this.#decisions.with(-1, merge(latest, decision));
      return;
    }
    const all = [...this.#decisions, { number: number ?? this.#newNumber(), ...decision }];
    this.#decisions = all.length > MAX_DECISIONS ? this.#mergeTwo(all) : all;
  }

  /**
   * Merges two batches of a window that the call under way reports both, or neither. If the last failed call that the object has executed came
   * between them, one of the two is charged twice. That call is probably the first or one of the last, so the oldest batch and the latest
   * ones stay alone; of the others, the smallest two are merged.
   */
  #mergeTwo(decisions: readonly LocalDecision[]): readonly LocalDecision[] {
    const { number: underWay = 0 } = this.#call?.request ?? {};
    const partOf = ({ atMs, number }: LocalDecision) => `${this.#startOfWindowMs(atMs)} ${number < underWay}`;
    const sizeOf = ({ admitted, refusedBy }: LocalDecision) => admitted + sum(refusedBy);
    const [, ...old] = decisions.slice(0, -MAX_DECISIONS / 2);
    const pairs = old.flatMap((a, index) => {
      const b = old[index + 1];
      return b !== undefined && partOf(a) === partOf(b) ? [{ a, merged: merge(a, b) }] : [];
    });
    const [smallest] = pairs.sort((one, other) => sizeOf(one.merged) - sizeOf(other.merged));
    return smallest ? decisions.toSpliced(decisions.indexOf(smallest.a), 2, smallest.merged) : decisions;
  }

  /** When the shortest window of a time began, by the same clock. */
  #startOfWindowMs(atMs: number): number {
    return startOfWindowMs(shortest(this.#status?.windows ?? this.#unused).seconds, atMs);
  }

  // Timers: one ends each lease, because timers don't step; one reports.

  /**
   * Ends a lease, unless it was renewed. Returns whether to report that at once: if another window with room is about to begin, nobody waits
   * for this lease, and the next request calls anyway.
   */
  endLease(lease: HeldLease, nowMs: number): boolean {
    lease.isOver = true;
    if (lease !== this.#lease || this.#status === undefined) return false;
    const { windows, loans } = this.#status;
    const [{ limit }, ...longer] = Object.values(windows) as [Window, ...Window[]];
    const endsWithWindow =
      leftOf(shortest(loans), nowMs) <= LATE_MS && longer.every((each) => remaining(each) >= limit);
    if (endsWithWindow) this.#needsReport = true;
    return !endsWithWindow;
  }

  /** Begins a report if there is something to report and none is under way. Returns whether it did. */
  beginReport(nowMs: number): boolean {
    if (!this.#needsReport || leftOf(this.#reporting, nowMs) > 0) return false;
    this.#needsReport = false;
    this.#reporting = lend(nowMs, MAX_REPORT_MS);
    return true;
  }

  /** Whether a report may call now. */
  mayReport(nowMs: number): boolean {
    this.#giveUpCancelled(nowMs);
    return this.#pauseMs(MAX_CALLS, nowMs) === 0;
  }

  /** After its pause: returns whether a report calls now. Later decisions need another report. */
  endReport(wasPaced: boolean, nowMs: number): boolean {
    if (wasPaced) this.#reporting = OVER;
    const hasNews = this.#decisions.length > 0 || this.#lease?.isOver === true;
    this.#needsReport = hasNews && !this.mayReport(nowMs);
    return hasNews && !this.#needsReport;
  }
}

/**
 * The windows of a refusal without the object. If only the share of the isolate is used up, they show a full shortest window: the object may
 * answer again by the next one.
 */
function fullAlone(windows: Windows): Windows {
  const name = refusingWindow(windows);
  const window = windows[name] ?? shortest(windows);
  return { ...windows, [name]: { ...window, used: Math.max(window.used, window.limit) } };
}

/** What the object is told about a lease. A used-up one is over, so the next is a new one. */
function reportOf({ id, used, size, isOver }: HeldLease) {
  return { id, used, isOver: isOver || used >= size };
}

/** Two batches as one, with the time of the first, and the number of the second if it has one. */
function merge(a: LocalDecision, b: Omit<LocalDecision, "number">): LocalDecision {
  const refusedBy = addEach(a.refusedBy, b.refusedBy);
  return { ...a, ...b, atMs: a.atMs, admitted: a.admitted + b.admitted, refusedBy };
}
