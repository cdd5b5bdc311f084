// One key on virtual time: the real Durable Object class on a storage that can crash, isolates with real limiter clients, and a
// network whose delays and faults the scenario chooses. The world compares the decisions of clients with the counts of the
// object, and records the first broken guarantee.

import { DeadlineExceeded } from "../../src/lib/deadline.ts";
import type { Runtime } from "../../src/lib/runtime.ts";
import { headersOf, left, tighterWindow } from "../../src/rate-limit/headers.ts";
import { LimiterClient } from "../../src/rate-limit/isolate/limiter-client.ts";
import type { Quota } from "../../src/rate-limit/object/quota.ts";
import { RateLimiter } from "../../src/rate-limit/object/rate-limiter.ts";
import {
  type AcquireRequest,
  type AcquireResult,
  CALL_DEADLINE_MS,
  type Lease,
  type Report,
  type Status,
} from "../../src/rate-limit/protocol.ts";
import {
  type Decision,
  type KeyWindows,
  type Limits,
  mapWindows,
  remaining,
  resetMs,
  startOfWindowMs,
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
    put: (_: string, quota: Quota) => void this.writing.push(structuredClone(quota)),
  };
  get latest(): Quota | undefined {
    return this.writing.at(-1) ?? this.durable;
  }
  setAlarm(): void {}
}

/** A repeated result may have a later window than the one that counted its requests. */
type CountedWindow = Window & { countedInMs?: number; answeredMs?: number };

/** The records of a window. `lost`: the most that isolates that ended may have left charged. */
export interface Entry {
  limit: number;
  admitted: number;
  admittedLocally: number;
  refused: number;
  lost: number;
  remaining: number[];
}

export interface Isolate {
  client: LimiterClient;
  limits: Limits;
  isAlive: boolean;
  /** The lead of its clock over virtual time. */
  aheadMs: number;
  admittedLocally: number;
}

/** A call under way. The scenario delivers it, returns its result, or makes it fail. */
export interface Message {
  isolate: Isolate;
  method: "acquire" | "release";
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
  /** Whether waiting requests check their condition every 10 ms, besides after each event. */
  polls?: boolean;
}

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
  /** Whether counts may be inexact: isolates may have decided locally, or have different limits. */
  isDirty = false;
  hasEndedIsolates = false;
  /** Whether a clock has stepped. */
  hasStepped = false;
  readonly counts = { calls: 0, leases: 0, leased: 0, undecided: 0, bans: 0, local: 0, refused: 0 };
  /** The records of each window, by its name and start. */
  readonly entries = new Map<string, Entry>();
  readonly #options: Options;
  #object: RateLimiter;
  #waiting: { isolate: Isolate; isDone: () => boolean; resolve: (value: unknown) => void }[] = [];
  #isTicking = false;
  /** The holder of each lease, and the windows that counted each batch, by id. */
  readonly #holders = new Map<string, Isolate>();
  readonly #batches = new Map<string, KeyWindows>();
  /** Calls without a result, with the requests that they may have charged. Failed calls stay here. */
  readonly #underway = new Map<Report, { isolate: Isolate; requests: number }>();
  /** Local admissions of ended isolates, which may be unreported. */
  #unreported = 0;
  /** Refusals by the start of their minute. */
  readonly #refusals = new Map<number, { count: number; firstMs: number; late: number; maxLimit: number }>();
  #bannedUntilMs = 0;
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
    const entry = { limit: 0, admitted: 0, admittedLocally: 0, refused: 0, lost: 0, remaining: [] };
    this.entries.set(key, entry);
    return entry;
  }

  newIsolate(limits: Limits, aheadMs = 0): Isolate {
    const { time } = this;
    const isolate: Isolate = {
      client: undefined as never,
      limits,
      isAlive: true,
      aheadMs,
      admittedLocally: 0,
    };
    const wait = (ms: number) =>
      new Promise<void>((resolve) => {
        time.after(ms + (this.#options.timerDelayMs?.() ?? 0), () => isolate.isAlive && resolve());
      });
    const runtime: Runtime = {
      now: () => time.nowMs + isolate.aheadMs,
      wait,
      until: (isDone) => this.#until(isolate, isDone),
      withDeadline: (part, deadlineMs, work) =>
        Promise.race([
          work(),
          wait(deadlineMs).then(() => {
            throw new DeadlineExceeded(part, deadlineMs);
          }),
        ]),
      keepAlive: (work) => void work.catch((error) => this.expect(false, () => `${error.stack}`)),
    };
    isolate.client = new LimiterClient(runtime, "key");
    this.isolates.push(isolate);
    return isolate;
  }

  /** Conditions are checked after each event, and every 10 ms. */
  #until(isolate: Isolate, isDone: () => boolean): Promise<unknown> {
    if (!this.#isTicking && this.#options.polls !== false) this.#tick();
    return new Promise((resolve) => this.#waiting.push({ isolate, isDone, resolve }));
  }

  #tick(): void {
    this.#isTicking = true;
    this.time.after(10, () => {
      this.#isTicking = false;
      if (this.#waiting.length > 0) this.#tick();
    });
  }

  /** Ends an isolate. Its requests get no decisions, and its leases and calls are lost. */
  end(isolate: Isolate): void {
    isolate.isAlive = false;
    this.hasEndedIsolates = true;
    this.#unreported += isolate.admittedLocally;
    const { status } = this.usage();
    const leased = status.leases.filter(({ id }) => this.#holders.get(id) === isolate);
    const underway = [...this.#underway.values()].filter((each) => each.isolate === isolate);
    const lose = (name: WindowName, atMs: number, requests: number) => {
      this.entry(name, startOfWindowMs(name, atMs)).lost += requests;
    };
    for (const name of WINDOW_NAMES) {
      for (const { grantedMs, size } of leased) lose(name, grantedMs, size);
      // A call on its way may arrive in the next window.
      for (const { requests } of underway) {
        lose(name, this.objectNowMs, requests);
        const laterMs = this.objectNowMs + CALL_DEADLINE_MS;
        if (startOfWindowMs(name, laterMs) > this.objectNowMs) lose(name, laterMs, requests);
      }
    }
  }

  /** Uses a share of the key's requests before the scenario. */
  prefill(limits: Limits, share: number): void {
    const requests = Math.floor(share * Math.min(limits.minute, limits.day));
    if (requests === 0) return;
    const report = { released: [], outbox: [], bannedUntilMs: 0, bansLiftedUntilMs: 0 };
    const request = { ...report, id: "prefilled0", requests, waitedMs: 0 };
    const { windows } = this.#execute("acquire", limits, request);
    this.persist();
    for (const name of WINDOW_NAMES) this.entry(name, windows[name].startMs).admitted += requests;
  }

  /** Runs everything that follows from the last event at this instant. */
  async settle(): Promise<void> {
    for (let isSettled = false; !isSettled; ) {
      await new Promise(setImmediate);
      this.throwFailure();
      const due = this.#waiting.filter(({ isolate, isDone }) => isolate.isAlive && isDone());
      this.#waiting = this.#waiting.filter((each) => each.isolate.isAlive && !due.includes(each));
      for (const { resolve } of due) resolve(undefined);
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
    const { limits } = isolate;
    let isLocal = false;
    const result = isolate.client.acquire(limits, { getByName: () => this.#stub(isolate) } as never, () => {
      isLocal = true;
    });
    this.open += 1;
    const isAtOnce = !(result instanceof Promise);
    const decision = await result;
    this.open -= 1;
    if (isLocal && decision.admitted) isolate.admittedLocally += 1;
    this.#record(decision, limits, isLocal, isAtOnce);
    return decision;
  }

  #record(decision: Decision<KeyWindows>, limits: Limits, isLocal: boolean, isAtOnce: boolean): void {
    const { admitted, windows, nowMs, bannedUntilMs } = decision;
    const { counts } = this;
    if (isLocal) counts.local += 1;
    this.isDirty ||= isLocal;
    if (!admitted) {
      counts.refused += 1;
      const named = tighterWindow(decision);
      this.expect(left(decision, named) === 0, () => `refused with ${left(decision, named)} left`);
      const { "Retry-After": retryAfter } = headersOf(decision);
      const endMs = bannedUntilMs ?? resetMs(windows[named], named);
      this.expect(nowMs + Number(retryAfter) * 1000 >= endMs, () => `Retry-After ${retryAfter} is too short`);
      if (bannedUntilMs !== undefined) {
        counts.bans += 1;
        return;
      }
      for (const name of WINDOW_NAMES)
        if (windows[name].used >= limits[name]) this.entry(name, windows[name].startMs).refused += 1;
      return;
    }
    for (const name of WINDOW_NAMES) {
      const window: CountedWindow = windows[name];
      // A later admission from a lease counts in the window that it shows.
      const countedInMs = isAtOnce || window.answeredMs !== nowMs ? undefined : window.countedInMs;
      const entry = this.entry(name, countedInMs ?? window.startMs);
      entry.limit = Math.max(entry.limit, window.limit);
      entry.admitted += 1;
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
    const send = (method: Message["method"], limits: Limits, words: Report & Partial<AcquireRequest>) => {
      this.counts.calls += 1;
      const sentMs = this.time.nowMs;
      const isRetry = this.#underway.has(words);
      const requests = (words.requests ?? 0) + (words.lease?.size ?? 0);
      this.#underway.set(words, { isolate, requests });
      if (words.id !== undefined) this.#holders.set(words.id, isolate);
      return new Promise((resolve, reject) => {
        const deliver = () => {
          const answer = this.#execute(method, limits, structuredClone(words));
          const crashes = this.crashes;
          return () => {
            if (this.crashes !== crashes || !isolate.isAlive) return;
            if (this.time.nowMs - sentMs < CALL_DEADLINE_MS) this.#underway.delete(words);
            resolve(answer);
          };
        };
        const fail = (error: object) => isolate.isAlive && reject(error);
        this.#options.send({ isolate, method, isRetry, deliver, fail });
      });
    };
    return {
      acquire: (limits: Limits, request: AcquireRequest) => send("acquire", limits, request),
      release: (limits: Limits, report: Report) => send("release", limits, report),
    };
  }

  #execute(method: Message["method"], limits: Limits, words: Report): Status {
    const id = (words as Partial<AcquireRequest>).id ?? "";
    const isRepeated = this.storage.latest?.recentBatches.has(id) ?? false;
    const result: Status = this.#byObjectClock(() =>
      method === "acquire"
        ? this.#object.acquire(limits, words as AcquireRequest)
        : this.#object.release(limits, words),
    );
    for (const name of WINDOW_NAMES) {
      const { startMs, limit } = result.windows[name];
      const entry = this.entry(name, startMs);
      entry.limit = Math.max(entry.limit, limit);
    }
    if (method === "acquire") {
      if (!isRepeated) this.#checkBan(words as AcquireRequest, result as AcquireResult, limits);
      const { lease, admitted, refused } = result as AcquireResult;
      if (lease !== undefined && !isRepeated) {
        this.counts.leases += 1;
        const isOutstanding = ({ grantedMs, durationMs }: Lease) => result.nowMs < grantedMs + durationMs;
        const outstanding = result.leases.filter(isOutstanding).reduce((sum, { size }) => sum + size, 0);
        const left = Math.min(...WINDOW_NAMES.map((name) => remaining(result.windows[name])));
        this.expect(outstanding <= (left + lease.size) / 16, () => `${outstanding} leased of ${left}`);
      }
      this.counts.leased += lease?.size ?? 0;
      this.counts.undecided += (words as AcquireRequest).requests - admitted - refused;
    }
    const counted = isRepeated ? this.#batches.get(id) : undefined;
    this.#batches.set(id, counted ?? result.windows);
    const windows = mapWindows(result.windows, (each, name): CountedWindow => {
      const countedInMs = counted?.[name].startMs ?? each.startMs;
      return countedInMs === each.startMs || method === "release"
        ? each
        : { ...each, countedInMs, answeredMs: result.nowMs };
    });
    return structuredClone({ ...result, windows });
  }

  /** Checks that exactly the first refusal beyond the threshold bans the key. */
  #checkBan(
    { waitedMs }: AcquireRequest,
    { refused, bannedUntilMs, nowMs, windows }: AcquireResult,
    limits: Limits,
  ): void {
    const ban = this.#refusals.get(windows.minute.startMs) ?? { count: 0, firstMs: 0, late: 0, maxLimit: 0 };
    this.#refusals.set(windows.minute.startMs, ban);
    ban.maxLimit = Math.max(ban.maxLimit, limits.minute);
    const wasBanned = nowMs < this.#bannedUntilMs;
    this.#bannedUntilMs = bannedUntilMs ?? 0;
    // A crash may lose refusals without a result.
    if (wasBanned || refused === 0 || this.crashes > 0) return;
    if (ban.count === 0) ban.firstMs = nowMs;
    ban.count += 1;
    if (nowMs - waitedMs > ban.firstMs + 2_000) ban.late += refused;
    const mustBan = ban.late > 3 * Math.max(60, ban.maxLimit);
    this.expect(
      mustBan === (bannedUntilMs !== undefined),
      () => `${mustBan ? "not " : ""}banned after ${ban.late} late refusals`,
    );
  }

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

  /** At rest, a window with refusals has nothing left, except what ended isolates have lost. */
  expectExact(): void {
    for (const [key, { limit, admitted, refused, lost }] of this.entries) {
      this.expect(
        refused === 0 || admitted + lost >= limit,
        () => `refused, with ${admitted} of ${limit} admitted, ${key}`,
      );
    }
  }

  /** At rest, usage shows the admitted requests. */
  expectUsage(): void {
    const { status, pastDays } = this.usage();
    const shown = [
      ...WINDOW_NAMES.map((name) => [name, status.windows[name].startMs, status.windows[name].used] as const),
      ...pastDays.map(({ startMs, admitted }) => ["day", startMs, admitted] as const),
    ];
    // A batch with a lost result may be counted in one window by the object, and in the next by its isolate.
    const isMerged = this.counts.local > 0;
    const doubtful = [...this.#underway.values()].reduce((sum, { requests }) => sum + requests, 0);
    const check = (what: string, used: number, entries: Entry[]) => {
      const admitted = entries.reduce((sum, entry) => sum + entry.admitted, 0);
      const lost = entries.reduce((sum, entry) => sum + entry.lost, 0);
      this.expect(
        used + this.#unreported >= admitted && used <= admitted + lost + doubtful,
        () => `usage shows ${used}, ${admitted} were admitted (${lost} lost), ${what}`,
      );
    };
    for (const [name, startMs, used] of isMerged ? [] : shown)
      if (startMs > 0) check(`${name} ${new Date(startMs).toISOString()}`, used, [this.entry(name, startMs)]);
    const days = [...this.entries].filter(([key]) => key.startsWith("day")).map(([, entry]) => entry);
    const usedInDays = shown.reduce((sum, [name, , used]) => sum + (name === "day" ? used : 0), 0);
    check("all days", usedInDays, days);
  }

  /** With one isolate, no two admissions of a window show the same Remaining. */
  expectDistinctRemaining(): void {
    for (const [key, { remaining: shown }] of this.entries) {
      this.expect(new Set(shown).size === shown.length, () => `the same Remaining twice: ${shown}, ${key}`);
    }
  }
}
