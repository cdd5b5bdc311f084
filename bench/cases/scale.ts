// Whether the processor time of a request stays the same as more keys are in use. Each number of keys is measured in turn with one key, in
// short slices, so that both share what changes the machine's speed. A ratio is that of a slice to the mean of the reference's slices right
// before and after it. Linux only (processor-time.ts).

import { PETSTORE } from "../measure/implementations.ts";
import { load, microseconds, type Turn } from "../measure/load.ts";
import { progress, ratioText, type Table, whole } from "../measure/report.ts";
import { mean, median } from "../measure/statistics.ts";
import { startWorkers } from "../measure/workerd.ts";
import { addTablesAndPets, newKeys } from "./pets.ts";

const SLICE_SECONDS = 2;
/** Up to as many as an isolate has limiter clients for. */
const KEYS = [10, 100, 1_000, 5_000];
/** Objects that are started at once. */
const BATCH = 50;

/** Each request lists pets with the next of the keys. */
export async function measureScale(rounds: number): Promise<Table> {
  const { workers, processId, stop } = await startWorkers([PETSTORE], true);
  try {
    const [{ url, databases }] = workers;
    const filled = await databases();
    await addTablesAndPets(filled, 1_000);
    const turns = (await newKeys(filled.keys, Math.max(...KEYS))).map((secret): Turn => {
      return { path: "/v1/pets", header: ["Authorization", `Bearer ${secret}`] };
    });
    const request = async ({ path, header: [name, value] }: Turn) =>
      (await fetch(new URL(path, url), { headers: { [name]: value } })).text();
    const sampler = async (size: number) => {
      let used = 0;
      const sample = async () => {
        const inUse = [...turns.slice(used, size), ...turns.slice(0, used)];
        const exchange = { path: "/v1/pets", turns: inUse, status: 200, isExpected: () => true };
        const measured = await load(url, exchange, SLICE_SECONDS, processId());
        used = (used + measured.requests) % size;
        return microseconds(measured);
      };
      progress(`scale: ${whole(size)} keys in use`);
      // While thousands of objects start, wrk's connections would time out.
      for (let first = 0; first < size; first += BATCH)
        await Promise.all(turns.slice(first, first + BATCH).map(request));
      await sample();
      return sample;
    };
    const reference = await sampler(1);
    const rows: string[][] = [];
    for (const size of KEYS) {
      const sample = await sampler(size);
      const samples: number[] = [];
      const ratios: number[] = [];
      let before = await reference();
      for (let round = 0; round < rounds; round += 1) {
        const used = await sample();
        const after = await reference();
        samples.push(used);
        ratios.push(used / mean([before, after]));
        before = after;
      }
      rows.push([whole(size), median(samples).toFixed(0), ratioText(ratios)]);
    }
    const title = "scale: processor time of a request, relative to one key in use [quartiles]";
    return { title, columns: ["keys in use", "µs", "relative"], rows };
  } finally {
    await stop();
  }
}
