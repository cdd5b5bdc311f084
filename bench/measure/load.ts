// The load generator: wrk, one thread, by default 32 connections. A measurement counts only if every response is the expected one.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { onExit, temporaryFolder } from "./cleanup.ts";
import { countingCommand, hasInstructions, parseCount } from "./instructions.ts";
import { HAS_PROCESSOR_TIME, processorTimer } from "./processor-time.ts";
import { percentile } from "./statistics.ts";

const CONNECTIONS = 32;

/** Long, so that a slow response shows in the latencies and is not an error. */
const TIMEOUT_SECONDS = 10;

/** More than an isolate remembers, so that each request comes from an address that is new to it. */
const FRESH_ADDRESSES = 20_000;

/** A request that is repeated, and the expected response. */
export interface Exchange {
  path: string;
  method?: "GET" | "POST";
  headers?: Record<string, string>;
  body?: string;
  /** Whether each request comes from another address. */
  freshAddresses?: boolean;
  /** Requests that are sent in turn instead of the one above: other paths and keys, the same in all else. */
  turns?: readonly Turn[];
  status: number;
  isExpected(body: string): boolean;
}

export interface Turn {
  path: string;
  authorization: string;
}

export interface Measurement {
  requests: number;
  seconds: number;
  requestsPerSecond: number;
  /** Samples: the percentiles 0.1 to 100. */
  latenciesMs: number[];
  p50Ms: number;
  p99Ms: number;
  /** The server's processor time per response; NaN if it is not measured. */
  microseconds: number;
  /** The instructions that the server executed per response; NaN if they are not counted. */
  instructions: number;
}

/** What load.lua prints. */
interface WrkReport {
  requests: number;
  seconds: number;
  /** The percentiles 0.1 to 100. */
  latenciesMs: number[];
  /** Responses with status 400 or above. */
  errorResponses: number;
  socketErrors: number;
}

/** Throws if wrk is not installed. */
export async function requireWrk(): Promise<void> {
  const child = spawn("wrk", ["--version"], { stdio: "ignore" });
  await once(child, "close").catch(() => {
    throw new Error("the load generator wrk is missing: apt-get install wrk (on a Mac: brew install wrk)");
  });
}

/** Sends one request. Throws unless the response is the expected one. */
export async function verify(url: URL, exchange: Exchange): Promise<void> {
  const { path, method = "GET", headers = {}, body, freshAddresses, status, isExpected } = exchange;
  const address = freshAddresses ? { "CF-Connecting-IP": randomAddress() } : {};
  const init = body === undefined ? {} : { body };
  const response = await fetch(new URL(path, url), { method, headers: { ...headers, ...address }, ...init });
  const text = await response.text();
  if (response.status === status && isExpected(text)) return;
  throw new Error(`${method} ${path} got ${response.status}: ${text.slice(0, 300)}`);
}

/**
 * Loads a server. Throws unless every response had the expected status and no connection failed. With the id of the server's
 * process, its processor time is measured too; at most one request per connection is in that time but gets no response.
 */
export async function load(
  url: URL,
  exchange: Exchange,
  seconds: number,
  processId?: number,
  connections = CONNECTIONS,
): Promise<Measurement> {
  const { path, method = "GET", headers = {}, body = "", freshAddresses, turns = [], status } = exchange;
  const words = ["--threads", "1", "--connections", `${connections}`, "--duration", `${seconds}s`];
  words.push("--timeout", `${TIMEOUT_SECONDS}s`);
  for (const [name, value] of Object.entries(headers)) words.push("--header", `${name}: ${value}`);
  words.push("--script", join(import.meta.dirname, "load.lua"), new URL(path, url).href);
  const { folder, remove } = temporaryFolder();
  const turnsFile = join(folder, "turns");
  await writeFile(turnsFile, turns.map((each) => `${each.path}\t${each.authorization}\n`).join(""));
  const command = ["wrk", ...words, "--", method, body, `${freshAddresses ? FRESH_ADDRESSES : 0}`, turnsFile];
  const { report, usedMs, instructions } = await run(command, processId).finally(remove);
  const { requests, latenciesMs, errorResponses, socketErrors } = report;
  if (requests === 0 || socketErrors > 0)
    throw new Error(`${socketErrors} connections failed, ${requests} requests`);
  const expected = status < 400 ? 0 : requests;
  if (errorResponses !== expected)
    throw new Error(`${errorResponses} of ${requests} responses were errors, expected ${expected}`);
  return {
    requests,
    seconds: report.seconds,
    requestsPerSecond: requests / report.seconds,
    ...latencies(latenciesMs),
    microseconds: (usedMs * 1000) / requests,
    instructions: instructions / requests,
  };
}

/** Measurements of one server, equally long, as one. */
export function merge(measurements: Measurement[]): Measurement {
  const sum = (of: (each: Measurement) => number) =>
    measurements.map(of).reduce((total, each) => total + each);
  const requests = sum((each) => each.requests);
  const seconds = sum((each) => each.seconds);
  return {
    requests,
    seconds,
    requestsPerSecond: requests / seconds,
    ...latencies(measurements.flatMap(({ latenciesMs }) => latenciesMs)),
    microseconds: sum((each) => each.microseconds * each.requests) / requests,
    instructions: sum((each) => each.instructions * each.requests) / requests,
  };
}

function latencies(latenciesMs: number[]) {
  return { latenciesMs, p50Ms: percentile(latenciesMs, 0.5), p99Ms: percentile(latenciesMs, 0.99) };
}

/** Runs wrk, and measures what the server's process uses meanwhile. */
async function run(command: string[], serverId: number | undefined) {
  const counts = serverId !== undefined && (await hasInstructions());
  const [file = "", ...words] = counts ? countingCommand(serverId, command) : command;
  const timer = serverId !== undefined && HAS_PROCESSOR_TIME ? processorTimer(serverId) : undefined;
  const child = spawn(file, words, { stdio: ["ignore", "pipe", "inherit", "pipe"] });
  const cancelKill = onExit(() => void child.kill());
  const printed = { 1: "", 3: "" };
  for (const descriptor of [1, 3] as const) {
    child.stdio[descriptor]?.on("data", (chunk) => (printed[descriptor] += chunk));
  }
  await once(child, "close");
  const usedMs = timer?.() ?? Number.NaN;
  cancelKill();
  const line = printed[1].split("\n").findLast((each) => each.startsWith("{"));
  if (line === undefined) throw new Error(`wrk printed no report:\n${printed[1]}`);
  return { report: JSON.parse(line) as WrkReport, usedMs, instructions: parseCount(printed[3]) };
}

/** An address that load.lua does not send. */
function randomAddress(): string {
  return `203.0.${Math.floor(Math.random() * 256)}.${Math.floor(Math.random() * 256)}`;
}
