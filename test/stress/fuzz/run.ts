// A run of the fuzzer: batches of cases, each with its own seed, on several connections at once. After a failure, the batches
// under way are repeated sequentially, to find the request that fails by itself, and to shrink it.

import fc from "fast-check";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { cases } from "./cases.ts";
import { CheckedConnection, Checks, type Counts } from "./checks.ts";
import { operationsOf } from "./document.ts";
import { bytesOf, textOf } from "./http.ts";
import { type Malformed, malformed } from "./malformed.ts";
import { nextPath } from "./pet-records.ts";
import type { Case, Samples } from "./requests.ts";
import { runningService, type Service, startService } from "./service.ts";

/** Cases in a batch. Few, so that a failure is repeated quickly. */
const BATCH = 200;

const CONNECTIONS = 8;

/** The time limit for shrinking a failing request. */
const SHRINKING_MS = 120_000;

/** The number of initial pets to use as samples. Few, so that they are the same in each run. */
const MAX_SAMPLES = 200;

export interface RunOptions {
  /** The minimum number of requests. */
  requests: number;
  /** The seed of the first batch. Later batches increment it. */
  seed: number;
  /** Repeats one case of the first batch: the path of a failure. */
  path?: string | undefined;
  /** A running service and a key. By default the fuzzer starts a service. */
  url?: URL | undefined;
  secret?: string | undefined;
  /** Called with the progress. */
  onProgress?: (counts: Counts, seconds: number) => void;
}

/** A failing request, and how to reproduce it. */
export interface Failure {
  seed: number;
  path: string;
  /** The kind of request. */
  what: string;
  /** The request as a format for bash's printf, with the key in the environment variable KEY. */
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

/** The most characters of a failing request to print. */
const MAX_PRINTED = 4_000;

class CheckFailed extends Error {
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
  const first = new CheckedConnection(checks, "first");
  const samples = await readSamples(first);
  // Malformed bytes test the HTTP server, so they are sent only to a server of our own.
  const all = fc.oneof(
    { weight: 9, arbitrary: cases(document, service, samples) },
    { weight: service.controlUrl === undefined ? 0 : 1, arbitrary: malformed(operations, service) },
  );
  const startedMs = Date.now();
  const seconds = () => (Date.now() - startedMs) / 1000;
  const report = (failure: Failure | undefined) => ({ counts: checks.counts, seconds: seconds(), failure });
  const { secret } = service;
  const batch = { all, connection: first, secret, isOver: () => false };
  if (path !== undefined) return report(await runBatch({ ...batch, seed, path, shrinks: true }));

  let nextSeed = seed;
  let isOver = false;
  const suspects: { seed: number; failure: Failure | undefined }[] = [];
  const work = async (index: number) => {
    const connection = new CheckedConnection(checks, `${index}`);
    while (!isOver && checks.counts.requests < requests) {
      const batchSeed = nextSeed;
      nextSeed += 1;
      const failure = await runBatch({
        all,
        connection,
        secret,
        isOver: () => isOver,
        seed: batchSeed,
        shrinks: false,
      });
      if (failure !== undefined) isOver = true;
      if (isOver) suspects.push({ seed: batchSeed, failure });
      onProgress?.(checks.counts, seconds());
    }
    connection.close();
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

/** Reads values that only the service has: ids and cursors. */
async function readSamples(connection: CheckedConnection): Promise<Samples> {
  const pets = await connection.start();
  const cursors: string[] = [];
  for (const path of ["/v1/pets?limit=7", "/v1/pets?limit=1", "/v1/pets?limit=3&status=sold"]) {
    let next = nextPath(await connection.read(path));
    for (let pages = 0; next !== undefined && pages < 12; pages += 1) {
      const cursor = new URL(next, "http://localhost").searchParams.get("cursor");
      if (cursor !== null) cursors.push(cursor);
      next = nextPath(await connection.read(next));
    }
  }
  if (cursors.length === 0) throw new Error("the service has too few pets: a list of 8 or more is needed");
  return { petId: pets.slice(0, MAX_SAMPLES).map(({ id }) => `${id}`), cursor: [...new Set(cursors)] };
}

interface Batch {
  all: fc.Arbitrary<Case | Malformed>;
  connection: CheckedConnection;
  /** The key to redact. */
  secret: string;
  seed: number;
  path?: string;
  /** Whether to shrink a failing request. */
  shrinks: boolean;
  /** Whether to skip the rest of the batch. */
  isOver: () => boolean;
}

async function runBatch({
  all,
  connection,
  secret,
  seed,
  path,
  shrinks,
  isOver,
}: Batch): Promise<Failure | undefined> {
  const property = fc.asyncProperty(all, async (each) => {
    if (isOver()) return;
    const problems = await connection.problems(each);
    if (problems.length > 0) throw new CheckFailed(problems);
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
  if (!(error instanceof CheckFailed)) throw error;
  return {
    seed,
    path: details.counterexamplePath ?? "",
    what: "bytes" in each ? each.what : `${each.operation}, ${each.kind}${each.what && `, ${each.what}`}`,
    request: printable(each, secret),
    problems: error.problems,
    isConcurrent: false,
  };
}

/** A request as a printf format, without the key. */
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
