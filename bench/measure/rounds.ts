// Measures a case: its contestants in turn, round after round, so that whatever else the machine does meanwhile meets all
// of them. All keep running, but only one is loaded at a time.

import type { Case } from "../cases/http.ts";
import { CONTESTANTS, type Contestant, type ContestantName } from "./implementations.ts";
import { load, type Measured, verify } from "./load.ts";
import { progress, type Table, verdict, whole } from "./report.ts";

const WARM_UP_SECONDS = 2;

/** Requests per second over all rounds, and the medians of the rounds' latencies. */
export interface Standing {
  contestant: ContestantName;
  requestsPerSecond: { median: number; min: number; max: number };
  p50Ms: number;
  p99Ms: number;
}

/** The service compared with another contestant, by the medians of requests per second. */
export interface Ratio {
  to: ContestantName;
  ratio: number;
  target: number;
  met: boolean;
}

export interface CaseResult {
  name: string;
  title: string;
  standings: Standing[];
  ratios: Ratio[];
}

/** Measures a case. Throws if any answer is not the expected one. */
export async function measure(
  { name, title, targets, exchanges }: Case,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<CaseResult> {
  const running = new Map<ContestantName, Contestant>();
  const measured = new Map<ContestantName, Measured[]>();
  const run = async (contestantName: ContestantName, forSeconds: number): Promise<Measured> => {
    const contestant = running.get(contestantName);
    const exchangeOf = exchanges[contestantName];
    if (contestant === undefined || exchangeOf === undefined)
      throw new Error(`${contestantName} does not run`);
    try {
      const exchange = await exchangeOf(contestant);
      await verify(contestant.url, exchange);
      const result = await load(contestant.url, exchange, forSeconds);
      await verify(contestant.url, exchange);
      return result;
    } catch (error) {
      throw new Error(`${name}, ${contestantName}: ${error instanceof Error ? error.message : error}`);
    }
  };
  const names = Object.keys(exchanges) as ContestantName[];
  try {
    for (const contestantName of names) {
      running.set(contestantName, await CONTESTANTS[contestantName]());
      await run(contestantName, WARM_UP_SECONDS);
    }
    for (let round = 1; round <= rounds; round += 1) {
      for (const contestantName of names) {
        const result = await run(contestantName, seconds);
        measured.set(contestantName, [...(measured.get(contestantName) ?? []), result]);
        const rate = whole(result.requestsPerSecond);
        progress(`${name}, round ${round} of ${rounds}: ${contestantName} ${rate} requests/s`);
      }
    }
  } finally {
    for (const contestant of running.values()) await contestant.stop();
  }
  const standings = names.map((contestant) => standing(contestant, measured.get(contestant) ?? []));
  return { name, title, standings, ratios: ratios(standings, targets) };
}

function standing(contestant: ContestantName, results: Measured[]): Standing {
  const rates = results.map(({ requestsPerSecond }) => requestsPerSecond);
  return {
    contestant,
    requestsPerSecond: { median: median(rates), min: Math.min(...rates), max: Math.max(...rates) },
    p50Ms: median(results.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(results.map(({ p99Ms }) => p99Ms)),
  };
}

function ratios(standings: Standing[], targets: Case["targets"]): Ratio[] {
  const rateOf = (name: string) =>
    standings.find(({ contestant }) => contestant === name)?.requestsPerSecond.median ?? Number.NaN;
  return (Object.entries(targets) as [ContestantName, number][]).map(([to, target]) => {
    const ratio = rateOf("petstore") / rateOf(to);
    return { to, ratio, target, met: ratio >= target };
  });
}

/** The table of a case. */
export function caseTable({ name, title, standings, ratios }: CaseResult): Table {
  return {
    title: `${name}: ${title}`,
    columns: ["", "requests/s", "min", "max", "p50 ms", "p99 ms", "petstore in relation to it"],
    rows: standings.map(({ contestant, requestsPerSecond: { median, min, max }, p50Ms, p99Ms }) => {
      const ratio = ratios.find(({ to }) => to === contestant);
      const latencies = [p50Ms.toFixed(2), p99Ms.toFixed(2)];
      const relation = ratio
        ? verdict(ratio.met, `${ratio.ratio.toFixed(2)} ×`, `at least ${ratio.target}`)
        : "";
      return [contestant, whole(median), whole(min), whole(max), ...latencies, relation];
    }),
  };
}

/** The middle of the values; of an even number of them, the mean of the two in the middle. */
export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}
