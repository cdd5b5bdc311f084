// The time for a page by the size of the list and by its position, one request at a time. No page is requested twice, because
// this case is about reading the database, and the service caches pages.

import { Agent } from "node:http";
import { send } from "../measure/http.ts";
import { progress, type Table, verdict, whole } from "../measure/report.ts";
import { median } from "../measure/statistics.ts";
import { pagePath } from "./cursor.ts";
import { type FilledPetstore, LARGE, SMALL } from "./large.ts";

/** The largest ratio to the time of the small list's first pages. */
const TARGET = 1.1;

const SAMPLES = 2_000;
const WARM_UP_SAMPLES = 200;

/** For each limit, pages begin at this many successive pets. */
const STARTS = 400;
const SMALLEST_LIMIT = 20;

export interface DepthResult {
  pets: number;
  firstId: number;
  p50Ms: number;
  ratio: number;
  target: number;
  met: boolean;
}

interface Position {
  petstore: FilledPetstore;
  pets: number;
  firstId: number;
  agent: Agent;
  samplesMs: number[];
}

/** Measures all positions in turn, so that other load on the machine affects all of them. */
export async function measureDepth(small: FilledPetstore, large: FilledPetstore): Promise<DepthResult[]> {
  const position = (petstore: FilledPetstore, pets: number, firstId: number): Position => {
    return { petstore, pets, firstId, agent: new Agent({ keepAlive: true, maxSockets: 1 }), samplesMs: [] };
  };
  // Small and large alternate, so that neither Worker is idle for longer than the other.
  const positions = [
    position(small, SMALL, 1),
    position(large, LARGE, 1),
    position(small, SMALL, SMALL / 2),
    position(large, LARGE, LARGE / 2),
  ];
  for (let sample = 0; sample < WARM_UP_SAMPLES + SAMPLES; sample += 1) {
    for (const each of positions) {
      const ms = await readPage(each, sample);
      if (sample >= WARM_UP_SAMPLES) each.samplesMs.push(ms);
    }
    if (sample % 500 === 0) progress(`depth: ${sample} of ${WARM_UP_SAMPLES + SAMPLES} pages each`);
  }
  for (const { agent } of positions) agent.destroy();
  const base = median(positions[0]?.samplesMs ?? []);
  return positions.map(({ pets, firstId, samplesMs }) => {
    const p50Ms = median(samplesMs);
    const ratio = p50Ms / base;
    return { pets, firstId, p50Ms, ratio, target: TARGET, met: ratio <= TARGET };
  });
}

/** The milliseconds until the whole page has arrived. Throws if it is the wrong page. */
async function readPage({ petstore, firstId, agent }: Position, sample: number): Promise<number> {
  const limit = SMALLEST_LIMIT + Math.floor(sample / STARTS);
  const id = firstId + (sample % STARTS);
  const path = pagePath(id, limit);
  const headers = { Authorization: `Bearer ${petstore.secret}` };
  const startedMs = performance.now();
  const { status, text } = await send(agent, new URL(path, petstore.url), headers);
  const ms = performance.now() - startedMs;
  const isExpected = status === 200 && text.startsWith(`[{"id":${id},`) && JSON.parse(text).length === limit;
  if (!isExpected) throw new Error(`depth: ${path} got ${status}: ${text.slice(0, 300)}`);
  return ms;
}

export function depthTable(results: DepthResult[]): Table {
  return {
    title: "depth: GET /v1/pets, one request at a time, by the size of the list and the page's first pet",
    columns: ["pets", "from pet", "p50 ms", "relative to the first row"],
    rows: results.map(({ pets, firstId, p50Ms, ratio, target, met }, index) => {
      const relative = index === 0 ? "" : verdict(met, `${ratio.toFixed(2)} ×`, `at most ${target}`);
      return [whole(pets), whole(firstId), p50Ms.toFixed(2), relative];
    }),
  };
}
