// A run of the fuzzer: batches of cases, each with its own seed, until one fails. fast-check shrinks the failing request.

import fc from "fast-check";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { Checks } from "./checks.ts";
import { operationsOf } from "./document.ts";
import { requestText } from "./http.ts";
import { cases } from "./requests.ts";
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

class CheckFailed extends Error {}

/**
 * Runs the fuzzer until enough requests were sent, or one fails. `failure` tells what is wrong, the failing request, and how to
 * reproduce it.
 */
export async function fuzz({ requests, seed, path, ...options }: RunOptions) {
  const service = { ...options.service, secret: await options.service.newSecret() };
  const operations = operationsOf(openApiDocument(""));
  const checks = new Checks(service);
  const { counts } = checks;
  const samples = await checks.start();
  const property = fc.asyncProperty(cases(operations, service, samples), async (each) => {
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
      const { group, kind, request } = counterexample[0];
      const text = JSON.stringify(requestText(request)).replaceAll(service.secret, "$KEY");
      const what = `${group}, ${kind}: ${text.slice(0, MAX_PRINTED)}`;
      const command = `npm run fuzz -- --seed ${next} --path ${counterexamplePath}`;
      return { counts, failure: [error?.message, what, `To reproduce: ${command}`].join("\n\n") };
    }
    if (result.interrupted) throw new Error(`the service does not answer ${BATCH} requests in two minutes`);
    if (path !== undefined) break;
  }
  return { counts, failure: undefined };
}
