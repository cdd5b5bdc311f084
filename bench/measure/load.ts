// The load generator: wrk, one thread, 32 connections. A measurement counts only if every response is the expected one.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { onExit } from "./cleanup.ts";

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
  status: number;
  isExpected(body: string): boolean;
}

export interface Measurement {
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
}

/** What load.lua prints. */
interface WrkReport {
  requests: number;
  seconds: number;
  p50Ms: number;
  p99Ms: number;
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

/** Loads a server. Throws unless every response had the expected status and no connection failed. */
export async function load(url: URL, exchange: Exchange, seconds: number): Promise<Measurement> {
  const { path, method = "GET", headers = {}, body = "", freshAddresses, status } = exchange;
  const words = ["--threads", "1", "--connections", `${CONNECTIONS}`, "--duration", `${seconds}s`];
  words.push("--timeout", `${TIMEOUT_SECONDS}s`);
  for (const [name, value] of Object.entries(headers)) words.push("--header", `${name}: ${value}`);
  words.push("--script", join(import.meta.dirname, "load.lua"), new URL(path, url).href);
  const report = await wrk([...words, "--", method, body, `${freshAddresses ? FRESH_ADDRESSES : 0}`]);
  const { requests, errorResponses, socketErrors, p50Ms, p99Ms } = report;
  if (requests === 0 || socketErrors > 0)
    throw new Error(`${socketErrors} connections failed, ${requests} requests`);
  const expected = status < 400 ? 0 : requests;
  if (errorResponses !== expected)
    throw new Error(`${errorResponses} of ${requests} responses were errors, expected ${expected}`);
  return { requestsPerSecond: requests / report.seconds, p50Ms, p99Ms };
}

async function wrk(words: string[]): Promise<WrkReport> {
  const child = spawn("wrk", words, { stdio: ["ignore", "pipe", "inherit"] });
  const cancelKill = onExit(() => void child.kill());
  let printed = "";
  child.stdout.on("data", (chunk) => (printed += chunk));
  await once(child, "close");
  cancelKill();
  const line = printed.split("\n").findLast((each) => each.startsWith("{"));
  if (line === undefined) throw new Error(`wrk printed no report:\n${printed}`);
  return JSON.parse(line);
}

/** An address that load.lua does not send. */
function randomAddress(): string {
  return `203.0.${Math.floor(Math.random() * 256)}.${Math.floor(Math.random() * 256)}`;
}
