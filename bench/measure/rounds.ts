// Measures one case in rounds. A round starts the implementations and loads them in turn, each for a second, in an order that
// reverses each time: A B C, C B A, A B C, … So all of them share what changes the machine's speed for longer than a few seconds,
// and a steady change cancels out. A round gives one ratio of the service to each other implementation, from the sums of their
// slices; the result is the median of the rounds.
//
// Ratios of single slices would be of little use: under load, workerd collects garbage for 0.3 to 0.4 s, about every 50,000
// requests, so some slices have such a pause and others have none. Each round has new processes, because two processes of the
// same program differ in speed by several per cent, as long as they run.

import type { LoadCase } from "../cases/http.ts";
import { IMPLEMENTATIONS, type Implementation, type ImplementationName } from "./implementations.ts";
import { type Exchange, load, type Measurement, microseconds, verify } from "./load.ts";
import { progress, ratioText, type Table, whole } from "./report.ts";
import { median } from "./statistics.ts";

const WARM_UP_SECONDS = 4;
const SLICE_SECONDS = 1;

interface Running extends Implementation {
  name: ImplementationName;
  exchange: Exchange;
}

type Measurements = Record<string, Measurement>;

/** Measures a case. Throws if any response is not the expected one. */
export async function measureCase(
  name: string,
  { title, exchanges }: LoadCase,
  rounds: number,
  seconds: number,
): Promise<Table> {
  const measured: Measurements[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    const measurements = await measureRound(exchanges, seconds);
    const used = Object.entries(measurements).map(([each, one]) => `${each} ${whole(microseconds(one))}`);
    progress(`${name}, round ${round} of ${rounds}, µs: ${used.join(", ")}`);
    measured.push(measurements);
  }
  const row = (implementation: string): string[] => {
    const all = (figure: (measurement: Measurement) => number, of = implementation) =>
      measured.map((round) => figure(round[of] as Measurement));
    const used = all(microseconds);
    const own = all(microseconds, "petstore");
    const ratios = used.map((each, round) => (own[round] ?? Number.NaN) / each);
    const rate = median(all(({ requests, seconds: of }) => requests / of));
    const ratio = implementation === "petstore" ? "" : ratioText(ratios);
    return [implementation, median(used).toFixed(1), whole(rate), ratio];
  };
  return {
    title: `${name}: ${title}`,
    columns: ["", "µs", "requests/s", "petstore's µs ÷ its [quartiles]"],
    rows: Object.keys(exchanges).map(row),
  };
}

/** Starts the implementations, and loads each for `seconds`. */
async function measureRound(exchanges: LoadCase["exchanges"], seconds: number): Promise<Measurements> {
  const running: Running[] = [];
  const sums: Measurements = {};
  try {
    for (const [each, exchangeOf] of Object.entries(exchanges)) {
      const name = each as ImplementationName;
      const implementation = await IMPLEMENTATIONS[name]();
      running.push({ ...implementation, name, exchange: await exchangeOf(implementation) });
    }
    for (const each of running) await measureSlice(each, WARM_UP_SECONDS);
    for (let turn = 0; turn < seconds / SLICE_SECONDS; turn += 1) {
      for (const each of turn % 2 === 0 ? running : running.toReversed()) {
        const slice = await measureSlice(each, SLICE_SECONDS);
        const sum = sums[each.name] ?? { requests: 0, seconds: 0, usedMs: 0 };
        sums[each.name] = {
          requests: sum.requests + slice.requests,
          seconds: sum.seconds + slice.seconds,
          usedMs: sum.usedMs + slice.usedMs,
        };
      }
    }
    return sums;
  } finally {
    for (const { stop } of running) await stop();
  }
}

async function measureSlice(
  { name, url, exchange, processId }: Running,
  seconds: number,
): Promise<Measurement> {
  try {
    await verify(url, exchange);
    const measurement = await load(url, exchange, seconds, processId());
    await verify(url, exchange);
    return measurement;
  } catch (error) {
    throw new Error(`${name}: ${error instanceof Error ? error.message : error}`);
  }
}
