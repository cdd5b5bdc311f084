// The load generator: wrk, one thread, 32 connections. What it measures counts only if every answer was the expected one.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { atEnd } from "./cleanup.ts";

const CONNECTIONS = 32;

/** A slow answer is no wrong one: it shows in the latencies. */
const TIMEOUT_SECONDS = 10;

/** More than a Worker remembers, so that each request comes from an address that it does not know. */
const FRESH_ADDRESSES = 20_000;

/** What is sent again and again, and what has to be answered. */
export interface Exchange {
  path: string;
  method?: "GET" | "POST";
  headers?: Record<string, string>;
  body?: string;
  /** Whether each request comes from another address. */
  freshAddresses?: boolean;
  status: number;
  /** Whether a body of an answer is a plausible one. */
  isPlausible(body: string): boolean;
}

export interface Measured {
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
}

interface WrkReport {
  requests: number;
  seconds: number;
  p50Ms: number;
  p99Ms: number;
  /** Answers with a status of 400 or above. */
  notOk: number;
  socketErrors: number;
}

/** Throws what to do if wrk is not there. */
export async function requireWrk(): Promise<void> {
  const child = spawn("wrk", ["--version"], { stdio: "ignore" });
  await once(child, "close").catch(() => {
    throw new Error("the load generator wrk is missing: apt-get install wrk (on a Mac: brew install wrk)");
  });
}

/** Sends one request, and throws unless the answer is the expected one. */
export async function verify(url: URL, exchange: Exchange): Promise<void> {
  const { path, method = "GET", headers = {}, body, freshAddresses, status, isPlausible } = exchange;
  const address = freshAddresses ? { "CF-Connecting-IP": randomAddress() } : {};
  const init = body === undefined ? {} : { body };
  const response = await fetch(new URL(path, url), { method, headers: { ...headers, ...address }, ...init });
  const text = await response.text();
  if (response.status === status && isPlausible(text)) return;
  throw new Error(`${method} ${path} was answered with ${response.status}: ${text.slice(0, 300)}`);
}

/** Loads a server. Throws unless every answer had the expected status and no connection failed. */
export async function load(url: URL, exchange: Exchange, seconds: number): Promise<Measured> {
  const { path, method = "GET", headers = {}, body = "", freshAddresses, status } = exchange;
  const words = ["--threads", "1", "--connections", `${CONNECTIONS}`, "--duration", `${seconds}s`];
  words.push("--timeout", `${TIMEOUT_SECONDS}s`);
  for (const [name, value] of Object.entries(headers)) words.push("--header", `${name}: ${value}`);
  words.push("--script", join(import.meta.dirname, "load.lua"), new URL(path, url).href);
  const report = await wrk([...words, "--", method, body, `${freshAddresses ? FRESH_ADDRESSES : 0}`]);
  const { requests, notOk, socketErrors } = report;
  if (requests === 0 || socketErrors > 0)
    throw new Error(`${socketErrors} connections failed, ${requests} requests`);
  const expected = status < 400 ? 0 : requests;
  if (notOk !== expected)
    throw new Error(`${notOk} of ${requests} answers were errors, expected were ${expected}`);
  return { requestsPerSecond: requests / report.seconds, p50Ms: report.p50Ms, p99Ms: report.p99Ms };
}

async function wrk(words: string[]): Promise<WrkReport> {
  const child = spawn("wrk", words, { stdio: ["ignore", "pipe", "inherit"] });
  const isDone = atEnd(() => void child.kill());
  let printed = "";
  child.stdout.on("data", (chunk) => (printed += chunk));
  await once(child, "close");
  isDone();
  const line = printed.split("\n").findLast((each) => each.startsWith("{"));
  if (line === undefined) throw new Error(`wrk gave no report:\n${printed}`);
  return JSON.parse(line);
}

/** One of 192.0.2.0/24 and its like would be proper; what matters is that wrk does not send it. */
function randomAddress(): string {
  return `203.0.${Math.floor(Math.random() * 256)}.${Math.floor(Math.random() * 256)}`;
}
