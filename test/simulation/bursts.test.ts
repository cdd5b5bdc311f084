// Bursts of exactly the limit and of twice the limit, through few and many isolates at different distances.

import { describe, expect, it } from "vitest";
import { PLAN_LIMITS } from "../../src/rate-limit/plans.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { Random } from "./random.ts";
import { type Isolate, type Message, World } from "./world.ts";

const NOON_MS = Date.UTC(2026, 10, 22, 12, 34, 2);
const SPREADS_MS = [0, 600, 3_000, 50_000];
const ISOLATES = [1, 3, 20, 60];

/** A world whose isolates have round trips of 5 to 120 ms, with 20 % of jitter. */
function distantIsolates(limits: Limits, isolates: number, random: Random): World {
  const distances = new Map<Isolate, number>();
  const tripMs = ({ isolate }: Message) => (distances.get(isolate) ?? 0) * (0.8 + 0.4 * random.next());
  const world = new World({
    startMs: NOON_MS,
    limits,
    send: (message) =>
      world.time.after(tripMs(message), () => {
        const answer = message.deliver();
        while (world.storage.writing.length > 0) world.written();
        if (answer !== undefined) world.time.after(tripMs(message), answer);
      }),
  });
  for (let index = 0; index < isolates; index += 1)
    distances.set(world.newIsolate(limits), 2.5 + 57.5 * random.next());
  return world;
}

async function burst(limits: Limits, requests: number, spreadMs: number, isolates: number, seed: number) {
  const random = new Random(seed);
  const world = distantIsolates(limits, isolates, random);
  for (let request = 0; request < requests; request += 1) {
    world.time.after((request * spreadMs) / requests, () => {
      void world.request(world.isolates[random.int(0, isolates - 1)] as Isolate);
    });
  }
  await world.run();
  world.expectExact();
  world.expectUsage();
  if (isolates === 1) world.expectDistinctRemaining();
  return world;
}

const PLANS = ["free", "pro", "business"] as const;
const CASES = PLANS.flatMap((plan) =>
  SPREADS_MS.flatMap((spread) => ISOLATES.map((n) => [plan, spread, n] as const)),
);

describe("a burst gets exactly the limit", () => {
  it.each(CASES)(
    "on plan %s, within %i ms, through %i isolates",
    { timeout: 0 },
    async (plan, spreadMs, isolates) => {
      const limits = PLAN_LIMITS[plan];
      for (const [share, seed] of [
        [1, 1],
        [1, 2],
        [2, 3],
      ] as const) {
        const { counts, entry } = await burst(limits, share * limits.minute, spreadMs, isolates, seed).then(
          (world) => ({ counts: world.counts, entry: world.entry("minute", NOON_MS - 2_000) }),
        );
        expect([entry.admitted, counts.refused]).toEqual([limits.minute, (share - 1) * limits.minute]);
      }
    },
  );
});
