// The Durable Object of a key against a reference of twenty lines: whatever sequence of requests, clock steps, repeated
// calls, evictions, crashes and plan changes meets it, and whatever bans follow from that, both decide the same.
// With reservations, a key that was fast when its object broke may have lost some requests: how many is checked, and the
// reference goes on from there.
//
// It runs 500 sequences; MODEL_RUNS=100000 npm test -- test/model.test.ts runs as many as that says.

import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, inject, it, vi } from "vitest";
import type { RateLimiter } from "../src/index.ts";
import { RESERVATIONS_ENABLED } from "../src/rate-limit/reservation.ts";
import { type Decision, type Limits, remaining } from "../src/rate-limit/window.ts";
import { crash } from "./crash.ts";

const DAY_MS = 86_400_000;

/** What a key's object should do, as plainly as it can be said. */
class Reference {
  minute = 0;
  day = 0;
  usedInMinute = 0;
  refusedInMinute = 0;
  bannedUntilMs = 0;
  totals = new Map<number, { admitted: number; refused: number }>();

  take(limits: Limits, nowMs: number): string {
    if (nowMs < this.bannedUntilMs) return "banned";
    const minute = Math.floor(nowMs / 60_000);
    if (minute > this.minute) [this.minute, this.usedInMinute, this.refusedInMinute] = [minute, 0, 0];
    this.day = Math.max(this.day, Math.floor(nowMs / DAY_MS));

    const today = this.totals.get(this.day) ?? { admitted: 0, refused: 0 };
    this.totals.set(this.day, today);
    const isAdmitted = this.usedInMinute < limits.minute && today.admitted < limits.day;
    if (isAdmitted) [this.usedInMinute, today.admitted] = [this.usedInMinute + 1, today.admitted + 1];
    else [this.refusedInMinute, today.refused] = [this.refusedInMinute + 1, today.refused + 1];
    if (isAdmitted) return "admitted";
    if (this.refusedInMinute <= Math.max(60, limits.minute)) return "refused";
    this.bannedUntilMs = nowMs + 600_000;
    return "banned";
  }
}

/** A request that was let in elsewhere counts, ban or no ban, in the windows that are now. */
function letIn(reference: Reference, nowMs: number): void {
  const { bannedUntilMs } = reference;
  reference.bannedUntilMs = 0;
  if (Math.floor(nowMs / 60_000) >= reference.minute) {
    reference.take({ minute: Number.POSITIVE_INFINITY, day: Number.POSITIVE_INFINITY }, nowMs);
  }
  reference.bannedUntilMs = bannedUntilMs;
}

interface Model {
  reference: Reference;
  limits: Limits;
  /** The largest limits so far. */
  most: Limits;
  /** When a take last changed something in this life of the object, by the clock that was latest; undefined if none has. */
  latestMs: number | undefined;
  /** Whether all is stored as it is. */
  isStored: boolean;
  /** How many requests were burnt, by window. */
  burnt: Map<string, number>;
  /** Whether there is something in memory to evict. */
  isRunning: boolean;
  lastTake: { id: string; outcome: string; takesSince: number } | undefined;
}

interface Real {
  name: string;
  takes: number;
}

type Command = fc.AsyncCommand<Model, Real>;

const limiterOf = ({ name }: Real) => env.RATE_LIMITER.getByName(name);

/** A decision in the words of the reference. */
function outcomeOf({ admitted, bannedUntilMs }: Decision): string {
  return bannedUntilMs === undefined ? (admitted ? "admitted" : "refused") : "banned";
}

/** What is left of both windows; those that are over are whole again, though nobody has counted in them yet. */
function leftOf({ reference, limits }: Model): number[] {
  const usedInMinute = Math.floor(Date.now() / 60_000) > reference.minute ? 0 : reference.usedInMinute;
  const today = Math.max(reference.day, Math.floor(Date.now() / DAY_MS));
  const { admitted: usedInDay = 0 } = reference.totals.get(today) ?? {};
  return [limits.minute - usedInMinute, limits.day - usedInDay].map((left) => Math.max(0, left));
}

/** Notes that a take may change what is stored. It is stored at once if the one before was a second ago, or more. */
function noteTake(model: Model): void {
  const nowMs = Date.now();
  model.isStored = !RESERVATIONS_ENABLED || model.latestMs === undefined || nowMs >= model.latestMs + 1_000;
  model.latestMs = Math.max(nowMs, model.latestMs ?? nowMs);
}

/** What the object has after it broke: what it let in, what was stored ahead, and all refusals. */
async function noteBreak(model: Model, real: Real): Promise<void> {
  const { reference, limits, most, isStored, latestMs = 0 } = model;
  model.isRunning = false;
  model.latestMs = undefined;
  if (isStored) return;
  // As of the latest take: what was burnt of a minute that is over shows again if the clock steps back into it.
  const nowMs = Date.now();
  vi.setSystemTime(Math.min(nowMs, latestMs));
  const { standing, days } = await limiterOf(real).usage(limits);
  vi.setSystemTime(nowMs);
  model.isRunning = true;
  const burn = (window: string, before: number, after: number, limit: number) => {
    const burnt = (model.burnt.get(window) ?? 0) + after - before;
    expect(after).toBeGreaterThanOrEqual(before);
    expect(burnt).toBeLessThanOrEqual(Math.floor(limit / 20));
    model.burnt.set(window, burnt);
  };
  const minute = standing.windows.find(({ name }) => name === "minute");
  if (minute?.startMs === reference.minute * 60_000) {
    burn(`minute ${minute.startMs}`, reference.usedInMinute, minute.used, most.minute);
    expect(minute.refused).toBe(reference.refusedInMinute);
    reference.usedInMinute = minute.used;
  }
  for (const { startMs, admitted, refused } of days) {
    const before = reference.totals.get(startMs / DAY_MS) ?? { admitted: 0, refused: 0 };
    burn(`day ${startMs}`, before.admitted, admitted, most.day);
    expect(refused).toBe(before.refused);
    reference.totals.set(startMs / DAY_MS, { admitted, refused });
  }
  model.lastTake = undefined;
  model.isStored = true;
}

/** A take, which may report others. */
class TakeCommand implements Command {
  readonly reports: number;

  constructor(reports: number) {
    this.reports = reports;
  }

  // A clock that was set back into an earlier day would need a rule of its own for what is reported.
  check = ({ reference }: Readonly<Model>) =>
    this.reports === 0 || Math.floor(Date.now() / 60_000) >= reference.minute;
  toString = () => `take, reporting ${this.reports}`;

  async run(model: Model, real: Real): Promise<void> {
    const [id = "", ...others] = Array.from({ length: 1 + this.reports }, (_, index) =>
      `${real.takes + index}`.padStart(10, "0"),
    );
    real.takes += 1 + this.reports;
    const unreported = others.map((other) => ({ id: other, atMs: Date.now() }));
    if (this.reports > 0 || Date.now() >= model.reference.bannedUntilMs) noteTake(model);
    for (const { atMs } of unreported) letIn(model.reference, atMs);
    const decision = await limiterOf(real).take(model.limits, { id, unreported, bannedUntilMs: 0 });
    const outcome = model.reference.take(model.limits, Date.now());
    expect(outcomeOf(decision)).toBe(outcome);
    expect(decision.windows.map(remaining)).toEqual(leftOf(model));
    if (outcome === "banned") expect(decision.bannedUntilMs).toBe(model.reference.bannedUntilMs);
    model.lastTake = { id, outcome, takesSince: 0 };
    model.isRunning = true;
  }
}

/** Many takes without a call between them: as many as a ban needs. */
class BurstCommand implements Command {
  readonly size: number;

  constructor(size: number) {
    this.size = size;
  }

  check = () => true;
  toString = () => `burst of ${this.size}`;

  async run(model: Model, real: Real): Promise<void> {
    const { limits, reference } = model;
    for (let request = 0; request < this.size && Date.now() >= reference.bannedUntilMs; request += 1)
      noteTake(model);
    const outcomes = await runInDurableObject(limiterOf(real), (instance: RateLimiter) =>
      Array.from({ length: this.size }, () => outcomeOf(instance.take(limits))),
    );
    expect(outcomes).toEqual(outcomes.map(() => reference.take(limits, Date.now())));
    if (model.lastTake !== undefined) model.lastTake.takesSince += this.size;
    model.isRunning = true;
  }
}

/** The latest take once more, as after a lost answer. */
class RepeatCommand implements Command {
  // The object remembers 256. A refusal is remembered for its own windows only, and one by a ban not at all.
  check = ({ lastTake }: Readonly<Model>) =>
    lastTake !== undefined && lastTake.takesSince < 256 && lastTake.outcome === "admitted";
  toString = () => "repeat";

  async run(model: Model, real: Real): Promise<void> {
    const { id } = model.lastTake ?? { id: "" };
    const again = { id, unreported: [], bannedUntilMs: 0 };
    expect((await limiterOf(real).take(model.limits, again)).admitted).toBe(true);
    model.isRunning = true;
  }
}

class ClockCommand implements Command {
  readonly ms: number;

  constructor(ms: number) {
    this.ms = ms;
  }

  check = () => true;
  toString = () => `clock ${this.ms} ms`;

  run(): Promise<void> {
    vi.setSystemTime(Date.now() + this.ms);
    return Promise.resolve();
  }
}

class EvictCommand implements Command {
  check = ({ isRunning }: Readonly<Model>) => isRunning;
  toString = () => "evict";

  async run(model: Model, real: Real): Promise<void> {
    await evictDurableObject(limiterOf(real));
    await noteBreak(model, real);
  }
}

class AbortCommand implements Command {
  check = () => true;
  toString = () => "abort";

  async run(model: Model, real: Real): Promise<void> {
    await crash(limiterOf(real));
    await noteBreak(model, real);
  }
}

class PlanCommand implements Command {
  readonly limits: Limits;

  constructor(limits: Limits) {
    this.limits = limits;
  }

  check = () => true;
  toString = () => `plan ${this.limits.minute} ${this.limits.day}`;

  run(model: Model): Promise<void> {
    model.limits = this.limits;
    model.most = mostOf(model.most, this.limits);
    return Promise.resolve();
  }
}

class UsageCommand implements Command {
  check = () => true;
  toString = () => "usage";

  async run(model: Model, real: Real): Promise<void> {
    const { reference, limits } = model;
    const { days, standing } = await limiterOf(real).usage(limits);
    expect(standing.windows.map(remaining)).toEqual(leftOf(model));
    const isBanned = standing.nowMs < reference.bannedUntilMs;
    expect(standing.bannedUntilMs).toBe(isBanned ? reference.bannedUntilMs : undefined);
    const today = Math.max(reference.day, Math.floor(standing.nowMs / DAY_MS));
    const expected = [...reference.totals]
      .filter(([day]) => day > today - 30)
      .map(([day, totals]) => ({ startMs: day * DAY_MS, ...totals }));
    expect(days).toEqual(expected);
  }
}

/** Small plans, and such that are about as large as the refusals that a ban takes. */
const limitsArbitrary = fc
  .oneof(
    fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 30 })),
    fc.tuple(fc.integer({ min: 55, max: 70 }), fc.integer({ min: 60, max: 300 })),
  )
  .map(([minute, day]): Limits => ({ minute, day }));

const commandsArbitrary = fc.commands(
  [
    fc.constant(new TakeCommand(0)),
    fc.constant(new TakeCommand(0)),
    fc.integer({ min: 1, max: 5 }).map((reports) => new TakeCommand(reports)),
    fc
      .oneof(fc.integer({ min: 2, max: 8 }), fc.integer({ min: 50, max: 150 }))
      .map((size) => new BurstCommand(size)),
    fc.constant(new RepeatCommand()),
    fc
      .oneof(
        { weight: 4, arbitrary: fc.integer({ min: 0, max: 60_000 }) },
        { weight: 3, arbitrary: fc.constantFrom(1, 999, 1_000, 59_999, 60_000, 599_999, 600_000, DAY_MS) },
        { weight: 2, arbitrary: fc.integer({ min: -90_000, max: 0 }) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: 3 * DAY_MS }) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: 40 * DAY_MS }) },
      )
      .map((ms) => new ClockCommand(ms)),
    fc.constant(new EvictCommand()),
    fc.constant(new AbortCommand()),
    limitsArbitrary.map((limits) => new PlanCommand(limits)),
    fc.constant(new UsageCommand()),
  ],
  { maxCommands: 40, size: "max" },
);

function mostOf(one: Limits, other: Limits): Limits {
  return { minute: Math.max(one.minute, other.minute), day: Math.max(one.day, other.day) };
}

const bans: number[] = [];
const burns: number[] = [];

it("a key's object decides as the reference does", { timeout: 0 }, async () => {
  // In the future of every clock, so that no alarm rings by itself.
  const startArbitrary = fc.integer({ min: Date.UTC(2100, 0, 1), max: Date.UTC(2101, 0, 1) });
  await fc.assert(
    fc.asyncProperty(
      startArbitrary,
      limitsArbitrary,
      commandsArbitrary,
      async (startMs, limits, commands) => {
        vi.setSystemTime(startMs);
        const model: Model = {
          reference: new Reference(),
          limits,
          most: limits,
          latestMs: undefined,
          isStored: true,
          burnt: new Map(),
          isRunning: false,
          lastTake: undefined,
        };
        const real = { name: `key-${crypto.randomUUID()}`, takes: 0 };
        await fc.asyncModelRun(() => ({ model, real }), commands);
        if (model.reference.bannedUntilMs > 0) bans.push(model.reference.bannedUntilMs);
        burns.push(...model.burnt.values());
      },
    ),
    { numRuns: inject("modelRuns") },
  );
  // The sequences got as far as bans: otherwise those were not put to the test.
  expect(bans.length).toBeGreaterThan(inject("modelRuns") / 20);
  if (RESERVATIONS_ENABLED) {
    expect(burns.filter((burnt) => burnt > 0).length).toBeGreaterThan(inject("modelRuns") / 100);
  }
});
