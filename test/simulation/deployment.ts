// A deployment of the simulation: for a minute, one side's messages, or what the object has stored, are those of another release. Three isolates
// send one and a half times the limit of each minute, evenly. The object starts again when the deployment begins and when it ends.

import { longest, shortest } from "../../src/limits/windows.ts";
import { noNumbersIn } from "../support/fields.ts";
import { Random } from "./random.ts";
import { type Alter, FIRST_SECRET, type Isolate, World } from "./world.ts";

const START_MS = Date.UTC(2026, 10, 22, 12, 34);
const MINUTE_MS = 60_000;
const MINUTES = 3;
export const LIMIT = 90;
const REQUESTS = 1.5 * LIMIT;
const ISOLATES = 3;
const TRIP_MS = 20;
/** Within the first and the second minute. */
const FROM_MS = 20_000;
const TO_MS = 80_000;
const SECRETS = ["a new secret", FIRST_SECRET].map((hash) => ({ hash, goodUntilMs: null }));
/** For so long an isolate gets no answer. */
const HANG_MS = 4_000;

export interface Deployment {
  /** Of each minute. */
  admitted: number[];
  /** How many requests the day's count shows at the end. */
  counted: number;
  /** When the first request of each minute was admitted, in milliseconds since its beginning. */
  firstMs: number[];
  /** What the object or an isolate has thrown. */
  thrown: string[];
  /** Guarantees that were broken. */
  broken: string[];
  /** Where a message or what is stored has a number that is none. */
  noNumbers: string[];
}

/** A world that goes on after a guarantee was broken. */
class Observed extends World {
  readonly broken: string[] = [];
  override expect(holds: boolean, what: () => string): void {
    if (!holds) this.broken.push(what());
  }
}

interface Options {
  /** Makes messages, and what is stored, those of another release. */
  alter?: Alter;
  /** Whether the object has no method `identify`. */
  lacksIdentify?: boolean;
}

/** What Cloudflare throws for a method that an object lacks. */
const NO_METHOD = new TypeError('The RPC receiver does not implement "identify".');

export async function deploy({ alter, lacksIdentify = false }: Options): Promise<Deployment> {
  const random = new Random(1);
  const thrown: string[] = [];
  const noNumbers: string[] = [];
  const isUnderway = () =>
    Math.abs(world.time.nowMs - START_MS - (FROM_MS + TO_MS) / 2) < (TO_MS - FROM_MS) / 2;
  let hanging: Isolate | undefined;
  const world: Observed = new Observed({
    startMs: START_MS,
    limits: { minute: LIMIT, day: 100 * LIMIT },
    random: () => random.next(),
    alter: (what, value) => {
      noNumbers.push(...noNumbersIn(value).map((path) => `${what}: ${path}`));
      // What is stored is read when the object starts, at the instant at which the deployment begins.
      const isStart = what === "stored" && world?.time.nowMs === START_MS + FROM_MS;
      return alter !== undefined && (isStart || isUnderway()) ? alter(what, value) : value;
    },
    send: (message) => {
      if (message.isolate === hanging) return;
      const isIdentify = message.request.isolate === "";
      if (lacksIdentify && isIdentify && isUnderway())
        return world.time.after(2 * TRIP_MS, () => message.fail(NO_METHOD));
      world.time.after(TRIP_MS, async () => {
        const answer = await message.deliver().catch((error: Error) => {
          thrown.push(error.message);
          world.time.after(TRIP_MS, () => message.fail(error));
        });
        world.persist();
        if (answer !== undefined) world.time.after(TRIP_MS, answer);
      });
    },
  });
  const isolates = Array.from({ length: ISOLATES }, () => world.newIsolate());
  const at = (ms: number, run: () => unknown) => world.time.after(START_MS + ms - world.time.nowMs, run);
  const admitted = Array(MINUTES).fill(0);
  const firstMs = Array(MINUTES).fill(Number.POSITIVE_INFINITY);
  const ask = async () => {
    const asked = world.ask(random.pick(...isolates));
    const decision = await asked.catch((error: Error) => void thrown.push(error.message));
    if (!decision?.admitted) return;
    const minute = (shortest(decision.windows).startMs - START_MS) / MINUTE_MS;
    admitted[minute] += 1;
    firstMs[minute] = Math.min(firstMs[minute], world.time.nowMs - START_MS - minute * MINUTE_MS);
  };
  for (let sent = 0; sent < MINUTES * REQUESTS; sent += 1)
    at(((sent + random.next()) * MINUTE_MS) / REQUESTS, () => void ask());
  // From now on, clients use a secret that isolates don't know yet.
  at(FROM_MS + 10_000, () => world.change({ secrets: SECRETS }));
  for (const ms of [FROM_MS, TO_MS]) at(ms, () => world.crash(world.storage.writing.length));
  // Then it decides some requests by itself, and reports them.
  at(FROM_MS + 5_000, () => {
    hanging = isolates[0];
  });
  at(FROM_MS + 5_000 + HANG_MS, () => {
    hanging = undefined;
  });
  await world.run().catch((error: Error) => thrown.push(error.message));
  const counted = longest(world.usage().status.windows).used;
  return { admitted, counted, firstMs, thrown, broken: world.broken, noNumbers };
}

export interface Restart {
  limit: number;
  isolates: number;
  /** How many times the limit is requested in the minute. */
  rate: number;
  /** Whether isolates end at once, with their leases. Otherwise they get no more requests, and report. */
  ends: boolean;
  /** Whether the object starts again, as with the strategy `immediate`, or after the longest delay. */
  resets: boolean;
  seed: number;
}

/** How many requests of a minute's limit are not admitted because all isolates, and perhaps the object, are replaced before it is used up. */
export async function costOfRestart({ limit, isolates, rate, ends, resets, seed }: Restart): Promise<number> {
  const random = new Random(seed);
  const world: World = new World({
    startMs: START_MS,
    limits: { minute: limit, day: 100 * limit },
    random: () => random.next(),
    send: (message) =>
      world.time.after(TRIP_MS, async () => {
        const answer = await message.deliver();
        world.persist();
        world.time.after(TRIP_MS, () => (answer === undefined ? message.fail(new Error("lost")) : answer()));
      }),
  });
  const newIsolates = () => Array.from({ length: isolates }, () => world.newIsolate());
  let running = newIsolates();
  let admitted = 0;
  const requests = limit * rate;
  // In the minute before as well.
  for (let sent = 0; sent < 2 * requests; sent += 1)
    world.time.after(((sent + random.next()) * MINUTE_MS) / requests, async () => {
      const decision = await world.ask(random.pick(...(running as [Isolate])));
      if (decision?.admitted && shortest(decision.windows).startMs === START_MS + MINUTE_MS) admitted += 1;
    });
  world.time.after(MINUTE_MS + random.int(0, MINUTE_MS / rate), () => {
    if (ends) for (const each of running) world.end(each);
    running = newIsolates();
    if (resets) world.crash(world.storage.writing.length);
  });
  await world.run();
  return limit - admitted;
}
