// How long requests take in six regions, which calls they wait for, and what they cost: the unchanged service, with several numbers of
// isolates in each region, and the baseline, on virtual time. Milliseconds are those of calls: code takes none.

import { env } from "cloudflare:workers";
import { d1InMemory } from "../../scripts/cloudflare/d1-file.ts";
import { createKeys } from "../../src/operators/admin.ts";
import { addTablesAndPets, pagePath } from "../cases/pets.ts";
import { progress, type Table } from "../measure/report.ts";
import { mean, percentile } from "../measure/statistics.ts";
import { type Fetch, KEYS, PURPOSES, type Sample, type Service, sendAll } from "./clients.ts";
import { Cloudflare, type ObjectClass } from "./cloudflare.ts";
import { type Counts, dollarsPerMillion } from "./counts.ts";
import { START_MS } from "./limiter.ts";
import { REGIONS } from "./regions.ts";

const PETS = 10_000;

type Export = readonly [file: string, name: string];

interface Implementation {
  /** The program of an isolate, which keeps all that the isolate knows. */
  program: Export;
  objects: Export;
  bindings: Record<"pets" | "keys" | "objects", string>;
  path: Service["path"];
}

const IMPLEMENTATIONS: Record<"petstore" | "baseline", Implementation> = {
  petstore: {
    program: ["../../src/app.ts", "app"],
    objects: ["../../src/keys/api-key.ts", "ApiKey"],
    bindings: { pets: "PETS_DB", keys: "KEYS_DB", objects: "API_KEYS" },
    path: pagePath,
  },
  baseline: {
    program: ["../baselines/baseline.ts", "default"],
    objects: ["../baselines/baseline.ts", "DurableObjectRateLimiter"],
    bindings: { pets: "DB", keys: "DB", objects: "CACHE" },
    path: (firstId, length) => `/v1/pets?limit=${length}&after=${firstId - 1}`,
  },
};

/** A run, which is a column of each table. */
interface Run {
  title: string;
  samples: Sample[];
  counts: Counts;
  /** Calls of the objects of integrators' keys. */
  integratorCalls: number;
  /** Reads of keys at the primary. */
  keyReads: number;
}

/** `isolates`: numbers of isolates in each region; at least one. */
export async function measureGeo(isolates: readonly number[], seconds: number): Promise<Table[]> {
  const runs: Run[] = [];
  for (const each of isolates) runs.push(await simulate("petstore", each, seconds));
  // It keeps nothing in an isolate, so one number is enough.
  runs.push(await simulate("baseline", 1, seconds));
  const table = (title: string, rows: [name: string, cell: (run: Run) => string][]): Table => ({
    title: `geo: ${title}`,
    columns: ["isolates in each region", ...runs.map((run) => run.title)],
    rows: rows.map(([name, cell]) => [name, ...runs.map(cell)]),
  });
  const among = (isMeant: (sample: Sample) => boolean) => (run: Run) => figures(run.samples.filter(isMeant));
  return [
    table(
      "lists, p50 and p95 in ms, sequential calls",
      REGIONS.map(({ name }, index) => [
        name,
        among(({ region, purpose }) => region === index && purpose !== "creation"),
      ]),
    ),
    table("by purpose, in all regions", [
      ...PURPOSES.map((each): [string, (run: Run) => string] => [
        each,
        among(({ purpose }) => purpose === each),
      ]),
      ["all", among(() => true)],
    ]),
    table("per request", [
      ["decided by a lease", ({ samples }) => share(samples, ({ by }) => by === "lease").toFixed(3)],
      ["calls of objects", ({ counts }) => (counts.objectRequests / counts.workerRequests).toFixed(3)],
      [
        "calls of objects, integrators",
        ({ samples, integratorCalls }) =>
          (integratorCalls / samples.filter(({ purpose }) => purpose === "integrator").length).toFixed(3),
      ],
      ["rows written", ({ counts }) => (counts.rowsWritten / counts.workerRequests).toFixed(3)],
      ["rows read", ({ counts }) => (counts.rowsRead / counts.workerRequests).toFixed(3)],
      ["dollars per million requests", ({ counts }) => dollarsPerMillion(counts).toFixed(2)],
      ["reads of keys at the primary, in total", ({ keyReads }) => `${keyReads}`],
    ]),
  ];
}

/** So that each isolate is an instance of its own. */
let isolatesBefore = 0;

/** Throws if any response is not the expected one. `isolates`: in each region. */
export async function simulate(
  name: keyof typeof IMPLEMENTATIONS,
  isolates: number,
  seconds: number,
): Promise<Run> {
  progress(`geo: ${name}, ${seconds} s in ${REGIONS.length} regions, isolates in each: ${isolates}`);
  const { program, objects, bindings, path } = IMPLEMENTATIONS[name];
  const pets = d1InMemory();
  const keys = bindings.keys === bindings.pets ? pets : d1InMemory();
  await addTablesAndPets({ pets, keys }, PETS);
  const newKeys = Array.from(KEYS, ([key, limits]) => {
    return { name: key, plan: "enterprise" as const, limits, expiresAtMs: null };
  });
  const created = await createKeys(keys, newKeys, { by: "bench", nowMs: START_MS });
  const secrets = new Map(created.map(({ key, secret }) => [key.name, secret]));

  const cloudflare = new Cloudflare();
  const Class = (await exported(objects)) as ObjectClass;
  Object.assign(env, {
    [bindings.pets]: cloudflare.database(pets),
    [bindings.keys]: cloudflare.database(keys),
    [bindings.objects]: cloudflare.objects(Class, env),
  });
  const newIsolate = async (): Promise<Fetch> => {
    isolatesBefore += 1;
    const app = (await exported(program, `?${isolatesBefore}`)) as {
      fetch(...words: object[]): ReturnType<Fetch>;
    };
    return (request) => app.fetch(request, env, {});
  };
  const inRegion = () => Promise.all(Array.from({ length: isolates }, newIsolate));
  const all = await Promise.all(REGIONS.map(inRegion));
  const samples = await sendAll({ cloudflare, isolates: all, secrets, path, pets: PETS }, seconds);
  const ofIntegrators = created.filter(({ key }) => key.name.startsWith("integrator"));
  return {
    title: name === "baseline" ? name : `${name}: ${isolates}`,
    samples,
    counts: { ...cloudflare.counts, workerRequests: samples.length },
    integratorCalls: ofIntegrators.reduce((sum, { key }) => sum + cloudflare.callsOf(key.id), 0),
    keyReads: cloudflare.keyReads,
  };
}

async function exported([file, name]: Export, instance = ""): Promise<unknown> {
  return (await import(file + instance))[name];
}

function share<Item>(items: readonly Item[], isMeant: (item: Item) => boolean): number {
  return items.filter(isMeant).length / items.length;
}

/** Milliseconds have one decimal below ten. */
function figures(samples: readonly Sample[]): string {
  const times = samples.map(({ ms }) => ms);
  const percentiles = [0.5, 0.95].map((part) => percentile(times, part).toFixed(0));
  const hops = mean(samples.map((each) => each.hops)).toFixed(2);
  return [...percentiles, hops].map((each) => each.padStart(5)).join("");
}
