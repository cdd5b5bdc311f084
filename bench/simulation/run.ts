// One key's clients, and what they get from a limiter: the same requests at the same times through the same isolates for each of them.

import { Random } from "../../test/simulation/random.ts";
import { type Counts, NO_COUNTS, OPERATIONS } from "./counts.ts";
import type { NewLimiter } from "./limiter.ts";

export const TRAFFICS = ["even", "bursty"] as const;
export type Traffic = (typeof TRAFFICS)[number];

/**
 * Faults, with the number of minutes that they affect. At a random time in the second minute the object crashes, or all isolates end; or
 * one of a hundred answers of the object is lost.
 */
export const FAULTS = { "object crashes": 1, "isolates end": 1, "answers are lost": 3 };
export type Fault = keyof typeof FAULTS;

export interface Scenario {
  /** Requests per minute. */
  limit: number;
  isolates: number;
  traffic: Traffic;
  /** Requests in each minute, as a multiple of the limit. */
  load: number;
  fault?: Fault;
}

/** Of one or more runs. */
export interface Result {
  /** Requests admitted beyond the limit of a minute, and requests refused while the minute was not used up. */
  above: number;
  below: number;
  /** Requests without a response. */
  unanswered: number;
  /** The sum of the limits of all minutes. */
  limits: number;
  waitsMs: number[];
  counts: Counts;
}

const MINUTE_MS = 60_000;
const MINUTES = 3;
const LOST_SHARE = 0.01;
/** Bursty traffic has a burst in each quarter of a minute. */
const BURSTS = 4;
const QUARTER_MS = MINUTE_MS / BURSTS;
const BURST_MS = 1_000;

/** Runs a scenario on virtual time, once for each seed. */
export async function run(
  newLimiter: NewLimiter,
  scenario: Scenario,
  seeds: readonly number[],
): Promise<Result> {
  const results: Result[] = [];
  for (const seed of seeds) results.push(await runOnce(newLimiter, scenario, seed));
  return pool(results);
}

async function runOnce(newLimiter: NewLimiter, scenario: Scenario, seed: number): Promise<Result> {
  const { limit, isolates, fault } = scenario;
  const lostShare = fault === "answers are lost" ? LOST_SHARE : 0;
  const limiter = newLimiter({ limit, isolates, random: new Random(-seed), lostShare });
  const { time } = limiter;
  const minutes = new Map<number, { decided: number; admitted: number }>();
  const waitsMs: number[] = [];
  // A request that waits in an isolate that ends gets no response.
  const lives = Array.from({ length: isolates }, () => ({}));
  const send = async (isolate: number) => {
    const life = lives[isolate];
    const sentMs = time.nowMs;
    const outcome = await limiter.ask(isolate).catch(() => undefined);
    if (outcome === undefined || lives[isolate] !== life) return;
    waitsMs.push(time.nowMs - sentMs);
    const { decided, admitted } = minutes.get(outcome.minuteMs) ?? { decided: 0, admitted: 0 };
    const isAdmitted = outcome.admitted ? 1 : 0;
    minutes.set(outcome.minuteMs, { decided: decided + 1, admitted: admitted + isAdmitted });
  };
  const clients = new Random(seed);
  const requests = draw(scenario, clients);
  for (const { atMs, isolate } of requests) time.after(atMs, () => void send(isolate));
  time.after(MINUTE_MS + clients.int(0, MINUTE_MS - 1), () => {
    if (fault === "object crashes") limiter.crash();
    for (let isolate = 0; fault === "isolates end" && isolate < isolates; isolate += 1) {
      lives[isolate] = {};
      limiter.endIsolate(isolate);
    }
  });
  await time.run();
  limiter.check?.();
  const all = [...minutes.values()];
  const sum = (each: (minute: (typeof all)[number]) => number) =>
    all.reduce((total, minute) => total + Math.max(0, each(minute)), 0);
  return {
    above: sum(({ admitted }) => admitted - limit),
    below: sum(({ admitted, decided }) => Math.min(decided, limit) - admitted),
    unanswered: requests.length - waitsMs.length,
    limits: MINUTES * limit,
    waitsMs,
    counts: { ...limiter.counts, workerRequests: requests.length },
  };
}

/** All requests, the latest first. */
function draw({ limit, isolates, traffic, load }: Scenario, random: Random) {
  const requests: { atMs: number; isolate: number }[] = [];
  for (let minute = 0; minute < MINUTES; minute += 1) {
    const bursts = Array.from(
      { length: BURSTS },
      (_, burst) => burst * QUARTER_MS + random.int(0, QUARTER_MS - BURST_MS),
    );
    for (let request = 0; request < load * limit; request += 1) {
      const evenMs = random.int(0, MINUTE_MS - 1);
      const inBurstMs = random.pick(...bursts) + random.int(0, BURST_MS - 1);
      const atMs = minute * MINUTE_MS + (traffic === "even" ? evenMs : inBurstMs);
      requests.push({ atMs, isolate: random.int(0, isolates - 1) });
    }
  }
  return requests.sort((a, b) => b.atMs - a.atMs);
}

function pool(results: readonly Result[]): Result {
  const sum = (each: (result: Result) => number) =>
    results.reduce((total, result) => total + each(result), 0);
  const counts = { ...NO_COUNTS };
  for (const operation of OPERATIONS) counts[operation] = sum((each) => each.counts[operation]);
  return {
    above: sum(({ above }) => above),
    below: sum(({ below }) => below),
    unanswered: sum(({ unanswered }) => unanswered),
    limits: sum(({ limits }) => limits),
    waitsMs: results.flatMap(({ waitsMs }) => waitsMs),
    counts,
  };
}
