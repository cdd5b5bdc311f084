// How long a page takes, by the size of the list and by how far into it: one request after the other. No two requests are
// for the same page, because the service may remember a page for a while, and this is about reading the database.

import { Agent, request } from "node:http";
import { progress, type Table, verdict } from "../measure/report.ts";
import { median } from "../measure/rounds.ts";
import { pagePath } from "./cursor.ts";
import { type FilledPetstore, LARGE, SMALL } from "./large.ts";

/** At most this much slower than the first pages of the small list. */
const TARGET = 1.1;

const SAMPLES = 2_000;
const WARM_UP_SAMPLES = 200;

/** As many pages begin one pet after the other; then the limit changes, so that they begin anew. */
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

interface Place {
  petstore: FilledPetstore;
  pets: number;
  firstId: number;
  agent: Agent;
  samplesMs: number[];
}

/** Measures all places in turn, so that whatever else the machine does meets them alike. */
export async function measureDepth(small: FilledPetstore, large: FilledPetstore): Promise<DepthResult[]> {
  const place = (petstore: FilledPetstore, pets: number, firstId: number): Place => {
    return { petstore, pets, firstId, agent: new Agent({ keepAlive: true, maxSockets: 1 }), samplesMs: [] };
  };
  // Small and large take turns, so that neither rests longer than the other.
  const places = [
    place(small, SMALL, 1),
    place(large, LARGE, 1),
    place(small, SMALL, SMALL / 2),
    place(large, LARGE, LARGE / 2),
  ];
  for (let sample = 0; sample < WARM_UP_SAMPLES + SAMPLES; sample += 1) {
    for (const each of places) {
      const ms = await readPage(each, sample);
      if (sample >= WARM_UP_SAMPLES) each.samplesMs.push(ms);
    }
    if (sample % 500 === 0) progress(`depth: ${sample} of ${WARM_UP_SAMPLES + SAMPLES} pages each`);
  }
  for (const { agent } of places) agent.destroy();
  const base = median(places[0]?.samplesMs ?? []);
  return places.map(({ pets, firstId, samplesMs }) => {
    const p50Ms = median(samplesMs);
    const ratio = p50Ms / base;
    return { pets, firstId, p50Ms, ratio, target: TARGET, met: ratio <= TARGET };
  });
}

/** Milliseconds until the whole page is there. Throws if it is not the page that was asked for. */
async function readPage({ petstore, firstId, agent }: Place, sample: number): Promise<number> {
  const limit = SMALLEST_LIMIT + Math.floor(sample / STARTS);
  const id = firstId + (sample % STARTS);
  const path = pagePath(id, limit);
  const headers = { Authorization: `Bearer ${petstore.secret}` };
  const startedMs = performance.now();
  const { status, body } = await new Promise<{ status: number; body: string }>((resolve, reject) => {
    const sent = request(new URL(path, petstore.url).href, { agent, headers }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (body += chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    sent.on("error", reject);
    sent.end();
  });
  const ms = performance.now() - startedMs;
  const isPage = status === 200 && body.startsWith(`[{"id":${id},`) && JSON.parse(body).length === limit;
  if (!isPage) throw new Error(`depth: ${path} was answered with ${status}: ${body.slice(0, 300)}`);
  return ms;
}

/** The table of this section. */
export function depthTable(results: DepthResult[]): Table {
  const count = (value: number) => value.toLocaleString("en");
  return {
    title: "depth: GET /v1/pets, one after the other, by the size of the list and where the page begins",
    columns: ["pets", "from pet", "p50 ms", "in relation to the first row"],
    rows: results.map(({ pets, firstId, p50Ms, ratio, target, met }, index) => {
      const relation = index === 0 ? "" : verdict(met, `${ratio.toFixed(2)} ×`, `at most ${target}`);
      return [count(pets), count(firstId), p50Ms.toFixed(2), relation];
    }),
  };
}
