// A run of the fuzzer: batches of cases, each with its own seed, until one fails. fast-check shrinks the failing request.

import fc from "fast-check";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { Checks, type Counts } from "./checks.ts";
import { operationsOf } from "./document.ts";
import { requestText } from "./http.ts";
import { type Malformed, malformed } from "./malformed.ts";
import { type Case, cases } from "./requests.ts";
import type { Service } from "./service.ts";

/** Cases in a batch. Few, so that a failure is repeated quickly. */
const BATCH = 100;

/** The time limit for shrinking a failing request. */
const SHRINKING_MS = 120_000;

/** The most characters of a failing request to print. */
const MAX_PRINTED = 4_000;

export interface RunOptions {
  service: Service;
  /** The minimum number of requests. */
  requests: number;
  /** The seed of the first batch. Later batches increment it. */
  seed: number;
  /** Repeats one case of the first batch: the path of a failure. */
  path?: string | undefined;
}

export interface Report {
  counts: Counts;
  /** What is wrong, the failing request, and how to reproduce it. */
  failure: string | undefined;
}

class CheckFailed extends Error {}

/** Runs the fuzzer until enough requests were sent, or one fails. */
export async function fuzz({ requests, seed, path, ...options }: RunOptions): Promise<Report> {
  const service = { ...options.service, secret: await options.service.newSecret() };
  const operations = operationsOf(openApiDocument(""));
  const checks = new Checks(service);
  const { counts } = checks;
  const samples = await checks.start();
  const all = fc.oneof(
    { weight: 9, arbitrary: cases(operations, service, samples) },
    // Malformed bytes test the HTTP server, so they are sent only to a server of our own.
    { weight: service.controlUrl === undefined ? 0 : 1, arbitrary: malformed(operations, service) },
  );
  const property = fc.asyncProperty(all, async (each) => {
    const problems = await checks.problems(each);
    if (problems.length > 0) throw new CheckFailed(problems.join("\n"));
  });
  for (let next = seed; counts.requests < requests; next += 1) {
    const replay = path === undefined ? {} : { path };
    const result = await fc.check(property, {
      seed: next,
      numRuns: BATCH,
      interruptAfterTimeLimit: SHRINKING_MS,
      ...replay,
    });
    const { counterexample, counterexamplePath, errorInstance: error } = result;
    if (error !== null && !(error instanceof CheckFailed)) throw error;
    if (counterexample !== null) {
      const request = printable(counterexample[0]).replaceAll(service.secret, "$KEY");
      const command = `npm run fuzz -- --seed ${next} --path ${counterexamplePath}`;
      return { counts, failure: [error?.message, request, `To reproduce: ${command}`].join("\n\n") };
    }
    if (result.interrupted) throw new Error(`the service does not answer ${BATCH} requests in two minutes`);
    if (path !== undefined) break;
  }
  return { counts, failure: undefined };
}

/** A request, one character per byte, with escapes. */
function printable(each: Case | Malformed): string {
  const text = "bytes" in each ? each.bytes : requestText(each.request);
  const rest = text.length > MAX_PRINTED ? `... and ${text.length - MAX_PRINTED} more bytes` : "";
  const escaped = (character: string) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
  return `${each.group}, ${each.kind}:\n\n${text.slice(0, MAX_PRINTED).replace(/[^\n\x20-\x7e]|\\/g, escaped)}${rest}`;
}
