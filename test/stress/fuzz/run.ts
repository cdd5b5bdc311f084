// A run of the fuzzer: batches of cases, each with its own seed, until one fails. fast-check shrinks the failing request.

import fc from "fast-check";
import { Checks } from "./checks.ts";
import { cases } from "./requests.ts";
import type { Service } from "./service.ts";

/** Cases in a batch. Few, so that a failure is repeated quickly. */
const BATCH = 100;

/** The time limit for a batch, and for shrinking a failing request. */
const BATCH_MS = 120_000;

/**
 * Runs the fuzzer until this many requests were sent. Throws what is wrong, the failing request and its seed if one fails. The first
 * batch has this seed, later batches increment it.
 */
export async function fuzz(service: Service, requests: number, seed: number): Promise<Checks> {
  const checks = new Checks({ ...service, secret: await service.newSecret() });
  const property = fc.asyncProperty(cases(checks.service, await checks.start()), (each) =>
    checks.check(each),
  );
  const limit = { interruptAfterTimeLimit: BATCH_MS, markInterruptAsFailure: true };
  for (let batch = seed; checks.sent < requests; batch += 1)
    await fc.assert(property, { seed: batch, numRuns: BATCH, includeErrorInReport: true, ...limit });
  return checks;
}
