// What the simulation knows of the guarantees: it compares the answers that clients get with the counts of the object, with the usage in a
// real SQLite, and with the versions of the key, and records the first guarantee that is broken.

import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { HEADER } from "../../src/http/header-names.ts";
import { KEY_POLICY, type Key, problemOf } from "../../src/keys/key.ts";
import { BoundedMap } from "../../src/lib/bounded-map.ts";
import { DeadlineExceeded } from "../../src/lib/deadline.ts";
import { formatDate } from "../../src/lib/rfc3339.ts";
import { LimiterUnavailable } from "../../src/limits/errors.ts";
import { headersOf, left, tighterWindow } from "../../src/limits/headers.ts";
import { hasSecret } from "../../src/limits/policy.ts";
import {
  addEach,
  type ByWindow,
  type Decision,
  MAX_LIMIT,
  remaining,
  resetMs,
  shortest,
  startOfWindowMs,
  sum,
  type Windows,
} from "../../src/limits/windows.ts";
import { keyOf } from "../support/key-record.ts";
import type { Platform } from "./platform.ts";
import {
  type AcquireRequest,
  type AcquireResult,
  type Answer,
  contentOf,
  type IsolatePort,
  type Memory,
  PETSTORE,
  type Service,
  type Status,
  usageOf,
} from "./port.ts";
import { Timeline } from "./timeline.ts";

/** The hash of the key's first secret. */
export const FIRST_SECRET = "the first secret";

/** What operators see of a day. */
type UsageRow = { day: string; admitted: number; refused_by: string };

/** A table of one world. Opening a database for each would take most of the time. */
export const USAGE = new DatabaseSync(":memory:");
USAGE.exec(readFileSync("migrations/keys/0004_key_usage.sql", "utf8"));

/** The most calls of an isolate in a second. */
const MAX_CALLS = 20;
/** How far a burst looks back, and for how long what was left would have lasted at its rate. */
const BURST_MS = 11_000;
const BURST_SECONDS = 8;
/** Four reads that take longer may take all of a request's time, with their calls and pauses. */
const SLOW_READ_MS = 900;
/** The longest wait without a fault and without a burst: a second after the first of five calls, and two calls. */
const QUICK_MS = 1_300;
/** The longest wait of a request, whatever happens. */
const MAX_WAIT_MS = 5_000;
/** From this wait on, an isolate may decide a request without the object (docs/guarantees.md, Exceptions). */
export const LAST_CALL_MS = 4_600;
/** A timer that is late may make a wait as much longer. */
const LATE_MS = 200;
/** The object remembers an isolate for as long after its last call. */
const FORGOTTEN_MS = 60_000;
/** What a crash of the object may cost, as a share of the limit of a minute. */
const MOST_RESERVED = 1 / 20;
/** The object waits for a lease until so long after its end. */
const LEASE_LOST_MS = 3_000;
/** A change of the key is in force everywhere after this time. */
const IN_FORCE_MS = 30_000;

/**
 * The records of a window. `limit`: of the object's latest call; `most`: what it may admit by it, which after a lower limit is what was
 * charged by then; `refusedLimit`: the largest that a refusal was for, or a lower one that came later; `lost`: the most that is charged, and was
 * perhaps not admitted.
 */
interface Entry {
  name: string;
  startMs: number;
  limit: number;
  most: number;
  admitted: number;
  admittedLocally: number;
  refusedLimit: number;
  lost: number;
  /** When requests were admitted (virtual time). */
  admittedMs: number[];
}

/** What the last responses have shown of a window; `before`: the fewest before this instant. */
type Shown = { limit: number; remaining: number; atMs: number; before: number };

/**
 * A request that arrived at `atMs` (virtual time), and at `clockMs` by the clock of its isolate. `calls`: what that then knew of the key, which
 * may be evicted meanwhile. `isJudged`: whether it knew whether the secret is valid. `isLocal`: whether it could not ask the object.
 */
interface Asked {
  isolate: Isolate;
  calls: object;
  secret: string;
  atMs: number;
  clockMs: number;
  isOpen: boolean;
  isJudged: boolean;
  isLocal: boolean;
}

export class Isolate {
  port: IsolatePort = undefined as never;
  /** Under which the object knows it: another one once the key was evicted. */
  readonly ids = new Set<string>();
  isAlive = true;
  /** The lead of its clock over virtual time. */
  aheadMs: number;
  /** Whether its clock has stepped. */
  hasStepped = false;
  /** Until then nothing in it runs (virtual time). */
  frozenUntilMs = 0;
  /** Remaining in its latest response, by window. */
  readonly shown = new Map<string, Shown>();
  /**
   * When the window began in which the requests of a call are counted, by window and the time of the result. The result of a repeated call may
   * have a later one.
   */
  readonly countedIn = new Map<string, number>();
  /** The requests that it has admitted in each window. */
  readonly admitted = new Map<Entry, number>();

  constructor(aheadMs: number) {
    this.aheadMs = aheadMs;
  }

  get calls() {
    return this.port.calls;
  }
}

export interface ChecksOptions {
  /** By default ours. */
  service?: Service;
  startMs: number;
  /** By the names of the service's windows. */
  limits: ByWindow<number>;
  timerDelayMs?: () => number;
  /** What the object reserves; by default as in production. */
  reservedShare?: number;
}

/** What is simulated (world.ts) tells this of each event, and has the members that are abstract here. */
export abstract class Checks {
  readonly time: Timeline;
  readonly isolates: Isolate[] = [];
  /** The lengths of the windows, by name. */
  readonly lengths: ByWindow<number>;
  /** The versions of the key, and the times from which on they are current (virtual time). */
  readonly versions: { fromMs: number; key: Key }[];
  /** The number of crashes of the object. */
  crashes = 0;
  /** What may happen: answers may be lost; the primary may be away or hang. */
  mayLose = false;
  mayLackRecord = false;
  /** What has happened: a clock has stepped; counts may be inexact, because isolates may have decided locally, or reported too late. */
  hasStepped = false;
  isDirty = false;
  readonly counts = {
    calls: 0,
    leases: 0,
    undecided: 0,
    bans: 0,
    local: 0,
    admitted: 0,
    refused: 0,
    reads: 0,
    unauthorized: 0,
    unavailable: 0,
    puts: 0,
    covered: 0,
    forgotten: 0,
  };
  longestWaitMs = 0;
  /** The waits that are too long unless a fault or a burst has made them so. */
  readonly slowWaits: string[] = [];
  /** The records of each window, by its name and start. */
  readonly entries = new Map<string, Entry>();
  protected slowestReadMs = 0;
  /** Calls without a result. Failed calls stay here. */
  protected readonly underway = new Set<AcquireRequest>();
  protected abstract readonly platform: Platform;
  /** What the object has in memory, and the object that it has replaced, which may still answer calls. */
  protected abstract get memory(): Memory | undefined;
  protected abstract replaced: { isAlive: boolean } | undefined;
  protected readonly service: Service;
  readonly #hasLateTimers: boolean;
  readonly #reservedShare: number;
  readonly #asked: Asked[] = [];
  readonly #admittedLocally: Asked[] = [];
  /** The number of requests whose secret was valid when they arrived, and then was not. */
  #endedMeanwhile = 0;
  /** What was in memory before each change of the counts whose call has not been answered, by the revision. */
  readonly #before = new Map<number, Memory | undefined>();
  /** What was in memory lately, by its revision. */
  readonly #states = new BoundedMap<number, Memory>(100);
  /** The latest call of each isolate that the object has executed. */
  readonly #latestCalls = new Map<string, number>();
  /** The windows that counted each batch, by its isolate and number. */
  readonly #batches = new Map<string, Windows>();
  /** By shortest window: when the object first refused a request, when refused requests have arrived (virtual time), the largest limit. */
  readonly #refusals = new Map<number, { firstMs?: number; arrivedMs: number[]; maxLimit: number }>();
  #lastBanMs = 0;
  /** The end of the last ban that an isolate has heard of. */
  #toldBanMs = 0;
  /** How many responses have named each window as the one that refuses. */
  readonly #refusedBy = new Map<string, number>();
  /** Refusals of repeated calls. They name the window by then, which may be another one than when they were counted. */
  #refusedAgain = 0;
  /** The beginnings of each isolate's latest calls, without repeated ones (virtual time). */
  readonly #callsMs = new Map<string, number[]>();
  readonly #lostLeases = new Set<string>();
  #failure: Error | undefined;

  constructor({ service = PETSTORE, startMs, limits, timerDelayMs, reservedShare }: ChecksOptions) {
    this.service = service;
    this.lengths = service.policy.windows;
    this.time = new Timeline(startMs);
    this.versions = [{ fromMs: 0, key: keyOf([FIRST_SECRET], limits) }];
    this.#hasLateTimers = timerDelayMs !== undefined;
    this.#reservedShare = reservedShare ?? MOST_RESERVED;
    USAGE.exec("DELETE FROM key_usage");
  }

  expect(holds: boolean, what: () => string): void {
    if (!holds && this.#failure === undefined) this.#failure = new Error(what());
  }

  /** After the step of a clock this may not hold. */
  #expectUnlessStepped(holds: boolean, what: () => string): void {
    this.expect(holds || this.hasStepped, what);
  }

  throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  abstract get objectNowMs(): number;

  get hasEndedIsolates(): boolean {
    return this.isolates.some(({ isAlive }) => !isAlive);
  }

  /** The number of requests without a decision. */
  get open(): number {
    return this.#asked.filter(({ isOpen }) => isOpen).length;
  }

  /** The most requests that were cancelled. */
  get cancelled(): number {
    return this.platform.cancelled;
  }

  /** The current version of the key. */
  get key(): Key {
    return this.versions.at(-1)?.key as Key;
  }

  /** The versions that were current at some time since `sinceMs` (virtual time). */
  #versionsSince(sinceMs: number): Key[] {
    const first = this.versions.findLastIndex(({ fromMs }) => fromMs <= sinceMs);
    return this.versions.slice(Math.max(0, first)).map(({ key }) => key);
  }

  /** The versions by which a request that arrived at `arrivedMs` (virtual time) may be judged. */
  #versionsFor(arrivedMs: number): Key[] {
    return this.#versionsSince(this.mayLackRecord ? 0 : arrivedMs - IN_FORCE_MS);
  }

  entry(name: string, startMs: number): Entry {
    const key = `${name} ${new Date(startMs).toISOString()}`;
    const known = this.entries.get(key);
    if (known !== undefined) return known;
    const none = { limit: 0, most: 0, admitted: 0, admittedLocally: 0, refusedLimit: 0, lost: 0 };
    const entry = { name, startMs, ...none, admittedMs: [] };
    this.entries.set(key, entry);
    return entry;
  }

  // Requests.

  /** A request arrives. */
  protected arrive(isolate: Isolate, secret: string): Asked {
    const atMs = this.time.nowMs;
    const times = { atMs, clockMs: atMs + isolate.aheadMs };
    const asked = {
      isolate,
      calls: isolate.calls,
      secret,
      ...times,
      isOpen: true,
      isJudged: false,
      isLocal: false,
    };
    this.#asked.push(asked);
    return asked;
  }

  /** It gets an answer, or none. Returns its decision: there is none if the secret is not valid, or if nobody can tell. */
  protected leave(asked: Asked, answer: Answer | undefined): Decision | undefined {
    const { isolate, secret, atMs } = asked;
    asked.isOpen = false;
    const ms = this.time.nowMs - atMs;
    const lateMs = this.#hasLateTimers ? LATE_MS : 0;
    const mayWait = isolate.hasStepped || isolate.frozenUntilMs > 0;
    this.expect(ms <= MAX_WAIT_MS + lateMs || mayWait, () => `a request waited for ${ms} ms`);
    if (answer === undefined) {
      this.counts.unavailable += 1;
      return undefined;
    }
    const { caller, decision } = answer;
    this.#expectVerdict(caller.problem, asked);
    if (caller.problem !== undefined) this.counts.unauthorized += 1;
    if (decision === undefined) return undefined;
    asked.isLocal ||= decision.by === "local";
    const madeMs = this.versions.find(({ key }) => hasSecret(KEY_POLICY, key, secret))?.fromMs ?? 0;
    // A secret that is new to the isolate may have to wait until the object may read its key again, perhaps for another's wrong one.
    const isNew = !asked.isJudged && madeMs > atMs - IN_FORCE_MS;
    this.longestWaitMs = Math.max(this.longestWaitMs, ms);
    if (ms > (isNew ? QUICK_MS + 1_000 : QUICK_MS) && !this.#isBurst(decision, ms))
      this.slowWaits.push(`a request waited for ${ms} ms at ${atMs % 1e6}`);
    if (asked.isLocal && decision.admitted) this.#admittedLocally.push(asked);
    this.#record(decision, asked);
    return decision;
  }

  /**
   * Without a key, requests may fail, also if they wait for a call that was cancelled, if a clock steps over the end of their wait, or
   * if repeated calls or slow reads take too long: a secret may need two calls with two reads each. Nothing else may.
   */
  protected expectUnavailable(error: unknown): void {
    const mayLackRecord = this.mayLackRecord || this.cancelled > 0 || this.hasStepped;
    const isTooLate =
      (error as Error).cause instanceof DeadlineExceeded &&
      (this.isolates.some(({ frozenUntilMs }) => frozenUntilMs > 0) ||
        this.crashes > 0 ||
        this.replaced !== undefined ||
        this.mayLose ||
        this.slowestReadMs > SLOW_READ_MS);
    const isUnavailable = error instanceof LimiterUnavailable && (mayLackRecord || isTooLate);
    this.expect(isUnavailable, () => `${(error as Error).stack}; ${(error as Error).cause}`);
  }

  /** A secret is judged by a version of the key that was current in the last 30 s, and one that exists is not unknown. */
  #expectVerdict(problem: Answer["caller"]["problem"], { secret, atMs, clockMs }: Asked): void {
    if (this.hasStepped) return;
    const possible = this.#versionsFor(atMs).map((key) => problemOf(key, secret, clockMs));
    this.expect(possible.includes(problem as never), () => `${secret} is ${problem}, not ${possible.join()}`);
    const [current = this.key] = this.#versionsSince(atMs);
    if (problem !== undefined && problemOf(current, secret, clockMs) === undefined) this.#endedMeanwhile += 1;
    const isKnown = problem !== "unknown" || !hasSecret(KEY_POLICY, current, secret);
    this.expect(isKnown, () => `${secret} exists, but is unknown`);
  }

  /**
   * Whether in one of the last seconds so many requests came that what was left before would have lasted for few seconds. A request
   * that has waited for `waitedMs` may be decided in the window after.
   */
  #isBurst({ windows }: Decision, waitedMs: number): boolean {
    const { nowMs } = this.time;
    const agesMs = this.#asked.map(({ atMs }) => nowMs - atMs).filter((each) => each < BURST_MS);
    const bySecond = Map.groupBy(agesMs, (each) => Math.floor(each / 1_000));
    const most = Math.max(...[...bySecond.values()].map(({ length }) => length));
    return Object.entries(windows).some(([name, { limit, seconds, startMs }]) => {
      const mostLeft = (beganMs: number) => {
        const { admitted, admittedMs } = this.entry(name, beganMs);
        const recent = admittedMs.filter((each) => each >= nowMs - BURST_MS).length;
        return limit - (admitted - recent);
      };
      const left = [startOfWindowMs(seconds, this.objectNowMs - waitedMs), startMs].map(mostLeft);
      return left.some((each) => each > 0 && BURST_SECONDS * most >= each);
    });
  }

  #record(decision: Decision, asked: Asked): void {
    const { admitted, windows, bannedUntilMs = Number.POSITIVE_INFINITY } = decision;
    const { isolate, isLocal } = asked;
    const versions = this.#versionsFor(asked.atMs);
    for (const [name, { limit }] of Object.entries(windows)) {
      const isOf = (key: Key) => ((key.limits as ByWindow<number>)[name] ?? MAX_LIMIT) === limit;
      // Another release may have other windows.
      this.#expectUnlessStepped(versions.some(isOf) || !(name in this.lengths), () => `a limit of ${limit}`);
    }
    // After the object's clock steps back, a later ban can end earlier.
    const isLifted = versions.every((key) => bannedUntilMs <= key.bansLiftedUntilMs);
    this.#expectUnlessStepped(!isLifted, () => "a ban has outlived its lift");
    if (isLocal) this.counts.local += 1;
    this.isDirty ||= isLocal;
    // What an isolate refuses by its share may be left for others.
    if (asked.calls === isolate.calls && (admitted || !isLocal)) this.#expectNoRise(decision, isolate);
    if (admitted) this.#recordAdmission(decision, asked);
    else this.#recordRefusal(decision, asked);
  }

  #recordRefusal(decision: Decision, { isLocal, atMs: arrivedMs }: Asked): void {
    const { windows, bannedUntilMs } = decision;
    const named = tighterWindow(decision);
    this.expect(left(decision, named) === 0, () => `refused with ${left(decision, named)} left`);
    const { [HEADER.retryAfter]: retryAfter } = headersOf(decision);
    const window = windows[named] ?? shortest(windows);
    const isEnough = this.objectNowMs + Number(retryAfter) * 1000 >= (bannedUntilMs ?? resetMs(window));
    this.#expectUnlessStepped(isLocal || isEnough, () => `Retry-After ${retryAfter} is too short`);
    if (bannedUntilMs !== undefined) {
      this.counts.bans += 1;
      return;
    }
    this.counts.refused += 1;
    const refusals = this.#refusalsOf(shortest(windows).startMs);
    refusals.firstMs ??= this.time.nowMs;
    refusals.arrivedMs.push(arrivedMs);
    this.#refusedBy.set(named, (this.#refusedBy.get(named) ?? 0) + 1);
    // So late, an isolate refuses by itself although a lease may come back a moment later. That does not show that the window is full.
    if (isLocal && this.time.nowMs - arrivedMs >= LAST_CALL_MS) return;
    const entry = this.entry(named, window.startMs);
    entry.refusedLimit = Math.max(entry.refusedLimit, Math.min(window.limit, entry.limit || window.limit));
  }

  #recordAdmission({ windows, nowMs }: Decision, { isolate, calls, isLocal, atMs: arrivedMs }: Asked): void {
    this.counts.admitted += 1;
    // By a lease, or by a call without delay.
    const isAtOnce = !isLocal && arrivedMs === this.time.nowMs;
    for (const [name, window] of Object.entries(windows)) {
      // A later admission from a lease counts in the window that it shows.
      const countedInMs = isAtOnce ? undefined : isolate.countedIn.get(`${name} ${nowMs}`);
      const entry = this.entry(name, countedInMs ?? window.startMs);
      // The object has not been asked in this window.
      entry.most ||= window.limit;
      entry.admitted += 1;
      entry.admittedMs.push(this.time.nowMs);
      if (isLocal) entry.admittedLocally += 1;
      const when = `${name} of ${new Date(window.startMs).toISOString()}`;
      const { admitted, most, admittedLocally } = entry;
      this.expect(admitted <= most + admittedLocally, () => `${admitted} admitted of ${most} in the ${when}`);
      // Before it has heard of the object, an isolate knows the minute by its own clock only.
      const isGuess = isLocal && isolate.aheadMs !== 0 && isolate.admitted.size === 0;
      if (calls === isolate.calls && !isGuess) this.#expectOwnLimit(isolate, entry, window.limit);
      const isOver = isAtOnce && this.objectNowMs >= resetMs(window);
      this.#expectUnlessStepped(!isOver, () => `a lease was used after its ${name}`);
    }
  }

  /** An isolate alone admits no more than the limit, also while it decides without the object. */
  #expectOwnLimit({ admitted }: Isolate, entry: Entry, limit: number): void {
    const own = (admitted.get(entry) ?? 0) + 1;
    admitted.set(entry, own);
    const most = Math.max(entry.most, limit);
    this.#expectUnlessStepped(own <= most, () => `one isolate has admitted ${own} of ${most}`);
  }

  /** Remaining never rises in the responses of one isolate, while the limit stays. */
  #expectNoRise(decision: Decision, { shown }: Isolate): void {
    if (this.hasStepped || decision.bannedUntilMs !== undefined) return;
    const { windows, admitted } = decision;
    const { nowMs: atMs } = this.time;
    for (const [name, window] of Object.entries(windows)) {
      const { limit, startMs, seconds } = window;
      const key = `${name} ${startMs}`;
      // A refusal shows what is left in the window that refused.
      const isShown = admitted || name === tighterWindow(decision);
      const now = isShown ? remaining(window) : Number.POSITIVE_INFINITY;
      // A response may come after the first one of the next window.
      if (shown.has(`${name} ${startMs + seconds * 1_000}`)) continue;
      const last = shown.get(key);
      const isSame = last !== undefined && last.limit === limit;
      // Responses of the same instant have no order.
      const before = !isSame ? Number.POSITIVE_INFINITY : last.atMs < atMs ? last.remaining : last.before;
      const fewest = isSame ? Math.min(now, last.remaining) : now;
      shown.set(key, { limit, remaining: fewest, atMs, before });
      this.expect(!isShown || now <= before, () => `Remaining rose from ${before} to ${now} in the ${name}`);
    }
  }

  // Changes of the object, and its answers to calls.

  /** An isolate begins a call. */
  protected expectFewCalls(isolate: Isolate, id: string): void {
    this.counts.calls += 1;
    const { nowMs } = this.time;
    const calledMs = [...(this.#callsMs.get(id) ?? []).filter((ms) => ms > nowMs - 1_000), nowMs];
    this.#callsMs.set(id, calledMs);
    const calls = calledMs.length;
    this.expect(calls <= MAX_CALLS || isolate.hasStepped, () => `${calls} calls in a second`);
  }

  /** The memory of the object changes. */
  protected noteChange(before: Memory | undefined, after: Memory): void {
    const { revision } = contentOf(after);
    if (before !== undefined && contentOf(before).revision === revision) return;
    this.#before.set(revision, before);
    if (before !== undefined) this.#noteForgotten(before, after);
    this.#states.set(revision, after);
  }

  /** What the object has in memory of isolates. */
  get #known(): ReturnType<typeof contentOf>["isolates"] {
    return this.memory === undefined ? new Map() : contentOf(this.memory).isolates;
  }

  /** An isolate that was not heard of for long is forgotten, with its lease and its latest call. */
  #noteForgotten(before: Memory, after: Memory): void {
    const { isolates } = contentOf(after);
    for (const [id, { lease, seenMs, number, admitted }] of contentOf(before).isolates) {
      if (isolates.has(id)) continue;
      const isOld = Math.abs(this.objectNowMs - seenMs) >= FORGOTTEN_MS;
      this.#expectUnlessStepped(isOld, () => "an isolate was forgotten early");
      if (lease !== undefined) this.#lose(lease.grantedMs, lease.size - lease.used);
      // What a call without an answer was charged or has reported may be reported once more.
      const call = [...this.underway].find((each) => each.isolate === id && each.number === number);
      if (call === undefined) continue;
      this.#lose(seenMs, admitted);
      for (const decision of call.decisions) this.#lose(decision.atMs, decision.admitted);
    }
  }

  /** The object has lost its memory, and goes on from what is durable. More may be charged there, but not more than was reserved. */
  protected noteRestart(before: Memory, durable: Memory): void {
    const { revision, counts } = contentOf(durable);
    if (revision === contentOf(before).revision) return;
    this.counts.forgotten += 1;
    const mostLimit = Math.max(...this.versions.map(({ key }) => shortest(key.limits)));
    const most = Math.floor(mostLimit * this.#reservedShare);
    for (const [name, { startMs }] of Object.entries(counts)) this.entry(name, startMs).lost += most;
  }

  /** The object has executed a call, and answers with the result. */
  protected noteResult(request: AcquireRequest, isolate: Isolate, result: AcquireResult): void {
    this.expect(result.revision >= request.revision, () => "the revision went back");
    const batch = `${request.isolate} ${request.number}`;
    const { revision } = result;
    // Only the call that has made a revision is answered first with it. Another call may have followed at the same instant.
    const same = this.#states.get(revision) ?? this.memory;
    const before = this.#before.has(revision) ? this.#before.get(revision) : same;
    this.#before.delete(revision);
    const content = before && contentOf(before);
    const known = content?.isolates.get(request.isolate);
    const isRepeated = known !== undefined && known.number >= request.number;
    for (const [name, { startMs, limit }] of Object.entries(result.windows)) {
      const entry = this.entry(name, startMs);
      const charged = content?.counts[name];
      const used = charged !== undefined && charged.startMs === startMs ? charged.used : 0;
      // An object that was replaced may have an older limit.
      const earlier = this.replaced?.isAlive ? entry.most : 0;
      if (entry.limit !== limit) entry.most = Math.max(limit, used, earlier);
      // Requests that still waited when others were refused may not fit into a lower limit.
      entry.refusedLimit = Math.min(entry.refusedLimit, limit);
      entry.limit = limit;
    }
    const { lease, admitted, refused, nowMs, windows } = result;
    if (lease !== undefined && !isRepeated) this.counts.leases += 1;
    this.counts.undecided += request.requests - admitted - refused;
    const granted = (lease?.size ?? 0) - (known?.lease?.id === lease?.id ? (known?.lease?.size ?? 0) : 0);
    // An object that has forgotten a later call counts one that its isolate has given up, and decided by itself.
    const latest = this.#latestCalls.get(request.isolate) ?? 0;
    this.#latestCalls.set(request.isolate, Math.max(latest, request.number));
    const isGivenUp = !isolate.isAlive || request.number < latest;
    if (isGivenUp && !isRepeated) this.#lose(nowMs, admitted + granted);
    if (isRepeated) this.#refusedAgain += refused;
    this.#noteRefusals(result);
    const counted = isRepeated ? this.#batches.get(batch) : undefined;
    this.#batches.set(batch, counted ?? windows);
    // A report that is repeated may be answered at the same instant as a call with requests.
    if (request.requests === 0) return;
    for (const [name, { startMs }] of Object.entries(counted ?? windows))
      isolate.countedIn.set(`${name} ${nowMs}`, startMs);
  }

  #refusalsOf(startMs: number) {
    const refusals = this.#refusals.get(startMs) ?? { arrivedMs: [], maxLimit: 0 };
    this.#refusals.set(startMs, refusals);
    return refusals;
  }

  /** Notes the first refusal of each shortest window, and expects that a ban has its reason. */
  #noteRefusals({ windows, bannedUntilMs }: Status): void {
    const { startMs, limit } = shortest(windows);
    const refusals = this.#refusalsOf(startMs);
    refusals.maxLimit = Math.max(limit, refusals.maxLimit);
    if (this.memory !== undefined && contentOf(this.memory).hasRefusal) refusals.firstMs ??= this.time.nowMs;
    const endMs = Math.max(this.objectNowMs, ...this.versions.map(({ key }) => key.bansLiftedUntilMs));
    this.#expectUnlessStepped(Math.max(bannedUntilMs ?? 0, endMs) >= this.#toldBanMs, () => "a ban was lost");
    if (bannedUntilMs === undefined || bannedUntilMs === this.#lastBanMs) return;
    this.#lastBanMs = bannedUntilMs;
    const { firstMs = this.time.nowMs, arrivedMs, maxLimit } = refusals;
    const open = this.#asked.filter(({ isOpen }) => isOpen).map(({ atMs }) => atMs);
    const late = [...arrivedMs, ...open].filter((ms) => ms > firstMs + 2_000).length;
    const isEarned = late > 3 * Math.max(60, maxLimit) || this.crashes > 0;
    this.#expectUnlessStepped(isEarned, () => `banned after ${late} late refusals`);
  }

  /** An isolate hears of a ban until then. */
  protected noteToldBan(untilMs = 0): void {
    this.#toldBanMs = Math.max(this.#toldBanMs, untilMs);
  }

  // What is lost.

  #lose(atMs: number, requests: number): void {
    for (const [name, seconds] of Object.entries(this.lengths))
      this.entry(name, startOfWindowMs(seconds, atMs)).lost += requests;
  }

  /** An isolate has ended, with its leases and calls. */
  protected noteEnd(isolate: Isolate): void {
    for (const [id, { lease }] of this.#known)
      if (isolate.ids.has(id) && lease !== undefined) this.#lose(lease.grantedMs, lease.size - lease.used);
    const open = this.#asked.filter((each) => each.isOpen && each.isolate === isolate).length;
    this.#lose(this.objectNowMs, open);
    // They may have been charged in the minute before.
    const earlierMs = this.objectNowMs - MAX_WAIT_MS;
    const [before, now] = [earlierMs, this.objectNowMs].map((ms) =>
      startOfWindowMs(shortest(this.lengths), ms),
    );
    if (before !== now) this.#lose(earlierMs, open);
  }

  /**
   * A lease that has come back, which the object has forgotten, comes back again with the next call of its isolate. That may be too late for its
   * minute.
   */
  protected loseForgottenLease(id: string): void {
    const { lease } = this.#known.get(id) ?? {};
    if (lease === undefined || this.counts.forgotten === 0 || this.#lostLeases.has(`${id} ${lease.id}`))
      return;
    if (this.objectNowMs < lease.renewedMs + lease.durationMs + LEASE_LOST_MS) return;
    this.#lostLeases.add(`${id} ${lease.id}`);
    this.#lose(lease.grantedMs, lease.size - lease.used);
  }

  #loseForgottenLeases(): void {
    for (const [id] of this.#known) this.loseForgottenLease(id);
  }

  /** The answer to a call that has counted may be lost, and its repetition find no key, or one whose secret has ended. */
  get #countedInVain(): number {
    return this.crashes === 0 && !this.mayLose ? 0 : this.counts.unavailable + this.#endedMeanwhile;
  }

  /** Local admissions of isolates that have ended, or evicted the key. They may be unreported. */
  get #unreported(): number {
    return this.#admittedLocally.filter(({ isolate, calls }) => !isolate.isAlive || calls !== isolate.calls)
      .length;
  }

  // Checks at rest.

  /** A window has admitted the largest limit for which it has refused, except what ended isolates have lost. */
  expectExact(): void {
    this.#loseForgottenLeases();
    const entries = [...this.entries.values()];
    const secondsOf = ({ name }: Entry) => this.lengths[name] ?? 1;
    const most = Math.max(...Object.values(this.lengths));
    // What is lost of a longest window can keep requests from each shorter one in it.
    const longest = entries.filter((each) => secondsOf(each) === most);
    const lost = longest.reduce((sum, each) => sum + each.lost, this.#countedInVain);
    for (const [key, entry] of this.entries) {
      const { startMs, refusedLimit, admitted } = entry;
      const hasEntry = (each: Entry) =>
        secondsOf(each) > secondsOf(entry) && startOfWindowMs(secondsOf(each), startMs) === each.startMs;
      // A refusal names a shorter window if leases could still make more room in a longer one, which may then be used up by them.
      const isLongerFull = entries.some((each) => hasEntry(each) && each.admitted + lost >= each.limit);
      this.expect(
        admitted + lost >= refusedLimit || isLongerFull,
        () => `refused, with ${admitted} of ${refusedLimit} admitted, ${key}`,
      );
    }
  }

  /** What the object would answer to GET /v1/usage, if it had the current key. */
  usage() {
    return usageOf(this.service, this.memory, this.key, this.objectNowMs);
  }

  /** Usage shows the admitted and refused requests. */
  expectUsage(): void {
    this.#loseForgottenLeases();
    this.#expectAdmittedInUsage();
    this.#expectRefusedInUsage();
  }

  #expectAdmittedInUsage(): void {
    const { status, days } = this.usage();
    const [name = ""] = Object.keys(this.lengths);
    const { startMs, used } = shortest(status.windows);
    const all = { what: "all days", shown: 0, isIn: (_: Entry) => true };
    for (const { admitted } of days) all.shown += admitted;
    const parts = days.map(({ date, admitted }) => ({
      what: date,
      shown: admitted,
      isIn: (each: Entry) => formatDate(each.startMs) === date,
    }));
    if (startMs > 0)
      parts.push({
        what: `${name} ${new Date(startMs).toISOString()}`,
        shown: used,
        isIn: (each) => each.startMs === startMs,
      });
    // A batch with a lost result may be counted in one window by the object, and in the next by its isolate.
    for (const { what, shown, isIn } of this.counts.local > 0 ? [all] : [...parts, all]) {
      const entries = [...this.entries.values()].filter((each) => each.name === name && isIn(each));
      const admitted = entries.reduce((sum, entry) => sum + entry.admitted, 0);
      const lost = entries.reduce((sum, entry) => sum + entry.lost, 0);
      const most = admitted + lost + this.open + this.#countedInVain;
      this.expect(
        shown + this.#unreported >= admitted && (shown <= most || this.cancelled > 0),
        () => `usage shows ${shown}, ${admitted} were admitted (${lost} lost), ${what}`,
      );
    }
  }

  #expectRefusedInUsage(): void {
    const mayDiffer =
      this.hasEndedIsolates || this.#unreported > 0 || this.cancelled > 0 || this.platform.hasDropped;
    if (mayDiffer) return;
    const { days } = this.usage();
    const shown = days.reduce<ByWindow<number>>((all, { refusedBy }) => addEach(all, refusedBy), {});
    const { refused, bans, forgotten } = this.counts;
    // The object also counts the refusals with which a ban begins. It forgets isolates that it has not heard of for ISOLATE_KEPT_MS.
    const more = bans + this.#countedInVain;
    this.expect(
      (sum(shown) >= refused || forgotten > 0) && sum(shown) <= refused + more,
      () => `usage shows ${sum(shown)} refused, ${refused} to ${refused + more} were`,
    );
    for (const name of Object.keys(this.lengths)) {
      const [by = 0, were = 0] = [shown[name], this.#refusedBy.get(name)];
      const isRight = forgotten > 0 || Math.abs(by - were) <= more + this.#refusedAgain;
      this.expect(isRight, () => `usage shows ${by} refused by the ${name}, ${were} were`);
    }
  }

  /** Whether the object has recorded all usage. */
  get isRecorded(): boolean {
    return this.memory === undefined || contentOf(this.memory).isRecorded;
  }

  /** Operators see what the object has counted. */
  expectRecords(): void {
    const rows = USAGE.prepare("SELECT * FROM key_usage").all() as unknown as UsageRow[];
    const shown = rows.map((row) => [row.day, row.admitted, row.refused_by].join(" "));
    const { days } = this.usage();
    const counted = days.map((day) => [day.date, day.admitted, JSON.stringify(day.refusedBy)].join(" "));
    this.expect(`${shown.sort()}` === `${counted.sort()}`, () => `operators see ${shown}, not ${counted}`);
  }
}
