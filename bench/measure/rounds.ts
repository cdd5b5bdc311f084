// Measures one case in rounds of short slices: the service, another implementation, the service, the next one, …, the service.
// Each slice of another implementation makes a pair with the service's slices right before and after it: their mean, divided by
// its value. So a steady change of the machine's speed cancels out, and a slow minute affects both sides. The result is the
// median of the pairs' ratios, with its 95 % confidence interval. No two pairs of the same implementations share a slice.
//
// All implementations keep running, but only one is loaded at a time.

import type { Case } from "../cases/http.ts";
import { IMPLEMENTATIONS, type Implementation, type ImplementationName } from "./implementations.ts";
import { type Exchange, load, type Measurement, verify } from "./load.ts";
import { HAS_PROCESSOR_TIME } from "./processor-time.ts";
import { progress, type Table, whole } from "./report.ts";
import { difference, receive } from "./same-response.ts";
import { LEAST_FOR_INTERVAL, mean, median, medianInterval } from "./statistics.ts";

const WARM_UP_SECONDS = 3;

/** Medians of the slices. Processor time and instructions are NaN (in JSON null) if they were not measured. */
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

interface Running extends Implementation {
  name: ImplementationName;
  exchange: Exchange;
  slices: Measurement[];
}

interface Pair {
  to: ImplementationName;
  other: Measurement;
  service: Measurement[];
}

/** Measures a case. Throws if any response is not the expected one. */
export async function measureCase(
  measured: Case,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<CaseResult> {
  if (rounds < LEAST_FOR_INTERVAL) throw new Error(`--rounds must be at least ${LEAST_FOR_INTERVAL}`);
  const running: Running[] = [];
  const pairs: Pair[] = [];
  try {
    for (const name of Object.keys(measured.exchanges) as ImplementationName[]) {
      const implementation = await IMPLEMENTATIONS[name]();
      running.push({
        ...implementation,
        name,
        exchange: await exchangeOf(measured, name, implementation),
        slices: [],
      });
    }
    for (const each of running) await measureSlice(each, WARM_UP_SECONDS);
    await checkSameResponses(measured, running);
    for (let round = 1; round <= rounds; round += 1) {
      pairs.push(...(await measureRound(measured, running, seconds)));
      const rates = running.map(
        ({ name, slices }) => `${name} ${whole(slices.at(-1)?.requestsPerSecond ?? 0)}`,
      );
      progress(`${measured.name}, round ${round} of ${rounds}, requests/s: ${rates.join(", ")}`);
    }
  } catch (error) {
    throw new Error(`${measured.name}, ${error instanceof Error ? error.message : error}`);
  } finally {
    for (const { stop } of running) await stop();
  }
  const { name, title } = measured;
  return { name, title, results: running.map(summarise), ratios: ratiosOf(measured, pairs) };
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

/** Measures a slice of each other implementation, and the service's slices around them. */
async function measureRound(measured: Case, running: Running[], seconds: number): Promise<Pair[]> {
  for (const each of running) each.exchange = await exchangeOf(measured, each.name, each);
  const slice = async (each: Running) => {
    const measurement = await measureSlice(each, seconds);
    each.slices.push(measurement);
    return measurement;
  };
  const pairs: Pair[] = [];
  const service = find(running, "petstore");
  let before = await slice(service);
  for (const each of running.filter((one) => one !== service)) {
    const other = await slice(each);
    const after = await slice(service);
    pairs.push({ to: each.name, other, service: [before, after] });
    before = after;
  }
  return pairs;
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

function summarise({ name, slices }: Running): Result {
  const rates = slices.map(({ requestsPerSecond }) => requestsPerSecond);
  const medianOf = (quantity: keyof Measurement) => median(slices.map((slice) => slice[quantity]));
  return {
    implementation: name,
    microseconds: medianOf("microseconds"),
    instructions: medianOf("instructions"),
    requestsPerSecond: { median: median(rates), min: Math.min(...rates), max: Math.max(...rates) },
    p50Ms: medianOf("p50Ms"),
    p99Ms: medianOf("p99Ms"),
  };
}

function ratiosOf({ targets, rateTargets = {} }: Case, pairs: Pair[]): Ratio[] {
  const others = [...new Set(pairs.map(({ to }) => to))];
  return others.flatMap((to) => {
    const ratios = (of: Quantity) =>
      pairs
        .filter((pair) => pair.to === to)
        .map(({ service, other }) => mean(service.map((slice) => slice[of])) / other[of]);
    const time = ratio(to, "microseconds", ratios("microseconds"), targets[to]);
    const rate = ratio(to, "requestsPerSecond", ratios("requestsPerSecond"), rateTargets[to]);
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

export function caseTable({ name, title, results, ratios }: CaseResult): Table {
  const hasInstructions = results.some(({ instructions }) => !Number.isNaN(instructions));
  const optional = (isShown: boolean, cell: string) => (isShown ? [cell] : []);
  const compared = HAS_PROCESSOR_TIME ? "µs" : "requests/s";
  return {
    title: `${name}: ${title}`,
    columns: [
      "",
      ...optional(HAS_PROCESSOR_TIME, "µs"),
      ...optional(hasInstructions, "instructions"),
      ...["requests/s", "min", "max", "p50 ms", "p99 ms"],
      `petstore's ${compared} ÷ its (95 % interval)`,
    ],
    rows: results.map((result) => {
      const { implementation, microseconds, instructions, requestsPerSecond: rate, p50Ms, p99Ms } = result;
      const own = ratios.filter(({ to }) => to === implementation);
      return [
        implementation,
        ...optional(HAS_PROCESSOR_TIME, microseconds.toFixed(1)),
        ...optional(hasInstructions, whole(instructions)),
        ...[rate.median, rate.min, rate.max].map(whole),
        ...[p50Ms, p99Ms].map((ms) => ms.toFixed(2)),
        own.filter(isShown).map(ratioText).join("; "),
      ];
    }),
  };
}

/** Requests per second are compared where they have a target, or where processor time is not measured. */
function isShown({ of, target }: Ratio): boolean {
  return of === "microseconds" || target !== undefined || !HAS_PROCESSOR_TIME;
}

function ratioText({ of, median: middle, low, high, differs, target }: Ratio): string {
  const digits = middle < 0.1 ? 4 : 3;
  const [value = "", from = "", to = ""] = [middle, low, high].map((each) => each.toFixed(digits));
  const interval = `${from} to ${to}, ${differs ? "differs" : "no difference seen"}`;
  const text = `${of === "requestsPerSecond" ? "requests/s " : ""}${value} (${interval})`;
  if (target === undefined) return text;
  const { limit, met, isCertain } = target;
  const bound = of === "microseconds" ? "at most" : "at least";
  return `${text}, ${bound} ${limit}: ${met ? "met" : "missed"}${isCertain ? "" : ", uncertain"}`;
}
