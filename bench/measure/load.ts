// The load generator: wrk, one thread, 32 connections. A measurement counts only if every response is the expected one.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { onExit, temporaryFolder } from "./cleanup.ts";
import { processorTimer } from "./processor-time.ts";

const CONNECTIONS = 32;

/** Long, so that a slow response is not an error. */
const TIMEOUT_SECONDS = 10;

/** A request that is repeated, and the expected response. */
export interface Exchange {
  path: string;
  method?: "GET" | "POST";
  headers?: Record<string, string>;
  body?: string;
  /** Requests that are sent in turn instead of the one above, which they are equal to in all else. */
  turns?: readonly Turn[];
  status: number;
  isExpected(body: string): boolean;
}

export interface Turn {
  path: string;
  header: readonly [name: string, value: string];
}

export interface Measurement {
  requests: number;
  seconds: number;
  /** The server's processor time; NaN if it is not measured. */
  usedMs: number;
}

/** The server's processor time per response, in microseconds. */
export function microseconds({ usedMs, requests }: Measurement): number {
  return (usedMs * 1_000) / requests;
}

/** Sends one request. Throws unless the response is the expected one. */
export async function verify(url: URL, exchange: Exchange): Promise<void> {
  const { path, method = "GET", headers = {}, body = null, status, isExpected } = exchange;
  const response = await fetch(new URL(path, url), { method, headers, body });
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
  { path, method = "GET", headers = {}, body = "", turns = [], status }: Exchange,
  seconds: number,
  processId?: number,
): Promise<Measurement> {
  const { folder, remove } = temporaryFolder();
  const turnsFile = join(folder, "turns");
  await writeFile(turnsFile, turns.map((each) => `${[each.path, ...each.header].join("\t")}\n`).join(""));
  const words = ["--threads", "1", "--connections", `${CONNECTIONS}`, "--duration", `${seconds}s`];
  words.push("--timeout", `${TIMEOUT_SECONDS}s`, "--script", join(import.meta.dirname, "load.lua"));
  for (const [name, value] of Object.entries(headers)) words.push("--header", `${name}: ${value}`);
  words.push(new URL(path, url).href, "--", method, body, turnsFile);
  const timer = processId === undefined ? undefined : processorTimer(processId);
  const printed = await runWrk(words).finally(remove);
  const usedMs = timer?.() ?? Number.NaN;
  const line = printed.split("\n").findLast((each) => each.startsWith("{"));
  if (line === undefined) throw new Error(`wrk printed no report:\n${printed}`);
  const { requests, errorResponses, socketErrors, seconds: measuredSeconds } = JSON.parse(line);
  if (requests === 0 || socketErrors > 0)
    throw new Error(`${socketErrors} connections failed, ${requests} requests`);
  const expected = status < 400 ? 0 : requests;
  if (errorResponses !== expected)
    throw new Error(`${errorResponses} of ${requests} responses were errors, expected ${expected}`);
  return { requests, seconds: measuredSeconds, usedMs };
}

async function runWrk(words: string[]): Promise<string> {
  const child = spawn("wrk", words, { stdio: ["ignore", "pipe", "inherit"] });
  const cancelKill = onExit(() => void child.kill());
  let printed = "";
  child.stdout.on("data", (chunk) => (printed += chunk));
  await once(child, "close").catch(() => {
    throw new Error("the load generator wrk is missing: apt-get install wrk (on a Mac: brew install wrk)");
  });
  cancelKill();
  return printed;
}
