// A random scenario of one key: limits, isolates, clients and faults. It depends on the seed only.

import { HEADER } from "../../src/http/header-names.ts";
import type { Limits } from "../../src/keys/plans.ts";
import { headersOf } from "../../src/limits/headers.ts";
import { mapWindows, shortest } from "../../src/limits/windows.ts";
import { LAST_CALL_MS } from "./checks.ts";
import { banEndMs, PETSTORE, type Service } from "./port.ts";
import { Random } from "./random.ts";
import { FIRST_SECRET, type Isolate, type Message, type Read, World } from "./world.ts";

/**
 * What a fault does. "quick", "slow", "late": counting stays exact in both directions; after a quick one no request waits longer, after
 * a late one the last call of a request can be too late, so that its isolate decides. "harmful": isolates decide, or leases are lost.
 */
const FAULTS = {
  evictions: "quick",
  lostRecords: "quick",
  usageCalls: "quick",
  unbans: "quick",
  rotations: "quick",
  expiries: "quick",
  revocations: "quick",
  planChanges: "slow",
  crashes: "slow",
  replacements: "slow",
  lateTimers: "slow",
  evictedKeys: "slow",
  sleeps: "slow",
  slowReads: "slow",
  slowNetwork: "late",
  failures: "late",
  primaryAway: "late",
  outages: "harmful",
  hangs: "harmful",
  overload: "harmful",
  cancelledCalls: "harmful",
  freezes: "harmful",
  isolateEnds: "harmful",
  isolateSteps: "harmful",
  objectSteps: "harmful",
} as const;
type Fault = keyof typeof FAULTS;
const ALL_FAULTS = Object.keys(FAULTS) as Fault[];

/** Changes of the key. */
const CHANGES: readonly Fault[] = ["planChanges", "unbans", "rotations", "expiries", "revocations"];

/** After it all leases have ended, and were reported or given up, and changes of the key are in force everywhere. */
const REST_MS = 40_000;
/** A write whose answer was lost may be executed so much later. */
const LATE_RECORD_MS = 20 * 60_000;

/** A change of the key is in force after 30 s. */
const LONG_MS = 90_000;
/** The timers of a request run for 30 s after its response. */
const STEADY_MS = 45_000;

/** From an isolate to the object. */
const NEAR_MS = 60;
const FAR_MS = 150;

const EVENTS = ["requests", "writesLost", "refusedMinutes", "refusedDays"] as const;
const CHECKS = ["exactScenarios", "usageChecked", "quickScenarios"] as const;
const COUNTED = [...ALL_FAULTS, ...EVENTS, ...CHECKS];

/** How often each fault and event occurred, to detect a simulation without them. */
type Totals = Record<(typeof COUNTED)[number], number>;

/** Throws if a guarantee is broken. */
export async function runScenario(seed: number, service = PETSTORE): Promise<Record<string, number>> {
  const scenario = new Scenario(new Random(seed), service);
  try {
    return await scenario.run();
  } catch (error) {
    const faults = [...scenario.faults].join(", ") || "none";
    throw new Error(`${(error as Error).message}; faults: ${faults}`, { cause: error });
  }
}

class Scenario {
  readonly totals = Object.fromEntries(COUNTED.map((name) => [name, 0])) as Totals;
  readonly faults: Set<Fault>;
  readonly #random: Random;
  readonly #world: World;
  readonly #distances = new Map<Isolate, number>();
  /** Only one burst of more requests than the limit, in isolates that don't know the key. Others would hide too few admissions. */
  readonly #isColdBurst: boolean;
  /** The times from isolates to the object. */
  readonly #fromMs: number;
  readonly #toMs: number;
  #outageUntilMs = 0;
  #primaryAwayUntilMs = 0;
  #lastWriteMs = 0;
  /** The distance from the object to the primary. */
  readonly #toPrimaryMs: number;
  /** The secrets that clients use. */
  readonly #secrets = [FIRST_SECRET];
  /** Retries under way. */
  #retries = 0;
  /** Whether all clients that wait for Retry-After must be safe from a ban. */
  #isBelowBan = false;

  constructor(random: Random, service: Service) {
    this.#random = random;
    const harm = random.int(0, 3);
    const possible = ALL_FAULTS.filter(
      (fault) => (harm === 3 || (harm > 0 && FAULTS[fault] !== "harmful")) && !service.lacks?.includes(fault),
    );
    this.faults = new Set(possible.filter(() => random.chance(0.3)));
    const boundaryMs = random.pick(Date.UTC(2026, 10, 21), Date.UTC(2026, 10, 20, 12, 34));
    const minute = random.pick(random.int(1, 5), random.int(30, 100), random.int(100, 1_000));
    const day = random.pick(10 * minute, Math.ceil((minute * random.int(5, 30)) / 10));
    const [shorter = "", longer = ""] = Object.keys(service.policy.windows);
    const limits = { [shorter]: minute, [longer]: day };
    this.#isColdBurst = random.chance(0.05);
    this.#world = new World({
      service,
      startMs: boundaryMs - (this.#isColdBurst ? random.int(10_000, REST_MS) : random.int(0, 8_000)),
      limits,
      send: (message) => void this.#send(message),
      read: (read) => this.#read(read),
      write: (execute) => this.#write(execute),
      persist: () => this.#persist(),
      ...(this.faults.has("lateTimers") && {
        timerDelayMs: () => (this.#has("lateTimers", 0.1) ? random.int(0, 30) : 0),
      }),
      // Without a reservation each change is stored.
      ...(random.chance(0.1) && { reservedShare: 0 }),
      isCancelled: () => this.#has("cancelledCalls", 0.03),
      random: () => random.next(),
    });
    this.#toPrimaryMs = random.int(1, 120);
    this.#world.mayLackRecord = this.faults.has("primaryAway");
    this.#world.mayLose = (["failures", "hangs", "outages"] as const).some((fault) => this.faults.has(fault));
    this.#fromMs = this.#isColdBurst ? random.int(1, FAR_MS) : 1;
    this.#toMs = this.#isColdBurst ? this.#fromMs : NEAR_MS;
    const isolates = random.chance(0.02)
      ? random.int(50, 300)
      : random.pick(...(this.#isColdBurst ? [] : [1, 1, 2, 3]), random.int(4, 20));
    for (let index = 0; index < isolates; index += 1) this.#newIsolate();
  }

  #newIsolate(): void {
    const aheadMs = this.#random.pick(0, this.#random.int(-2_000, 2_000));
    this.#distances.set(this.#world.newIsolate(aheadMs), this.#random.int(this.#fromMs, this.#toMs));
  }

  /** Whether a fault occurs now. */
  #has(fault: Fault, probability: number): boolean {
    const occurs = this.faults.has(fault) && this.#random.chance(probability);
    if (occurs) this.totals[fault] += 1;
    return occurs;
  }

  #tripMs({ isolate }: Message): number {
    if (this.#has("slowNetwork", 0.2)) return this.#random.int(50, 400);
    return Math.max(0, (this.#distances.get(isolate) ?? 0) + this.#random.int(-5, 5));
  }

  /** The network to the primary. */
  #read(read: Read): void {
    const { time } = this.#world;
    const isSlow = this.#has("slowReads", 0.3);
    const tripMs = () => this.#toPrimaryMs + (isSlow ? this.#random.int(0, 700) : 0);
    const isAway = time.nowMs < this.#primaryAwayUntilMs;
    if (isAway && this.#random.chance(0.5)) return;
    time.after(tripMs(), () => {
      if (isAway) return read.fail(new Error("the primary is away"));
      const answer = read.deliver();
      time.after(tripMs(), answer);
    });
  }

  /** A write to the primary. It may not arrive, or its answer may not; then it may be executed much later. */
  async #write(execute: () => void): Promise<void> {
    const { time } = this.#world;
    const after = (ms: number) => new Promise<void>((resolve) => time.after(ms, resolve));
    if (this.#has("crashes", 0.2))
      time.after(this.#random.int(0, 2 * this.#toPrimaryMs), () => this.#crash());
    const isLost = this.#has("lostRecords", 0.4);
    await after(this.#toPrimaryMs);
    if (!isLost) execute();
    else if (this.#random.chance(0.5)) time.after(this.#random.int(0, LATE_RECORD_MS), execute);
    await after(this.#toPrimaryMs);
    if (isLost) throw new Error("the answer is lost");
  }

  /** The network to the object, and its storage. */
  async #send(message: Message): Promise<void> {
    const { time } = this.#world;
    const fail = (error: object) => time.after(this.#random.int(1, 50), () => message.fail(error));
    if (time.nowMs < this.#outageUntilMs) return fail(new Error("away"));
    if (this.#has("overload", 0.05)) return fail(Object.assign(new Error("busy"), { overloaded: true }));
    if (message.isRetry) this.#retries += 1;
    const isHanging = this.#has("hangs", 0.03);
    if (isHanging) this.#world.isDirty = true;
    if (isHanging && this.#random.chance(0.3)) return;
    // The retry of a failed call succeeds, so that the isolate does not decide locally.
    const isFailing = !message.isRetry && this.#has("failures", 0.1);
    if (isFailing && this.#random.chance(0.5)) return fail(new Error("lost"));
    // The call takes long, or its answer.
    const hangMs = isHanging ? this.#random.int(1_900, 15_000) : 0;
    const callMs = this.#random.pick(0, hangMs);
    time.after(this.#tripMs(message) + callMs, async () => {
      if (this.faults.has("evictions") && this.#world.evict()) this.totals.evictions += 1;
      const crashesBefore = this.#world.crashes;
      const isLost = () => this.#world.crashes !== crashesBefore || isFailing;
      // More often after a report of local decisions, which is the only call that takes something back.
      const crashes = message.request.decisions.length > 0 ? 0.3 : 0.05;
      if (!message.isRetry && this.#has("crashes", crashes)) time.after(0, () => this.#crash());
      const answer = await message.deliver();
      this.#persist();
      time.after(this.#lastWriteMs - time.nowMs, () => {
        time.after(this.#tripMs(message) + hangMs - callMs, () => {
          if (message.isRetry) this.#retries -= 1;
          if (answer === undefined || isLost()) message.fail(new Error("lost"));
          else answer();
        });
      });
    });
  }

  /** Makes the writes of the storage durable later, in their order. */
  #persist(): void {
    const { time, storage } = this.#world;
    const writes = storage.writing.length - this.#persisting;
    if (writes > 0) this.#lastWriteMs = Math.max(this.#lastWriteMs, time.nowMs + this.#random.int(0, 20));
    const { crashes } = this.#world;
    this.#persisting += writes;
    for (let write = 0; write < writes; write += 1)
      time.after(this.#lastWriteMs - time.nowMs, () => {
        if (this.#world.crashes !== crashes) return;
        this.#persisting -= 1;
        this.#world.written();
      });
  }
  /** The number of writes that will be durable. */
  #persisting = 0;

  /** Not during a retry: its isolate would decide locally. */
  #crash(): void {
    const { storage } = this.#world;
    if (this.#retries > 0) return;
    const kept = this.#random.int(0, storage.writing.length);
    this.totals.writesLost += storage.writing.length - kept;
    this.#persisting = 0;
    this.#world.crash(kept);
  }

  async run() {
    const { totals } = this;
    const world = this.#world;
    world.prefill(this.#isColdBurst ? 0 : this.#random.pick(0, 0.5, 0.8, 0.95));
    this.#plan();
    await world.run();
    await this.#finish();
    for (const [key, { refusedLimit }] of world.entries) {
      if (refusedLimit > 0) totals[key.startsWith("day") ? "refusedDays" : "refusedMinutes"] += 1;
    }
    return { ...totals, ...world.counts };
  }

  #plan(): void {
    const random = this.#random;
    const world = this.#world;
    const minute = shortest(world.key.limits);
    let clients = 0;
    const send = (requests: number, delayMs: (index: number) => number) => {
      clients += requests;
      for (let index = 0; index < requests; index += 1)
        world.time.after(delayMs(index), () => void this.#request());
    };
    const hasChanges = CHANGES.some((fault) => this.faults.has(fault));
    const durationMs = hasChanges && random.chance(0.2) ? LONG_MS : random.pick(3_000, 12_000, 12_000);
    if (this.#isColdBurst) {
      send(Math.min(1_000, Math.ceil(minute * 1.2)), () => random.int(0, 100));
      this.#planFaults(durationMs);
      return;
    }
    for (let bursts = random.int(1, 4); bursts > 0; bursts -= 1) {
      const atMs = random.int(0, durationMs);
      const most = random.pick(10, Math.min(400, minute), Math.min(400, 2 * minute));
      const requests = random.int(1, most);
      const spreadMs = random.pick(0, 100, 1_000, 5_000);
      send(requests, () => atMs + random.int(0, spreadMs));
    }
    if (random.chance(0.3)) {
      // A steady client holds leases, or is about to release the last one, when a burst of all remaining requests arrives.
      const [atMs, gapMs] = [random.int(0, durationMs), random.pick(10, 100, 1_000)];
      const burstMs = atMs + 1_000 + 3 * gapMs + random.int(0, 1_000);
      send(Math.min(100, 10_000 / gapMs), (index) => atMs + gapMs * index);
      send(Math.min(1_000, minute), () => burstMs + random.int(0, 50));
    }
    if (random.chance(0.3)) {
      // Sparse traffic, for which leases are long.
      const gapMs = random.int(100, 800);
      send(Math.floor(durationMs / gapMs), (index) => index * gapMs + random.int(0, gapMs));
    }
    if (random.chance(0.1)) {
      // One isolate has requests for longer than the timers of a request run.
      const [gapMs, isolate] = [random.int(100, 1_500), this.#anIsolate()];
      clients += Math.ceil(STEADY_MS / gapMs);
      for (let ms = 0; ms < STEADY_MS; ms += gapMs)
        world.time.after(ms, () => void this.#request(undefined, isolate.isAlive ? isolate : undefined));
    }
    if (random.chance(0.3)) {
      const waiting = random.int(1, Math.min(180, 2 * minute));
      const jitterMs = random.pick(0, 1_000, 5_000, 30_000);
      // Each client gets at most one refusal per minute: too few for a ban.
      this.#isBelowBan = clients + waiting <= Math.max(180, 3 * minute);
      for (let index = 0; index < waiting; index += 1)
        world.time.after(random.int(0, 200), () => void this.#runPatientClient(2 * 60_000, jitterMs));
    } else if (random.chance(0.1)) {
      send(400, (index) => 3_000 + 20 * index);
    }
    this.#planFaults(durationMs);
  }

  #planFaults(durationMs: number): void {
    const random = this.#random;
    const world = this.#world;
    const { time } = world;
    const plan = (fault: Fault, run: () => unknown, times = 1) => {
      for (let left = this.faults.has(fault) ? times : 0; left > 0; left -= 1)
        time.after(random.int(0, durationMs), () => {
          this.totals[fault] += 1;
          run();
        });
    };
    plan("crashes", () => this.#crash());
    // Not during a retry: its isolate would decide locally.
    plan("replacements", () => this.#retries === 0 && world.replace(), 2);
    plan("evictedKeys", () => world.evictKey(this.#anIsolate()));
    plan("sleeps", () => world.sleep());
    plan("unbans", () => world.change({ bansLiftedUntilMs: banEndMs(time.nowMs) }));
    plan("primaryAway", () => {
      this.#primaryAwayUntilMs = time.nowMs + random.int(100, 40_000);
    });
    plan("rotations", () => this.#rotate(), 2);
    plan("expiries", () => {
      const leftMs = random.pick(random.int(0, 2_000), random.int(0, 60_000));
      world.change({ expiresAtMs: time.nowMs + leftMs });
      if (random.chance(0.5)) time.after(random.int(0, 40_000), () => world.change({ expiresAtMs: null }));
    });
    plan("revocations", () => world.change({ revokedAtMs: time.nowMs }));
    const askUsage = async () => {
      const { port, aheadMs } = this.#anIsolate();
      const sentMs = time.nowMs + aheadMs;
      const backMs = random.int(1, 200);
      const status = await world.askUsage();
      if (status !== undefined) time.after(backMs, () => port.learnStatus(status, sentMs));
    };
    plan("usageCalls", askUsage, 5);
    plan("outages", () => {
      this.#outageUntilMs = time.nowMs + random.int(100, 6_000);
    });
    plan("freezes", () => {
      world.freeze(this.#anIsolate(), random.pick(random.int(50, 1_000), random.int(1_000, 15_000)));
    });
    plan("isolateEnds", () => {
      world.end(this.#anIsolate());
      this.#newIsolate();
    });
    const stepMs = () =>
      random.pick(1, -1) *
      random.pick(random.int(1, 300), random.int(300, 90_000), random.int(90_000, 2 * 86_400_000));
    plan("isolateSteps", () => {
      world.hasStepped = true;
      const isolate = this.#anIsolate();
      isolate.hasStepped = true;
      isolate.aheadMs += stepMs();
    });
    plan("objectSteps", () => {
      world.hasStepped = true;
      world.objectAheadMs += stepMs();
    });
    const changePlan = () => {
      const factor = random.pick(0.3, 0.8, 1.5, 3);
      const changed = (limit: number) => Math.max(1, Math.floor(limit * factor));
      world.change({ limits: mapWindows(world.key.limits, changed) as Limits });
    };
    plan("planChanges", changePlan, 2);
  }

  /** Replaces the secret. Clients use the new one at once, and some go on with the old one. */
  #rotate(): void {
    const { time, key } = this.#world;
    const secret = `secret ${this.#secrets.length + 1}`;
    const graceEndsMs = time.nowMs + this.#random.pick(0, this.#random.int(0, 40_000));
    const replaced = key.secrets.map(({ hash, goodUntilMs }) => ({
      hash,
      goodUntilMs: Math.min(goodUntilMs ?? graceEndsMs, graceEndsMs),
    }));
    this.#world.change({ secrets: [{ hash: secret, goodUntilMs: null }, ...replaced] });
    this.#secrets.push(secret);
    void this.#request(secret);
  }

  /** One that ends is replaced, so there is always one. */
  #anIsolate(): Isolate {
    return this.#random.pick(...this.#world.isolates.filter(({ isAlive }) => isAlive));
  }

  /** Some requests have an older secret, or one that does not exist. */
  #request(secret?: string, isolate = this.#anIsolate()) {
    this.totals.requests += 1;
    const random = this.#random;
    const isOdd = this.faults.has("rotations") && random.chance(0.2);
    const odd = isOdd ? random.pick(...this.#secrets, `wrong ${random.int(1, 3)}`) : undefined;
    return this.#world.ask(isolate, secret ?? odd);
  }

  /** A client with one request at a time that waits for Retry-After. */
  async #runPatientClient(durationMs: number, jitterMs: number): Promise<void> {
    const { time } = this.#world;
    const startMs = time.nowMs;
    const sendNext = async () => {
      if (time.nowMs > startMs + durationMs) return;
      const decision = await this.#request();
      if (decision === undefined) return;
      const isBanned = decision.bannedUntilMs !== undefined;
      this.#world.expect(
        !isBanned || !this.#isBelowBan || this.#world.hasStepped || this.faults.has("planChanges"),
        () => "a client that waits for Retry-After was banned",
      );
      const retryMs = Number(headersOf(decision)[HEADER.retryAfter] ?? 0) * 1000;
      const pauseMs = decision.admitted
        ? this.#random.int(500, 20_000)
        : retryMs + this.#random.int(0, jitterMs);
      time.after(pauseMs, () => void sendNext());
    };
    await sendNext();
  }

  /** Lets some time pass, with faults and a few requests. Then operators see what the object has counted. */
  async #expectRecords(): Promise<void> {
    const random = this.#random;
    const world = this.#world;
    for (let rounds = 0; rounds < 3; rounds += 1) {
      const forMs = random.int(1_000, LATE_RECORD_MS);
      for (let requests = random.int(0, 20); requests > 0; requests -= 1)
        world.time.after(random.int(0, forMs), () => void this.#request());
      await world.run(world.time.nowMs + forMs);
    }
    this.faults.clear();
    // The object's clock may have stepped back by two days.
    for (let ms = LATE_RECORD_MS; !world.isRecorded && ms < 7 * 86_400_000; ms *= 2)
      await world.run(world.time.nowMs + ms);
    world.expectRecords();
  }

  /** Ends all faults, and checks all counts. */
  async #finish(): Promise<void> {
    const world = this.#world;
    const { totals, faults } = this;
    // Isolates report local admissions with their next call.
    const occurred = [...faults];
    const has = (...kinds: string[]) => occurred.some((fault) => kinds.includes(FAULTS[fault]));
    faults.clear();
    this.#outageUntilMs = 0;
    this.#primaryAwayUntilMs = 0;
    // Then each isolate can send a request.
    if (world.versions.length > 1) world.change({ expiresAtMs: null, revokedAtMs: null });
    world.time.nowMs += REST_MS;
    for (const isolate of world.isolates.filter(({ isAlive }) => isAlive)) void world.ask(isolate);
    await world.run();
    for (const fault of occurred) faults.add(fault);
    if (!world.hasEndedIsolates)
      world.expect(world.open <= world.cancelled, () => `${world.open} requests were never decided`);
    const isHarmed = has("harmful");
    const hasWaited = world.longestWaitMs >= LAST_CALL_MS;
    const isQuick = !has("slow", "late", "harmful");
    // Without a key, the object can't decide.
    world.expect(
      isHarmed || hasWaited || world.mayLackRecord || world.counts.local === 0,
      () => "an isolate has decided locally",
    );
    if (isQuick && !this.#isColdBurst) {
      // A request waits for about a second at most, unless a burst uses a window, or what is left of it, within seconds.
      world.expect(world.slowWaits.length === 0, () => `${world.slowWaits[0]}`);
      totals.quickScenarios += 1;
    }
    // A cancelled call delays the return of its isolate's lease. If all leases come back in time, local decisions are right too.
    const isInTime = !has("late", "harmful");
    if ((!world.isDirty || isInTime) && !world.hasStepped && world.cancelled === 0) {
      world.expectExact();
      totals.exactScenarios += 1;
    }
    if (!world.hasStepped) {
      world.expectUsage();
      totals.usageChecked += 1;
    }
    await this.#expectRecords();
    world.throwFailure();
  }
}
