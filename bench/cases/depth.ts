// The time for a page by the size of the list and by its position, one request at a time. No page is requested twice, because
// this case is about reading the database, and the service caches pages.

import { PETSTORE } from "../measure/implementations.ts";
import { progress, type Table, verdict, whole } from "../measure/report.ts";
import { median } from "../measure/statistics.ts";
import { type RunningWorker, startWorkers } from "../measure/workerd.ts";
import { fillD1, pagePath } from "./pets.ts";

const SMALL = 1_000;
const LARGE = 1_000_000;

/** The largest ratio to the time of the small list's first pages. */
const TARGET = 1.1;

const SAMPLES = 2_000;
const WARM_UP_SAMPLES = 200;

/** For each limit, pages begin at this many successive pets. */
const STARTS = 400;
const SMALLEST_LIMIT = 20;

interface Position {
  url: URL;
  secret: string;
  pets: number;
  firstId: number;
  samplesMs: number[];
}

/** Measures all positions in turn, in one process, so that other load on the machine affects all of them. */
export async function measureDepth(): Promise<Table> {
  const { workers, stop } = await startWorkers([PETSTORE, PETSTORE]);
  const fill = async ({ url, databases }: RunningWorker, pets: number) => {
    progress(`depth: adding ${whole(pets)} pets`);
    const secret = await fillD1(await databases(), pets);
    return (firstId: number): Position => ({ url, secret, pets, firstId, samplesMs: [] });
  };
  try {
    const [small, large] = [await fill(workers[0], SMALL), await fill(workers[1], LARGE)];
    // Small and large alternate, so that neither Worker is idle for longer than the other.
    const positions = [small(1), large(1), small(SMALL / 2), large(LARGE / 2)];
    for (let sample = 0; sample < WARM_UP_SAMPLES + SAMPLES; sample += 1) {
      for (const each of positions) {
        const ms = await readPage(each, sample);
        if (sample >= WARM_UP_SAMPLES) each.samplesMs.push(ms);
      }
      if (sample % 500 === 0) progress(`depth: ${sample} of ${WARM_UP_SAMPLES + SAMPLES} pages each`);
    }
    return depthTable(positions);
  } finally {
    await stop();
  }
}

/** The milliseconds until the whole page has arrived. Throws if it is the wrong page. */
async function readPage({ url, secret, firstId }: Position, sample: number): Promise<number> {
  const limit = SMALLEST_LIMIT + Math.floor(sample / STARTS);
  const id = firstId + (sample % STARTS);
  const path = pagePath(id, limit);
  const startedMs = performance.now();
  const response = await fetch(new URL(path, url), { headers: { Authorization: `Bearer ${secret}` } });
  const text = await response.text();
  const ms = performance.now() - startedMs;
  const isExpected = response.ok && text.startsWith(`[{"id":${id},`) && JSON.parse(text).length === limit;
  if (!isExpected) throw new Error(`depth: ${path} got ${response.status}: ${text.slice(0, 300)}`);
  return ms;
}

function depthTable(positions: Position[]): Table {
  const baseMs = median(positions[0]?.samplesMs ?? []);
  return {
    title: "depth: GET /v1/pets, one request at a time, by the size of the list and the page's first pet",
    columns: ["pets", "from pet", "p50 ms", "relative to the first row"],
    rows: positions.map(({ pets, firstId, samplesMs }) => {
      const p50Ms = median(samplesMs);
      const ratio = p50Ms / baseMs;
      return [whole(pets), whole(firstId), p50Ms.toFixed(2), verdict(ratio, TARGET, ratio.toFixed(2))];
    }),
  };
}
