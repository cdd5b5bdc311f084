// Pacing, on virtual time: the client against the service's own arithmetic of windows and bans, over a network with random latencies.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type ClientOptions, Petstore } from "../../../client/src/index.ts";
import { headersOf } from "../../../src/rate-limit/headers.ts";
import { acquire, type Quota, UNUSED_QUOTA } from "../../../src/rate-limit/object/quota.ts";
import { startOfWindowMs } from "../../../src/rate-limit/windows.ts";
import { Random } from "../../simulation/random.ts";

const START_MS = Date.parse("2026-11-23T10:00:00Z");
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"], now: START_MS });
});
afterEach(() => vi.useRealTimers());

/** The time that has passed. Steps of the clock don't change it. */
const sinceStartMs = () => performance.now();

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A key of the service, whose clock the client does not know. */
class Service {
  quota: Quota = UNUSED_QUOTA;
  admitted: number[] = [];
  refused = 0;
  readonly limits: { minute: number; day: number };
  readonly #originMs: number;

  constructor(minute: number, { day = 1e6, startMs = START_MS } = {}) {
    this.limits = { minute, day };
    this.#originMs = startMs - performance.now();
  }

  get nowMs() {
    return this.#originMs + sinceStartMs();
  }

  /** Counts a request, as the service does that has one isolate and grants no leases. */
  count() {
    const request = { id: `${Math.random()}`, requests: 1, waitedMs: 0, released: [], outbox: [] };
    const nowMs = Math.floor(this.nowMs);
    const call = { ...request, bannedUntilMs: 0, bansLiftedUntilMs: 0 };
    const { result, quota } = acquire(this.quota, this.limits, call, nowMs);
    this.quota = quota;
    const admitted = result.admitted === 1;
    if (admitted) this.admitted.push(nowMs);
    else this.refused += 1;
    return { ...result, admitted };
  }

  answer(): Response {
    const decision = this.count();
    const headers = headersOf(decision);
    if (decision.admitted) return new Response('{"id":1,"name":"Rex","categoryId":2}', { headers });
    const code = decision.bannedUntilMs === undefined ? "rate_limit_exceeded" : "key_banned";
    return new Response(JSON.stringify({ code, message: "wait", status: 429 }), { status: 429, headers });
  }

  /** How many requests each minute has admitted, by its number since the service began. */
  get minutes(): number[] {
    const first = startOfWindowMs("minute", this.#originMs + 0);
    const counts: number[] = [];
    for (const ms of this.admitted) {
      const minute = Math.floor((ms - first) / MINUTE_MS);
      counts[minute] = (counts[minute] ?? 0) + 1;
    }
    return Array.from(counts, (count) => count ?? 0);
  }
}

interface Network {
  random?: Random;
  /** The longest time of a way. */
  latencyMs?: number;
  /** How many of the requests, and of the responses, are lost. */
  lossShare?: number;
  /** How many have been lost. */
  lost?: number;
}

const PATIENT = { maxRetries: Infinity, totalTimeoutMs: Infinity, maxWaitMs: Infinity };

/** A client that paces, and the times at which it sends. */
function newClient(service: Service, network: Network = {}, options: Partial<ClientOptions> = {}) {
  const { random = new Random(1), latencyMs = 100 } = network;
  const sentMs = new Map<number, number>();
  const travel = async () => {
    await sleep(random.int(1, latencyMs));
    if (!random.chance(network.lossShare ?? 0)) return;
    network.lost = (network.lost ?? 0) + 1;
    throw new TypeError("fetch failed");
  };
  const transport = async (url: unknown) => {
    sentMs.set(Number(`${url}`.split("/").at(-1)), sinceStartMs());
    await travel();
    const response = service.answer();
    await travel();
    return response;
  };
  const fetch = transport as typeof globalThis.fetch;
  const base = { apiKey: "key", baseURL: "https://petstore.test", pace: true, fetch, ...PATIENT };
  return { client: new Petstore({ ...base, ...options }), sentMs };
}

/** Lets time pass until `done`. */
async function finish<Result>(done: Promise<Result>): Promise<Result> {
  let isDone = false;
  const end = () => {
    isDone = true;
  };
  done.then(end, end);
  await vi.advanceTimersByTimeAsync(0);
  while (!isDone) await vi.advanceTimersToNextTimerAsync();
  return done;
}

const range = (length: number) => Array.from({ length }, (_, index) => index);

it.each(range(Number(process.env.SEEDS ?? 30)))(
  "one client: none is refused, and none waits while requests are left (seed %i)",
  async (seed) => {
    const random = new Random(seed);
    vi.spyOn(Math, "random").mockImplementation(() => random.next());
    const limit = random.pick(1, 7, 60);
    const day = random.chance(0.3) ? 3 * limit + 2 : 1e6;
    const latencyMs = random.pick(20, 300, 4_000);
    // Often, requests are under way while a new minute begins.
    const startMs = START_MS + MINUTE_MS - random.int(1, random.pick(MINUTE_MS, 4 * latencyMs));
    // The clock of the machine is wrong, and is set while the calls wait.
    vi.setSystemTime(START_MS + random.pick(0, HOUR_MS, -HOUR_MS));
    const service = new Service(limit, { day, startMs });
    const { client, sentMs } = newClient(service, { random, latencyMs });
    const spreadMs = random.pick(0, 5_000, 200_000);
    const calledMs = range(random.int(1, 5) * limit + 3).map(() => random.int(0, spreadMs));
    calledMs.sort((one, other) => one - other);
    const calls = calledMs.map(async (ms, id) => {
      if (ms > 0) await sleep(ms);
      await client.pets.get(id);
    });
    setTimeout(() => vi.setSystemTime(START_MS + 7 * HOUR_MS), random.int(0, 90_000));
    await finish(Promise.all(calls));

    expect(service.refused).toBe(0);
    expect(service.admitted).toHaveLength(calls.length);
    // Its time to learn of the window and to wake up.
    const marginMs = 4 * latencyMs + 2_100;
    const isEarlier = (ms: number) => (other: number) => other < ms;
    for (const windowMs of new Set(service.admitted.map((ms) => startOfWindowMs("minute", ms)))) {
      const before = service.admitted.filter(isEarlier(windowMs));
      const admitted = service.admitted.filter(isEarlier(windowMs + MINUTE_MS)).length - before.length;
      const wanted =
        calledMs.filter(isEarlier(windowMs + MINUTE_MS - marginMs - startMs)).length - before.length;
      const usedToday = before.filter((ms) => ms >= startOfWindowMs("day", windowMs)).length;
      expect(admitted).toBeGreaterThanOrEqual(Math.min(wanted, limit, day - usedToday));
    }
    // Earlier calls first.
    const ids = range(calls.length);
    const late = ids.filter((id) =>
      ids.slice(id + 1).some((other) => Number(sentMs.get(id)) > Number(sentMs.get(other)) + marginMs),
    );
    expect(late).toEqual([]);
  },
);

it("100 calls at once with a new Free key: 60 are admitted at once, the others in the next minute", async () => {
  const service = new Service(60);
  const { client } = newClient(service, {}, { maxRetries: 0, totalTimeoutMs: 90_000, maxWaitMs: 60_000 });
  await finish(Promise.all(range(100).map((id) => client.pets.get(id))));
  expect([service.minutes, service.refused]).toEqual([[60, 40], 0]);
  expect(sinceStartMs()).toBeLessThan(61_500);
});

it("a lost response costs one request or refusal at most, and an outage does not exhaust the limits", async () => {
  const random = new Random(7);
  const network = { random, latencyMs: 50, lossShare: 0.1, lost: 0 };
  const service = new Service(60);
  const { client } = newClient(service, network);
  await finish(Promise.all(range(150).map((id) => client.pets.get(id))));
  const unused = service.minutes.slice(0, -1).reduce((sum, count) => sum + 60 - count, 0);
  expect(unused + service.refused).toBeLessThanOrEqual(network.lost);

  network.lossShare = 1;
  const before = service.admitted.length;
  await vi.advanceTimersByTimeAsync(2 * MINUTE_MS);
  const outage = range(60).map((id) => client.pets.get(id, { maxRetries: 0 }).catch(String));
  expect(new Set(await finish(Promise.all(outage)))).toEqual(
    new Set([expect.stringMatching("fetch failed")]),
  );
  network.lossShare = 0;
  const sinceMs = sinceStartMs();
  await finish(Promise.all(range(10).map((id) => client.pets.get(id))));
  expect(service.admitted.length - before).toBeGreaterThanOrEqual(10);
  expect(sinceStartMs() - sinceMs).toBeLessThan(1_000);
});

it("with other users of the key, calls wait out each Retry-After, all are done in the end, and nobody is banned", async () => {
  const service = new Service(60);
  const clients = range(3).map((seed) => newClient(service, { random: new Random(seed) }));
  const calls = clients.flatMap(({ client }) => range(150).map((id) => client.pets.get(id)));
  await finish(Promise.all(calls));
  expect(service.minutes.slice(0, -1).every((count) => count === 60)).toBe(true);
  expect(service.quota.bannedUntilMs).toBe(0);
  // In each of eight minutes, each client sends what the others have left of the limit, at once.
  expect(service.refused).toBeLessThan(8 * 120);
});

it("after a ban, calls reject without a request until it ends, and then the windows are right again", async () => {
  const service = new Service(60, { startMs: START_MS + 10_000 });
  const { client, sentMs } = newClient(service, {}, { totalTimeoutMs: 90_000, maxWaitMs: 60_000 });
  await finish(client.pets.get(1));
  service.quota = { ...service.quota, bannedUntilMs: service.nowMs + 10 * MINUTE_MS };
  await expect(finish(client.pets.get(2))).rejects.toMatchObject({ code: "key_banned", attempts: 1 });
  const waitMs = { retryAfterMs: expect.toSatisfy((ms: number) => ms > 599_000 && ms < 601_000) };
  await expect(finish(client.pets.get(3))).rejects.toMatchObject({ ...waitMs, attempts: 0 });
  expect(sentMs.has(3)).toBe(false);
  await vi.advanceTimersByTimeAsync(10 * MINUTE_MS);
  await finish(Promise.all(range(100).map((id) => client.pets.get(id))));
  expect([service.minutes, service.refused]).toEqual([[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60, 40], 1]);
});

it("aborted calls leave the queue, and no timer stays behind", async () => {
  const service = new Service(3);
  const { client } = newClient(service);
  const aborts = range(10).map(() => new AbortController());
  const calls = aborts.map(({ signal }, id) => client.pets.get(id, { signal }).then(() => id, String));
  await vi.advanceTimersByTimeAsync(1_000);
  for (const id of [3, 4, 6, 9]) aborts[id]?.abort(`abort ${id}`);
  const done = await finish(Promise.all(calls));
  expect(done).toEqual([0, 1, 2, "abort 3", "abort 4", 5, "abort 6", 7, 8, "abort 9"]);
  expect([service.minutes, vi.getTimerCount()]).toEqual([[3, 3], 0]);
});

it("the windows of an address and a changed limit are not mistaken for those of the key", async () => {
  const service = new Service(60);
  const { client } = newClient(service);
  await finish(client.pets.get(1));
  const answer = vi.spyOn(service, "answer");
  const address = { "RateLimit-Policy": '"minute";q=60;w=60', RateLimit: '"minute";r=0;t=60' };
  answer.mockReturnValueOnce(new Response(null, { status: 503, headers: address }));
  await finish(client.pets.get(2));
  service.limits.minute = 600;
  await finish(client.pets.get(3));
  await finish(Promise.all(range(597).map((id) => client.pets.get(id))));
  expect([service.minutes, service.refused]).toEqual([[600], 0]);
});
