// How many requests isolates admit together while none of them can ask the object, on virtual time: each its share. After three minutes of
// steady requests, no call is answered until the fifth ends.

import { expect, it } from "vitest";
import { shortest } from "../../src/limits/windows.ts";
import { Random } from "./random.ts";
import { World } from "./world.ts";

const START_MS = Date.UTC(2026, 10, 22, 12, 34);
const MINUTE_MS = 60_000;
/** When it begins: within the fourth minute. */
const WARM_MINUTES = 3;
const MINUTES = 6;
const TRIP_MS = 20;

interface Setting {
  limit: number;
  isolates: number;
  /** How many times the limit is requested in each minute. */
  rate: number;
  /** The first isolate's part of the requests; by default all have the same. */
  firstShare?: number;
  /** How many of the isolates know nothing of the key when the outage begins; the others are warm. */
  cold?: number;
  seed: number;
}

/** Returns how many requests were admitted in each minute from the one on in which the outage begins. */
async function admittedInOutage(setting: Setting): Promise<number[]> {
  const { limit, isolates, rate, firstShare = 1 / isolates, cold = 0, seed } = setting;
  const random = new Random(seed);
  const fromMs = WARM_MINUTES * MINUTE_MS + random.int(0, MINUTE_MS - 1);
  const world: World = new World({
    startMs: START_MS,
    limits: { minute: limit, day: 1_000 * limit },
    random: () => random.next(),
    send: (message) => {
      const { time } = world;
      const isAway = time.nowMs >= START_MS + fromMs && time.nowMs < START_MS + (MINUTES - 1) * MINUTE_MS;
      time.after(TRIP_MS, async () => {
        if (isAway) return message.fail(new Error("away"));
        const answer = await message.deliver();
        world.persist();
        if (answer !== undefined) time.after(TRIP_MS, answer);
      });
    },
  });
  // Together, isolates exceed the limit.
  world.throwFailure = () => {};
  const all = Array.from({ length: isolates }, () => world.newIsolate());
  const [first, ...others] = all as [(typeof all)[number]];
  const admitted: number[] = Array(MINUTES).fill(0);
  const requests = Math.round(limit * rate);
  const gapMs = MINUTE_MS / requests;
  for (let sent = 0; sent < MINUTES * requests; sent += 1)
    world.time.after(gapMs * (sent + random.next()), async () => {
      const isFirst = others.length === 0 || random.chance(firstShare);
      const isOutage = world.time.nowMs >= START_MS + fromMs;
      const warm = others.slice(isOutage ? 0 : cold);
      const decision = await world.ask(isFirst ? first : random.pick(...(warm.length > 0 ? warm : [first])));
      const minute = ((decision ? shortest(decision.windows).startMs : 0) - START_MS) / MINUTE_MS;
      if (decision?.admitted) admitted[minute] = (admitted[minute] ?? 0) + 1;
    });
  await world.run();
  return admitted.slice(WARM_MINUTES, MINUTES);
}

const PRO = 300;

it.each([1.5, 3])("one isolate alone admits exactly the limit, with %d times the requests", async (rate) => {
  expect(await admittedInOutage({ limit: PRO, isolates: 1, rate, seed: 1 })).toEqual([PRO, PRO, PRO]);
});

it.each([
  [3, "an equal part", undefined, 1.5],
  [3, "70 %", 0.7, 3],
  [10, "an equal part", undefined, 3],
  [10, "70 %", 0.7, 1.5],
  [50, "an equal part", undefined, 1.5],
  [50, "70 %", 0.7, 3],
])(
  "%i isolates, the first of which has %s of the requests, admit 0.8 to 1.2 times the limit together",
  async (isolates, _, firstShare, rate) => {
    const setting = { limit: PRO, isolates, rate, seed: 1, ...(firstShare && { firstShare }) };
    const [first = 0, second = 0, after] = await admittedInOutage(setting);
    expect(Math.min(first, second)).toBeGreaterThanOrEqual(0.8 * PRO);
    expect(Math.max(first, second)).toBeLessThanOrEqual(1.2 * PRO);
    expect(after).toBe(PRO);
  },
);

it("each isolate that knew nothing of the key before adds at most a tenth of the limit", async () => {
  const setting = { limit: PRO, isolates: 10, cold: 4, rate: 3, seed: 1 };
  const [first = 0, second = 0, after] = await admittedInOutage(setting);
  expect(Math.max(first, second)).toBeLessThanOrEqual((1.2 + 4 / 10) * PRO);
  expect(Math.min(first, second)).toBeGreaterThanOrEqual(0.8 * PRO);
  expect(after).toBe(PRO);
});
