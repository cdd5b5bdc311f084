// Measures one case in rounds. A round starts the implementations and loads them in turn, each for a second, in an order that
// reverses each time: A B C, C B A, A B C, … So all of them share what changes the machine's speed for longer than a few seconds,
// and a steady change cancels out. A round gives one ratio of the service to each other implementation, from the sums of their
// slices; the result is the median of the rounds, with its 95 % confidence interval.
//
// Ratios of single slices would be of little use: under load, workerd collects garbage for 0.3 to 0.4 s, about every 50,000
// requests, so some slices have such a pause and others have none. Each round has new processes, because two processes of the
// same program differ in speed by several per cent, as long as they run.

import type { Case } from "../cases/http.ts";
import { IMPLEMENTATIONS, type Implementation, type ImplementationName } from "./implementations.ts";
import { type Exchange, load, type Measurement, merge, verify } from "./load.ts";
import { HAS_PROCESSOR_TIME } from "./processor-time.ts";
import { progress, whole } from "./report.ts";
import { difference, receive } from "./same-response.ts";
import { LEAST_FOR_INTERVAL, median, medianInterval } from "./statistics.ts";

const WARM_UP_SECONDS = 4;
const SLICE_SECONDS = 1;

/** Medians of the rounds. Processor time and instructions are NaN (in JSON null) if they were not measured. */
export interface Result {
  implementation: ImplementationName;
  microseconds: number;
  instructions: number;
  requestsPerSecond: { median: number; min: number; max: number };
  p50Ms: number;
  p99Ms: number;
}

type Quantity = "microseconds" | "requestsPerSecond";

/** The service's value divided by that of another implementation: the median, and its 95 % confidence interval. */
export interface Ratio {
  to: ImplementationName;
  of: Quantity;
  median: number;
  low: number;
  high: number;
  /** Whether the values differ by more than the spread: the interval excludes 1. */
  differs: boolean;
  /** `isCertain`: the interval excludes the limit. */
  target?: { limit: number; met: boolean; isCertain: boolean };
}

export interface CaseResult {
  name: string;
  title: string;
  results: Result[];
  ratios: Ratio[];
}

type Measurements = Map<ImplementationName, Measurement[]>;

interface Running extends Implementation {
  name: ImplementationName;
  exchange: Exchange;
  slices: Measurement[];
}

/** Measures a case. Throws if any response is not the expected one. */
export async function measureCase(
  measured: Case,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<CaseResult> {
  if (rounds < LEAST_FOR_INTERVAL) throw new Error(`--rounds must be at least ${LEAST_FOR_INTERVAL}`);
  const { name: caseName, title, exchanges } = measured;
  const names = Object.keys(exchanges) as ImplementationName[];
  const measurements: Measurements = new Map(names.map((name) => [name, []]));
  for (let round = 1; round <= rounds; round += 1) {
    const rates: string[] = [];
    for (const { name, slices } of await measureRound(measured, names, seconds)) {
      const measurement = merge(slices);
      measurements.get(name)?.push(measurement);
      rates.push(`${name} ${whole(measurement.requestsPerSecond)}`);
    }
    progress(`${caseName}, round ${round} of ${rounds}, requests/s: ${rates.join(", ")}`);
  }
  const results = [...measurements].map(([name, each]) => summarise(name, each));
  return { name: caseName, title, results, ratios: ratiosOf(measured, measurements) };
}

/** Starts the implementations, and loads each for `seconds`. */
async function measureRound(
  measured: Case,
  names: ImplementationName[],
  seconds: number,
): Promise<Running[]> {
  const running: Running[] = [];
  try {
    for (const name of names) {
      const implementation = await IMPLEMENTATIONS[name]();
      const exchange = await exchangeOf(measured, name, implementation);
      running.push({ ...implementation, name, exchange, slices: [] });
    }
    for (const each of running) await measureSlice(each, WARM_UP_SECONDS);
    await checkSameResponses(measured, running);
    for (let turn = 0; turn < seconds / SLICE_SECONDS; turn += 1) {
      for (const each of turn % 2 === 0 ? running : running.toReversed()) {
        each.slices.push(await measureSlice(each, SLICE_SECONDS));
      }
    }
  } catch (error) {
    throw new Error(`${measured.name}, ${error instanceof Error ? error.message : error}`);
  } finally {
    for (const { stop } of running) await stop();
  }
  return running;
}

async function exchangeOf(
  { exchanges }: Case,
  name: ImplementationName,
  implementation: Implementation,
): Promise<Exchange> {
  const makeExchange = exchanges[name];
  if (makeExchange === undefined) throw new Error(`${name} has no exchange`);
  return makeExchange(implementation);
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

/** Throws unless the implementations that should send the service's headers or its whole response do so. */
async function checkSameResponses({ same = {} }: Case, running: Running[]): Promise<void> {
  const responseOf = ({ url, exchange }: Running) => receive(new URL(exchange.path, url), exchange.headers);
  for (const [name, extent] of Object.entries(same)) {
    const expected = await responseOf(find(running, "petstore"));
    const problem = difference(await responseOf(find(running, name)), expected, extent);
    if (problem !== undefined) throw new Error(`${name} ${problem}`);
  }
}

function find(running: Running[], name: string): Running {
  const found = running.find((each) => each.name === name);
  if (found === undefined) throw new Error(`${name} is not in this case`);
  return found;
}

function summarise(implementation: ImplementationName, measurements: Measurement[]): Result {
  const all = (quantity: Exclude<keyof Measurement, "latenciesMs">) =>
    measurements.map((each) => each[quantity]);
  const rates = all("requestsPerSecond");
  return {
    implementation,
    microseconds: median(all("microseconds")),
    instructions: median(all("instructions")),
    requestsPerSecond: { median: median(rates), min: Math.min(...rates), max: Math.max(...rates) },
    p50Ms: median(all("p50Ms")),
    p99Ms: median(all("p99Ms")),
  };
}

function ratiosOf({ targets, rateTargets = {} }: Case, measurements: Measurements): Ratio[] {
  const { petstore: service = [], ...others } = Object.fromEntries(measurements);
  return (Object.entries(others) as [ImplementationName, Measurement[]][]).flatMap(([name, each]) => {
    const ratios = (of: Quantity) =>
      each.map((other, round) => (service[round]?.[of] ?? Number.NaN) / other[of]);
    const time = ratio(name, "microseconds", ratios("microseconds"), targets[name]);
    const rate = ratio(name, "requestsPerSecond", ratios("requestsPerSecond"), rateTargets[name]);
    return HAS_PROCESSOR_TIME ? [time, rate] : [rate];
  });
}

function ratio(to: ImplementationName, of: Quantity, ratios: number[], limit: number | undefined): Ratio {
  const middle = median(ratios);
  const { low, high } = medianInterval(ratios);
  const excludes = (value: number) => value < low || value > high;
  const met = (value: number) => (of === "microseconds" ? middle <= value : middle >= value);
  return {
    to,
    of,
    median: middle,
    low,
    high,
    differs: excludes(1),
    ...(limit !== undefined && { target: { limit, met: met(limit), isCertain: excludes(limit) } }),
  };
}
