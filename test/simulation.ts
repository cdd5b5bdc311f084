// One key in a world of its own: isolates (real KeyMeters) and its object (the real arithmetic of limiter.ts, over a row
// that is a variable), on virtual time, with every fault that a run may have. All that happens by chance comes from the seed
// of the run. Beside the world stands a ledger, which sees what is sent, what is answered and who is let in, and holds that
// to the promises after each event.
//
// What limiter.ts does besides (SQL, the alarm, the days that are over) is not here: its own tests have that.

import { KeyMeter } from "../src/rate-limit/key-meter.ts";
import { HeldLeases, type Lease } from "../src/rate-limit/lease.ts";
import {
  BAN_MS,
  decide,
  type Meter,
  type Take,
  UNUSED_METER,
  type Verdict,
} from "../src/rate-limit/meter.ts";
import { burn, mustStore, type Reservation, reserve } from "../src/rate-limit/reservation.ts";
import {
  type Decision,
  type Limits,
  remaining,
  unusedWindow,
  WINDOW_SECONDS,
  type Window,
} from "../src/rate-limit/window.ts";

// As in key-meters.ts, which needs the runtime.
const DEADLINE_MS = 2_000;
const MAX_CALL_MS = 2 * DEADLINE_MS;

/** A request waits for the call that is under way, and for the one that takes it along; the rest is for looking. */
const DECIDED_WITHIN_MS = 2 * MAX_CALL_MS + 50;

/** Some ten times as many as the longest run has. */
const MAX_EVENTS = 200_000;

/** What one location holds is missing elsewhere for no longer. */
const MISSING_ELSEWHERE_MS = 1_000;

const FAULTS = [
  "slowNetwork",
  "lostRequests",
  "lostAnswers",
  "repeats",
  "lateRequests",
  "lateTimers",
  "evictions",
  "crashes",
  "deaths",
  "cuts",
  "isolateSteps",
  "objectSteps",
  "limitChanges",
] as const;

type Faults = Record<(typeof FAULTS)[number], boolean>;

/** What has happened in a run, so that a simulation in which nothing happens can be told. */
export const NOTHING = {
  events: 0,
  letInByObject: 0,
  letInByLease: 0,
  letInAlone: 0,
  refused: 0,
  bans: 0,
  leases: 0,
  leasesReturned: 0,
  sharedCalls: 0,
  burns: 0,
  answersAgain: 0,
  lateTakes: 0,
  minutes: 0,
  days: 0,
  exactEnds: 0,
  exhausted: 0,
  slowRuns: 0,
};

export type Totals = typeof NOTHING;

/** Mulberry32: 32 bits of state, and numbers in [0, 1). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

class Chance {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = randomFrom(seed);
  }

  /** A whole number from `min` to `max`, both included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.#random() * (max - min + 1));
  }

  is(probability: number): boolean {
    return this.#random() < probability;
  }

  of<One>(...all: readonly (() => One)[]): One {
    const one = all[this.int(0, all.length - 1)];
    if (one === undefined) throw new Error("nothing to choose from");
    return one();
  }

  /** How far a clock steps: from hardly at all to days, forward or back. */
  stepMs(): number {
    const size = this.of(
      () => this.int(1, 30),
      () => this.int(30, 300),
      () => this.int(100, 1_000),
      () => this.int(1_000, 90_000),
      () => this.int(90_000, 3 * 86_400_000),
    );
    return this.is(0.5) ? size : -size;
  }
}

interface Event {
  atMs: number;
  order: number;
  run: () => void;
}

/** Virtual time: events in their order, those of one instant in the order in which they were planned. */
class Timeline {
  nowMs: number;
  events = 0;
  readonly #heap: Event[] = [];
  #planned = 0;

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  after(ms: number, run: () => void): void {
    const event = { atMs: this.nowMs + Math.max(0, Math.ceil(ms)), order: this.#planned++, run };
    const heap = this.#heap;
    let index = heap.push(event) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = heap[parent] as Event;
      if (!isBefore(event, above)) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = event;
  }

  /** Runs all events. Between two, every promise gets as far as it can. */
  async runAll(check: () => void): Promise<void> {
    for (let event = this.#next(); event !== undefined; event = this.#next()) {
      this.nowMs = event.atMs;
      this.events += 1;
      if (this.events > MAX_EVENTS) throw new Error("it never comes to rest");
      event.run();
      await new Promise(setImmediate);
      check();
    }
  }

  #next(): Event | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child += 1;
      if (isBefore(last, heap[child] as Event)) break;
      heap[index] = heap[child] as Event;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

function isBefore(one: Event, other: Event): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}

/** A window by its name and its beginning. */
type WindowKey = `${string} ${number}`;

const keyOf = ({ name, startMs }: Pick<Window, "name" | "startMs">): WindowKey => `${name} ${startMs}`;

/** How many requests of a take were let in by what a row remembers of it, or undefined if that is nothing. */
function admissionsIn(recentTakes: string, id: string): number | undefined {
  const start = recentTakes.lastIndexOf(id);
  if (start === -1) return undefined;
  const [, admissions] = recentTakes.slice(start + id.length).match(/^=(\d+)/) ?? [];
  return admissions === undefined ? Number(recentTakes[start - 1] === "+") : Number(admissions);
}

/** The windows that an instant is in. */
const windowsAt = (nowMs: number): WindowKey[] =>
  (["minute", "day"] as const).map((name) =>
    keyOf({ name, startMs: nowMs - (nowMs % (WINDOW_SECONDS[name] * 1000)) }),
  );

/** A window of an answer that was given again, which may be a later one than what it answers was counted in. */
interface NamedWindow extends Window {
  countedIn?: WindowKey;
}

/** What the ledger has of one window. */
interface Entry {
  /** The largest limit in force. */
  limit: number;
  /** Let in by object or lease: by the window that the decision names, and by the one in which it really happened. */
  letIn: number;
  reallyLetIn: number;
  /** Leased in it, and let in by leases while it lasted. */
  leased: number;
  letInByLease: number;
  /** What the object should count. */
  used: number;
  /** What was stored ahead when memory was lost. */
  burnt: number;
}

/** What became of a take when the object met it first, and the windows that it was counted in. */
interface Outcome {
  keys: WindowKey[];
  admissions: number;
  leased: number;
  /** By the clock of the object. */
  decidedMs: number;
  /** Whether an isolate has reported it since. */
  isReported?: boolean;
}

interface Answer {
  verdict: Verdict;
  outcome: Outcome;
}

/** The object of the key: what limiter.ts does with a take, around the same functions. */
class SimulatedObject {
  /** What is in memory; gone after an eviction or a crash. */
  memory: { meter: Meter; stored: Reservation } | undefined;
  /** What is durable, and what is being written, the oldest first. */
  durable: Reservation;
  writing: { row: Reservation; before: Meter }[] = [];
  life = 0;

  constructor(durable: Reservation) {
    this.durable = durable;
  }

  /** As RateLimiter.take, #read and #keep. */
  take(limits: Limits, take: Take, nowMs: number): Verdict {
    const { meter: before, stored } = this.read();
    const { verdict, meter } = decide(before, limits, take, nowMs);
    if (meter !== before) {
      const mustBeStored = mustStore(meter, stored, take, nowMs);
      const next = mustBeStored ? reserve(meter, limits, stored, take, nowMs) : stored;
      if (mustBeStored) this.writing.push({ row: next, before });
      this.memory = { meter, stored: next };
    }
    return verdict;
  }

  read(): { meter: Meter; stored: Reservation } {
    if (this.memory === undefined) {
      const stored = burn(this.#readRow());
      this.memory = { meter: stored.meter, stored };
    }
    return this.memory;
  }

  /** What a row does not have is gone: limits, and when it was written. */
  #readRow(): Reservation {
    const { meter, ahead, burnt } = this.durable;
    const windows = meter.windows.map((window) => ({ ...window, limit: 0 }));
    return { meter: { ...meter, windows }, ahead, burnt };
  }

  /** The oldest write is done. */
  written(): void {
    this.durable = this.writing.shift()?.row ?? this.durable;
  }

  /**
   * Memory is gone. Of what was being written, the first `written` rows are durable all the same. Returns the meter of
   * which somebody may have learned.
   */
  end(written: number): Meter | undefined {
    for (let row = 0; row < written; row += 1) this.written();
    const meter = this.writing[0]?.before ?? this.memory?.meter;
    this.writing = [];
    this.memory = undefined;
    this.life += 1;
    return meter;
  }
}

class SimulatedIsolate {
  isAlive = true;
  stepMs: number;
  limits: Limits;
  cuts = 0;
  /** When its calls that are under way began. */
  calls: { sinceMs: number }[] = [];
  /** Since when its requests wait. */
  open = new Set<{ sinceMs: number }>();
  readonly meter: KeyMeter;
  readonly #world: World;

  constructor(world: World, stepMs: number, limits: Limits) {
    this.#world = world;
    this.stepMs = stepMs;
    this.limits = limits;
    const clock = {
      now: () => this.nowMs,
      wait: (ms: number) => new Promise<void>((resolve) => this.later(ms + world.timerDelayMs(), resolve)),
      keepAlive: (work: Promise<unknown>) => void work.catch(world.fail),
    };
    this.meter = new KeyMeter(clock, MAX_CALL_MS);
  }

  get nowMs(): number {
    return this.#world.time.nowMs + this.stepMs;
  }

  /** Does something later, if the isolate is still there. */
  later(ms: number, run: () => void): void {
    this.#world.time.after(ms, () => this.isAlive && run());
  }
}

class World {
  readonly chance: Chance;
  readonly time: Timeline;
  readonly faults: Faults;
  readonly totals: Totals = { ...NOTHING };
  readonly isSlow: boolean;
  /** How many requests at once clients send over one isolate; most of the time goes into those that wait. */
  readonly maxOpen: number;
  readonly isolates: SimulatedIsolate[] = [];
  readonly object: SimulatedObject;
  limits: Limits;
  #objectStepMs = 0;
  #lastWriteDoneMs = 0;
  /** The windows of the latest refusal. */
  #refused: Window[] = [];
  #failure: unknown;

  // The ledger.
  readonly #entries = new Map<WindowKey, Entry>();
  readonly #usedBefore = new Map<WindowKey, number>();
  /** The takes and leases that the object should know. */
  #known = new Map<string, Outcome>();
  #grants = new Map<string, Outcome>();
  /** What has left the object, so that its requests may be let in, and what isolates have said they won't use. */
  readonly #outcomes = new Map<string, Outcome>();
  readonly #saidUnused = new Map<string, number>();

  constructor(seed: number) {
    const chance = new Chance(seed);
    this.chance = chance;
    const isClean = chance.is(0.25);
    this.faults = Object.fromEntries(FAULTS.map((fault) => [fault, chance.is(1 / 3) && !isClean])) as Faults;
    this.isSlow = chance.is(0.1);
    this.maxOpen = chance.of(
      () => 3,
      () => 8,
      () => 20,
    );
    const boundaryMs = chance.of(
      () => Date.UTC(2026, 10, 21),
      () => Date.UTC(2026, 10, 20, 12, 34),
    );
    this.time = new Timeline(boundaryMs - chance.int(0, 8_000));
    this.limits = this.#newLimits();
    this.object = new SimulatedObject(this.#firstRow());
  }

  #newLimits(): Limits {
    const { chance } = this;
    const minute = chance.of(
      () => chance.int(1, 5),
      () => chance.int(30, 100),
      () => chance.int(100, 1_000),
    );
    const day = chance.of(
      () => 10 * minute,
      () => Math.ceil((minute * chance.int(5, 30)) / 10),
    );
    return { minute, day };
  }

  /** Nothing, or some of both windows used: so that large limits are reached as well. */
  #firstRow(): Reservation {
    const { chance, limits } = this;
    if (chance.is(0.3)) return { meter: UNUSED_METER, ahead: 0, burnt: [0, 0] };
    const share = chance.of(
      () => 0.5,
      () => 0.8,
      () => 0.95,
    );
    const [minute = 0, day = 0] = [limits.minute, limits.day].map((limit) => Math.floor(share * limit));
    const used = Math.min(minute, day);
    const windows = (["minute", "day"] as const).map((name) => {
      const startMs = this.time.nowMs - (this.time.nowMs % (WINDOW_SECONDS[name] * 1000));
      return { ...unusedWindow(name, 0), startMs, used: name === "minute" ? used : Math.max(used, day) };
    });
    for (const window of windows) {
      const entry = this.entry(keyOf(window));
      entry.limit = limits[window.name];
      entry.letIn = entry.reallyLetIn = entry.used = window.used;
      this.#usedBefore.set(keyOf(window), window.used);
    }
    return { meter: { ...UNUSED_METER, windows }, ahead: 0, burnt: [0, 0] };
  }

  readonly fail = (failure: unknown): void => {
    this.#failure ??= failure;
  };

  expect(holds: boolean, what: () => string): void {
    if (!holds) this.fail(new Error(`${what()}; at ${new Date(this.time.nowMs).toISOString()}`));
  }

  readonly check = (): void => {
    if (this.#failure !== undefined) throw this.#failure;
  };

  entry(key: WindowKey): Entry {
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      entry = { limit: 0, letIn: 0, reallyLetIn: 0, leased: 0, letInByLease: 0, used: 0, burnt: 0 };
      this.#entries.set(key, entry);
    }
    return entry;
  }

  get objectNowMs(): number {
    return this.time.nowMs + this.#objectStepMs;
  }

  timerDelayMs(): number {
    return this.faults.lateTimers ? this.chance.int(0, 5) : 0;
  }

  /** Whether anything may be lost for good: then exact numbers can't be expected at the end. */
  get isLossy(): boolean {
    const { faults } = this;
    return (
      faults.lostRequests ||
      faults.lostAnswers ||
      faults.repeats ||
      faults.lateRequests ||
      faults.evictions ||
      faults.crashes ||
      faults.deaths ||
      faults.cuts ||
      faults.objectSteps
    );
  }

  /** Whether calls may take longer than usual, or clocks may not agree on how long they take. */
  get #isTroubled(): boolean {
    return this.isLossy || this.faults.slowNetwork || this.faults.isolateSteps;
  }

  /** Whether every isolate sees how slow the client is. */
  get isSlowForAll(): boolean {
    return this.isSlow && !this.faults.isolateSteps;
  }

  async run(): Promise<Totals> {
    const { chance, time, totals } = this;
    const isolates = chance.int(2, 8);
    for (let isolate = 0; isolate < isolates; isolate += 1) {
      this.isolates.push(new SimulatedIsolate(this, chance.int(-3_000, 3_000), this.limits));
    }
    const forMs = this.#planRequests();
    this.#planFaults(forMs);
    await time.runAll(this.check);
    this.#expectAllDecided();
    // A step of its clock may make an isolate give up waiting for an answer that still comes.
    if (!(this.isLossy || this.faults.isolateSteps)) await this.#expectExactEnd();
    this.check();
    const keys = [...this.#entries.keys()];
    totals.minutes = keys.filter((key) => key.startsWith("minute")).length;
    totals.days = keys.length - totals.minutes;
    totals.events = time.events;
    totals.slowRuns = Number(this.isSlow);
    return totals;
  }

  #anIsolate(): SimulatedIsolate {
    const isolate = this.isolates[this.chance.int(0, this.isolates.length - 1)];
    if (isolate === undefined) throw new Error("no isolate");
    return isolate;
  }

  /** Plans the clients of the run. Returns how long they go on. */
  #planRequests(): number {
    const { chance, time } = this;
    if (this.isSlow) {
      let atMs = 0;
      for (let request = chance.int(4, 12); request > 0; request -= 1) {
        const isolate = this.#anIsolate();
        time.after(atMs, () => this.request(isolate));
        // If something breaks, or takes longer, the object too has to see that the client is slow.
        atMs += chance.int(1_000, 3_000) + (this.#isTroubled ? 2_000 : 0);
      }
      return atMs;
    }
    const forMs = chance.int(1_000, 6_000);
    for (let client = chance.int(1, 3); client > 0; client -= 1) {
      const isolate = this.#anIsolate();
      const steady = (gapMs: number, limit: number) => {
        let atMs = chance.int(0, 1_000);
        for (let request = 0; request < limit && atMs < forMs; request += 1) {
          time.after(atMs, () => this.request(isolate));
          atMs += chance.int(Math.ceil(gapMs / 2), 2 * gapMs);
        }
      };
      chance.of(
        () => steady(chance.int(2, 40), 120),
        () => steady(chance.int(50, 900), 60),
        () => {
          for (let burst = chance.int(1, 4); burst > 0; burst -= 1) {
            const atMs = chance.int(0, forMs);
            const isEverywhere = chance.is(0.3);
            for (let request = chance.int(3, 30); request > 0; request -= 1) {
              const where = isEverywhere ? this.#anIsolate() : isolate;
              time.after(atMs + chance.int(0, 3), () => this.request(where));
            }
          }
        },
      );
    }
    return forMs;
  }

  #planFaults(forMs: number): void {
    const { chance, faults, time, object } = this;
    const plan = (isOn: boolean, most: number, run: () => void) => {
      for (let times = isOn ? chance.int(1, most) : 0; times > 0; times -= 1) {
        time.after(chance.int(0, forMs + 1_000), run);
      }
    };
    plan(faults.evictions, 4, () => object.writing.length === 0 && this.#lose(0));
    plan(faults.crashes, 4, () => this.#lose(chance.int(0, object.writing.length)));
    plan(faults.deaths, 2, () => {
      this.#anIsolate().isAlive = false;
    });
    plan(faults.isolateSteps, 12, () => {
      this.#anIsolate().stepMs += chance.stepMs();
    });
    plan(faults.objectSteps, 3, () => {
      this.#objectStepMs += chance.stepMs();
    });
    plan(faults.limitChanges, 2, () => {
      this.limits = this.#newLimits();
      const { limits } = this;
      for (const isolate of this.isolates) {
        isolate.later(chance.int(0, 2_000), () => {
          isolate.limits = limits;
        });
      }
    });
  }

  /** A client sends a request. */
  request(isolate: SimulatedIsolate): void {
    if (!isolate.isAlive || isolate.open.size >= this.maxOpen) return;
    const waiting = { sinceMs: this.time.nowMs };
    isolate.open.add(waiting);
    let isAlone = false;
    const ask = (take: Take) => this.#call(isolate, isolate.limits, take);
    const onUnavailable = () => {
      isAlone = true;
    };
    const taking = isolate.meter.take(isolate.limits, ask, isolate.nowMs, onUnavailable);
    Promise.resolve(taking).then((decision) => {
      isolate.open.delete(waiting);
      const tookMs = this.time.nowMs - waiting.sinceMs;
      const boundMs = DECIDED_WITHIN_MS * (1 + isolate.cuts);
      this.expect(tookMs <= boundMs, () => `a request was decided after ${tookMs} ms`);
      this.#decided(decision, isAlone);
    }, this.fail);
  }

  #decided(decision: Decision, isAlone: boolean): void {
    const { totals, faults } = this;
    if (!decision.admitted) {
      totals.refused += 1;
      this.#refused = decision.windows;
      return;
    }
    if (isAlone) {
      totals.letInAlone += 1;
      return;
    }
    for (const window of decision.windows as NamedWindow[]) {
      const key = window.countedIn ?? keyOf(window);
      const entry = this.entry(key);
      entry.letIn += 1;
      this.expect(entry.letIn <= entry.limit, () => `${entry.letIn} of ${entry.limit} let in, ${key}`);
      // Whose answer is lost, or still on its way, counts, though nobody was let in.
      const isLost = totals.letInAlone > 0 || faults.cuts || faults.deaths || faults.objectSteps;
      const isOnlyOne = this.isolates.every(({ open }) => open.size === 0);
      const isExact = this.isSlowForAll && isOnlyOne && !isLost;
      if (isExact && window.countedIn === undefined && window.limit === entry.limit) {
        const left = Math.max(0, window.limit - entry.letIn);
        this.expect(remaining(window) === left, () => `${remaining(window)} shown, ${left} left, ${key}`);
      }
    }
  }

  /**
   * Called whenever a lease lets somebody in. Unless the object's clock steps, that is in the windows in which the lease
   * was counted.
   */
  usedLease(): void {
    this.totals.letInByLease += 1;
    this.#reallyLetIn(1, this.objectNowMs);
    if (this.faults.objectSteps) return;
    for (const key of windowsAt(this.objectNowMs)) {
      const entry = this.entry(key);
      entry.letInByLease += 1;
      this.expect(entry.letInByLease <= entry.leased, () => `more let in by leases than was leased, ${key}`);
    }
  }

  #reallyLetIn(requests: number, atMs: number): void {
    if (this.faults.objectSteps) return;
    for (const key of windowsAt(atMs)) {
      const entry = this.entry(key);
      entry.reallyLetIn += requests;
      this.expect(
        entry.reallyLetIn <= entry.limit,
        () => `${entry.reallyLetIn} of ${entry.limit} really let in, ${key}`,
      );
    }
  }

  /** As askLimiter: within a deadline, and a second time if that may help. */
  async #call(isolate: SimulatedIsolate, limits: Limits, take: Take): Promise<Verdict> {
    const { chance, faults, time, totals } = this;
    const call = { sinceMs: time.nowMs };
    const others = isolate.calls.filter(({ sinceMs }) => time.nowMs - sinceMs <= MAX_CALL_MS);
    // What a step of its clock makes of the time that a call takes, no isolate can know.
    // What is only given back is given back beside them: no request waits for that.
    const isAwaited = take.requests !== 0 || take.wish?.size !== 0;
    this.expect(
      !isAwaited || others.length === 0 || faults.isolateSteps,
      () => "two calls of an isolate at once",
    );
    if (isAwaited) isolate.calls = [...others, call];
    if ((take.requests ?? 1) > 1) totals.sharedCalls += 1;
    if (faults.isolateSteps && chance.is(0.1)) {
      isolate.later(chance.int(0, 60), () => {
        isolate.stepMs += chance.stepMs();
      });
    }
    for (const { id, count } of take.unused ?? []) {
      if (!this.#saidUnused.has(id)) this.#saidUnused.set(id, count);
    }
    if (faults.cuts && isolate.cuts === 0 && chance.is(0.05)) {
      isolate.cuts += 1;
      void this.#send(isolate, limits, take).catch(() => {});
      return new Promise(() => {});
    }
    const askOnce = () =>
      new Promise<Answer>((resolve, reject) => {
        isolate.later(DEADLINE_MS + this.timerDelayMs(), () => reject(new Error("deadline")));
        this.#send(isolate, limits, take).then(resolve, reject);
      });
    try {
      const { verdict, outcome } = await askOnce().catch((error: { retryable?: boolean }) => {
        if (error.retryable) return askOnce();
        throw error;
      });
      totals.letInByObject += outcome.admissions;
      this.#reallyLetIn(outcome.admissions, outcome.decidedMs);
      return verdict;
    } finally {
      isolate.calls = isolate.calls.filter((each) => each !== call);
    }
  }

  #networkMs(): number {
    const { chance, faults } = this;
    return faults.slowNetwork && chance.is(0.3) ? chance.int(50, 950) : chance.int(1, 40);
  }

  /** One call over the network, either half of which may fail. */
  #send(isolate: SimulatedIsolate, limits: Limits, take: Take): Promise<Answer> {
    const { chance, faults, time, object } = this;
    return new Promise((resolve, reject) => {
      const fail = () => {
        if (chance.is(0.4)) return;
        const error = Object.assign(new Error("lost"), { retryable: chance.is(0.6) });
        isolate.later(chance.int(0, 300), () => reject(error));
      };
      if (faults.lostRequests && chance.is(0.1)) return fail();
      // The platform gives up, though the request may still arrive.
      if (faults.repeats && chance.is(0.1)) {
        const error = Object.assign(new Error("try again"), { retryable: true });
        isolate.later(chance.int(1, 200), () => reject(error));
      }
      const isLate = faults.lateRequests && chance.is(0.1);
      time.after(isLate ? chance.int(1_900, 15_000) : this.#networkMs(), () => {
        if (isLate) this.totals.lateTakes += 1;
        const answer = this.#execute(take, limits);
        const { life } = object;
        // The output gate: nothing leaves before all that was written by then is durable.
        const gateMs = object.writing.length === 0 ? 0 : this.#lastWriteDoneMs - time.nowMs;
        time.after(gateMs, () => {
          if (object.life !== life) return fail();
          this.#outcomes.set(take.id, answer.outcome);
          if (faults.lostAnswers && chance.is(0.1)) return fail();
          isolate.later(this.#networkMs(), () => resolve(answer));
        });
      });
    });
  }

  /** The object decides, and the ledger reckons what it should have counted. */
  #execute(take: Take, limits: Limits): Answer {
    const { chance, object, time, totals } = this;
    const { id, requests = 1 } = take;
    const { meter: before } = object.read();
    const writing = object.writing.length;
    const verdict = object.take(limits, take, this.objectNowMs);
    if (object.writing.length > writing) {
      this.#lastWriteDoneMs = Math.max(this.#lastWriteDoneMs, time.nowMs + chance.int(0, 30));
      const { life } = object;
      time.after(this.#lastWriteDoneMs - time.nowMs, () => object.life === life && object.written());
    }
    for (const window of verdict.windows) {
      const entry = this.entry(keyOf(window));
      entry.limit = Math.max(entry.limit, limits[window.name]);
    }
    const keys = verdict.windows.map(keyOf);
    this.#reckonReports(take, verdict);
    this.#reckonUnused(take, before.leases, verdict);

    const known = this.#known.get(id);
    const isAgain = known !== undefined && (known.admissions > 0 || requests === 0);
    if (isAgain) totals.answersAgain += 1;
    const { admissions = 0, lease } = verdict;
    const leased = isAgain ? 0 : (lease?.size ?? 0);
    const outcome = isAgain ? known : { keys, admissions, leased, decidedMs: this.objectNowMs };
    if (!isAgain) {
      for (const key of keys) {
        const entry = this.entry(key);
        entry.used += admissions + leased;
        entry.leased += leased;
      }
      if (admissions + leased > 0) this.#known.set(id, outcome);
      if (lease !== undefined) this.#grants.set(id, outcome);
      if (leased > 0) totals.leases += 1;
      this.expect(!(this.isSlowForAll && leased > 0), () => "a slow client got a lease");
    }
    this.expect(
      !isAgain || known.isReported === true || known.admissions === admissions,
      () => `the same take was answered by ${admissions} instead of ${known?.admissions}`,
    );
    if (!isAgain && admissions < requests && verdict.bannedUntilMs === undefined) {
      const isUsedUp = verdict.windows.some(
        (window) => this.entry(keyOf(window)).used >= limits[window.name],
      );
      this.expect(isUsedUp, () => "refused, though there is room");
    }
    if (!isAgain && verdict.bannedUntilMs === this.objectNowMs + BAN_MS) totals.bans += 1;
    for (const window of object.read().meter.windows.filter(({ startMs }) => startMs > 0)) {
      const key = keyOf(window);
      const { used } = this.entry(key);
      this.expect(window.used === used, () => `the object counts ${window.used} instead of ${used}, ${key}`);
    }
    const windows = verdict.windows.map((window, index): NamedWindow => {
      const countedIn = outcome.keys[index];
      return countedIn === undefined || countedIn === keyOf(window) ? window : { ...window, countedIn };
    });
    return { verdict: { ...verdict, windows }, outcome };
  }

  /** Whom isolates let in alone counts in the windows that it fell into, less what of its take was counted already. */
  #reckonReports({ unreported }: Take, { windows }: Verdict): void {
    for (const { id, atMs, requests = 1 } of unreported) {
      const known = this.#known.get(id);
      const missing = known?.isReported ? 0 : requests - (known?.admissions ?? 0);
      if (missing <= 0) continue;
      for (const window of windows) if (atMs >= window.startMs) this.entry(keyOf(window)).used += missing;
      const nothing = { keys: [], admissions: 0, leased: 0, decidedMs: 0 };
      this.#known.set(id, { ...nothing, ...known, admissions: requests, isReported: true });
    }
  }

  /** What was left of a lease that the object knows comes back to the windows that it was counted in. */
  #reckonUnused({ unused = [] }: Take, leases: readonly Lease[], { windows }: Verdict): void {
    for (const { id, count } of unused) {
      const lease = leases.find((each) => each.id === id);
      if (lease === undefined) continue;
      this.totals.leasesReturned += 1;
      const heldMs = this.objectNowMs - lease.atMs;
      this.expect(
        this.#isTroubled || heldMs <= MISSING_ELSEWHERE_MS,
        () => `what was left of a lease came back after ${heldMs} ms`,
      );
      const keys = this.#grants.get(id)?.keys ?? [];
      for (const window of windows) {
        const key = keyOf(window);
        if (keys.includes(key) && window.startMs <= lease.atMs)
          this.entry(key).used -= Math.min(count, lease.size);
      }
    }
  }

  /** Memory is gone; what was being written is durable only in part. */
  #lose(written: number): void {
    const { object, totals } = this;
    const { memory } = object;
    const known = object.end(written);
    const { meter } = object.durable;
    const stored = new Map(meter.windows.map((window) => [window.name, window]));
    this.#expectStored(stored);
    if (memory === undefined || known === undefined) return;
    for (const window of known.windows) {
      const durable = stored.get(window.name);
      if (durable?.startMs !== window.startMs || durable.used <= window.used) continue;
      totals.burns += 1;
      const entry = this.entry(keyOf(window));
      entry.burnt += durable.used - window.used;
      const most = Math.floor(entry.limit / 20);
      this.expect(
        entry.burnt <= most || this.faults.limitChanges,
        () => `${entry.burnt} burnt, more than ${most}, ${keyOf(window)}`,
      );
    }
    for (const window of memory.meter.windows) this.entry(keyOf(window)).used = 0;
    for (const window of stored.values()) this.entry(keyOf(window)).used = window.used;
    this.#known = new Map(
      [...this.#known].flatMap(([id, outcome]) => {
        const admissions = admissionsIn(meter.recentTakes, id);
        if (admissions === undefined || admissions + outcome.leased === 0) return [];
        // What an isolate has reported since may be forgotten, though the take itself is not.
        return [
          [id, admissions === outcome.admissions ? outcome : { ...outcome, admissions, isReported: false }],
        ];
      }),
    );
    this.#grants = new Map([...this.#grants].filter(([id]) => meter.leases.some((lease) => lease.id === id)));
  }

  /** What has left the object, and was not given back, is in what is stored. */
  #expectStored(stored: Map<string, Window>): void {
    const counted = new Map<WindowKey, number>();
    for (const [id, { keys, admissions, leased }] of this.#outcomes) {
      const held = Math.max(0, leased - (this.#saidUnused.get(id) ?? 0));
      for (const key of keys) counted.set(key, (counted.get(key) ?? 0) + admissions + held);
    }
    for (const [key, requests] of counted) {
      const [name = "", startMs] = key.split(" ");
      const window = stored.get(name);
      if (window === undefined || window.startMs > Number(startMs)) continue;
      const used = window.startMs === Number(startMs) ? window.used : 0;
      const least = requests + (this.#usedBefore.get(key) ?? 0);
      this.expect(used >= least, () => `${used} stored of ${least}, ${key}`);
    }
  }

  /** The requests of an isolate that died, or whose call was cut off with it, are nobody's any more. */
  #expectAllDecided(): void {
    for (const { isAlive, open, cuts } of this.isolates) {
      this.expect(!isAlive || open.size <= cuts, () => `${open.size} requests were never decided`);
    }
  }

  /** All is quiet: what was leased is home. Then somebody asks until the key is used up. */
  async #expectExactEnd(): Promise<void> {
    const { object, totals, time, chance } = this;
    for (const window of object.memory?.meter.windows ?? []) {
      const { letIn } = this.entry(keyOf(window));
      this.expect(window.used === letIn, () => `${window.used} counted at the end, ${letIn} let in`);
    }
    totals.exactEnds += 1;
    const isolate = this.#anIsolate();
    const left = object.memory?.meter.windows.map((window) =>
      remaining({ ...window, limit: isolate.limits[window.name] }),
    );
    if (this.isSlow || Math.min(...(left ?? [])) > 300) return;
    const before = totals.refused;
    let atMs = 0;
    for (let request = 0; request < 350; request += 1) {
      atMs += chance.int(0, 4);
      time.after(atMs, () => {
        if (totals.refused === before) this.request(isolate);
      });
    }
    await time.runAll(this.check);
    this.#expectAllDecided();
    const decision = isolate.meter.ban(isolate.limits, isolate.nowMs);
    if (decision !== undefined || totals.refused === before) return;
    const isUsedUp = this.#refused.some(
      (window) => this.entry(keyOf(window)).letIn >= isolate.limits[window.name],
    );
    this.expect(isUsedUp, () => "refused at the end, though nobody had used the key up");
    totals.exhausted += 1;
  }
}

/** Runs the simulation of a seed. Throws what does not hold. */
export async function simulate(seed: number): Promise<Totals> {
  const world = new World(seed);
  const { use } = HeldLeases.prototype;
  // The one thing that can't be seen from outside: which requests a lease let in.
  HeldLeases.prototype.use = function (nowMs) {
    const isLetIn = use.call(this, nowMs);
    if (isLetIn) world.usedLease();
    return isLetIn;
  };
  try {
    return await world.run();
  } catch (failure) {
    const faults = FAULTS.filter((fault) => world.faults[fault]).join(", ") || "none";
    throw new Error(`${(failure as Error).message}; faults: ${faults}`, { cause: failure });
  } finally {
    HeldLeases.prototype.use = use;
  }
}
