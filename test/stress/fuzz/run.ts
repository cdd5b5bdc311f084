// A run of the fuzzer: batches of cases, each with a seed of its own, on several connections at once. When something fails,
// the batches that were under way are repeated alone, one after the other, so that what is reported is the request that
// fails and not one that met it, and is as small as fast-check can make it.

import fc from "fast-check";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { cases } from "./cases.ts";
import { Checks, type Counts, Lane } from "./checks.ts";
import { operationsOf } from "./document.ts";
import { bytesOf, textOf } from "./http.ts";
import { type Malformed, malformed } from "./malformed.ts";
import { nextPath } from "./pets-ledger.ts";
import type { Case, Given } from "./requests.ts";
import { runningService, type Service, startService } from "./service.ts";

/** Cases in a batch. Short, so that a failure is soon repeated. */
const BATCH = 200;

const CONNECTIONS = 8;

/** How long it may take to make a failing request smaller. */
const SHRINKING_MS = 120_000;

/** How many pets and cursors of the beginning are used. Few, so that they are the same in each run. */
const GIVEN = 200;

export interface RunOptions {
  /** How many requests are sent at least. */
  requests: number;
  /** The seed of the first batch. The others count on from there. */
  seed: number;
  /** Repeats the one case of the first batch that this names, as a failure did. */
  path?: string | undefined;
  /** A service that runs, and a key; otherwise one is started. */
  url?: URL | undefined;
  secret?: string | undefined;
  /** Is told now and then how far the run is. */
  onProgress?: (counts: Counts, seconds: number) => void;
}

/** Something that is wrong, and how to see it again. */
export interface Failure {
  seed: number;
  path: string;
  /** What the request was for. */
  what: string;
  /** The request, as text that the printf of bash turns into its bytes, if KEY is in the environment. */
  request: string;
  problems: string[];
  /** Whether it failed only while other requests were under way. */
  isConcurrent: boolean;
}

export interface Report {
  counts: Counts;
  seconds: number;
  failure: Failure | undefined;
}

/** What is printed of a failing request at most. */
const MAX_PRINTED = 4_000;

class Wrong extends Error {
  readonly problems: string[];

  constructor(problems: string[]) {
    super(problems.join("\n"));
    this.problems = problems;
  }
}

/** Runs the fuzzer until enough requests were sent, or one fails. */
export async function fuzz(options: RunOptions): Promise<Report> {
  const { url, secret = "" } = options;
  const service = url === undefined ? await startService() : runningService(url, secret);
  try {
    return await run(service, options);
  } finally {
    await service.stop();
  }
}

async function run(service: Service, { requests, seed, path, onProgress }: RunOptions): Promise<Report> {
  const document = openApiDocument("");
  const operations = operationsOf(document);
  const checks = new Checks(service, operations);
  const first = new Lane(checks, "first");
  const given = await givenBy(first);
  // What is no HTTP says more about what stands before a service than about it: only where that is known.
  const all = fc.oneof(
    { weight: 9, arbitrary: cases(document, service, given) },
    { weight: service.controlUrl === undefined ? 0 : 1, arbitrary: malformed(operations, service) },
  );
  const startedMs = Date.now();
  const seconds = () => (Date.now() - startedMs) / 1000;
  const report = (failure: Failure | undefined) => ({ counts: checks.counts, seconds: seconds(), failure });
  const { secret } = service;
  const batch = { all, lane: first, secret, isOver: () => false };
  if (path !== undefined) return report(await runBatch({ ...batch, seed, path, shrinks: true }));

  let nextSeed = seed;
  let isOver = false;
  const suspects: { seed: number; failure: Failure | undefined }[] = [];
  const work = async (index: number) => {
    const lane = new Lane(checks, `${index}`);
    while (!isOver && checks.counts.requests < requests) {
      const batchSeed = nextSeed;
      nextSeed += 1;
      const failure = await runBatch({
        all,
        lane,
        secret,
        isOver: () => isOver,
        seed: batchSeed,
        shrinks: false,
      });
      if (failure !== undefined) isOver = true;
      if (isOver) suspects.push({ seed: batchSeed, failure });
      onProgress?.(checks.counts, seconds());
    }
    lane.close();
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, index) => work(index)));
  suspects.sort((one, other) => Number(other.failure !== undefined) - Number(one.failure !== undefined));
  for (const { seed: batchSeed } of suspects) {
    const failure = await runBatch({ ...batch, seed: batchSeed, shrinks: true });
    if (failure !== undefined) return report(failure);
  }
  first.close();
  const concurrent = suspects.find(({ failure }) => failure !== undefined)?.failure;
  return report(concurrent && { ...concurrent, isConcurrent: true });
}

/** What only the service can give: ids that are there, and cursors. */
async function givenBy(lane: Lane): Promise<Given> {
  const pets = await lane.start();
  const cursors: string[] = [];
  for (const path of ["/v1/pets?limit=7", "/v1/pets?limit=1", "/v1/pets?limit=3&status=sold"]) {
    let next = nextPath(await lane.read(path));
    for (let pages = 0; next !== undefined && pages < 12; pages += 1) {
      const cursor = new URL(next, "http://localhost").searchParams.get("cursor");
      if (cursor !== null) cursors.push(cursor);
      next = nextPath(await lane.read(next));
    }
  }
  if (cursors.length === 0) throw new Error("the service has too few pets: a list of 8 or more is needed");
  return { petId: pets.slice(0, GIVEN).map(({ id }) => `${id}`), cursor: [...new Set(cursors)] };
}

interface Batch {
  all: fc.Arbitrary<Case | Malformed>;
  lane: Lane;
  /** The key that is not to be printed. */
  secret: string;
  seed: number;
  path?: string;
  /** Whether a failing request is made smaller. */
  shrinks: boolean;
  /** Whether the rest of the batch is needless. */
  isOver: () => boolean;
}

async function runBatch({
  all,
  lane,
  secret,
  seed,
  path,
  shrinks,
  isOver,
}: Batch): Promise<Failure | undefined> {
  const property = fc.asyncProperty(all, async (each) => {
    if (isOver()) return;
    const problems = await lane.problems(each);
    if (problems.length > 0) throw new Wrong(problems);
  });
  const details = await fc.check(property, {
    seed,
    ...(path !== undefined && { path }),
    numRuns: BATCH,
    endOnFailure: !shrinks,
    interruptAfterTimeLimit: SHRINKING_MS,
  });
  if (!details.failed || details.counterexample === null) return undefined;
  const [each] = details.counterexample;
  const error = details.errorInstance;
  if (!(error instanceof Wrong)) throw error;
  return {
    seed,
    path: details.counterexamplePath ?? "",
    what: "bytes" in each ? each.what : `${each.operation}, ${each.kind}${each.what && `, ${each.what}`}`,
    request: printable(each, secret),
    problems: error.problems,
    isConcurrent: false,
  };
}

/** A request as text: what is not printable is written as printf reads it, the key is left out. */
function printable(each: Case | Malformed, secret: string): string {
  const bytes = "bytes" in each ? each.bytes : bytesOf(each.request);
  const text = textOf(bytes, "latin1").replaceAll(secret, "$KEY");
  const short =
    text.length <= MAX_PRINTED
      ? text
      : `${text.slice(0, MAX_PRINTED / 2)}[... ${text.length - MAX_PRINTED} bytes ...]${text.slice(-MAX_PRINTED / 2)}`;
  return short
    .replace(/[^\x20-\x7e]|[\\%]/g, (character) => ESCAPES[character] ?? `\\x${hexOf(character)}`)
    .replaceAll("\\n", "\\n\n");
}

const ESCAPES: Record<string, string> = { "%": "%%", "\\": "\\\\", "\r": "\\r", "\n": "\\n" };

function hexOf(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(2, "0");
}
