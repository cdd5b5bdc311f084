// One key on virtual time: the real Durable Object class on a storage that can crash, isolates with what they really know of keys, and a
// network whose delays and faults the scenario chooses, also that to the primary of the keys database. The world compares the answers
// that clients get with the counts of the object, with the usage in a real SQLite, and with the versions of the key, and records
// the first broken guarantee.

import { AsyncLocalStorage } from "node:async_hooks";
import { readFileSync } from "node:fs";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { HEADER } from "../../src/http/header-names.ts";
import { KEY_POLICY, type Key, problemOf } from "../../src/keys/key.ts";
import { BoundedMap } from "../../src/lib/bounded-map.ts";
import { DeadlineExceeded } from "../../src/lib/deadline.ts";
import { formatDate } from "../../src/lib/rfc3339.ts";
import { nextPauseMs, type Runtime } from "../../src/lib/runtime.ts";
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
import { KEY_ID, keyOf, NO_REQUESTS } from "../support/key-record.ts";
import {
  type AcquireAnswer,
  type AcquireRequest,
  type Answer,
  contentOf,
  IsolatePort,
  type LimiterObject,
  type Memory,
  type NoKey,
  newObject,
  PETSTORE,
  type Service,
  type Status,
  type Stored,
  storedAfter,
  usageOf,
  withoutRecord,
} from "./port.ts";
import { nextTurn, Timeline } from "./timeline.ts";

/** The hash of the key's first secret. */
export const FIRST_SECRET = "the first secret";

/** What the object stores, with its alarm. */
type State = Stored & { alarmMs: number };

/** What operators see of a day. */
type UsageRow = { day: string; admitted: number; refused_by: string };

/**
 * A request, with all that it has begun. Its clock moves only when something comes in: the last time at `ioMs`. Cloudflare cancels its timers
 * and calls at `endsMs`, 30 s after its response (both virtual time).
 */
type Context = { ioMs: number; endsMs: number };
const CONTEXT = new AsyncLocalStorage<Context>();
const CONTEXT_MS = 30_000;

/** An object that has got a call in this time does not sleep. */
const AWAKE_MS = 10_000;

/** A table of one world. Opening a database for each would take most of the time. */
const USAGE = new DatabaseSync(":memory:");
USAGE.exec(readFileSync("migrations/keys/0004_key_usage.sql", "utf8"));

/** A storage whose writes become durable later, in order. A crash loses the others. */
class Storage {
  durable: State | undefined;
  writing: State[] = [];
  get latest(): State | undefined {
    return this.writing.at(-1) ?? this.durable;
  }
}

/** A life of the object: it ends with a crash or an eviction. What is stored may have more charged than what it has in memory. */
type Life = {
  object: LimiterObject;
  memory: Memory | undefined;
  /** Whether another object has taken its place. Then it does not notice that until it stores something. */
  isReplaced: boolean;
  isAlive: boolean;
  calls: number;
  ended: Promise<undefined>;
  end: () => void;
};

/** What waits: an isolate, which may be frozen, or a life of the object. */
type Owner = { isAlive: boolean; frozenUntilMs?: number };

/**
 * The records of a window. `limit`: of the object's latest call; `most`: what it may admit by it, which after a lower limit is what was
 * charged by then; `refusedLimit`: the largest that a refusal was for, or a lower one that came later. `lost`: the most that isolates that ended may have left charged.
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

export class Isolate {
  port: IsolatePort = undefined as never;
  /** Under which the object knows it: another one once the key was evicted. */
  readonly ids = new Set<string>();
  isAlive = true;
  /** The lead of its clock over virtual time. */
  aheadMs: number;
  admittedLocally = 0;
  /** The number of its requests without a response. */
  open = 0;
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

/** A call under way. The scenario delivers it, returns its result, or makes it fail. */
export interface Message {
  isolate: Isolate;
  request: AcquireRequest;
  /** Whether it is the retry of a call. */
  isRetry: boolean;
  /**
   * Has the object execute it. Resolves with a function that returns the result, to be called once the writes are durable; with
   * nothing if the object has crashed meanwhile.
   */
  deliver(): Promise<(() => void) | undefined>;
  fail(error: object): unknown;
}

/** A read of the key at the primary, like a message. */
export interface Read {
  deliver(): () => void;
  fail(error: object): unknown;
}

/** Returns a message or what is stored as another release has written it. */
export type Alter = <Value extends object>(what: "request" | "answer" | "stored", value: Value) => Value;

export interface Options {
  /** By default ours. */
  service?: Service;
  startMs: number;
  /** By the names of the service's windows. */
  limits: ByWindow<number>;
  /** Handles a message. */
  send: (message: Message) => void;
  /** Handles a read; by default it succeeds at once. */
  read?: (read: Read) => void;
  /** Handles a write to the keys database; by default it succeeds at once. */
  write?: (execute: () => void) => Promise<void>;
  /** Makes the writes of an alarm durable; by default at once. */
  persist?: () => void;
  timerDelayMs?: () => number;
  /** Whether a call is cancelled with its request, so that neither its result nor its deadline is noticed. */
  isCancelled?: () => boolean;
  random?: () => number;
  onAnswer?: (answer: object) => void;
  /** What another release makes of a message or of what is stored, between the two sides. */
  alter?: Alter;
  /** What the object reserves; by default as in production. */
  reservedShare?: number;
  /** Whether waiting requests poll, as in production; otherwise they check their condition after each event. */
  polls?: boolean;
}

/** A request that waits. */
type Waiting = {
  isolate: Isolate;
  context: Context | undefined;
  isDone: () => boolean;
  resolve: () => void;
  waitedMs: number;
  maxMs: number;
};

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
/** The object gives a lease up 3 s after its end; a report may wait for a second for its turn, and take as long as a retry. */
const LONG_FREEZE_MS = 1_500;
/** What a crash of the object may cost, as a share of the limit of a minute. */
const MOST_RESERVED = 1 / 20;
/** The object waits for a lease until so long after its end. */
const LEASE_LOST_MS = 3_000;
/** A change of the key is in force everywhere after this time. */
const IN_FORCE_MS = 30_000;

export class World {
  readonly #service: Service;
  /** The lengths of the windows, by name. */
  readonly lengths: ByWindow<number>;
  readonly time: Timeline;
  readonly storage = new Storage();
  readonly isolates: Isolate[] = [];
  /** The lead of the object's clock over virtual time. */
  objectAheadMs = 0;
  /** Whether a request has ended while it still waited for something, such as a report. */
  #hasDropped = false;
  /** When the object has last got or answered a call (virtual time). */
  #activeMs = Number.NEGATIVE_INFINITY;
  /** The number of crashes of the object. */
  crashes = 0;
  /** The number of requests without a decision. */
  open = 0;
  /** Whether counts may be inexact: isolates may have decided locally, or reported too late. */
  isDirty = false;
  hasEndedIsolates = false;
  /** The number of cancelled calls, and the most requests that were cancelled with them. */
  cancelled = 0;
  /** Whether a clock has stepped. */
  hasStepped = false;
  #slowestReadMs = 0;
  /** Whether answers may be lost. */
  mayLose = false;
  /** The number of requests whose secret was valid when they arrived, and then was not. */
  #endedMeanwhile = 0;
  /** Whether the primary may be away or hang. */
  mayLackRecord = false;
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
  /** The versions of the key, and the times from which on they are current (virtual time). */
  readonly versions: { fromMs: number; key: Key }[];
  /** The waits of all requests that were decided, with when they began (virtual time), what was allowed, and whether a burst came before. */
  readonly waits: { atMs: number; ms: number; mostMs: number; inBurst: boolean }[] = [];
  /** When each request arrived (virtual time), and whether it has no decision yet. */
  readonly #arrivals: { atMs: number; isOpen: boolean }[] = [];
  /** The records of each window, by its name and start. */
  readonly entries = new Map<string, Entry>();
  readonly #options: Options;
  #life: Life;
  /** What was in memory before each change of the counts whose call has not been answered, by the revision. */
  readonly #before = new Map<number, Memory | undefined>();
  /** What was in memory lately, by its revision. */
  readonly #states = new BoundedMap<number, Memory>(100);
  /** Requests that wait, and those that poll next at a time. */
  #waiting = new Set<Waiting>();
  readonly #polls = new Map<number, Waiting[]>();
  /** The windows that counted each batch, by its isolate and number. */
  readonly #batches = new Map<string, Windows>();
  /** Calls without a result. Failed calls stay here. */
  readonly #underway = new Set<AcquireRequest>();
  /** Local admissions of ended isolates, which may be unreported. */
  #unreported = 0;
  /** By shortest window: when the object first refused a request, when refused requests have arrived (virtual time), the largest limit. */
  readonly #refusals = new Map<number, { firstMs?: number; arrivedMs: number[]; maxLimit: number }>();
  /** The alarm that is set or runs. */
  #alarmMs = Number.POSITIVE_INFINITY;
  /** The alarm that the object has set since it stored its state. */
  #newAlarmMs: number | undefined;
  /** How many responses have named each window as the one that refuses. */
  readonly #refusedBy = new Map<string, number>();
  /** Refusals of repeated calls. They name the window by then, which may be another one than when they were counted. */
  #refusedAgain = 0;
  /** The beginnings of each isolate's latest calls, without repeated ones (virtual time). */
  readonly #callsMs = new Map<string, number[]>();
  #failure: Error | undefined;

  constructor(options: Options) {
    this.#options = options;
    this.#service = options.service ?? PETSTORE;
    this.lengths = this.#service.policy.windows;
    this.time = new Timeline(options.startMs);
    this.versions = [{ fromMs: 0, key: keyOf([FIRST_SECRET], options.limits) }];
    USAGE.exec("DELETE FROM key_usage");
    this.#life = this.#newLife();
  }

  /** The current version of the key. */
  get key(): Key {
    return this.versions.at(-1)?.key as Key;
  }

  /** An operator changes the key. */
  change(change: Partial<Key>): void {
    this.versions.push({ fromMs: this.time.nowMs, key: { ...this.key, ...change } });
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

  get objectNowMs(): number {
    return this.time.nowMs + this.objectAheadMs;
  }

  expect(holds: boolean, what: () => string): void {
    if (!holds && this.#failure === undefined) this.#failure = new Error(what());
  }

  entry(name: string, startMs: number): Entry {
    const key = `${name} ${new Date(startMs).toISOString()}`;
    const known = this.entries.get(key);
    if (known !== undefined) return known;
    const nothing = {
      name,
      startMs,
      limit: 0,
      most: 0,
      admitted: 0,
      admittedLocally: 0,
      refusedLimit: 0,
      lost: 0,
    };
    const entry = { ...nothing, admittedMs: [] };
    this.entries.set(key, entry);
    return entry;
  }

  newIsolate(aheadMs = 0): Isolate {
    const isolate = new Isolate(aheadMs);
    this.evictKey(isolate);
    this.isolates.push(isolate);
    return isolate;
  }

  /** Has an isolate forget the key, as if it had been evicted. */
  evictKey(isolate: Isolate): void {
    this.#unreported += isolate.admittedLocally;
    isolate.admittedLocally = 0;
    const now = () => (CONTEXT.getStore()?.ioMs ?? this.time.nowMs) + isolate.aheadMs;
    const runtime = this.#runtimeOf(isolate, now, this.#options.isCancelled);
    const until = (isDone: () => boolean, maxMs: number) => this.#until(isolate, isDone, maxMs);
    const failedSecrets = new Set<string>();
    isolate.port = new IsolatePort(this.#service, {
      runtime: { ...runtime, until },
      objectOf: () => this.#stub(isolate, failedSecrets) as never,
      load: () => this.#read(isolate),
    });
    isolate.ids.add(isolate.calls.id);
    isolate.shown.clear();
    isolate.admitted.clear();
  }

  /** Runs what an isolate or a life of the object has waited for: later if it is frozen, and not if it or the context has ended. */
  #resume(owner: Owner, context: Context | undefined, run: () => unknown): void {
    const { nowMs } = this.time;
    if (!owner.isAlive) return;
    if (context !== undefined && nowMs >= context.endsMs) {
      this.#hasDropped = true;
      return;
    }
    const { frozenUntilMs = 0 } = owner;
    if (nowMs < frozenUntilMs) {
      this.time.after(frozenUntilMs - nowMs, () => this.#resume(owner, context, run));
      return;
    }
    if (context !== undefined) context.ioMs = nowMs;
    run();
  }

  /** The clock and timers of an isolate, or of a life of the object. */
  #runtimeOf(owner: Owner, now: () => number, isCancelled?: () => boolean): Runtime {
    const wait = (ms: number) =>
      new Promise<void>((resolve) => {
        const context = CONTEXT.getStore();
        const delayMs = this.#options.timerDelayMs?.() ?? 0;
        this.time.after(ms + delayMs, () => this.#resume(owner, context, resolve));
      });
    return {
      now,
      wait,
      until: () => Promise.reject(new Error("the object does not poll")),
      withDeadline: (part, deadlineMs, work) => {
        const working = work();
        if (isCancelled?.()) {
          this.cancelled += 1;
          void working.catch(() => {});
          return new Promise(() => {});
        }
        const expired = wait(deadlineMs).then(() => {
          throw new DeadlineExceeded(part, deadlineMs);
        });
        return Promise.race([working, expired]);
      },
      random: () => this.#options.random?.() ?? 0.5,
      keepAlive: (work) => void work.catch((error) => this.#expectUnavailable(error)),
    };
  }

  /**
   * Without a key, requests may fail, also if they wait for a call that was cancelled, if a clock steps over the end of their wait, or
   * if repeated calls or slow reads take too long: a secret may need two calls with two reads each. Nothing else may.
   */
  #expectUnavailable(error: unknown): void {
    const mayLackRecord = this.mayLackRecord || this.cancelled > 0 || this.hasStepped;
    const isTooLate =
      (error as Error).cause instanceof DeadlineExceeded &&
      (this.isolates.some(({ frozenUntilMs }) => frozenUntilMs > 0) ||
        this.crashes > 0 ||
        this.#replaced !== undefined ||
        this.mayLose ||
        this.#slowestReadMs > SLOW_READ_MS);
    const isUnavailable = error instanceof LimiterUnavailable && (mayLackRecord || isTooLate);
    this.expect(isUnavailable, () => `${(error as Error).stack}; ${(error as Error).cause}`);
  }

  /** Reads the key at the primary. A reader that has ended gets no answer. */
  #read(reader: Owner): Promise<Key> {
    this.counts.reads += 1;
    const beganMs = this.time.nowMs;
    const context = CONTEXT.getStore();
    return new Promise((resolve, reject) => {
      const deliver = () => {
        const { key } = this;
        return () => {
          this.#slowestReadMs = Math.max(this.#slowestReadMs, this.time.nowMs - beganMs);
          this.#resume(reader, context, () => resolve(structuredClone(key)));
        };
      };
      const fail = (error: object) => this.#resume(reader, context, () => reject(error));
      if (this.#options.read === undefined) deliver()();
      else this.#options.read({ deliver, fail });
    });
  }

  #until(isolate: Isolate, isDone: () => boolean, maxMs: number): Promise<void> {
    return new Promise((resolve) => {
      const waiting = { isolate, context: CONTEXT.getStore(), isDone, resolve, waitedMs: 0, maxMs };
      if (isDone()) resolve();
      else if (this.#options.polls === false) {
        this.#waiting.add(waiting);
        this.time.after(
          maxMs,
          () => this.#waiting.delete(waiting) && this.#resume(isolate, waiting.context, resolve),
        );
      } else this.#pollLater(waiting);
    });
  }

  #pollLater(waiting: Waiting): void {
    const { waitedMs, maxMs } = waiting;
    const pauseMs = nextPauseMs(waitedMs, maxMs);
    waiting.waitedMs += pauseMs;
    const atMs = this.time.nowMs + Math.ceil(pauseMs);
    const others = this.#polls.get(atMs);
    if (others !== undefined) {
      others.push(waiting);
      return;
    }
    const all = [waiting];
    this.#polls.set(atMs, all);
    this.time.after(pauseMs, () => {
      this.#polls.delete(atMs);
      for (const each of all)
        this.#resume(each.isolate, each.context, () => {
          if (each.waitedMs >= each.maxMs || each.isDone()) each.resolve();
          else this.#pollLater(each);
        });
    });
  }

  /** For so long, nothing runs in an isolate. After a long freeze its lease comes back when the object has refused requests for want of it. */
  freeze(isolate: Isolate, ms: number): void {
    isolate.frozenUntilMs = this.time.nowMs + ms;
    if (ms > LONG_FREEZE_MS) this.isDirty = true;
  }

  /** Ends an isolate. Its requests get no decisions, and its leases and calls are lost. */
  end(isolate: Isolate): void {
    isolate.isAlive = false;
    this.hasEndedIsolates = true;
    this.#unreported += isolate.admittedLocally;
    for (const [id, { lease }] of this.#known)
      if (isolate.ids.has(id) && lease !== undefined) this.#lose(lease.grantedMs, lease.size - lease.used);
    // They may have been charged in the minute before.
    const earlierMs = this.objectNowMs - MAX_WAIT_MS;
    this.#lose(this.objectNowMs, isolate.open);
    const seconds = shortest(this.lengths);
    if (startOfWindowMs(seconds, earlierMs) !== startOfWindowMs(seconds, this.objectNowMs))
      this.#lose(earlierMs, isolate.open);
  }

  #lose(atMs: number, requests: number): void {
    for (const [name, seconds] of Object.entries(this.lengths))
      this.entry(name, startOfWindowMs(seconds, atMs)).lost += requests;
  }

  /** Uses a share of the key's requests before the scenario. */
  prefill(share: number): void {
    const { limits } = this.key;
    const requests = Math.floor(share * Math.min(...Object.values(limits)));
    if (requests === 0) return;
    const stored = storedAfter(this.#service, requests, limits, this.objectNowMs);
    this.storage.durable = stored;
    this.#setTimer();
    this.evict();
    for (const [name, { startMs }] of Object.entries(contentOf(stored).counts)) {
      const limit = (limits as ByWindow<number>)[name] ?? 0;
      Object.assign(this.entry(name, startMs), { limit, most: limit, admitted: requests });
    }
  }

  /** Runs everything that follows from the last event at this instant. */
  async settle(): Promise<void> {
    for (let isSettled = false; !isSettled; ) {
      await nextTurn();
      this.throwFailure();
      const due = [...this.#waiting].filter(({ isolate, isDone }) => isolate.isAlive && isDone());
      for (const each of due) {
        this.#waiting.delete(each);
        this.#resume(each.isolate, each.context, each.resolve);
      }
      isSettled = due.length === 0;
    }
  }

  /** Runs events until there is none except alarms, or until a time. */
  run(untilMs?: number): Promise<void> {
    return this.time.run(untilMs, () => this.settle());
  }

  /** Sends one request through an isolate. Returns nothing if the secret is not valid, or if nobody can tell. */
  ask(isolate: Isolate, secret = this.#currentSecret): Promise<Decision | undefined> {
    const context = { ioMs: this.time.nowMs, endsMs: Number.POSITIVE_INFINITY };
    return new Promise((resolve, reject) => {
      const run = async () => {
        await this.#ask(isolate, secret).then(resolve, reject);
        context.endsMs = this.time.nowMs + CONTEXT_MS;
      };
      this.#resume(isolate, context, () => CONTEXT.run(context, run));
    });
  }

  async #ask(isolate: Isolate, secret: string): Promise<Decision | undefined> {
    const { port, calls } = isolate;
    let isLocal = false;
    const arrivedMs = this.time.nowMs;
    const arrival = { atMs: arrivedMs, isOpen: true };
    const request = {
      credential: { id: KEY_ID, hash: secret },
      arrivedMs: arrivedMs + isolate.aheadMs,
      buckets: () => [],
      onObjectFailure: () => {
        isLocal = true;
      },
    };
    this.open += 1;
    isolate.open += 1;
    this.#arrivals.push(arrival);
    const { isJudged, answer: asked } = port.ask(request);
    const answer = await asked.catch((error): Answer | undefined => void this.#expectUnavailable(error));
    arrival.isOpen = false;
    this.open -= 1;
    isolate.open -= 1;
    const ms = this.time.nowMs - arrivedMs;
    const lateMs = this.#options.timerDelayMs === undefined ? 0 : LATE_MS;
    const mayWait = isolate.hasStepped || isolate.frozenUntilMs > 0;
    this.expect(ms <= MAX_WAIT_MS + lateMs || mayWait, () => `a request waited for ${ms} ms`);
    if (answer === undefined) {
      this.counts.unavailable += 1;
      return undefined;
    }
    const { caller, decision } = answer;
    this.#expectVerdict(caller.problem, secret, arrivedMs, request.arrivedMs);
    if (caller.problem !== undefined) this.counts.unauthorized += 1;
    if (decision === undefined) return undefined;
    isLocal ||= decision.by === "local";
    const madeMs = this.versions.find(({ key }) => hasSecret(KEY_POLICY, key, secret))?.fromMs ?? 0;
    // A secret that is new to the isolate may have to wait until the object may read its key again, perhaps for another's wrong one.
    const isNew = !isJudged && madeMs > arrivedMs - IN_FORCE_MS;
    const mostMs = isNew ? QUICK_MS + 1_000 : QUICK_MS;
    this.waits.push({ atMs: arrivedMs, ms, mostMs, inBurst: ms > mostMs && this.#isBurst(decision, ms) });
    if (isLocal && decision.admitted && calls === isolate.calls) isolate.admittedLocally += 1;
    else if (isLocal && decision.admitted) this.#unreported += 1;
    this.#record(decision, isolate, calls, isLocal, arrivedMs);
    return decision;
  }

  get #currentSecret(): string {
    return this.key.secrets[0]?.hash ?? "";
  }

  /** A secret is judged by a version of the key that was current in the last 30 s, and one that exists is not unknown. */
  #expectVerdict(
    problem: Answer["caller"]["problem"],
    secret: string,
    arrivedMs: number,
    localMs: number,
  ): void {
    if (this.hasStepped) return;
    const possible = this.#versionsFor(arrivedMs).map((key) => problemOf(key, secret, localMs));
    this.expect(possible.includes(problem as never), () => `${secret} is ${problem}, not ${possible.join()}`);
    const [current = this.key] = this.#versionsSince(arrivedMs);
    if (problem !== undefined && problemOf(current, secret, localMs) === undefined) this.#endedMeanwhile += 1;
    const isKnown = problem !== "unknown" || !hasSecret(KEY_POLICY, current, secret);
    this.expect(isKnown, () => `${secret} exists, but is unknown`);
  }

  /**
   * Whether in one of the last seconds so many requests came that what was left before would have lasted for few seconds. A request
   * that has waited for `waitedMs` may be decided in the window after.
   */
  #isBurst({ windows }: Decision, waitedMs: number): boolean {
    const { nowMs } = this.time;
    const agesMs = this.#arrivals.map(({ atMs }) => nowMs - atMs).filter((each) => each < BURST_MS);
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

  #record(decision: Decision, isolate: Isolate, calls: object, isLocal: boolean, arrivedMs: number): void {
    const { admitted, windows, nowMs, bannedUntilMs } = decision;
    const { counts } = this;
    const versions = this.#versionsFor(arrivedMs);
    for (const [name, { limit }] of Object.entries(windows)) {
      const isKnown = versions.some(
        ({ limits }) => ((limits as ByWindow<number>)[name] ?? MAX_LIMIT) === limit,
      );
      // Another release may have other windows.
      this.expect(isKnown || !(name in this.lengths) || this.hasStepped, () => `a limit of ${limit}`);
    }
    // After the object's clock steps back, a later ban can end earlier.
    const isLifted = versions.every(({ bansLiftedUntilMs }) => (bannedUntilMs ?? 1 / 0) <= bansLiftedUntilMs);
    this.expect(!isLifted || this.hasStepped, () => "a ban has outlived its lift");
    if (isLocal) counts.local += 1;
    this.isDirty ||= isLocal;
    // What an isolate refuses by its share may be left for others.
    if (calls === isolate.calls && (admitted || !isLocal)) this.#expectNoRise(decision, isolate);
    if (!admitted) {
      const named = tighterWindow(decision);
      this.expect(left(decision, named) === 0, () => `refused with ${left(decision, named)} left`);
      const { [HEADER.retryAfter]: retryAfter } = headersOf(decision);
      const window = windows[named] ?? shortest(windows);
      const endMs = bannedUntilMs ?? resetMs(window);
      const retryMs = this.objectNowMs + Number(retryAfter) * 1000;
      const isEnough = isLocal || this.hasStepped || retryMs >= endMs;
      this.expect(isEnough, () => `Retry-After ${retryAfter} is too short`);
      if (bannedUntilMs !== undefined) {
        counts.bans += 1;
        return;
      }
      counts.refused += 1;
      const refusals = this.#refusalsOf(shortest(windows).startMs);
      refusals.firstMs ??= this.time.nowMs;
      refusals.arrivedMs.push(arrivedMs);
      this.#refusedBy.set(named, (this.#refusedBy.get(named) ?? 0) + 1);
      // So late, an isolate refuses by itself although a lease may come back a moment later. That does not show that the window is full.
      if (isLocal && this.time.nowMs - arrivedMs >= LAST_CALL_MS) return;
      const { startMs, limit } = window;
      const entry = this.entry(named, startMs);
      entry.refusedLimit = Math.max(entry.refusedLimit, Math.min(limit, entry.limit || limit));
      return;
    }
    counts.admitted += 1;
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
      const most = entry.most + entry.admittedLocally;
      const when = `${name} of ${new Date(window.startMs).toISOString()}`;
      this.expect(entry.admitted <= most, () => `${entry.admitted} admitted of ${entry.most} in the ${when}`);
      // Before it has heard of the object, an isolate knows the minute by its own clock only.
      const isGuess = isLocal && isolate.aheadMs !== 0 && isolate.admitted.size === 0;
      if (calls === isolate.calls && !isGuess) this.#expectOwnLimit(isolate, entry, window.limit);
      if (isAtOnce && !this.hasStepped)
        this.expect(this.objectNowMs < resetMs(window), () => `a lease was used after its ${name}`);
    }
  }

  /** An isolate alone admits no more than the limit, also while it decides without the object. */
  #expectOwnLimit({ admitted }: Isolate, entry: Entry, limit: number): void {
    const own = (admitted.get(entry) ?? 0) + 1;
    admitted.set(entry, own);
    const most = Math.max(entry.most, limit);
    this.expect(own <= most || this.hasStepped, () => `one isolate has admitted ${own} of ${most}`);
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

  #newLife(): Life {
    const { promise: ended, resolve } = Promise.withResolvers<undefined>();
    const end = () => {
      life.isAlive = false;
      resolve(undefined);
    };
    const memory = this.storage.latest;
    const life: Life = {
      object: undefined as never,
      memory,
      isReplaced: false,
      isAlive: true,
      calls: 0,
      ended,
      end,
    };
    const store = (run: () => void) => {
      if (!life.isAlive) return;
      if (!life.isReplaced) return run();
      end();
      throw new Error("the object was replaced");
    };
    const storage = {
      kv: {
        get: () => {
          const { latest } = this.storage;
          return latest && this.#alter("stored", structuredClone(latest));
        },
        put: (_: string, state: State) => store(() => this.#put(state)),
      },
      setAlarm: (ms: number) =>
        store(() => {
          this.#newAlarmMs = ms;
        }),
    };
    life.object = newObject({
      service: this.#service,
      storage,
      database: this.#database(),
      runtime: this.#runtimeOf(life, () => this.objectNowMs),
      load: () => this.#read(life),
      reservedShare: this.#options.reservedShare,
      onChange: (memory) => this.#noteChange(life, memory),
    });
    return life;
  }

  /** The keys database: a write may be executed later, also after its object has ended. */
  #database() {
    const write = this.#options.write ?? (async (execute) => execute());
    return {
      prepare: (sql: string) => ({
        bind: (...parameters: SQLInputValue[]) => ({
          run: () => write(() => void USAGE.prepare(sql).run(...parameters)),
        }),
      }),
    };
  }

  /** Runs the alarm when it is due. After a crash it runs again. */
  #setTimer(isAgain = false): void {
    const { alarmMs = Number.POSITIVE_INFINITY } = this.storage.durable ?? {};
    if (alarmMs === Number.POSITIVE_INFINITY || (alarmMs === this.#alarmMs && !isAgain)) return;
    this.#alarmMs = alarmMs;
    const run = async () => {
      if (this.storage.durable?.alarmMs !== alarmMs || this.#alarmMs !== alarmMs) return;
      if (this.objectNowMs < alarmMs) return this.#setTimer(true);
      await this.#inLife(({ object }) => object.alarm(), this.#life);
      if (this.#options.persist === undefined) this.persist();
      else this.#options.persist();
    };
    this.time.after(alarmMs - this.objectNowMs, run, true);
  }

  #put(stored: State): void {
    const state = {
      ...stored,
      alarmMs: this.#newAlarmMs ?? this.storage.latest?.alarmMs ?? Number.POSITIVE_INFINITY,
    };
    this.#newAlarmMs = undefined;
    this.counts.puts += 1;
    this.storage.writing.push(state);
  }

  /** Notes a change in the memory of the object. What is not stored is covered by what is. */
  #noteChange(life: Life, memory: Memory): void {
    if (!life.isAlive) return;
    const { revision } = contentOf(memory);
    const before = life.memory;
    life.memory = memory;
    if (before !== undefined && contentOf(before).revision === revision) return;
    this.#before.set(revision, before);
    if (before !== undefined) this.#noteForgotten(before, memory);
    this.#states.set(revision, memory);
    const { latest } = this.storage;
    if (latest !== undefined && contentOf(latest).revision > revision) this.counts.covered += 1;
  }

  /** What the object has in memory of isolates. */
  get #known(): ReturnType<typeof contentOf>["isolates"] {
    const { memory } = this.#life;
    return memory === undefined ? new Map() : contentOf(memory).isolates;
  }

  /** An isolate that was not heard of for long is forgotten, with its lease and its latest call. */
  #noteForgotten(before: Memory, after: Memory): void {
    const { isolates } = contentOf(after);
    for (const [id, { lease, seenMs, number, admitted }] of contentOf(before).isolates) {
      if (isolates.has(id)) continue;
      const isOld = Math.abs(this.objectNowMs - seenMs) >= FORGOTTEN_MS;
      this.expect(isOld || this.hasStepped, () => "an isolate was forgotten early");
      if (lease !== undefined) this.#lose(lease.grantedMs, lease.size - lease.used);
      // What a call without an answer was charged or has reported may be reported once more.
      const call = [...this.#underway].find((each) => each.isolate === id && each.number === number);
      if (call === undefined) continue;
      this.#lose(seenMs, admitted);
      for (const decision of call.decisions) this.#lose(decision.atMs, decision.admitted);
    }
  }

  /** Loses the object's memory, if all writes are durable and it has been idle for long. Returns whether it was. */
  evict(): boolean {
    if (this.time.nowMs - this.#activeMs < AWAKE_MS) return false;
    const { forgotten } = this.counts;
    this.#loseMemory();
    this.expect(this.counts.forgotten === forgotten || this.hasStepped, () => "it slept with a reservation");
    return true;
  }

  #loseMemory(): void {
    if (this.storage.writing.length > 0 || this.#life.calls > 0) return;
    this.#beginLife();
  }

  /** Another object takes the place of this one, which still answers some calls until it notices that. Returns whether that happened. */
  replace(): boolean {
    const { writing, durable } = this.storage;
    if (writing.length > 0 || durable === undefined) return false;
    this.#replaced?.end();
    this.#replaced = this.#life;
    this.#replaced.isReplaced = true;
    this.#beginLife(false);
    this.#setTimer(true);
    return true;
  }
  #replaced: Life | undefined;

  /** The object goes on from what is durable. More may be charged there than it had in memory, but not more than was reserved. */
  #beginLife(endsLast = true): void {
    const { memory } = this.#life;
    if (endsLast) {
      this.#replaced?.end();
      this.#life.end();
    }
    this.#life = this.#newLife();
    const { durable } = this.storage;
    if (memory === undefined || durable === undefined) return;
    const { revision, counts } = contentOf(durable);
    if (revision === contentOf(memory).revision) return;
    this.counts.forgotten += 1;
    const mostLimit = Math.max(...this.versions.map(({ key }) => shortest(key.limits)));
    const most = Math.floor(mostLimit * (this.#options.reservedShare ?? MOST_RESERVED));
    for (const [name, { startMs }] of Object.entries(counts)) this.entry(name, startMs).lost += most;
  }

  /** As if the object had slept, although it is in use: it has to read the key before its next answer. */
  sleep(): void {
    this.persist();
    const { durable } = this.storage;
    if (durable !== undefined) this.storage.durable = withoutRecord(durable);
    this.#loseMemory();
  }

  /** Loses the object's memory and all but the first `written` pending writes. Calls without a result fail. */
  crash(written: number): void {
    const { storage } = this;
    storage.durable = storage.writing[written - 1] ?? storage.durable;
    storage.writing = [];
    this.#newAlarmMs = undefined;
    this.crashes += 1;
    this.#beginLife();
    this.#setTimer(true);
  }

  /** Makes the oldest pending write durable. */
  written(): void {
    this.storage.durable = this.storage.writing.shift() ?? this.storage.durable;
    this.#setTimer();
  }

  /** Makes all pending writes durable. */
  persist(): void {
    while (this.storage.writing.length > 0) this.written();
  }

  /** `failedSecrets`: about which the isolate will ask again. */
  #stub(isolate: Isolate, failedSecrets: Set<string>) {
    const send = <Answer extends object>(
      request: AcquireRequest,
      isRetry: boolean,
      execute: () => Promise<Answer | undefined>,
    ) =>
      new Promise<Answer>((resolve, reject) => {
        const context = CONTEXT.getStore();
        const deliver = async () => {
          const answer = await execute();
          if (answer === undefined) return undefined;
          this.#options.onAnswer?.(answer);
          const { crashes } = this;
          return () => {
            if (this.crashes !== crashes) return;
            this.#resume(isolate, context, () => {
              const { result } = answer as Partial<AcquireAnswer>;
              // Otherwise an earlier attempt may have been counted.
              if (result !== undefined) this.#underway.delete(request);
              this.#toldBanMs = Math.max(this.#toldBanMs, result?.bannedUntilMs ?? 0);
              resolve(this.#alter("answer", answer));
            });
          };
        };
        const fail = (error: object) => {
          if (request.isolate === "" && !isRetry) failedSecrets.add(request.secret ?? "");
          this.#resume(isolate, context, () => reject(error));
        };
        this.#options.send({ isolate, request, isRetry, deliver, fail });
      });
    const acquire = (request: AcquireRequest) => {
      const isRetry = this.#underway.has(request);
      if (!isRetry) this.#expectFewCalls(isolate, request.isolate);
      this.#underway.add(request);
      return send(request, isRetry, () => this.#execute(request, isolate, isRetry));
    };
    const identify = (secret: string) => {
      const isRetry = failedSecrets.delete(secret);
      const request = { ...NO_REQUESTS, isolate: "", number: 0, secret };
      return send(request, isRetry, () => this.#answer(isRetry, ({ object }) => object.identify(secret)));
    };
    return { acquire, identify };
  }

  #alter<Value extends object>(what: Parameters<Alter>[0], value: Value): Value {
    return this.#options.alter?.(what, value) ?? value;
  }

  /** Has an object answer a call. A retry has a new stub, which finds the current one. */
  async #answer<Answer>(
    isRetry: boolean,
    call: (life: Life) => Promise<Answer>,
  ): Promise<Answer | undefined> {
    const isOld = !isRetry && this.#replaced?.isAlive && (this.#options.random?.() ?? 0) < 1 / 2;
    this.#activeMs = this.time.nowMs;
    const answer = await this.#inLife(call, isOld ? (this.#replaced as Life) : this.#life);
    this.#activeMs = this.time.nowMs;
    return answer;
  }

  /** Has the object answer a call; nothing if it crashes meanwhile. */
  async #inLife<Answer>(call: (life: Life) => Promise<Answer>, life: Life): Promise<Answer | undefined> {
    life.calls += 1;
    const answer = await Promise.race([call(life), life.ended]);
    life.calls -= 1;
    // It may have set its alarm only.
    const { latest } = this.storage;
    if (this.#newAlarmMs !== undefined && latest !== undefined)
      this.storage.writing.push({ ...latest, alarmMs: this.#newAlarmMs });
    this.#newAlarmMs = undefined;
    return structuredClone(answer);
  }

  #expectFewCalls(isolate: Isolate, id: string): void {
    this.counts.calls += 1;
    const { nowMs } = this.time;
    const calledMs = [...(this.#callsMs.get(id) ?? []).filter((ms) => ms > nowMs - 1_000), nowMs];
    this.#callsMs.set(id, calledMs);
    const calls = calledMs.length;
    this.expect(calls <= MAX_CALLS || isolate.hasStepped, () => `${calls} calls in a second`);
  }

  async #execute(
    request: AcquireRequest,
    isolate: Isolate,
    isRetry: boolean,
  ): Promise<AcquireAnswer | NoKey | undefined> {
    this.#loseForgottenLease(request.isolate);
    const message = this.#alter("request", structuredClone(request));
    const answer = await this.#answer(isRetry, ({ object }) => object.acquire(message));
    if (answer === undefined || !("result" in answer) || answer.result === undefined) return answer;
    const { result } = answer;
    this.expect(result.revision >= request.revision, () => "the revision went back");
    const batch = `${request.isolate} ${request.number}`;
    const { revision } = result;
    // Only the call that has made a revision is answered first with it. Another call may have followed at the same instant.
    const same = this.#states.get(revision) ?? this.#life.memory;
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
      const earlier = this.#replaced?.isAlive ? entry.most : 0;
      if (entry.limit !== limit) entry.most = Math.max(limit, used, earlier);
      // Requests that still waited when others were refused may not fit into a lower limit.
      entry.refusedLimit = Math.min(entry.refusedLimit, limit);
      entry.limit = limit;
    }
    const { lease, admitted, refused, nowMs, windows } = result;
    if (lease !== undefined && !isRepeated) this.counts.leases += 1;
    this.counts.undecided += request.requests - admitted - refused;
    const granted = (lease?.size ?? 0) - (known?.lease?.id === lease?.id ? (known?.lease?.size ?? 0) : 0);
    if (!isolate.isAlive && !isRepeated) this.#lose(nowMs, admitted + granted);
    if (isRepeated) this.#refusedAgain += refused;
    this.#noteRefusals(result);
    const counted = isRepeated ? this.#batches.get(batch) : undefined;
    this.#batches.set(batch, counted ?? windows);
    for (const [name, { startMs }] of Object.entries(counted ?? windows))
      isolate.countedIn.set(`${name} ${nowMs}`, startMs);
    return answer;
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
    const { memory } = this.#life;
    if (memory !== undefined && contentOf(memory).hasRefusal) refusals.firstMs ??= this.time.nowMs;
    const isOver = this.objectNowMs >= this.#toldBanMs || this.hasStepped;
    const isLifted = this.versions.some(({ key }) => key.bansLiftedUntilMs >= this.#toldBanMs);
    this.expect(isOver || isLifted || (bannedUntilMs ?? 0) >= this.#toldBanMs, () => "a ban was lost");
    if (bannedUntilMs === undefined || bannedUntilMs === this.#lastBanMs) return;
    this.#lastBanMs = bannedUntilMs;
    const { firstMs = this.time.nowMs, arrivedMs, maxLimit } = refusals;
    const open = this.#arrivals.filter(({ isOpen }) => isOpen).map(({ atMs }) => atMs);
    const late = [...arrivedMs, ...open].filter((ms) => ms > firstMs + 2_000).length;
    const isEarned = late > 3 * Math.max(60, maxLimit) || this.hasStepped || this.crashes > 0;
    this.expect(isEarned, () => `banned after ${late} late refusals`);
  }
  #lastBanMs = 0;
  /** The end of the last ban that an isolate has heard of. */
  #toldBanMs = 0;

  /** The status that the object answers to GET /v1/usage; nothing if it has no key, or crashes meanwhile. */
  async askUsage(): Promise<Status | undefined> {
    const answer = await this.#answer(false, ({ object }) => object.usage());
    return answer !== undefined && "usage" in answer ? answer.usage?.status : undefined;
  }

  /** What the object would answer to GET /v1/usage, if it had the current key. */
  usage() {
    return usageOf(this.#service, this.#life.memory, this.key, this.objectNowMs);
  }

  throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** At rest, a window has admitted the largest limit for which it has refused, except what ended isolates have lost. */
  expectExact(): void {
    this.#loseForgottenLeases();
    // What is lost of a longest window can keep requests from each shorter one in it.
    const entries = [...this.entries.values()];
    const names = Object.keys(this.lengths);
    const longest = entries.filter(({ name }) => name === names.at(-1));
    const lost = longest.reduce((sum, each) => sum + each.lost, this.#countedInVain);
    for (const [key, { name, startMs, refusedLimit, admitted }] of this.entries) {
      // A refusal names a shorter window if leases could still make more room in a longer one, which may then be used up by them.
      const isLongerFull = entries.some(
        (each) =>
          names.indexOf(each.name) > names.indexOf(name) &&
          startOfWindowMs(this.lengths[each.name] ?? 1, startMs) === each.startMs &&
          each.admitted + lost >= each.limit,
      );
      this.expect(
        admitted + lost >= refusedLimit || isLongerFull,
        () => `refused, with ${admitted} of ${refusedLimit} admitted, ${key}`,
      );
    }
  }

  /** At rest: leases that have come back, but the object has forgotten that. */
  #loseForgottenLeases(): void {
    for (const [id] of this.#known) this.#loseForgottenLease(id);
  }

  /** Such a lease comes back again with the next call of its isolate, which may be too late for its minute. */
  #loseForgottenLease(id: string): void {
    const { lease } = this.#known.get(id) ?? {};
    if (lease === undefined || this.counts.forgotten === 0 || this.#lostLeases.has(`${id} ${lease.id}`))
      return;
    if (this.objectNowMs < lease.renewedMs + lease.durationMs + LEASE_LOST_MS) return;
    this.#lostLeases.add(`${id} ${lease.id}`);
    this.#lose(lease.grantedMs, lease.size - lease.used);
  }
  readonly #lostLeases = new Set<string>();

  /** The answer to a call that has counted may be lost, and its repetition find no key, or one whose secret has ended. */
  get #countedInVain(): number {
    return this.crashes === 0 && !this.mayLose ? 0 : this.counts.unavailable + this.#endedMeanwhile;
  }

  /** At rest, usage shows the admitted and refused requests. */
  expectUsage(): void {
    this.#loseForgottenLeases();
    const { status, days } = this.usage();
    const [name = ""] = Object.keys(this.lengths);
    const { startMs, used } = shortest(status.windows);
    const entries = [...this.entries.values()].filter((each) => each.name === name);
    // A batch with a lost result may be counted in one window by the object, and in the next by its isolate.
    const isMerged = this.counts.local > 0;
    const more = this.open + this.#countedInVain;
    const check = (what: string, used: number, entries: Entry[]) => {
      const admitted = entries.reduce((all, entry) => all + entry.admitted, 0);
      const lost = entries.reduce((all, entry) => all + entry.lost, 0);
      this.expect(
        used + this.#unreported >= admitted && (used <= admitted + lost + more || this.cancelled > 0),
        () => `usage shows ${used}, ${admitted} were admitted (${lost} lost), ${what}`,
      );
    };
    if (!isMerged && startMs > 0)
      check(`${name} ${new Date(startMs).toISOString()}`, used, [this.entry(name, startMs)]);
    for (const { date, admitted } of isMerged ? [] : days)
      check(
        date,
        admitted,
        entries.filter((each) => formatDate(each.startMs) === date),
      );
    check(
      "all days",
      days.reduce((sum, { admitted }) => sum + admitted, 0),
      entries,
    );
    const refusedBy = days.reduce((all, day) => addEach(all, day.refusedBy), {});
    const refused = sum(refusedBy);
    // The object also counts the refusals with which a ban begins. It forgets isolates that it has not heard of for ISOLATE_KEPT_MS.
    const least = this.counts.refused;
    const most = least + this.counts.bans + this.#countedInVain;
    const mayDiffer = this.hasEndedIsolates || this.#unreported > 0 || this.cancelled > 0 || this.#hasDropped;
    this.expect(
      mayDiffer || ((refused >= least || this.counts.forgotten > 0) && refused <= most),
      () => `usage shows ${refused} refused, ${least} to ${most} were`,
    );
    for (const each of Object.keys(this.lengths)) {
      const [shown = 0, were = 0] = [(refusedBy as ByWindow<number>)[each], this.#refusedBy.get(each)];
      this.expect(
        mayDiffer || this.counts.forgotten > 0 || Math.abs(shown - were) <= most - least + this.#refusedAgain,
        () => `usage shows ${shown} refused by the ${each}, ${were} were`,
      );
    }
  }

  /** Whether the object has recorded all usage. */
  get isRecorded(): boolean {
    const { memory } = this.#life;
    return memory === undefined || contentOf(memory).isRecorded;
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
