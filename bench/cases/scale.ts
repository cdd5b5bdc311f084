// Whether the processor time of a request stays the same as the service grows: by keys in use, and by pages that an isolate has read.
// Each size is measured in turn with the smallest one, in short slices, so that both share what changes the machine's speed. A ratio
// is that of a slice to the mean of the reference's slices right before and after it. Linux only (processor-time.ts).

import { PETSTORE } from "../measure/implementations.ts";
import { load, type Measurement, microseconds, type Turn } from "../measure/load.ts";
import { progress, ratioText, type Table, whole } from "../measure/report.ts";
import { mean, median } from "../measure/statistics.ts";
import { type RunningWorker, startWorkers } from "../measure/workerd.ts";
import { addTablesAndPets, fillD1, newKeys, pagePath } from "./pets.ts";

/** The largest ratio to the reference. */
const TARGET = 1.2;

const ROUNDS = 12;
const SLICE_SECONDS = 2;

/** Up to as many as an isolate has limiter clients for. */
const KEYS = [1, 10, 100, 1_000, 5_000];
/** More keys send too seldom for a lease, so each of their requests needs a call: they have no target. */
const MOST_KEYS_WITH_LEASES = 100;
/** Objects that are started at once. */
const BATCH = 50;

/** Some 26,000 pages of one pet fill the cache of an isolate, and then each evicts another. */
const PAGES_IN_FULL_CACHE = 30_000;
const PAGES_IN_FRESH_CACHE = 15_000;
const FRESH_ISOLATES = 3;
/** More than an isolate reads from the database. */
const MAX_PAGES_PER_SECOND = 5_000;

type Sample = () => Promise<Measurement>;

/** Samples and their ratios to the reference, as long as `isOngoing` after so many rounds. */
async function compare(reference: Sample, sample: Sample, isOngoing: (rounds: number) => boolean) {
  const samples: Measurement[] = [];
  const ratios: number[] = [];
  let before = await reference();
  while (isOngoing(samples.length)) {
    const measured = await sample();
    const after = await reference();
    samples.push(measured);
    ratios.push(microseconds(measured) / mean([before, after].map(microseconds)));
    before = after;
  }
  return { samples, ratios };
}

export async function measureScale(): Promise<Table> {
  return {
    title:
      "scale: processor time of a request, relative to one key in use, and to a cache that is not full [quartiles]",
    columns: ["", "", "µs", "relative"],
    rows: [...(await measureKeys()), ...(await measurePages())],
  };
}

/** Each request lists pets with the next of the keys. */
async function measureKeys(): Promise<string[][]> {
  const { workers, processId, stop } = await startWorkers([PETSTORE], true);
  try {
    const [{ url, databases }] = workers;
    const filled = await databases();
    await addTablesAndPets(filled, 1_000);
    const turns = (await newKeys(filled.keys, Math.max(...KEYS))).map(({ secret }): Turn => {
      return { path: "/v1/pets", header: ["Authorization", `Bearer ${secret}`] };
    });
    const sampler = async (size: number) => {
      let used = 0;
      const sample = async () => {
        const inUse = [...turns.slice(used, size), ...turns.slice(0, used)];
        const exchange = { path: "/v1/pets", turns: inUse, status: 200, isExpected: () => true };
        const measured = await load(url, exchange, SLICE_SECONDS, processId());
        used = (used + measured.requests) % size;
        return measured;
      };
      progress(`scale: ${whole(size)} keys in use`);
      // While thousands of objects start, wrk's connections would time out.
      for (let first = 0; first < size; first += BATCH)
        await Promise.all(turns.slice(first, first + BATCH).map((turn) => request(url, turn)));
      await sample();
      return sample;
    };
    const [least = 1, ...others] = KEYS;
    const reference = await sampler(least);
    const rows: string[][] = [];
    for (const size of others) {
      const sample = await sampler(size);
      const { samples, ratios } = await compare(reference, sample, (rounds) => rounds < ROUNDS);
      const used = median(samples.map(microseconds)).toFixed(0);
      const target = size <= MOST_KEYS_WITH_LEASES ? TARGET : undefined;
      rows.push([rows.length === 0 ? "keys in use" : "", whole(size), used, ratioText(ratios, target)]);
    }
    return rows;
  } finally {
    await stop();
  }
}

async function request(url: URL, { path, header: [name, value] }: Turn): Promise<string> {
  return (await fetch(new URL(path, url), { headers: { [name]: value } })).text();
}

/** Each request reads the next page from the database: in an isolate whose cache is full, and in isolates that have just started. */
async function measurePages(): Promise<string[][]> {
  const sources = Array.from({ length: FRESH_ISOLATES + 1 }, () => PETSTORE);
  const { workers, processId, stop } = await startWorkers(sources, true);
  const start = async ({ url, databases }: RunningWorker, pets: number) => {
    const secret = await fillD1(await databases(), pets);
    const isolate = {
      pages: 0,
      readNext: async (seconds = SLICE_SECONDS) => {
        const most = seconds * MAX_PAGES_PER_SECOND;
        if (isolate.pages + most > pets) throw new Error("scale: not enough pages");
        const turns = Array.from({ length: most }, (_, page): Turn => {
          const path = pagePath(isolate.pages + page + 1, 1);
          return { path, header: ["Authorization", `Bearer ${secret}`] };
        });
        const exchange = { path: "/", turns, status: 200, isExpected: () => true };
        const measured = await load(url, exchange, SLICE_SECONDS, processId());
        if (measured.requests > most) throw new Error("scale: a page was read twice");
        isolate.pages += measured.requests;
        return measured;
      },
    };
    // In these seconds, the code is compiled.
    await isolate.readNext();
    return isolate;
  };
  try {
    const [fullWorker, ...freshWorkers] = workers as [RunningWorker, ...RunningWorker[]];
    const full = await start(fullWorker, 5 * PAGES_IN_FULL_CACHE);
    progress(`scale: reading ${whole(PAGES_IN_FULL_CACHE)} pages`);
    while (full.pages < PAGES_IN_FULL_CACHE) await full.readNext(5);
    const samples: Measurement[] = [];
    const ratios: number[] = [];
    for (const worker of freshWorkers) {
      progress("scale: reading pages in a fresh isolate");
      const fresh = await start(worker, 2 * PAGES_IN_FULL_CACHE);
      const isFresh = () => fresh.pages < PAGES_IN_FRESH_CACHE;
      const measured = await compare(fresh.readNext, full.readNext, isFresh);
      samples.push(...measured.samples);
      ratios.push(...measured.ratios);
    }
    const used = median(samples.map(microseconds)).toFixed(0);
    return [["pages read by the isolate", whole(full.pages), used, ratioText(ratios, TARGET)]];
  } finally {
    await stop();
  }
}
