// The workload: which client sends requests, and when. It is drawn from a constant seed, so it is the same for every implementation.
//
// In each region:
//   3 pollers      the first page every 2 to 5 s, each with its own key: 60 requests a minute
//   1 crawler      10 pages of 50 pets along Link, from a random pet on, every 8 to 12 s; 300 a minute
//   1 integrator   20 requests a second, at random times, for one of the first three pages of 20 pets; the key is shared with a
//                  second region; 100,000 a minute
//   1 writer       every 3 to 6 s a creation, then the last page with the same key, in its own and in one other region; 1,000 a
//                  minute
// So nine of ten requests are an integrator's, as in a service with one large customer. Figures are also given by purpose.
//
// Crawlers and writers wait for each response before their next request; pollers and integrators do not.

export type ClientType = "poller" | "crawler" | "integrator" | "writer";

/** One request, or a sequence of requests, of a client. */
export interface Task {
  atMs: number;
  client: ClientType;
  /** An index into the regions. */
  region: number;
  /** The other region in which a writer reads. */
  otherRegion: number;
  /** The name of the key. */
  key: string;
  /** The first pet of the first page. */
  firstId: number;
}

/** The limits of a client's key. */
export const LIMITS: Record<ClientType, { minute: number; day: number }> = {
  poller: { minute: 60, day: 1_000 },
  crawler: { minute: 300, day: 10_000 },
  integrator: { minute: 100_000, day: 100_000_000 },
  writer: { minute: 1_000, day: 100_000 },
};

export const PAGE = 20;
export const CRAWLED_PAGE = 50;
export const CRAWLED_PAGES = 10;

const POLLERS = 3;
const INTEGRATOR_PER_SECOND = 20;
const FIRST_PAGES = 3;

/** How many regions share an integrator's key. */
const REGIONS_PER_KEY = 2;

const SEED = 1;

/** Draws all tasks of a run, in the order of their times. */
export function drawWorkload(regions: number, pets: number, seconds: number): Task[] {
  const random = generator(SEED);
  const between = (low: number, high: number) => () => low + random() * (high - low);
  const below = (bound: number) => Math.floor(random() * bound);
  // Exponential pauses, as between independent requests.
  const exponential = () => (-Math.log(1 - random()) * 1_000) / INTEGRATOR_PER_SECOND;
  const tasks: Task[] = [];
  const repeat = (pauseMs: () => number, task: () => Omit<Task, "atMs">) => {
    // The first is at a random time within a pause, so that clients are not synchronous.
    for (let atMs = random() * pauseMs(); atMs < seconds * 1_000; atMs += pauseMs()) {
      tasks.push({ atMs, ...task() });
    }
  };
  for (let region = 0; region < regions; region += 1) {
    const common = { region, otherRegion: region, firstId: 1 };
    for (let poller = 0; poller < POLLERS; poller += 1) {
      const key = `poller-${region}-${poller}`;
      repeat(between(2_000, 5_000), () => ({ ...common, client: "poller", key }));
    }
    repeat(between(8_000, 12_000), () => ({
      ...common,
      client: "crawler",
      key: `crawler-${region}`,
      firstId: 1 + below(pets - CRAWLED_PAGE * CRAWLED_PAGES),
    }));
    repeat(exponential, () => ({
      ...common,
      client: "integrator",
      key: `integrator-${Math.floor(region / REGIONS_PER_KEY)}`,
      firstId: 1 + PAGE * below(FIRST_PAGES),
    }));
    repeat(between(3_000, 6_000), () => ({
      ...common,
      client: "writer",
      key: `writer-${region}`,
      otherRegion: (region + 1 + below(regions - 1)) % regions,
    }));
  }
  return tasks.sort((a, b) => a.atMs - b.atMs);
}

/** The region of each key's objects, by the key's name: Cloudflare creates an object near its first caller. */
export function homesOf(tasks: readonly Task[]): Map<string, number> {
  // Of equal keys the last counts.
  return new Map(tasks.toReversed().map(({ key, region }) => [key, region]));
}

/** Random numbers from 0 to below 1: mulberry32, a known short generator, because they need not be unpredictable. */
export function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
