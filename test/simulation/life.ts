// A short life of one key by chance: its plan, its isolates, its clients, and what goes wrong. The seed decides everything.

import { headersOf } from "../../src/rate-limit/headers.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { Chance } from "./chance.ts";
import { type Isolate, type Message, World } from "./world.ts";

/** Faults under which counting stays exact in both directions. */
const HARMLESS = ["slowNetwork", "evictions", "crashes", "failures", "lateTimers"] as const;

/** Faults that make isolates decide by themselves, or that lose what was leased. */
const HARMFUL = [
  "outages",
  "silence",
  "overload",
  "deaths",
  "isolateSteps",
  "objectSteps",
  "planChanges",
] as const;

type Fault = (typeof HARMLESS)[number] | (typeof HARMFUL)[number];

/** How long the longest request waits: an outstanding lease, and calls that fail twice. */
const MAX_WAIT_MS = 20_000;

/** What happened, so that a simulation in which nothing happens is noticed. */
export type Totals = Record<
  | "requests"
  | "admitted"
  | "refused"
  | "local"
  | "bans"
  | "leases"
  | "leased"
  | "undecided"
  | "calls"
  | "rows"
  | "writesLost"
  | "refusedMinutes"
  | "refusedDays"
  | "days"
  | "exactLives"
  | "usageChecked"
  | "distinctChecked"
  | Fault,
  number
>;

export const NO_TOTALS: Totals = {
  requests: 0,
  admitted: 0,
  refused: 0,
  local: 0,
  bans: 0,
  leases: 0,
  leased: 0,
  undecided: 0,
  calls: 0,
  rows: 0,
  writesLost: 0,
  refusedMinutes: 0,
  refusedDays: 0,
  days: 0,
  exactLives: 0,
  usageChecked: 0,
  distinctChecked: 0,
  slowNetwork: 0,
  evictions: 0,
  crashes: 0,
  failures: 0,
  lateTimers: 0,
  outages: 0,
  silence: 0,
  overload: 0,
  deaths: 0,
  isolateSteps: 0,
  objectSteps: 0,
  planChanges: 0,
};

/** Lives one life. Throws at the first guarantee that is broken. */
export async function live(seed: number): Promise<Totals> {
  const life = new Life(new Chance(seed));
  try {
    return await life.run();
  } catch (error) {
    throw new Error(`${(error as Error).message}; faults: ${[...life.faults].join(", ") || "none"}`, {
      cause: error,
    });
  }
}

class Life {
  readonly totals: Totals = { ...NO_TOTALS };
  readonly faults: Set<Fault>;
  readonly #chance: Chance;
  readonly #world: World;
  readonly #distances = new Map<Isolate, number>();
  #outageUntilMs = 0;
  #lastWriteMs = 0;
  /** Second attempts on their way. */
  #retries = 0;
  #isPatient = false;

  constructor(chance: Chance) {
    this.#chance = chance;
    const harm = chance.int(0, 3);
    const possible: readonly Fault[] = harm === 0 ? [] : harm < 3 ? HARMLESS : [...HARMLESS, ...HARMFUL];
    this.faults = new Set(possible.filter(() => chance.is(0.3)));
    const boundaryMs = chance.of(Date.UTC(2026, 10, 21), Date.UTC(2026, 10, 20, 12, 34));
    const minute = chance.of(chance.int(1, 5), chance.int(30, 100), chance.int(100, 1_000));
    const limits = { minute, day: chance.of(10 * minute, Math.ceil((minute * chance.int(5, 30)) / 10)) };
    this.#world = new World({
      startMs: boundaryMs - chance.int(0, 8_000),
      limits,
      send: (message) => this.#send(message),
      timerDelayMs: () => (this.#has("lateTimers", 0.1) ? chance.int(0, 30) : 0),
    });
    const isolates = chance.of(1, 1, 2, 3, chance.int(4, 20));
    for (let index = 0; index < isolates; index += 1) this.#newIsolate(limits);
    this.#world.prefill(limits, chance.of(0, 0.5, 0.8, 0.95));
  }

  #newIsolate(limits: Limits): void {
    const aheadMs = this.#chance.of(0, this.#chance.int(-2_000, 2_000));
    this.#distances.set(this.#world.newIsolate(limits, aheadMs), this.#chance.int(1, 60));
  }

  /** Whether a fault strikes now. */
  #has(fault: Fault, probability: number): boolean {
    const strikes = this.faults.has(fault) && this.#chance.is(probability);
    if (strikes) this.totals[fault] += 1;
    return strikes;
  }

  #tripMs({ isolate }: Message): number {
    if (this.#has("slowNetwork", 0.2)) return this.#chance.int(50, 900);
    return Math.max(0, (this.#distances.get(isolate) ?? 0) + this.#chance.int(-5, 5));
  }

  /** The network, and the object's storage. */
  #send(message: Message): void {
    const { time } = this.#world;
    const fail = (error: object) => time.after(this.#chance.int(1, 50), () => message.fail(error));
    if (time.nowMs < this.#outageUntilMs) {
      fail(new Error("away"));
      return;
    }
    if (this.#has("overload", 0.05)) {
      fail(Object.assign(new Error("busy"), { overloaded: true }));
      return;
    }
    if (message.isRetry) this.#retries += 1;
    const isSilent = this.#has("silence", 0.03);
    if (isSilent) this.#world.isDirty = true;
    if (isSilent && this.#chance.is(0.3)) return;
    // An isolate retries what fails once, so a call fails once only.
    const isFailing = !message.isRetry && this.#has("failures", 0.1);
    if (isFailing && this.#chance.is(0.5)) {
      fail(new Error("lost"));
      return;
    }
    time.after(isSilent ? this.#chance.int(1_900, 15_000) : this.#tripMs(message), () => {
      const { life, storage } = this.#world;
      const writes = storage.writing.length;
      const answer = message.deliver();
      this.#persist(storage.writing.length - writes);
      const isLost = () => this.#world.life !== life || isFailing;
      time.after(this.#lastWriteMs - time.nowMs, () => {
        time.after(this.#tripMs(message), () => {
          if (message.isRetry) this.#retries -= 1;
          if (isLost()) message.fail(new Error("lost"));
          else answer();
        });
      });
      if (!message.isRetry && this.#has("crashes", 0.05)) this.#crash();
      if (this.#has("evictions", 0.1)) this.#world.evict();
    });
  }

  /** Has the writes of the storage become durable, one after the other. */
  #persist(writes: number): void {
    const { time } = this.#world;
    if (writes > 0) this.#lastWriteMs = Math.max(this.#lastWriteMs, time.nowMs + this.#chance.int(0, 20));
    const { life } = this.#world;
    for (let write = 0; write < writes; write += 1)
      time.after(this.#lastWriteMs - time.nowMs, () => this.#world.life === life && this.#world.written());
  }

  /** Not while a call is retried: that would make its isolate decide by itself. */
  #crash(): void {
    const { storage } = this.#world;
    if (this.#retries > 0) return;
    const kept = this.#chance.int(0, storage.writing.length);
    this.totals.writesLost += storage.writing.length - kept;
    this.#world.crash(kept);
  }

  async run(): Promise<Totals> {
    const { totals } = this;
    const world = this.#world;
    this.#plan();
    await world.run();
    await this.#finish();
    Object.assign(totals, { ...world.counts });
    for (const [key, { refused, admitted }] of world.entries) {
      totals.admitted += admitted;
      if (key.startsWith("day")) totals.days += 1;
      if (refused > 0) totals[key.startsWith("day") ? "refusedDays" : "refusedMinutes"] += 1;
    }
    return totals;
  }

  #plan(): void {
    const chance = this.#chance;
    const world = this.#world;
    const { minute } = world.isolates[0]?.limits ?? { minute: 1 };
    let clients = 0;
    const lifeMs = chance.of(3_000, 12_000, 12_000);
    for (let bursts = chance.int(1, 4); bursts > 0; bursts -= 1) {
      const atMs = chance.int(0, lifeMs);
      const requests = chance.of(
        chance.int(1, 10),
        chance.int(1, Math.min(400, minute)),
        chance.int(1, Math.min(400, 2 * minute)),
      );
      const spreadMs = chance.of(0, 100, 1_000, 5_000);
      clients += requests;
      for (let index = 0; index < requests; index += 1)
        world.time.after(atMs + chance.int(0, spreadMs), () => void this.#request());
    }
    if (chance.is(0.3)) {
      // A steady client has leases, and then everything that is left is asked for at once.
      const atMs = chance.int(0, lifeMs);
      for (let index = 0; index < 100; index += 1)
        world.time.after(atMs + 10 * index, () => void this.#request());
      const rest = Math.min(1_000, minute);
      clients += 100 + rest;
      for (let index = 0; index < rest; index += 1)
        world.time.after(atMs + 1_000 + chance.int(0, 50), () => void this.#request());
    }
    if (chance.is(0.3)) {
      const waiting = chance.int(1, Math.min(180, 2 * minute));
      const jitterMs = chance.of(0, 1_000, 5_000, 30_000);
      // Each makes at most one refusal a minute: too few for a ban.
      this.#isPatient = clients + waiting <= Math.max(180, 3 * minute);
      for (let index = 0; index < waiting; index += 1)
        world.time.after(chance.int(0, 200), () => void this.#waitAndGoOn(2 * 60_000, jitterMs));
    } else if (chance.is(0.1)) {
      for (let index = 0; index < 400; index += 1)
        world.time.after(3_000 + 20 * index, () => void this.#request());
    }
    this.#planFaults(lifeMs);
  }

  #planFaults(lifeMs: number): void {
    const chance = this.#chance;
    const world = this.#world;
    const plan = (fault: Fault, run: () => void) => {
      if (!this.faults.has(fault)) return;
      world.time.after(chance.int(0, lifeMs), () => {
        this.totals[fault] += 1;
        run();
      });
    };
    plan("crashes", () => this.#crash());
    plan("evictions", () => world.evict());
    plan("outages", () => {
      this.#outageUntilMs = world.time.nowMs + chance.int(100, 6_000);
    });
    plan("deaths", () => {
      const isolate = this.#anIsolate();
      if (isolate === undefined) return;
      world.end(isolate);
      this.#newIsolate(isolate.limits);
    });
    const stepMs = () =>
      chance.of(1, -1) *
      chance.of(chance.int(1, 300), chance.int(300, 90_000), chance.int(90_000, 2 * 86_400_000));
    plan("isolateSteps", () => {
      const isolate = this.#anIsolate();
      if (isolate === undefined) return;
      world.hasStepped = true;
      isolate.aheadMs += stepMs();
    });
    plan("objectSteps", () => {
      world.hasStepped = true;
      world.objectAheadMs += stepMs();
    });
    plan("planChanges", () => {
      world.isDirty = true;
      const factor = chance.of(0.3, 0.8, 1.5, 3);
      for (const isolate of world.isolates) {
        if (!chance.is(0.6)) continue;
        const minute = Math.max(1, Math.floor(isolate.limits.minute * factor));
        isolate.limits = { minute, day: Math.max(1, Math.floor(isolate.limits.day * factor)) };
      }
    });
  }

  #anIsolate(): Isolate | undefined {
    const alive = this.#world.isolates.filter(({ isAlive }) => isAlive);
    return alive[this.#chance.int(0, alive.length - 1)];
  }

  async #request() {
    const isolate = this.#anIsolate();
    if (isolate === undefined) return undefined;
    this.totals.requests += 1;
    return this.#world.request(isolate);
  }

  /** A client with one request at a time that waits as long as Retry-After says. */
  async #waitAndGoOn(durationMs: number, jitterMs: number): Promise<void> {
    const { time } = this.#world;
    const beganMs = time.nowMs;
    const goOn = async () => {
      if (time.nowMs > beganMs + durationMs) return;
      const decision = await this.#request();
      if (decision === undefined) return;
      const isBanned = decision.bannedUntilMs !== undefined;
      this.#world.expect(
        !isBanned || !this.#isPatient || this.#world.hasStepped || this.faults.has("planChanges"),
        () => "a client that waits was banned",
      );
      const retryMs = Number(headersOf(decision)["Retry-After"] ?? 0) * 1000;
      const pauseMs = decision.admitted
        ? this.#chance.int(500, 20_000)
        : retryMs + this.#chance.int(0, jitterMs);
      time.after(pauseMs, () => void goOn());
    };
    await goOn();
  }

  /** All is quiet: every count has to be right. */
  async #finish(): Promise<void> {
    const world = this.#world;
    const { totals, faults } = this;
    // What isolates have not reported yet they report with their next call.
    const struck = [...faults];
    faults.clear();
    this.#outageUntilMs = 0;
    world.time.nowMs += MAX_WAIT_MS;
    for (const isolate of world.isolates.filter(({ isAlive }) => isAlive)) void world.request(isolate);
    await world.run();
    for (const fault of struck) faults.add(fault);
    const hasSteps = world.hasStepped;
    if (!world.hasDeaths) world.expect(world.open === 0, () => `${world.open} requests were never decided`);
    const isHarmed = HARMFUL.some((fault) => faults.has(fault));
    world.expect(isHarmed || world.counts.local === 0, () => "an isolate has decided by itself");
    if (!world.isDirty && !hasSteps) {
      world.expectExact();
      totals.exactLives += 1;
      if (world.isolates.length === 1) {
        world.expectDistinctRemaining();
        totals.distinctChecked += 1;
      }
    }
    if (!hasSteps) {
      world.expectUsage();
      totals.usageChecked += 1;
    }
    world.throwFailure();
  }
}
