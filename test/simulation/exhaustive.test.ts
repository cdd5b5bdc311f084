// Every order of events in a small world: two isolates, with or without a lease, and few requests left. From each reachable
// state the world continues without faults, and all counts must be exact.
//
// EXHAUSTIVE_DEPTH=n sets the number of events in the first setting, others have one fewer: 3 by default, 1,153 states; 5 take minutes.

import { expect, inject, it } from "vitest";
import { forEachWindow } from "../../src/keys/plans.ts";
import { type Isolate, type Message, World } from "./world.ts";

/**
 * The limit of a minute, the requests of a burst, those that A has had lately, the second of the minute at which the world begins, and what
 * the object reserves.
 */
type Setting = { limit: number; burst: number; recent: number; second: number; reservedShare?: number };

/** A world in which nothing happens except chosen events. */
class Steps {
  readonly world: World;
  readonly #burst: number;
  readonly #recent: number;
  /** By isolate and number. `answer` returns the result of a call that the object has executed. */
  readonly #messages = new Map<string, { message: Message; sentMs: number; answer?: () => void }>();
  /** The events of each part with their times. Parts with equal histories are in equal states. */
  readonly #histories: Record<string, string> = { A: "", B: "", object: "" };
  readonly #sent: Record<string, number> = { A: 0, B: 0 };
  readonly #left = { arrivals: 3, faults: 1, changes: 1 };

  constructor({ limit, burst, recent, second, reservedShare = 0 }: Setting) {
    this.#burst = burst;
    this.#recent = recent;
    this.world = new World({
      startMs: Date.UTC(2026, 10, 22, 23, 59, second),
      limits: { minute: limit, day: 3 * limit },
      reservedShare,
      polls: false,
      send: (message) => {
        const isolate = "AB"[this.world.isolates.indexOf(message.isolate)] ?? "";
        this.#sent[isolate] = (this.#sent[isolate] ?? 0) + 1;
        this.#messages.set(`${isolate}${this.#sent[isolate]}`, { message, sentMs: this.world.time.nowMs });
      },
    });
    this.world.newIsolate();
    this.world.newIsolate();
  }

  /** Sends recent requests through both isolates, so that they request leases. A gets one if the limit is large enough. */
  async warmUp(): Promise<void> {
    const [first, second] = this.world.isolates as [Isolate, Isolate];
    for (const [isolate, requests, pauseMs] of [
      [second, 1, 10],
      [first, this.#recent - 1, 60],
      [first, 1, 0],
    ] as const) {
      for (let request = 0; request < requests; request += 1) void this.world.ask(isolate);
      for (let isSent = true; isSent; isSent = this.#messages.size > 0) {
        await this.world.settle();
        await this.#deliverAll();
        await this.world.settle();
      }
      await this.world.run(this.world.time.nowMs + pauseMs);
    }
  }

  async #deliverAll(): Promise<void> {
    const all = [...this.#messages.values()];
    this.#messages.clear();
    for (const { message, answer } of all) {
      const answerNow = answer ?? (await message.deliver());
      this.world.persist();
      answerNow?.();
    }
  }

  /** The names of the possible next events. */
  events(): string[] {
    const { arrivals, faults, changes } = this.#left;
    const names = [...this.#messages.keys()];
    return [
      ...(arrivals > 0 ? ["arrive A", "arrive B", "burst A", "burst B"] : []),
      ...[...this.#messages].map(
        ([name, { answer }]) => `${answer === undefined ? "deliver" : "answer"} ${name}`,
      ),
      ...(faults > 0 ? ["crash", ...names.map((name) => `lose ${name}`)] : []),
      // The plan changes, and the object learns of it.
      ...(changes > 0 ? ["lower", "raise"] : []),
      ...["pass 100", "pass 1000", "boundary"],
    ];
  }

  async do(event: string): Promise<void> {
    const { world } = this;
    const [what = "", which = ""] = event.split(" ");
    const sent = this.#messages.get(which);
    const { isolates, time } = world;
    const isolate = isolates["AB".indexOf(which)] as Isolate;
    const calledMs = [...this.#messages.values()].map(({ sentMs }) => sentMs);
    if (what === "arrive" || what === "burst") {
      this.#left.arrivals -= 1;
      this.#note(which, what);
      for (let request = 0; request < (what === "burst" ? this.#burst : 1); request += 1)
        void world.ask(isolate);
    } else if (what === "deliver" && sent !== undefined) {
      this.#note("object", which);
      sent.answer = (await sent.message.deliver()) ?? (() => {});
    } else if (what === "answer") {
      // The output gate: a result is sent when all earlier writes are durable.
      world.persist();
      this.#note(which.slice(0, 1), event);
      sent?.answer?.();
      this.#messages.delete(which);
    } else if (what === "lose") {
      this.#left.faults -= 1;
      this.#lose(which, "lost");
    } else if (what === "crash") {
      this.#left.faults -= 1;
      this.#note("object", event);
      world.crash(0);
      for (const [name, { answer }] of [...this.#messages])
        if (answer !== undefined) this.#lose(name, "reset");
    } else if (what === "lower" || what === "raise") {
      this.#left.changes -= 1;
      this.#note("object", what);
      const change = what === "lower" ? -5 : 5;
      const limits = forEachWindow((name) => Math.max(1, world.key.limits[name] + change));
      world.change({ limits });
      world.sleep();
    } else await world.run(what === "pass" ? time.nowMs + Number(which) : Date.UTC(2026, 10, 23) + 10);
    // A call that exceeds its deadline, itself or by its retry, makes counts inexact.
    if (time.nowMs - Math.min(...calledMs) > 1_500) world.isDirty = true;
    await world.settle();
  }

  #lose(name: string, reason: string): void {
    this.#note(name.slice(0, 1), `lose ${name}`);
    this.#messages.get(name)?.message.fail(new Error(reason));
    this.#messages.delete(name);
  }

  #note(part: string, what: string): void {
    this.#histories[part] += `;${this.world.time.nowMs} ${what}`;
  }

  /** Equal for equal states. */
  get fingerprint(): string {
    const underway = [...this.#messages].map(
      ([name, { answer }]) => `${name}${answer === undefined ? "" : "!"}`,
    );
    const { A, B, object } = this.#histories;
    return [this.world.time.nowMs, this.#left.faults, A, B, object, ...underway.sort()].join("|");
  }

  /** Continues without faults, and checks all counts at the end. */
  async finish(): Promise<void> {
    const { world } = this;
    const isBusy = () => world.open > 0 || this.#messages.size > 0;
    for (let round = 0; round < 12 || (round < 100 && isBusy()); round += 1) {
      await this.#deliverAll();
      await world.settle();
      if (this.#messages.size === 0) await world.run(world.time.nowMs + 600);
    }
    world.expect(world.open === 0, () => `${world.open} requests were never decided`);
    if (!world.isDirty) world.expectExact();
    world.expectUsage();
    world.throwFailure();
  }
}

/** Explores all sequences of up to `depth` events, each state once. Returns the number of states, and what occurred in them. */
async function explore(setting: Setting, depth: number) {
  const seen = new Set<string>();
  const met = { refused: 0, leases: 0, undecided: 0 };
  let paths: (readonly string[])[] = [[]];
  for (let length = 0; paths.length > 0; length += 1) {
    const next: (readonly string[])[] = [];
    for (const path of paths) {
      try {
        const steps = new Steps(setting);
        await steps.warmUp();
        for (const event of path) await steps.do(event);
        if (seen.has(steps.fingerprint)) continue;
        seen.add(steps.fingerprint);
        if (length < depth) next.push(...steps.events().map((event) => [...path, event]));
        await steps.finish();
        for (const name of Object.keys(met) as (keyof typeof met)[]) met[name] += steps.world.counts[name];
      } catch (error) {
        throw new Error(`${(error as Error).message}; after ${path.join(", ")}`, { cause: error });
      }
    }
    paths = next;
  }
  return { states: seen.size, ...met };
}

const DEPTH = inject("exhaustiveDepth");

it.each([
  // A has a lease of two, and a burst exceeds the rest by one.
  ["with a lease", { limit: 16, burst: 8, recent: 6, second: 57 }, DEPTH],
  ["with a lease, early in the minute", { limit: 16, burst: 8, recent: 6, second: 30 }, DEPTH - 1],
  [
    "with a lease and a reservation",
    { limit: 16, burst: 8, recent: 6, second: 30, reservedShare: 1 / 4 },
    DEPTH - 1,
  ],
  ["without a lease", { limit: 5, burst: 2, recent: 2, second: 57 }, DEPTH - 1],
] as const)("limits are exact in every order of events, %s", { timeout: 0 }, async (name, setting, depth) => {
  const { states, refused, leases, undecided } = await explore(setting, depth);
  if (process.env.SIMULATION_TOTALS !== undefined)
    process.stderr.write(`${name}: ${states} states at depth ${depth}\n`);
  expect(refused).toBeGreaterThan(0);
  if (setting.limit > 5) expect(Math.min(leases, undecided)).toBeGreaterThan(0);
});
