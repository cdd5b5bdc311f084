// The clients of the six regions, the same at the same times for every implementation. In each region:
//   3 pollers      the first page every 2 to 5 s, each with its own key: 60 requests a minute
//   1 crawler      10 pages of 50 pets one after another, from a random pet on, every 8 to 12 s; 300 a minute
//   1 integrator   20 requests a second, at random times, for one of the first three pages of 20 pets; the key is shared with a
//                  second region; 100,000 a minute
//   1 writer       every 3 to 6 s a creation, then the last page with the same key, in its own and in one other region; 1,000 a
//                  minute
// So nine of ten requests are an integrator's, as in a service with one large customer. Each request comes through a random isolate of its
// region. An unexpected response fails the bench.

import { HEADER } from "../../src/http/header-names.ts";
import { PREFERENCE } from "../../src/http/server-timing.ts";
import { Random } from "../../test/simulation/random.ts";
import type { Cloudflare } from "./cloudflare.ts";
import { provenanceOf } from "./hops.ts";
import { REGIONS } from "./regions.ts";

/** What a request is for. */
export const PURPOSES = ["integrator", "poller", "crawler", "last page", "creation"] as const;
type Purpose = (typeof PURPOSES)[number];

/** A request and its response. */
export interface Sample {
  purpose: Purpose;
  /** An index into the regions. */
  region: number;
  /** In the Worker. */
  ms: number;
  /** Sequential calls. */
  hops: number;
  /** How the request was decided, if the response says so. */
  by: string | undefined;
}

/** Of the keys of each kind of client. */
const LIMITS = {
  poller: { minute: 60, day: 1_000 },
  crawler: { minute: 300, day: 10_000 },
  integrator: { minute: 100_000, day: 100_000_000 },
  writer: { minute: 1_000, day: 100_000 },
};

const POLLERS = 3;
const INTEGRATOR_PER_SECOND = 20;
/** How many regions share an integrator's key. */
const REGIONS_PER_KEY = 2;

/** The name of a client's key, which begins with the kind of the client. */
function keyOf(kind: keyof typeof LIMITS, region: number, poller = 0): string {
  return `${kind} ${kind === "integrator" ? Math.floor(region / REGIONS_PER_KEY) : region} ${poller}`;
}

/** The names of all keys, with their limits. */
export const KEYS = new Map(
  [...REGIONS.keys()].flatMap((region) =>
    Object.entries(LIMITS).flatMap(([kind, limits]) =>
      Array.from({ length: kind === "poller" ? POLLERS : 1 }, (_, poller) => {
        return [keyOf(kind as keyof typeof LIMITS, region, poller), limits] as const;
      }),
    ),
  ),
);
const PAGE = 20;
const FIRST_PAGES = 3;
const CRAWLED_PAGE = 50;
const CRAWLED_PAGES = 10;

export type Fetch = (request: Request) => Response | Promise<Response>;

export interface Service {
  cloudflare: Cloudflare;
  /** The isolates of each region. */
  isolates: readonly (readonly Fetch[])[];
  /** By the name of the key. */
  secrets: ReadonlyMap<string, string>;
  /** The path of a page of so many pets. */
  path(firstId: number, length: number): string;
  /** The number of pets. */
  pets: number;
}

type Task = () => Promise<unknown>;

/** Has all clients send their requests while virtual time passes. Returns the requests. Throws if a response is not the expected one. */
export async function sendAll(service: Service, seconds: number): Promise<Sample[]> {
  const { cloudflare, isolates, secrets, path, pets } = service;
  const { time } = cloudflare;
  const samples: Sample[] = [];
  const random = new Random(1);

  const send = async (purpose: Purpose, region: number, key: string, pathname: string, newPet?: object) => {
    const [method, expected, body] = newPet ? ["POST", 201, JSON.stringify(newPet)] : ["GET", 200, null];
    const headers = {
      Authorization: `Bearer ${secrets.get(key)}`,
      [HEADER.prefer]: PREFERENCE,
      "Content-Type": "application/json",
    };
    const request = new Request(new URL(pathname, "https://petstore.example"), { method, headers, body });
    const place = { region, calls: 0 };
    const sentMs = time.nowMs;
    const response = await cloudflare.at(place, () => random.pick(...(isolates[region] ?? []))(request));
    const text = await response.text();
    if (response.status !== expected) throw new Error(`${pathname} got ${response.status}: ${text}`);
    const timing = response.headers.get(HEADER.serverTiming);
    // Without the header, each call waits for the one before.
    const provenance = timing === null ? { hops: place.calls, by: undefined } : provenanceOf(timing);
    samples.push({ purpose, region, ms: time.nowMs - sentMs, ...provenance });
    return text;
  };

  const list = async (purpose: Purpose, region: number, key: string, firstId: number, length = PAGE) => {
    const text = await send(purpose, region, key, path(firstId, length));
    if (!text.startsWith(`[{"id":${firstId},`)) throw new Error(`no page from ${firstId} on: ${text}`);
  };

  const crawl = async (region: number, key: string, firstId: number) => {
    for (let page = 0; page < CRAWLED_PAGES; page += 1)
      await list("crawler", region, key, firstId + page * CRAWLED_PAGE, CRAWLED_PAGE);
  };

  const create = async (region: number, otherRegion: number, key: string) => {
    const { id } = JSON.parse(
      await send("creation", region, key, "/v1/pets", { name: "Rex", categoryId: 1 }),
    );
    for (const each of [region, otherRegion]) await list("last page", each, key, id - PAGE / 4);
  };

  const tasks: [atMs: number, task: Task][] = [];
  /** The first is at a random time within a pause, so that clients are not synchronous. */
  const repeat = (pauseMs: () => number, draw: () => Task) => {
    for (let atMs = random.next() * pauseMs(); atMs < seconds * 1_000; atMs += pauseMs())
      tasks.push([atMs, draw()]);
  };
  const between = (low: number, high: number) => () => random.int(low, high);
  const exponential = () => (-Math.log(1 - random.next()) * 1_000) / INTEGRATOR_PER_SECOND;
  for (const region of REGIONS.keys()) {
    for (let poller = 0; poller < POLLERS; poller += 1)
      repeat(between(2_000, 5_000), () => () => list("poller", region, keyOf("poller", region, poller), 1));
    repeat(between(8_000, 12_000), () => {
      const firstId = random.int(1, pets - CRAWLED_PAGE * CRAWLED_PAGES);
      return () => crawl(region, keyOf("crawler", region), firstId);
    });
    repeat(exponential, () => {
      const firstId = 1 + PAGE * random.int(0, FIRST_PAGES - 1);
      return () => list("integrator", region, keyOf("integrator", region), firstId);
    });
    repeat(between(3_000, 6_000), () => {
      const otherRegion = (region + random.int(1, REGIONS.length - 1)) % REGIONS.length;
      return () => create(region, otherRegion, keyOf("writer", region));
    });
  }
  const failures: unknown[] = [];
  // The latest first: so each is added at an end of the timeline.
  for (const [atMs, task] of tasks.sort(([a], [b]) => b - a))
    time.after(atMs, () => task().catch((error) => failures.push(error)));
  // After the last response, background work goes on, which is charged too.
  await cloudflare.run((seconds + 2) * 1_000);
  if (failures.length > 0) throw failures[0];
  return samples;
}
