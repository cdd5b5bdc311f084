// Measures one case: the implementations in turn, round after round, so that other load on the machine affects all of them.
// All keep running, but only one is loaded at a time.

import type { Case } from "../cases/http.ts";
import { IMPLEMENTATIONS, type Implementation, type ImplementationName } from "./implementations.ts";
import { load, type Measurement, verify } from "./load.ts";
import { progress, type Table, verdict, whole } from "./report.ts";
import { median } from "./statistics.ts";

const WARM_UP_SECONDS = 2;

/** Requests per second over all rounds, and the medians of the rounds' latencies. */
export interface Result {
  implementation: ImplementationName;
  requestsPerSecond: { median: number; min: number; max: number };
  p50Ms: number;
  p99Ms: number;
}

/** The service's median requests per second, divided by those of another implementation. */
export interface Ratio {
  to: ImplementationName;
  ratio: number;
  target: number;
  met: boolean;
}

export interface CaseResult {
  name: string;
  title: string;
  results: Result[];
  ratios: Ratio[];
}

/** Measures a case. Throws if any response is not the expected one. */
export async function measureCase(
  { name: caseName, title, targets, exchanges }: Case,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<CaseResult> {
  const names = Object.keys(exchanges) as ImplementationName[];
  const running = new Map<ImplementationName, Implementation>();
  const measurements = new Map<ImplementationName, Measurement[]>(names.map((name) => [name, []]));
  const measure = async (name: ImplementationName, forSeconds: number): Promise<Measurement> => {
    const implementation = running.get(name);
    const exchangeFor = exchanges[name];
    if (implementation === undefined || exchangeFor === undefined) throw new Error(`${name} does not run`);
    try {
      const exchange = await exchangeFor(implementation);
      await verify(implementation.url, exchange);
      const measurement = await load(implementation.url, exchange, forSeconds);
      await verify(implementation.url, exchange);
      return measurement;
    } catch (error) {
      throw new Error(`${caseName}, ${name}: ${error instanceof Error ? error.message : error}`);
    }
  };
  try {
    for (const name of names) {
      running.set(name, await IMPLEMENTATIONS[name]());
      await measure(name, WARM_UP_SECONDS);
    }
    for (let round = 1; round <= rounds; round += 1) {
      for (const name of names) {
        const measurement = await measure(name, seconds);
        measurements.get(name)?.push(measurement);
        const rate = whole(measurement.requestsPerSecond);
        progress(`${caseName}, round ${round} of ${rounds}: ${name} ${rate} requests/s`);
      }
    }
  } finally {
    for (const implementation of running.values()) await implementation.stop();
  }
  const results = [...measurements].map(([name, each]) => summarise(name, each));
  return { name: caseName, title, results, ratios: ratios(results, targets) };
}

function summarise(implementation: ImplementationName, measurements: Measurement[]): Result {
  const rates = measurements.map(({ requestsPerSecond }) => requestsPerSecond);
  return {
    implementation,
    requestsPerSecond: { median: median(rates), min: Math.min(...rates), max: Math.max(...rates) },
    p50Ms: median(measurements.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(measurements.map(({ p99Ms }) => p99Ms)),
  };
}

function ratios(results: Result[], targets: Case["targets"]): Ratio[] {
  const rate = (name: string) =>
    results.find(({ implementation }) => implementation === name)?.requestsPerSecond.median ?? Number.NaN;
  return (Object.entries(targets) as [ImplementationName, number][]).map(([to, target]) => {
    const ratio = rate("petstore") / rate(to);
    return { to, ratio, target, met: ratio >= target };
  });
}

export function caseTable({ name, title, results, ratios }: CaseResult): Table {
  return {
    title: `${name}: ${title}`,
    columns: ["", "requests/s", "min", "max", "p50 ms", "p99 ms", "petstore relative to it"],
    rows: results.map(({ implementation, requestsPerSecond: { median, min, max }, p50Ms, p99Ms }) => {
      const ratio = ratios.find(({ to }) => to === implementation);
      const latencies = [p50Ms.toFixed(2), p99Ms.toFixed(2)];
      const relative = ratio
        ? verdict(ratio.met, `${ratio.ratio.toFixed(2)} ×`, `at least ${ratio.target}`)
        : "";
      return [implementation, whole(median), whole(min), whole(max), ...latencies, relative];
    }),
  };
}
