// One key on virtual time: the real Durable Object class on a storage that can crash, isolates with real limiter clients, and a
// network whose delays and faults the scenario chooses. The world compares the decisions of clients with the counts of the
// object, and records the first broken guarantee.

import { DeadlineExceeded } from "../../src/lib/deadline.ts";
import type { Runtime } from "../../src/lib/runtime.ts";
import { headersOf, left, tighterWindow } from "../../src/rate-limit/headers.ts";
import { LimiterClient } from "../../src/rate-limit/isolate/limiter-client.ts";
import type { Quota } from "../../src/rate-limit/object/quota.ts";
import { RateLimiter } from "../../src/rate-limit/object/rate-limiter.ts";
import type { AcquireRequest, AcquireResult } from "../../src/rate-limit/protocol.ts";
import {
  type Decision,
  type KeyWindows,
  type Limits,
  mapWindows,
  remaining,
  resetMs,
  startOfWindowMs,
  WINDOW_SECONDS,
  type Window,
  type WindowName,
} from "../../src/rate-limit/windows.ts";

const WINDOW_NAMES = ["minute", "day"] as const;

/** Virtual time. Runs events by time, then in the order in which they were added. */
export class Timeline {
  nowMs: number;
  /** The next event is the last. */
  readonly #events: { atMs: number; run: () => void }[] = [];

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  after(ms: number, run: () => void): void {
    const atMs = this.nowMs + Math.max(0, Math.ceil(ms));
    const later = this.#events.findLastIndex((each) => each.atMs > atMs);
    this.#events.splice(later + 1, 0, { atMs, run });
  }

  /** When the next event is. */
  get nextMs(): number | undefined {
    return this.#events.at(-1)?.atMs;
  }

  /** Runs the next event, if there is one. */
  step(): void {
    const event = this.#events.pop();
    this.nowMs = event?.atMs ?? this.nowMs;
    event?.run();
  }
}

/** A storage whose writes become durable later, in order. A crash loses the others. */
class Storage {
  durable: Quota | undefined;
  writing: Quota[] = [];
  readonly kv = {
    get: () => structuredClone(this.latest),
    put: (key: string, value: Quota) =>
      void (key.startsWith("quota") && this.writing.push(structuredClone(value))),
  };
  get latest(): Quota | undefined {
    return this.writing.at(-1) ?? this.durable;
  }
  alarmMs: number | undefined;
  setAlarm(atMs: number): void {
    this.alarmMs = atMs;
  }
}

/** A repeated result may have a later window than the one that counted its requests. */
type CountedWindow = Window & { countedInMs?: number; answeredMs?: number };

/**
 * The records of a window. `leastLimit`: the smallest limit that a decision knew; `refusedLimit`: the largest that a refusal was for. `lost`: the most that isolates that ended may
 * have left charged.
 */
export interface Entry {
  limit: number;
  admitted: number;
  admittedLocally: number;
  leastLimit: number;
  refusedLimit: number;
  lost: number;
  remaining: number[];
  /** When requests were admitted (virtual time). */
  admittedMs: number[];
}

export interface Isolate {
  client: LimiterClient;
  /** Of all its clients: one that is evicted gets a successor. */
  clientIds: Set<string>;
  limits: Limits;
  isAlive: boolean;
  /** The lead of its clock over virtual time. */
  aheadMs: number;
  admittedLocally: number;
  /** The number of its requests without a response. */
  open: number;
  /** Whether its clock has stepped. */
  hasStepped: boolean;
  /** Remaining in its latest response, by window. */
  shown: Map<string, { limit: number; remaining: number }>;
}

/** A call under way. The scenario delivers it, returns its result, or makes it fail. */
export interface Message {
  isolate: Isolate;
  request: AcquireRequest;
  /** Whether it is the retry of a call. */
  isRetry: boolean;
  /** Has the object execute it. Returns a function that returns the result, to be called once the writes are durable. */
  deliver(): () => void;
  fail(error: object): unknown;
}

export interface Options {
  startMs: number;
  limits: Limits;
  /** Handles a message. */
  send: (message: Message) => void;
  timerDelayMs?: () => number;
  /** Whether a call is cancelled with its request, so that neither its result nor its deadline is noticed. */
  isCancelled?: () => boolean;
  random?: () => number;
  onAnswer?: (answer: object) => void;
  /** Whether waiting requests poll, as in production; otherwise they check their condition after each event. */
  polls?: boolean;
}

/** A request that waits by polling. */
type Waiting = {
  isolate: Isolate;
  isDone: () => boolean;
  resolve: () => void;
  waitedMs: number;
  maxMs: number;
};

/** The most calls of an isolate in a second. */
const MAX_CALLS = 5;
/** How far a burst looks back, and for how long what was left would have lasted at its rate. */
const BURST_MS = 11_000;
const BURST_SECONDS = 8;
/** The longest wait without a fault and without a burst: a second after the first of five calls, and two calls. */
export const QUICK_MS = 1_300;
/** The longest wait of a request, whatever happens. */
export const MAX_WAIT_MS = 5_000;
/** A timer that is late may make a wait as much longer. */
const LATE_MS = 200;

export class World {
  readonly time: Timeline;
  readonly storage = new Storage();
  recordedBans = 0;
  readonly isolates: Isolate[] = [];
  /** The lead of the object's clock over virtual time. */
  objectAheadMs = 0;
  /** The number of crashes of the object. */
  crashes = 0;
  /** The number of requests without a decision. */
  open = 0;
  /** Whether counts may be inexact: isolates may have decided locally. */
  isDirty = false;
  hasEndedIsolates = false;
  /** The number of cancelled calls, and the most requests that were cancelled with them. */
  cancelled = 0;
  /** Whether a clock has stepped. */
  hasStepped = false;
  /** The end of the last ban that an operator has lifted (Unix time). */
  bansLiftedUntilMs = 0;
  readonly counts = {
    calls: 0,
    rows: 0,
    leases: 0,
    undecided: 0,
    bans: 0,
    local: 0,
    admitted: 0,
    refused: 0,
  };
  /** The waits of all requests that were decided, with when they began (virtual time), and whether a burst came before. */
  readonly waits: { atMs: number; ms: number; inBurst: boolean }[] = [];
  /** When each request arrived (virtual time). */
  readonly arrivals: number[] = [];
  /** The records of each window, by its name and start. */
  readonly entries = new Map<string, Entry>();
  readonly #options: Options;
  #object: RateLimiter;
  /** Requests that wait, and those that poll next at a time. */
  #waiting = new Set<Waiting>();
  readonly #polls = new Map<number, Waiting[]>();
  /** The windows that counted each batch, by its client and number. */
  readonly #batches = new Map<string, KeyWindows>();
  /** Calls without a result. Failed calls stay here. */
  readonly #underway = new Map<AcquireRequest, Isolate>();
  /** Local admissions of ended isolates, which may be unreported. */
  #unreported = 0;
  /** By minute: when the object first refused a request, and when refused requests have arrived (virtual time). */
  readonly #refusals = new Map<number, { firstMs: number; arrivedMs: number[]; atOnceMs: number[] }>();
  /** The beginnings of each client's latest calls, without repeated ones (virtual time). */
  readonly #calledMs = new Map<string, number[]>();
  /** The limits that requests had. */
  readonly #limits = { minute: new Set<number>(), day: new Set<number>() };
  /** The arrivals of requests without a decision (virtual time). */
  readonly #openArrivals = new Set<{ atMs: number }>();
  /** By minute: the largest limit that a call had. */
  readonly #maxLimits = new Map<number, number>();
  #failure: Error | undefined;

  constructor(options: Options) {
    this.#options = options;
    this.time = new Timeline(options.startMs);
    this.#object = this.#newObject();
  }

  get objectNowMs(): number {
    return this.time.nowMs + this.objectAheadMs;
  }

  expect(holds: boolean, what: () => string): void {
    if (!holds && this.#failure === undefined) this.#failure = new Error(what());
  }

  entry(name: WindowName, startMs: number): Entry {
    const key = `${name} ${new Date(startMs).toISOString()}`;
    const known = this.entries.get(key);
    if (known !== undefined) return known;
    const entry = {
      limit: 0,
      admitted: 0,
      admittedLocally: 0,
      leastLimit: Number.POSITIVE_INFINITY,
      refusedLimit: 0,
      lost: 0,
      remaining: [],
      admittedMs: [],
    };
    this.entries.set(key, entry);
    return entry;
  }

  newIsolate(limits: Limits, aheadMs = 0): Isolate {
    const isolate: Isolate = {
      client: undefined as never,
      clientIds: new Set(),
      limits,
      isAlive: true,
      aheadMs,
      admittedLocally: 0,
      open: 0,
      hasStepped: false,
      shown: new Map(),
    };
    this.newClient(isolate);
    this.isolates.push(isolate);
    return isolate;
  }

  /** Gives an isolate a new client, as if the old one had been evicted. */
  newClient(isolate: Isolate): void {
    const { time } = this;
    this.#unreported += isolate.admittedLocally;
    isolate.admittedLocally = 0;
    const wait = (ms: number) =>
      new Promise<void>((resolve) => {
        time.after(ms + (this.#options.timerDelayMs?.() ?? 0), () => isolate.isAlive && resolve());
      });
    const runtime: Runtime = {
      now: () => time.nowMs + isolate.aheadMs,
      wait,
      until: (isDone, maxMs) => this.#until(isolate, isDone, maxMs),
      withDeadline: (part, deadlineMs, work) => {
        const working = work();
        if (this.#options.isCancelled?.()) {
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
      keepAlive: (work) => void work.catch((error) => this.expect(false, () => `${error.stack}`)),
    };
    isolate.client = new LimiterClient(runtime, "key");
    isolate.clientIds.add(isolate.client.id);
    isolate.shown.clear();
  }

  #until(isolate: Isolate, isDone: () => boolean, maxMs: number): Promise<void> {
    return new Promise((resolve) => {
      const waiting = { isolate, isDone, resolve, waitedMs: 0, maxMs };
      if (isDone()) resolve();
      else if (this.#options.polls === false) {
        this.#waiting.add(waiting);
        this.time.after(maxMs, () => this.#waiting.delete(waiting) && resolve());
      } else this.#pollLater(waiting);
    });
  }

  /** The pauses of src/lib/single-flight.ts. */
  #pollLater(waiting: Waiting): void {
    const { waitedMs, maxMs } = waiting;
    const pauseMs = Math.min(maxMs - waitedMs, Math.max(1, Math.floor(waitedMs / 5)));
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
      for (const each of all.filter(({ isolate }) => isolate.isAlive)) {
        if (each.waitedMs >= each.maxMs || each.isDone()) each.resolve();
        else this.#pollLater(each);
      }
    });
  }

  /** Ends an isolate. Its requests get no decisions, and its leases and calls are lost. */
  end(isolate: Isolate): void {
    isolate.isAlive = false;
    this.hasEndedIsolates = true;
    this.#unreported += isolate.admittedLocally;
    for (const [id, { lease }] of this.storage.latest?.clients ?? [])
      if (isolate.clientIds.has(id) && lease !== undefined)
        this.#lose(lease.grantedMs, lease.size - lease.used);
    // They may have been charged in the minute before.
    const earlierMs = this.objectNowMs - MAX_WAIT_MS;
    this.#lose(this.objectNowMs, isolate.open);
    if (startOfWindowMs("minute", earlierMs) !== startOfWindowMs("minute", this.objectNowMs))
      this.#lose(earlierMs, isolate.open);
  }

  #lose(atMs: number, requests: number): void {
    for (const name of WINDOW_NAMES) this.entry(name, startOfWindowMs(name, atMs)).lost += requests;
  }

  /** Uses a share of the key's requests before the scenario. */
  prefill(limits: Limits, share: number): void {
    const requests = Math.floor(share * Math.min(limits.minute, limits.day));
    if (requests === 0) return;
    const nothing = { arrivedMs: 0, recent: 0, wantsLease: false, decisions: [], bansLiftedUntilMs: 0 };
    const { windows } = this.#execute(limits, { client: "prefill", number: 1, requests, ...nothing });
    this.persist();
    for (const name of WINDOW_NAMES) this.entry(name, windows[name].startMs).admitted += requests;
  }

  /** Runs everything that follows from the last event at this instant. */
  async settle(): Promise<void> {
    for (let isSettled = false; !isSettled; ) {
      await new Promise(setImmediate);
      this.throwFailure();
      const due = [...this.#waiting].filter(({ isolate, isDone }) => isolate.isAlive && isDone());
      for (const each of due) {
        this.#waiting.delete(each);
        each.resolve();
      }
      isSettled = due.length === 0;
    }
  }

  /** Runs events until there is none, or until a time. */
  async run(untilMs = Number.POSITIVE_INFINITY): Promise<void> {
    await this.settle();
    for (let events = 0; (this.time.nextMs ?? untilMs) < untilMs; events += 1) {
      if (events > 400_000) throw new Error("the simulation does not end");
      this.time.step();
      await this.settle();
    }
    if (Number.isFinite(untilMs)) this.time.nowMs = Math.max(this.time.nowMs, untilMs);
  }

  /** Sends one request through an isolate. */
  async request(isolate: Isolate): Promise<Decision<KeyWindows>> {
    const { limits, client } = isolate;
    const { bansLiftedUntilMs } = this;
    let isLocal = false;
    client.known.liftBans(bansLiftedUntilMs);
    const arrivedMs = this.time.nowMs;
    this.arrivals.push(arrivedMs);
    const arrival = { atMs: arrivedMs };
    this.#openArrivals.add(arrival);
    for (const name of WINDOW_NAMES) this.#limits[name].add(limits[name]);
    const result = client.acquire(limits, { getByName: () => this.#stub(isolate) } as never, () => {
      isLocal = true;
    });
    this.open += 1;
    isolate.open += 1;
    const isAtOnce = !(result instanceof Promise);
    const decision = await result;
    this.#openArrivals.delete(arrival);
    this.open -= 1;
    isolate.open -= 1;
    const { bannedUntilMs = Number.POSITIVE_INFINITY } = decision;
    // After the object's clock steps back, a later ban can end earlier.
    const isLifted = bannedUntilMs <= bansLiftedUntilMs && !this.hasStepped;
    this.expect(!isLifted, () => "a ban has outlived its lift");
    const ms = this.time.nowMs - arrivedMs;
    this.waits.push({ atMs: arrivedMs, ms, inBurst: ms > QUICK_MS && this.#isBurst(decision, ms) });
    this.expect(
      ms <= MAX_WAIT_MS + (this.#options.timerDelayMs === undefined ? 0 : LATE_MS) || isolate.hasStepped,
      () => `a request waited for ${ms} ms`,
    );
    if (isLocal && decision.admitted && client === isolate.client) isolate.admittedLocally += 1;
    else if (isLocal && decision.admitted) this.#unreported += 1;
    this.#record(decision, isolate, client, isLocal, isAtOnce, arrivedMs);
    return decision;
  }

  /**
   * Whether in one of the last seconds so many requests came that what was left before would have lasted for few seconds. A request
   * that has waited for `waitedMs` may be decided in the window after.
   */
  #isBurst({ windows }: Decision<KeyWindows>, waitedMs: number): boolean {
    const agesMs = this.arrivals.map((each) => this.time.nowMs - each);
    const arrivedIn = (second: number) => agesMs.filter((each) => Math.floor(each / 1_000) === second).length;
    const most = Math.max(...Array.from({ length: BURST_MS / 1_000 }, (_, second) => arrivedIn(second)));
    const mostLeft = (name: WindowName, startMs: number) => {
      const { admitted, admittedMs } = this.entry(name, startMs);
      const recent = admittedMs.filter((each) => each >= this.time.nowMs - BURST_MS).length;
      return windows[name].limit - (admitted - recent);
    };
    return WINDOW_NAMES.some((name) => {
      const arrivedIn = startOfWindowMs(name, this.objectNowMs - waitedMs);
      const left = [arrivedIn, windows[name].startMs].map((startMs) => mostLeft(name, startMs));
      return left.some((each) => each > 0 && BURST_SECONDS * most >= each);
    });
  }

  #record(
    decision: Decision<KeyWindows>,
    isolate: Isolate,
    client: LimiterClient,
    isLocal: boolean,
    isAtOnce: boolean,
    arrivedMs: number,
  ): void {
    const { admitted, windows, nowMs, bannedUntilMs } = decision;
    const { counts } = this;
    for (const name of WINDOW_NAMES)
      this.expect(this.#limits[name].has(windows[name].limit), () => `a limit of ${windows[name].limit}`);
    if (isLocal) counts.local += 1;
    this.isDirty ||= isLocal;
    if (client === isolate.client) this.#expectNoRise(decision, isolate);
    for (const name of WINDOW_NAMES) {
      const entry = this.entry(name, windows[name].startMs);
      entry.leastLimit = Math.min(entry.leastLimit, windows[name].limit);
    }
    if (!admitted) {
      const named = tighterWindow(decision);
      this.expect(left(decision, named) === 0, () => `refused with ${left(decision, named)} left`);
      const { "Retry-After": retryAfter } = headersOf(decision);
      const endMs = bannedUntilMs ?? resetMs(windows[named], named);
      const retryMs = this.objectNowMs + Number(retryAfter) * 1000;
      this.expect(
        isLocal || this.hasStepped || retryMs >= endMs,
        () => `Retry-After ${retryAfter} is too short`,
      );
      if (bannedUntilMs !== undefined) {
        counts.bans += 1;
        return;
      }
      counts.refused += 1;
      const minute = this.#refusalsOf(windows.minute.startMs);
      minute.arrivedMs.push(arrivedMs);
      if (isAtOnce) minute.atOnceMs.push(arrivedMs);
      this.#expectBanInTime(windows.minute.startMs);
      const { startMs, limit } = windows[named];
      const entry = this.entry(named, startMs);
      entry.refusedLimit = Math.max(entry.refusedLimit, limit);
      return;
    }
    counts.admitted += 1;
    for (const name of WINDOW_NAMES) {
      const window: CountedWindow = windows[name];
      // A later admission from a lease counts in the window that it shows.
      const countedInMs = isAtOnce || window.answeredMs !== nowMs ? undefined : window.countedInMs;
      const entry = this.entry(name, countedInMs ?? window.startMs);
      entry.limit = Math.max(entry.limit, window.limit);
      entry.admitted += 1;
      entry.admittedMs.push(this.time.nowMs);
      if (isLocal) entry.admittedLocally += 1;
      if (countedInMs === undefined) entry.remaining.push(remaining(window));
      const most = entry.limit + entry.admittedLocally;
      this.expect(
        entry.admitted <= most,
        () =>
          `${entry.admitted} admitted of ${entry.limit} in the ${name} of ${new Date(window.startMs).toISOString()}`,
      );
      if (isAtOnce && !this.hasStepped)
        this.expect(this.objectNowMs < resetMs(window, name), () => `a lease was used after its ${name}`);
    }
  }

  /** Remaining never rises in the responses of one isolate, while the limit stays. */
  #expectNoRise(decision: Decision<KeyWindows>, { shown }: Isolate): void {
    if (this.hasStepped || decision.bannedUntilMs !== undefined) return;
    const { windows, admitted } = decision;
    for (const name of WINDOW_NAMES) {
      const { limit, startMs } = windows[name];
      const key = `${name} ${startMs}`;
      // A refusal shows what is left in the window that refused.
      const isShown = admitted || name === tighterWindow(decision);
      if (!isShown) shown.set(key, shown.get(key) ?? { limit, remaining: Number.POSITIVE_INFINITY });
      if (!isShown) continue;
      const now = { limit, remaining: remaining(windows[name]) };
      // A response may come after the first one of the next window.
      if (shown.has(`${name} ${startMs + WINDOW_SECONDS[name] * 1_000}`)) continue;
      const before = shown.get(key) ?? now;
      shown.set(key, now);
      this.expect(
        before.limit !== limit || now.remaining <= before.remaining,
        () => `Remaining rose from ${before.remaining} to ${now.remaining} in the ${name}`,
      );
    }
  }

  #newObject(): RateLimiter {
    const ctx = { storage: this.storage, id: {}, waitUntil: () => {} };
    const run = async () => {
      this.recordedBans += 1;
    };
    return new RateLimiter(ctx as never, { DB: { prepare: () => ({ bind: () => ({ run }) }) } } as never);
  }

  /** Loses the object's memory, if all writes are durable. */
  evict(): void {
    if (this.storage.writing.length === 0) this.#object = this.#newObject();
  }

  /** Loses the object's memory and all but the first `written` pending writes. Calls without a result fail. */
  crash(written: number): void {
    const { storage } = this;
    storage.durable = storage.writing[written - 1] ?? storage.durable;
    storage.writing = [];
    this.crashes += 1;
    this.#object = this.#newObject();
  }

  /** Makes the oldest pending write durable. */
  written(): void {
    this.storage.durable = this.storage.writing.shift() ?? this.storage.durable;
  }

  /** Makes all pending writes durable. */
  persist(): void {
    while (this.storage.writing.length > 0) this.written();
  }

  #stub(isolate: Isolate) {
    const acquire = (limits: Limits, request: AcquireRequest) => {
      const isRetry = this.#underway.has(request);
      if (!isRetry) this.#expectFewCalls(isolate, request.client);
      this.#underway.set(request, isolate);
      return new Promise((resolve, reject) => {
        const deliver = () => {
          const answer = this.#execute(limits, structuredClone(request), isolate);
          this.#options.onAnswer?.(answer);
          const { crashes } = this;
          return () => {
            if (this.crashes !== crashes || !isolate.isAlive) return;
            this.#underway.delete(request);
            resolve(answer);
          };
        };
        const fail = (error: object) => isolate.isAlive && reject(error);
        this.#options.send({ isolate, request, isRetry, deliver, fail });
      });
    };
    return { acquire };
  }

  #expectFewCalls(isolate: Isolate, client: string): void {
    this.counts.calls += 1;
    const { nowMs } = this.time;
    const calledMs = [...(this.#calledMs.get(client) ?? []).filter((ms) => ms > nowMs - 1_000), nowMs];
    this.#calledMs.set(client, calledMs);
    const calls = calledMs.length;
    this.expect(calls <= MAX_CALLS || isolate.hasStepped, () => `${calls} calls in a second`);
  }

  #execute(limits: Limits, request: AcquireRequest, isolate?: Isolate): AcquireResult {
    const batch = `${request.client} ${request.number}`;
    const before = this.storage.latest;
    const known = before?.clients.get(request.client);
    const isRepeated = known !== undefined && known.number >= request.number;
    const result = this.#byObjectClock(() => this.#object.acquire(limits, request));
    if (this.storage.latest !== before) this.counts.rows += 1;
    for (const name of WINDOW_NAMES) {
      const { startMs, limit } = result.windows[name];
      const entry = this.entry(name, startMs);
      entry.limit = Math.max(entry.limit, limit);
    }
    const { lease, admitted, refused, nowMs, windows } = result;
    if (lease !== undefined && !isRepeated) this.counts.leases += 1;
    this.counts.undecided += request.requests - admitted - refused;
    const granted = (lease?.size ?? 0) - (known?.lease?.id === lease?.id ? (known?.lease?.size ?? 0) : 0);
    if (isolate?.isAlive === false && !isRepeated) this.#lose(nowMs, admitted + granted);
    this.#noteRefusals(result);
    const counted = isRepeated ? this.#batches.get(batch) : undefined;
    this.#batches.set(batch, counted ?? windows);
    const shown = mapWindows(windows, (each, name): CountedWindow => {
      const countedInMs = counted?.[name].startMs ?? each.startMs;
      return countedInMs === each.startMs ? each : { ...each, countedInMs, answeredMs: nowMs };
    });
    return structuredClone({ ...result, windows: shown });
  }

  /** The refusals of a minute, from its first one on. */
  #refusalsOf(startMs: number) {
    const none = { firstMs: this.time.nowMs, arrivedMs: [], atOnceMs: [] };
    const minute = this.#refusals.get(startMs) ?? none;
    this.#refusals.set(startMs, minute);
    return minute;
  }

  /** How many late refusals of a minute lead to no ban. */
  #tolerated(startMs: number): number {
    return 3 * Math.max(60, this.#maxLimits.get(startMs) ?? 0);
  }

  /** Notes the first refusal of each minute, and expects that a ban has its reason. */
  #noteRefusals({ firstRefusalMs, windows, bannedUntilMs }: AcquireResult): void {
    const { startMs, limit } = windows.minute;
    this.#maxLimits.set(startMs, Math.max(limit, this.#maxLimits.get(startMs) ?? 0));
    if (firstRefusalMs > 0) this.#refusalsOf(startMs);
    if (bannedUntilMs === undefined || bannedUntilMs === this.lastBanMs) return;
    this.lastBanMs = bannedUntilMs;
    const minute = this.#refusalsOf(startMs);
    const open = [...this.#openArrivals].map(({ atMs }) => atMs);
    const late = [...minute.arrivedMs, ...open].filter((ms) => ms > minute.firstMs + 2_000).length;
    this.expect(
      late > this.#tolerated(startMs) || this.hasStepped || this.crashes > 0,
      () => `banned after ${late} late refusals`,
    );
  }
  lastBanMs = 0;

  /** Late refusals without a call lead to a ban. They are reported after a second, and so is the first refusal. */
  #expectBanInTime(startMs: number): void {
    const minute = this.#refusals.get(startMs);
    if (minute === undefined || !this.mustBan || this.lastBanMs > 0) return;
    const { nowMs } = this.time;
    // An isolate that does not know the first refusal counts nothing that it reports together with refusals of the first 2 s.
    const late = minute.atOnceMs.filter((ms) => ms > minute.firstMs + 4_300 && ms < nowMs - 1_500).length;
    this.expect(late <= this.#tolerated(startMs), () => `not banned after ${late} late refusals`);
  }
  /** Whether a ban must begin in time: there are no faults. */
  mustBan = false;

  /** The result of GET /v1/usage. */
  usage() {
    return this.#byObjectClock(() => this.#object.usage(this.#options.limits));
  }

  #byObjectClock<Result>(work: () => Result): Result {
    const { now } = Date;
    Date.now = () => this.objectNowMs;
    try {
      return work();
    } finally {
      Date.now = now;
    }
  }

  throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** At rest, a window with refusals has admitted the smallest limit that was known, except what ended isolates have lost. */
  expectExact(): void {
    // What is lost of a day can keep requests from each of its minutes.
    const days = [...this.entries].filter(([key]) => key.startsWith("day"));
    const lost = days.reduce((sum, [, day]) => sum + day.lost, 0);
    for (const [key, { leastLimit, limit, refusedLimit, admitted }] of this.entries) {
      // Not shown: what a refusal says of a day whose limit changes.
      if (leastLimit < limit && key.startsWith("day")) continue;
      this.expect(
        admitted + lost >= Math.min(leastLimit, refusedLimit),
        () => `refused, with ${admitted} of ${refusedLimit} admitted, ${key}`,
      );
    }
  }

  /** At rest, usage shows the admitted and refused requests. */
  expectUsage(): void {
    const { status, pastDays } = this.usage();
    const shown = [
      ...WINDOW_NAMES.map((name) => [name, status.windows[name].startMs, status.windows[name].used] as const),
      ...pastDays.map(({ startMs, admitted }) => ["day", startMs, admitted] as const),
    ];
    // A batch with a lost result may be counted in one window by the object, and in the next by its isolate.
    const isMerged = this.counts.local > 0;
    const check = (what: string, used: number, entries: Entry[]) => {
      const admitted = entries.reduce((sum, entry) => sum + entry.admitted, 0);
      const lost = entries.reduce((sum, entry) => sum + entry.lost, 0);
      this.expect(
        used + this.#unreported >= admitted && (used <= admitted + lost + this.open || this.cancelled > 0),
        () => `usage shows ${used}, ${admitted} were admitted (${lost} lost), ${what}`,
      );
    };
    for (const [name, startMs, used] of isMerged ? [] : shown)
      if (startMs > 0) check(`${name} ${new Date(startMs).toISOString()}`, used, [this.entry(name, startMs)]);
    const days = [...this.entries].filter(([key]) => key.startsWith("day")).map(([, entry]) => entry);
    const usedInDays = shown.reduce((sum, [name, , used]) => sum + (name === "day" ? used : 0), 0);
    check("all days", usedInDays, days);
    const refused = pastDays.reduce((sum, day) => sum + day.refused, status.windows.day.refused);
    // The object also counts the refusals with which a ban begins. It forgets isolates that are not heard of for two minutes.
    const [least, most] = [this.counts.refused, this.counts.refused + this.counts.bans];
    const mayDiffer = this.hasEndedIsolates || this.#unreported > 0 || this.cancelled > 0;
    this.expect(
      mayDiffer || (refused >= least && refused <= most),
      () => `usage shows ${refused} refused, ${least} to ${most} were`,
    );
  }

  /** With one isolate, each window has shown what it has left in the end. */
  expectExactRemaining(): void {
    for (const [key, { limit, admitted, remaining: shown }] of this.entries) {
      const least = Math.min(...shown);
      this.expect(
        shown.length < admitted || shown.length === 0 || least === Math.max(0, limit - admitted),
        () => `${least} was shown with ${admitted} of ${limit} admitted, ${key}`,
      );
    }
  }
}
