// What the world's clients do, and when: the same for every contestant, because it is drawn from a seed.
//
// In each region:
//   3 pollers      one request for the first page each, every 2 to 5 s, with a key of their own: 60 requests a minute
//   1 walker       10 pages of 50 pets one after the other along Link, from anywhere, every 8 to 12 s; 300 a minute
//   1 integrator   20 requests a second, at random moments, for one of the first three pages of 20 pets; a key that is also
//                  used from a second region, 100,000 a minute
//   1 writer       every 3 to 6 s a creation, and then, with the same key, the last page, there and in one other region;
//                  1,000 a minute
// So nine of ten requests are an integrator's, as in a service that has a large customer; figures are also given by purpose.
//
// Whoever walks or writes waits for each answer before the next request; nobody else does.

export type Habit = "poller" | "walker" | "integrator" | "writer";

/** One occasion on which a client sends requests. */
export interface Visit {
  atMs: number;
  habit: Habit;
  /** By its place among the regions, like the next. */
  region: number;
  /** Where a writer looks besides. */
  otherRegion: number;
  /** The name of the key. */
  key: string;
  /** The first pet of the first page. */
  firstId: number;
}

/** Requests that a key with this habit may make, in a minute and in a day: those of a plan, or agreed. */
export const LIMITS: Record<Habit, { minute: number; day: number }> = {
  poller: { minute: 60, day: 1_000 },
  walker: { minute: 300, day: 10_000 },
  integrator: { minute: 100_000, day: 100_000_000 },
  writer: { minute: 1_000, day: 100_000 },
};

export const PAGE = 20;
export const WALKED_PAGE = 50;
export const WALKED_PAGES = 10;

const POLLERS = 3;
const INTEGRATOR_PER_SECOND = 20;
const FIRST_PAGES = 3;

/** How many regions use one integrator's key. */
const REGIONS_PER_KEY = 2;

/** How large the world is, and for how long it runs. */
export interface Extent {
  regions: number;
  pets: number;
  seconds: number;
}

/** All visits of a run, in the order of their time. The same arguments give the same visits. */
export function drawVisits(seed: number, { regions, pets, seconds }: Extent): Visit[] {
  const random = generator(seed);
  const between = (low: number, high: number) => low + random() * (high - low);
  const below = (bound: number) => Math.floor(random() * bound);
  const visits: Visit[] = [];
  const repeat = (pauseMs: () => number, visit: () => Omit<Visit, "atMs">) => {
    // The first is anywhere within a pause, so that clients do not keep step.
    for (let atMs = random() * pauseMs(); atMs < seconds * 1_000; atMs += pauseMs()) {
      visits.push({ atMs, ...visit() });
    }
  };
  for (let region = 0; region < regions; region += 1) {
    const common = { region, otherRegion: region, firstId: 1 };
    for (let poller = 0; poller < POLLERS; poller += 1) {
      const key = `poller-${region}-${poller}`;
      repeat(
        () => between(2_000, 5_000),
        () => ({ ...common, habit: "poller", key }),
      );
    }
    repeat(
      () => between(8_000, 12_000),
      () => ({
        ...common,
        habit: "walker",
        key: `walker-${region}`,
        firstId: 1 + below(pets - WALKED_PAGE * WALKED_PAGES),
      }),
    );
    const shared = `integrator-${Math.floor(region / REGIONS_PER_KEY)}`;
    repeat(
      // Exponential pauses: whoever comes does not know of the others.
      () => (-Math.log(1 - random()) * 1_000) / INTEGRATOR_PER_SECOND,
      () => ({ ...common, habit: "integrator", key: shared, firstId: 1 + PAGE * below(FIRST_PAGES) }),
    );
    repeat(
      () => between(3_000, 6_000),
      () => ({
        ...common,
        habit: "writer",
        key: `writer-${region}`,
        otherRegion: (region + 1 + below(regions - 1)) % regions,
      }),
    );
  }
  return visits.sort((a, b) => a.atMs - b.atMs);
}

/** Numbers from 0 to below 1: mulberry32, which is known and short; nothing here has to be unpredictable. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
