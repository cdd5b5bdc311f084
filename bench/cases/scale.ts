// Whether the processor time of a request stays the same as the service grows: by keys in use, pets, connections, and pages that an
// isolate has read. Each size is measured in turn with a reference, in short slices: see Pairs. Linux only (processor-time.ts).

import { PETSTORE } from "../measure/implementations.ts";
import { type Exchange, load, type Measurement, type Turn, verify } from "../measure/load.ts";
import { progress, type Table, verdict, whole } from "../measure/report.ts";
import { LEAST_FOR_INTERVAL, mean, median, medianInterval } from "../measure/statistics.ts";
import { type RunningWorker, startWorkers } from "../measure/workerd.ts";
import { pagePath } from "./cursor.ts";
import { startCountingPetstore } from "./objects.ts";
import { addTablesAndPets, fillD1, type Key, newKeys } from "./pets.ts";

/** The largest ratio to the reference. */
export const TARGET = 1.2;

const ROUNDS = 2 * LEAST_FOR_INTERVAL;
const WARM_UP_SECONDS = 2;

/** Up to as many as an isolate has limiter clients for. */
const KEYS = [1, 10, 100, 1_000, 5_000];
const BANNED_KEYS = [1, 5_000];
/** Concurrent requests while objects start. Of more, some would wait for 10 s, which is an error. */
const BATCH = 50;
/** With so many keys, the objects are started before the load, and slices are longer. */
const MANY_KEYS = 1_000;
/** More keys send too seldom for a lease, so each of their requests needs a call. */
const MOST_KEYS_WITH_LEASES = 100;

const PETS = [1, 1_000, 1_000_000];
const PAGE = 20;

const CONNECTIONS = [1, 10, 100, 1_000];
/** With fewer, the server sleeps after each response, and each request wakes it. */
const LEAST_BUSY_CONNECTIONS = 10;

/** Pages of one pet that an isolate has read. Some 26,000 of them fill its cache, and then each evicts another. */
const PAGES_READ = [5_000, 10_000, 15_000];
const PAGES_IN_FULL_CACHE = 30_000;
const FRESH_ISOLATES = 3;
/** More than an isolate reads from the database. */
const MAX_PAGES_PER_SECOND = 5_000;
const PAGES_WARM_UP_SECONDS = 6;

export interface ScalePoint {
  size: number;
  microseconds: number;
  requestsPerSecond: number;
  /** Calls of objects; NaN if they were not counted. */
  callsPerRequest: number;
  /** The processor time relative to the reference: the median, and its 95 % confidence interval. Of too few samples all are equal. */
  relative: number;
  low: number;
  high: number;
  /** What is special about it, for the chart. */
  note?: string;
  /** Absent if the size is the reference, or has no target. */
  met?: boolean;
}

export interface ScaleSeries {
  dimension: "keys in use" | "pets" | "connections" | "pages read by the isolate";
  name: string;
  points: ScalePoint[];
}

type Sample = Pick<Measurement, "microseconds" | "requestsPerSecond"> & { callsPerRequest?: number };

interface Size {
  size: number;
  load(seconds: number): Promise<Sample>;
  /** By default 1. */
  seconds?: number;
  /** Before the load of the warm-up. */
  prepare?(): Promise<void>;
}

/** Samples of a size, each with its ratio to the mean of the reference's samples right before and after it. */
class Pairs {
  readonly #samples: Sample[] = [];
  readonly ratios: number[] = [];

  add(sample: Sample, before: Sample, after: Sample): void {
    this.#samples.push(sample);
    this.ratios.push(sample.microseconds / mean([before.microseconds, after.microseconds]));
  }

  point(size: number, hasTarget: boolean, ratios = this.ratios): ScalePoint {
    const of = (figure: (sample: Sample) => number) => median(this.#samples.map(figure));
    const relative = median(ratios);
    return {
      size,
      microseconds: of(({ microseconds }) => microseconds),
      requestsPerSecond: of(({ requestsPerSecond }) => requestsPerSecond),
      callsPerRequest: of(({ callsPerRequest = Number.NaN }) => callsPerRequest),
      relative,
      ...(ratios.length < LEAST_FOR_INTERVAL ? { low: relative, high: relative } : medianInterval(ratios)),
      ...(hasTarget && { met: relative <= TARGET }),
    };
  }
}

/** The point of the reference, relative to which the others are. */
function referencePoint(size: number, samples: Sample[]): ScalePoint {
  const pairs = new Pairs();
  for (const each of samples) pairs.add(each, each, each);
  return pairs.point(size, false);
}

/** Measures each size in turn with the reference, which is one of them. */
async function measureSeries(
  dimension: ScaleSeries["dimension"],
  name: string,
  sizes: Size[],
  {
    reference = sizes[0],
    hasTarget = () => true,
  }: { reference?: Size | undefined; hasTarget?(size: number): boolean } = {},
): Promise<ScaleSeries> {
  if (reference === undefined) throw new Error(`scale: ${name} has no sizes`);
  const references: Sample[] = [];
  const points: ScalePoint[] = [];
  const slice = ({ seconds = 1, load }: Size) => load(seconds);
  const sampleReference = async () => {
    const sample = await slice(reference);
    references.push(sample);
    return sample;
  };
  await reference.load(WARM_UP_SECONDS);
  for (const each of sizes.filter((one) => one !== reference)) {
    progress(`scale: ${whole(each.size)} ${dimension}: ${name}`);
    await each.prepare?.();
    await each.load(WARM_UP_SECONDS);
    const pairs = new Pairs();
    let before = await sampleReference();
    for (let round = 0; round < ROUNDS; round += 1) {
      const sample = await slice(each);
      const after = await sampleReference();
      pairs.add(sample, before, after);
      before = after;
    }
    points.push(pairs.point(each.size, hasTarget(each.size)));
  }
  points.push(referencePoint(reference.size, references));
  return { dimension, name, points: points.sort((a, b) => a.size - b.size) };
}

/** Each request uses the next of the keys. */
export async function measureKeys(): Promise<ScaleSeries> {
  return withKeys(async ({ sizes, keys }) => {
    const hasTarget = (size: number) => size <= MOST_KEYS_WITH_LEASES;
    const series = await measureSeries("keys in use", "list", sizes(keys, KEYS, 200), { hasTarget });
    const last = series.points.at(-1);
    if (last !== undefined) last.note = `${last.callsPerRequest.toFixed(1)} calls a request`;
    return series;
  });
}

/** The same with banned keys, which the isolate refuses without a call. */
export async function measureBannedKeys(): Promise<ScaleSeries> {
  return withKeys(async ({ url, sizes, keys }) => {
    progress(`scale: banning ${whole(keys.length)} keys`);
    await inBatches(keys, ({ id }) => fetch(new URL(`/ban?key=${id}`, url)));
    return measureSeries("keys in use", "refusal of a banned key", sizes(keys, BANNED_KEYS, 429));
  });
}

interface WithKeys {
  url: URL;
  keys: Key[];
  sizes(keys: Key[], numbers: number[], status: number): Size[];
}

/** Starts the service with as many keys as the largest size. Its process has three files for each object in use. */
async function withKeys<Result>(work: (service: WithKeys) => Promise<Result>): Promise<Result> {
  const { url, databases, processId, stop } = await startCountingPetstore();
  const calls = async () => (await (await fetch(new URL("/calls", url))).json()) as number;
  const sizes = (keys: Key[], numbers: number[], status: number) => {
    const turns = keys.map(({ secret }): Turn => ({ path: "/v1/pets", authorization: `Bearer ${secret}` }));
    return numbers.map((size): Size => {
      let used = 0;
      const loadKeys = async (seconds: number) => {
        const inUse = [...turns.slice(used, size), ...turns.slice(0, used)];
        const exchange = { path: "/v1/pets", turns: inUse, status, isExpected: () => true };
        const before = await calls();
        const measured = await load(url, exchange, seconds, processId());
        used = (used + measured.requests) % size;
        return { ...measured, callsPerRequest: ((await calls()) - before) / measured.requests };
      };
      if (size < MANY_KEYS) return { size, load: loadKeys };
      const prepare = () =>
        inBatches(turns.slice(0, size), ({ path, authorization }) =>
          fetch(new URL(path, url), { headers: { authorization } }),
        );
      return { size, load: loadKeys, seconds: 2, prepare };
    });
  };
  try {
    await addTablesAndPets(databases, 1_000);
    return await work({ url, sizes, keys: await newKeys(databases.keys, Math.max(...KEYS)) });
  } finally {
    await stop();
  }
}

/** Sends a request for each item, BATCH at a time. */
async function inBatches<Item>(
  items: readonly Item[],
  send: (item: Item) => Promise<Response>,
): Promise<void> {
  for (let first = 0; first < items.length; first += BATCH) {
    const responses = await Promise.all(items.slice(first, first + BATCH).map(send));
    for (const response of responses) await response.text();
  }
}

export async function measurePets(): Promise<ScaleSeries[]> {
  const dimension = "pets";
  const { workers, processId, stop } = await startWorkers([PETSTORE, PETSTORE, PETSTORE]);
  try {
    const filled: { pets: number; url: URL; secret: string }[] = [];
    for (const [index, pets] of PETS.entries()) {
      const { url, databases } = workers[index] as RunningWorker;
      filled.push({ pets, url, secret: await fillD1(await databases(), pets) });
    }
    const sizes = (firstId: (pets: number) => number) =>
      filled.map(({ pets, url, secret }): Size => {
        const id = firstId(pets);
        const headers = { Authorization: `Bearer ${secret}` };
        const isExpected = (body: string) => JSON.parse(body)[0].id === id;
        const exchange: Exchange = { path: pagePath(id, PAGE), headers, status: 200, isExpected };
        const loadPage = async (seconds: number) => {
          await verify(url, exchange);
          return load(url, exchange, seconds, processId());
        };
        return { size: pets, load: loadPage };
      });
    // A list of at most one page is its own last page, which is read from the database each time.
    const cached = (each: Size) => each.size > PAGE;
    return [
      await measureSeries(dimension, "first page", sizes(() => 1).filter(cached)),
      await measureSeries(
        dimension,
        "page in the middle",
        sizes((pets) => Math.ceil(pets / 2)).filter(cached),
      ),
      await measureSeries(
        dimension,
        "last page",
        sizes((pets) => pets),
      ),
    ];
  } finally {
    await stop();
  }
}

export async function measureConnections(): Promise<ScaleSeries> {
  const { workers, processId, stop } = await startWorkers([PETSTORE]);
  try {
    const [{ url, databases }] = workers;
    const headers = { Authorization: `Bearer ${await fillD1(await databases(), 1_000)}` };
    const exchange = { path: "/v1/pets", headers, status: 200, isExpected: () => true };
    const sizes = CONNECTIONS.map((size): Size => {
      // Long enough that the requests without a response, one a connection, are few.
      return { size, load: (seconds) => load(url, exchange, seconds, processId(), size), seconds: 2 };
    });
    return await measureSeries("connections", "list", sizes, {
      reference: sizes.find(({ size }) => size === LEAST_BUSY_CONNECTIONS),
      hasTarget: (size) => size > LEAST_BUSY_CONNECTIONS,
    });
  } finally {
    await stop();
  }
}

/** Each request reads the next page from the database. The reference is the same in an isolate whose cache is full. */
export async function measurePages(): Promise<ScaleSeries> {
  const sources = Array.from({ length: FRESH_ISOLATES + 1 }, () => PETSTORE);
  const { workers, processId, stop } = await startWorkers(sources);
  const start = async ({ url, databases }: RunningWorker) => {
    const pets = 2 * PAGES_IN_FULL_CACHE + FRESH_ISOLATES * 2 * Math.max(...PAGES_READ);
    const authorization = `Bearer ${await fillD1(await databases(), pets)}`;
    const read = (turns: Turn[], seconds: number) =>
      load(url, { path: "/", turns, status: 200, isExpected: () => true }, seconds, processId());
    // The last page is read from the database too, but not cached.
    await read([{ path: pagePath(pets, 1), authorization }], PAGES_WARM_UP_SECONDS);
    const isolate = {
      pages: 0,
      async readNext(seconds = 1) {
        const most = seconds * MAX_PAGES_PER_SECOND;
        const turns = Array.from({ length: most }, (_, page) => {
          return { path: pagePath(isolate.pages + page + 1, 1), authorization };
        });
        const measured = await read(turns, seconds);
        if (measured.requests > most || isolate.pages + most > pets)
          throw new Error("scale: not enough pages");
        isolate.pages += measured.requests;
        return measured;
      },
    };
    return isolate;
  };
  try {
    const [fullWorker, ...freshWorkers] = workers as RunningWorker[];
    const full = await start(fullWorker as RunningWorker);
    progress(`scale: reading ${whole(PAGES_IN_FULL_CACHE)} pages`);
    while (full.pages < PAGES_IN_FULL_CACHE) await full.readNext(5);
    const fullSamples: Sample[] = [];
    const pairs = new Map(PAGES_READ.map((size) => [size, new Pairs()]));
    for (const worker of freshWorkers) {
      const fresh = await start(worker);
      progress("scale: reading pages in a fresh isolate");
      let before: Sample = await full.readNext();
      for (;;) {
        const sample = await fresh.readNext();
        const after = await full.readNext();
        const size = PAGES_READ.find((each) => fresh.pages <= each);
        if (size === undefined) break;
        pairs.get(size)?.add(sample, before, after);
        fullSamples.push(after);
        before = after;
      }
    }
    // Everything relative to the caches that are not full.
    const all = [...pairs.values()].flatMap(({ ratios }) => ratios);
    const base = median(all);
    const points = [...pairs].map(([size, each]) => {
      const relative = each.ratios.map((ratio) => ratio / base);
      return each.point(size, false, relative);
    });
    const ratios = all.map((ratio) => 1 / ratio);
    const filled = referencePoint(full.pages, fullSamples);
    const relative = median(ratios);
    points.push({
      ...filled,
      note: "cache full",
      relative,
      ...medianInterval(ratios),
      met: relative <= TARGET,
    });
    return { dimension: "pages read by the isolate", name: "page read for the first time", points };
  } finally {
    await stop();
  }
}

export async function measureScale(): Promise<ScaleSeries[]> {
  return [
    await measureKeys(),
    await measureBannedKeys(),
    ...(await measurePets()),
    await measureConnections(),
    await measurePages(),
  ];
}

export function scaleTable(series: ScaleSeries[]): Table {
  return {
    title: "scale: processor time of a request",
    columns: ["", "", "requests/s", "calls/request", "µs", "relative (95 % interval)"],
    rows: series.flatMap(({ dimension, name, points }) =>
      points.map(
        ({ size, requestsPerSecond, callsPerRequest, microseconds, relative, low, high, met }, index) => {
          const interval = low === high ? "" : ` (${low.toFixed(2)} to ${high.toFixed(2)})`;
          const text = `${relative.toFixed(2)}${interval}`;
          return [
            index === 0 ? `${dimension}: ${name}` : "",
            whole(size),
            whole(requestsPerSecond),
            Number.isNaN(callsPerRequest) ? "" : callsPerRequest.toFixed(3),
            microseconds.toFixed(0),
            met === undefined ? text : verdict(met, text, `at most ${TARGET}`),
          ];
        },
      ),
    ),
  };
}
