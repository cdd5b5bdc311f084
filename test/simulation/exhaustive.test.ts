// Every order of events in a small world: two isolates, with or without a lease, and few requests left. From each reachable
// state the world continues without faults, and all counts must be exact.
//
// EXHAUSTIVE_DEPTH=n sets the number of events: 4 by default, some 10,000 states; 5 are some 75,000, and take a minute.

import { expect, inject, it } from "vitest";
import { type Isolate, type Message, World } from "./world.ts";

/** A world in which nothing happens except chosen events. */
class Steps {
  readonly world: World;
  readonly #messages: { message: Message; name: string; sentMs: number; answer?: () => void }[] = [];
  /** The events of each part with their times. Parts with equal histories are in equal states. */
  readonly #histories = new Map<string, string>();
  readonly #sent = new Map<Isolate, number>();
  readonly #burst: number;
  #faults = 0;
  #changes = 0;
  #arrivals = 0;

  constructor(limit: number, burst: number, second: number) {
    this.#burst = burst;
    const limits = { minute: limit, day: 3 * limit };
    this.world = new World({
      startMs: Date.UTC(2026, 10, 22, 23, 59, second),
      limits,
      polls: false,
      send: (message) => {
        const sent = (this.#sent.get(message.isolate) ?? 0) + 1;
        this.#sent.set(message.isolate, sent);
        const name = `${this.#nameOf(message.isolate)}${sent}`;
        this.#messages.push({ message, name, sentMs: this.world.time.nowMs });
      },
    });
    this.world.newIsolate();
    this.world.newIsolate();
  }

  #nameOf(isolate: Isolate): string {
    return "AB"[this.world.isolates.indexOf(isolate)] ?? "";
  }

  /** Sends recent requests through both isolates, so that they request leases. A gets one if the limit is large enough. */
  async warmUp(): Promise<void> {
    const [first, second] = this.world.isolates as [Isolate, Isolate];
    for (const [isolate, pauseMs] of [
      [second, 10],
      [first, 60],
      [first, 0],
    ] as const) {
      void this.world.request(isolate);
      await this.world.settle();
      await this.#deliverAll();
      await this.world.run(this.world.time.nowMs + pauseMs);
    }
  }

  async #deliverAll(): Promise<void> {
    for (const { message, answer } of this.#messages.splice(0)) {
      const answerNow = answer ?? (await message.deliver());
      this.world.persist();
      answerNow?.();
    }
  }

  /** The names of the possible next events. */
  events(): string[] {
    const arrivals = this.#arrivals < 3 ? ["arrive A", "arrive B", "burst A", "burst B"] : [];
    const faults =
      this.#faults < 1 ? ["crash", "evict", ...this.#messages.map(({ name }) => `lose ${name}`)] : [];
    const steps = this.#messages.map(
      ({ name, answer }) => `${answer === undefined ? "deliver" : "answer"} ${name}`,
    );
    // The plan changes, and the object learns of it.
    const changes = this.#changes < 1 ? ["lower", "raise"] : [];
    return [...arrivals, ...steps, ...faults, ...changes, "pass 100", "pass 1000", "boundary"];
  }

  async do(event: string): Promise<void> {
    const { world } = this;
    const [what, which = ""] = event.split(" ");
    const message = this.#messages.find(({ name }) => name === which);
    const isolate = world.isolates["AB".indexOf(which)];
    switch (what) {
      case "arrive":
      case "burst":
        this.#arrivals += 1;
        this.#note(which, what);
        for (let request = 0; request < (what === "burst" ? this.#burst : 1); request += 1)
          void world.request(isolate as Isolate);
        break;
      case "deliver":
        this.#note("object", which);
        if (message !== undefined) message.answer = (await message.message.deliver()) ?? (() => {});
        break;
      case "answer":
        // The output gate: a result is sent when all earlier writes are durable.
        this.world.persist();
        this.#note(which.slice(0, 1), event);
        message?.answer?.();
        this.#drop(which);
        break;
      case "lose":
        this.#faults += 1;
        this.#note(which.slice(0, 1), event);
        message?.message.fail(new Error("lost"));
        this.#drop(which);
        break;
      case "crash":
        this.#faults += 1;
        this.#note("object", event);
        world.crash(0);
        for (const each of this.#messages.filter(({ answer }) => answer !== undefined)) {
          this.#note(each.name.slice(0, 1), `lose ${each.name}`);
          each.message.fail(new Error("reset"));
          this.#drop(each.name);
        }
        break;
      case "evict":
        this.#faults += 1;
        this.world.persist();
        this.#note("object", event);
        world.evict();
        break;
      case "lower":
      case "raise": {
        this.#changes += 1;
        this.#note("object", what);
        const { minute, day } = world.record.limits;
        const change = what === "lower" ? -5 : 5;
        world.change({ limits: { minute: Math.max(1, minute + change), day: day + change } });
        world.sleep();
        break;
      }
      case "pass":
        await world.run(world.time.nowMs + Number(which));
        break;
      default:
        await world.run(Date.UTC(2026, 10, 23) + 10);
    }
    // A call that exceeds its deadline, itself or by its retry, makes counts inexact.
    const ages = [...this.#messages, ...(message ? [message] : [])].map(
      ({ sentMs }) => world.time.nowMs - sentMs,
    );
    if (Math.max(0, ...ages) > 1_500) world.isDirty = true;
    await world.settle();
  }

  #drop(which: string): void {
    const index = this.#messages.findIndex(({ name }) => name === which);
    if (index !== -1) this.#messages.splice(index, 1);
  }

  #note(part: string, what: string): void {
    this.#histories.set(part, `${this.#histories.get(part) ?? ""};${this.world.time.nowMs} ${what}`);
  }

  /** Equal for equal states. */
  get fingerprint(): string {
    const parts = ["A", "B", "object"].map((part) => this.#histories.get(part));
    const underway = this.#messages.map(({ name, answer }) => `${name}${answer === undefined ? "" : "!"}`);
    return [this.world.time.nowMs, this.#faults, ...parts, ...underway.sort()].join("|");
  }

  /** Continues without faults, and checks all counts at the end. */
  async finish(): Promise<void> {
    const { world } = this;
    for (
      let round = 0;
      round < 100 && (world.open > 0 || this.#messages.length > 0 || round < 12);
      round += 1
    ) {
      await this.#deliverAll();
      await world.settle();
      if (this.#messages.length === 0) await world.run(world.time.nowMs + 600);
    }
    world.expect(world.open === 0, () => `${world.open} requests were never decided`);
    if (!world.isDirty) world.expectExact();
    world.expectUsage();
    world.throwFailure();
  }
}

/** Explores all sequences of up to `depth` events, each state once. Returns the number of states. */
async function explore(limit: number, burst: number, second: number, depth: number) {
  const seen = new Set<string>();
  const met = { refused: 0, leases: 0, undecided: 0 };
  const reach = async (path: readonly string[]): Promise<Steps> => {
    const steps = new Steps(limit, burst, second);
    await steps.warmUp();
    for (const event of path) await steps.do(event);
    return steps;
  };
  let paths: (readonly string[])[] = [[]];
  for (let length = 0; paths.length > 0; length += 1) {
    const next: (readonly string[])[] = [];
    for (const path of paths) {
      try {
        const steps = await reach(path);
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

it.each([
  // A has a lease of four, and a burst exceeds the rest by one.
  ["with a lease", 12, 6, 57, inject("exhaustiveDepth")],
  ["with a lease, early in the minute", 12, 6, 30, inject("exhaustiveDepth") - 1],
  ["without a lease", 5, 2, 57, inject("exhaustiveDepth")],
] as const)(
  "limits are exact in every order of events, %s",
  { timeout: 0 },
  async (name, limit, burst, second, depth) => {
    const { states, refused, leases, undecided } = await explore(limit, burst, second, depth);
    if (process.env.SIMULATION_TOTALS !== undefined)
      process.stderr.write(`${name}: ${states} states at depth ${depth}\n`);
    expect(refused).toBeGreaterThan(0);
    if (limit > 5) expect(Math.min(leases, undecided)).toBeGreaterThan(0);
  },
);
