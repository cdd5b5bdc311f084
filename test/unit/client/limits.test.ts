// Limits, on virtual time: the client against the service's own arithmetic of windows and bans, over a network with random latencies.

import { beforeEach, expect, it, vi } from "vitest";
import { type ClientOptions, Petstore, RateLimitError } from "../../../client/src/index.ts";
import { WINDOWS } from "../../../src/keys/plans.ts";
import { headersOf } from "../../../src/limits/headers.ts";
import { acquire, statusOf } from "../../../src/limits/object/acquire.ts";
import { rollOver, unusedQuota } from "../../../src/limits/object/quota.ts";
import { startOfWindowMs } from "../../../src/limits/windows.ts";
import { Random } from "../../simulation/random.ts";
import { NO_REQUESTS } from "../../support/key-record.ts";
import { finish, HOUR_MS, range, sleep } from "./answers.ts";

const START_MS = Date.parse("2026-11-23T10:00:00Z");
const MINUTE_MS = 60_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"], now: START_MS });
  return () => void vi.restoreAllMocks();
});

/** A key of the service, with one isolate that holds no leases. The client does not know its clock. */
function newService(minute: number, { day = 1e6, startMs = START_MS } = {}) {
  // Steps of the machine's clock don't change performance.now().
  const originMs = startMs - performance.now();
  const admittedMs: number[] = [];
  const minuteOf = (ms: number) => startOfWindowMs(60, ms);
  const service = {
    limits: { minute, day },
    quota: unusedQuota(WINDOWS),
    admittedMs,
    refused: 0,
    calls: 0,
    nowMs: () => Math.floor(originMs + performance.now()),
    answer(): Response {
      const nowMs = service.nowMs();
      service.calls += 1;
      const call = { isolate: "isolate", number: service.calls, requests: 1 };
      const acquired = acquire(service.quota, service.limits, { ...NO_REQUESTS, ...call }, nowMs);
      service.quota = acquired.quota;
      const decision = { ...acquired.result, admitted: acquired.result.admitted === 1 };
      const headers = headersOf(decision);
      if (decision.admitted) {
        admittedMs.push(nowMs);
        return new Response('{"id":1,"name":"Rex","categoryId":2}', { headers });
      }
      service.refused += 1;
      const code = decision.bannedUntilMs === undefined ? "rate_limit_exceeded" : "key_banned";
      return new Response(JSON.stringify({ code, message: "wait" }), { status: 429, headers });
    },
    /** GET /v1/usage, which counts for nothing. */
    usage(): Response {
      const nowMs = service.nowMs();
      const status = statusOf(rollOver(service.quota, service.limits, nowMs), service.limits, nowMs);
      return new Response(`{"windows":{}}`, { headers: headersOf({ ...status, admitted: true }) });
    },
    /** How many requests each minute has admitted, from the first one. */
    minutes() {
      const [first, last] = [minuteOf(admittedMs[0] ?? 0), minuteOf(admittedMs.at(-1) ?? 0)];
      return range(1 + (last - first) / MINUTE_MS).map(
        (minute) => admittedMs.filter((ms) => minuteOf(ms) === first + minute * MINUTE_MS).length,
      );
    },
  };
  return service;
}

const PATIENT = { maxRetries: Infinity, totalTimeoutMs: Infinity, maxWaitMs: Infinity };

/** What becomes of a request: it never arrives, late, or its response is lost, at once or so that the client waits for it. */
const LOSSES = ["never", "late", "counted", "silent"] as const;

/** A client with the times at which it sends, over a network with a longest time each way, which loses a share of the requests. */
function newClient(
  service: ReturnType<typeof newService>,
  options: Partial<ClientOptions> = {},
  { random = new Random(1), latencyMs = 100 } = {},
) {
  const network = { lossShare: 0, lost: 0 };
  const sentMs: number[] = [];
  const isSent = (id: number) => sentMs[id] !== undefined;
  const fetch = async (url: unknown, { signal }: { signal: AbortSignal }) => {
    const [id = ""] = `${url}`.split("/").slice(-1);
    if (id !== "usage") sentMs[Number(id)] = performance.now();
    const loss = random.chance(network.lossShare) ? random.pick(...LOSSES) : undefined;
    const travel = () => sleep(random.int(1, latencyMs));
    const exchange = async () => {
      await travel();
      if (loss === "late" && id !== "usage") void sleep(random.int(1, 5_000)).then(service.answer);
      if (loss === "never" || loss === "late") throw new TypeError("fetch failed");
      const response = id === "usage" ? service.usage() : service.answer();
      await travel();
      if (loss === "counted") throw new TypeError("fetch failed");
      return loss ? new Promise<never>(() => {}) : response;
    };
    // An abort does not keep the request from arriving.
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    try {
      return await Promise.race([exchange(), aborted]);
    } catch (error) {
      network.lost += 1;
      throw error;
    }
  };
  const base = { apiKey: "key", baseURL: "https://petstore.test", pace: true, ...PATIENT };
  const client = new Petstore({ ...base, fetch: fetch as unknown as typeof globalThis.fetch, ...options });
  const get = (id: number) => client.pets.get(id);
  return { client, get, sentMs, isSent, network };
}

it.each(range(16))(
  "one client: no request is refused but in the first burst, and none waits while others are left (seed %i)",
  async (seed) => {
    const random = new Random(seed);
    vi.spyOn(Math, "random").mockImplementation(() => random.next());
    const limit = random.pick(1, 4, 15);
    const day = random.chance(0.3) ? 3 * limit + 2 : 1e6;
    const latencyMs = random.pick(20, 300, 4_000);
    // Often, requests are under way while a new minute begins.
    const startMs =
      START_MS + MINUTE_MS - random.int(1, random.pick(MINUTE_MS, 4 * latencyMs, 4 * latencyMs));
    // The clock of the machine is wrong, and is set while the calls wait.
    vi.setSystemTime(START_MS + random.pick(0, HOUR_MS, -HOUR_MS));
    const service = newService(limit, { day, startMs });
    const pace = random.chance(0.5);
    const { get, sentMs } = newClient(service, { pace }, { random, latencyMs });
    const spreadMs = random.pick(0, 4 * latencyMs, 200_000);
    const calledMs = range(random.int(1, 5) * limit + 3).map(() => random.int(0, spreadMs));
    calledMs.sort((one, other) => one - other);
    const calls = calledMs.map((ms, id) => (ms > 0 ? sleep(ms).then(() => get(id)) : get(id)));
    setTimeout(() => vi.setSystemTime(START_MS + 7 * HOUR_MS), random.int(0, 90_000));
    await finish(Promise.all(calls));

    const { admittedMs, refused } = service;
    expect(admittedMs.length).toBe(calls.length);
    expect(refused).toBeLessThanOrEqual(pace ? 0 : 64 - Math.min(limit, day));
    // The time of a client to learn of the window and to wake up.
    const marginMs = 4 * latencyMs + 2_100;
    const isEarlier = (ms: number) => (other: number) => other < ms;
    for (const windowMs of new Set(admittedMs.map((ms) => startOfWindowMs(60, ms)))) {
      const endMs = windowMs + MINUTE_MS;
      const before = admittedMs.filter(isEarlier(windowMs));
      const wanted = calledMs.filter(isEarlier(endMs - marginMs - startMs)).length - before.length;
      const usedToday = before.filter((ms) => ms >= startOfWindowMs(86_400, windowMs)).length;
      const admitted = admittedMs.filter(isEarlier(endMs)).length - before.length;
      expect(admitted).toBeGreaterThanOrEqual(Math.min(wanted, limit, day - usedToday));
    }
    // Earlier calls first, unless they are repeated.
    const late = sentMs.filter((ms, id) => sentMs.slice(id + 1).some((other) => ms > other + marginMs));
    if (pace) expect(late).toEqual([]);
  },
);

it.each(range(12))(
  "a client alone is never refused, whatever becomes of its requests (seed %i)",
  async (seed) => {
    const random = new Random(seed);
    const limit = random.pick(1, 4, 15, 60);
    const latencyMs = random.pick(20, 300, 4_000);
    const startMs = START_MS + random.int(0, MINUTE_MS);
    const service = newService(limit, { startMs, day: random.chance(0.3) ? 3 * limit : 1e6 });
    const options = {
      maxRetries: 2,
      timeoutMs: random.pick(latencyMs, 10_000),
      totalTimeoutMs: 4 * MINUTE_MS,
    };
    const { client, network } = newClient(service, options, { random, latencyMs });
    await finish(client.pets.get(0, { timeoutMs: 10_000 }));
    network.lossShare = random.pick(0, 0.1, 0.5, 0.9);
    const abortShare = random.pick(0, 0.3, 1);
    const spreadMs = random.pick(100, 20_000, 5 * MINUTE_MS);
    const calls = range(3 * limit + 9).map(async (id) => {
      await sleep(random.int(0, spreadMs));
      const aborted = new AbortController();
      if (random.chance(abortShare)) setTimeout(() => aborted.abort(), random.int(0, 2 * latencyMs));
      const own = { signal: aborted.signal };
      await (random.chance(0.1) ? client.usage(own) : client.pets.get(id, own));
    });
    await finish(Promise.allSettled(calls));
    network.lossShare = 0;
    await finish(Promise.allSettled(range(limit + 1).map((id) => client.pets.get(id))));
    expect(service.refused).toBe(0);
  },
);

it("if the limits can't be asked for, one request shows them before others are sent", async () => {
  const service = newService(5);
  const fetch = async (url: unknown) => {
    if (`${url}`.endsWith("usage")) throw new TypeError("fetch failed");
    await sleep(100);
    return service.answer();
  };
  const { get } = newClient(service, { fetch });
  await finish(Promise.all(range(20).map(get)));
  expect([service.minutes(), service.refused]).toEqual([[5, 5, 5, 5], 0]);
});

it("a late response of an earlier window does not change what is left of this one", async () => {
  const service = newService(3, { startMs: START_MS + MINUTE_MS - 5_000 });
  const fetch = async (url: unknown) => {
    const isUsage = `${url}`.endsWith("usage");
    const response = isUsage ? service.usage() : service.answer();
    await sleep(isUsage ? 3_000 : 10);
    return response;
  };
  const { client, get } = newClient(service, { fetch });
  await finish(get(0));
  const late = client.usage();
  await vi.advanceTimersByTimeAsync(2_100);
  await finish(Promise.all(range(3).map(get)));
  await finish(late);
  await finish(Promise.all(range(3).map(get)));
  expect([service.minutes(), service.refused]).toEqual([[1, 3, 3], 0]);
});

it("a lost request leaves one unused at most, and after an outage the limits are asked for", async () => {
  const service = newService(60);
  const { client, get, network } = newClient(service);
  network.lossShare = 0.1;
  await finish(Promise.all(range(150).map(get)));
  const unused = service
    .minutes()
    .slice(0, -1)
    .map((count) => 60 - count);
  expect(unused.reduce((sum, count) => sum + count)).toBeLessThanOrEqual(network.lost);

  await vi.advanceTimersByTimeAsync(2 * MINUTE_MS);
  network.lossShare = 1;
  const admitted = service.admittedMs.length;
  await finish(Promise.allSettled(range(60).map((id) => client.pets.get(id, { maxRetries: 0 }))));
  network.lossShare = 0;
  await vi.advanceTimersByTimeAsync(1_000);
  const left = 60 - (service.admittedMs.length - admitted);
  expect(left).toBeGreaterThan(10);
  const sinceMs = performance.now();
  await finish(Promise.all(range(left).map(get)));
  // None can still be on its way then.
  expect(performance.now() - sinceMs).toBeLessThan(11_000);
  expect(service.refused).toBe(0);
});

/** Without `pace`, and with the default limits of time and retries. */
const DEFAULTS = { pace: undefined, maxRetries: undefined, totalTimeoutMs: undefined, maxWaitMs: undefined };

it.each(
  [0, 25_000, 40_000, 59_000].flatMap((lateMs) => [true, false].map((isKnown) => ({ lateMs, isKnown }))),
)(
  "of 300 calls at once, those that can't be in time reject at once, without a request: %j",
  async ({ lateMs, isKnown }) => {
    const service = newService(60, { startMs: START_MS + lateMs });
    const { client, isSent } = newClient(service, DEFAULTS);
    if (isKnown) await finish(client.pets.get(0));
    const beginMs = performance.now();
    const rejected: { id: number; error: RateLimitError; ms: number }[] = [];
    const calls = range(300).map((index) => {
      const id = 1 + index;
      return client.pets
        .get(id)
        .catch((error) => rejected.push({ id, error, ms: performance.now() - beginMs }));
    });
    await finish(Promise.all(calls));
    // The deadline of 90 s is in the second minute, or in the third.
    const inTime = 60 * (lateMs < 30_000 ? 2 : 3) - (isKnown ? 1 : 0);
    expect(rejected).toHaveLength(300 - inTime);
    for (const { id, error, ms } of rejected) {
      expect(error).toBeInstanceOf(RateLimitError);
      expect(error).toMatchObject({ attempts: 0, code: "rate_limit_exceeded" });
      // The first response shows the limits.
      expect([isSent(id), ms <= (isKnown ? 0 : 200)]).toEqual([false, true]);
    }
    expect(service.refused).toBeLessThanOrEqual(4);
  },
);

it("a call waits neither for others nor for limits while requests are left", async () => {
  const service = newService(200);
  const { client, sentMs } = newClient(service, { ...DEFAULTS, maxConcurrency: Infinity });
  await finish(client.pets.get(0));
  const beginMs = performance.now();
  await finish(Promise.all(range(199).map((id) => client.pets.get(id))));
  expect(new Set(sentMs)).toEqual(new Set([beginMs]));
});

it("during a ban, calls reject without a request, and afterwards the windows are right again", async () => {
  const service = newService(60, { startMs: START_MS + 50_000 });
  const { get, sentMs } = newClient(service, { totalTimeoutMs: 90_000, maxWaitMs: 60_000 });
  await finish(get(1));
  service.quota = { ...service.quota, bannedUntilMs: service.nowMs() + 10 * MINUTE_MS };
  await expect(finish(get(2))).rejects.toMatchObject({ code: "key_banned", attempts: 1 });
  const retryAfterMs = expect.toSatisfy((ms: number) => ms > 599_000 && ms < 601_000);
  await expect(finish(get(3))).rejects.toMatchObject({ retryAfterMs, attempts: 0 });
  expect(sentMs).toHaveLength(3);
  await vi.advanceTimersByTimeAsync(10 * MINUTE_MS);
  await finish(get(4));
  await finish(Promise.all(range(99).map(get)));
  expect([service.minutes(), service.refused]).toEqual([[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60, 40], 1]);
  // By the minute of the service, not one from the end of the ban.
  expect(performance.now()).toBeLessThan(10 * MINUTE_MS + 20_000);
});

it("the windows of an address are not those of the key, and a changed limit is used at once", async () => {
  const service = newService(10);
  const { get } = newClient(service);
  await finish(get(1));
  const address = { "RateLimit-Policy": '"minute";q=60;w=60', RateLimit: '"minute";r=0;t=60' };
  const unavailable = new Response(null, { status: 503, headers: address });
  vi.spyOn(service, "answer").mockReturnValueOnce(unavailable);
  await finish(get(2));
  service.limits.minute = 100;
  await finish(get(3));
  await finish(Promise.all(range(97 + 100).map(get)));
  expect([service.minutes(), service.refused]).toEqual([[100, 100], 0]);
});

const PET = { name: "Rex", categoryId: 2 };
const ADD = {
  createMany: (client: Petstore) => Array.fromAsync(client.pets.createMany(Array(100).fill(PET))),
  create: async (client: Petstore) => {
    for (const _ of range(100)) await client.pets.create(PET);
    return [];
  },
};

it.each(
  range(3).flatMap((seed) => [
    [seed, ["createMany", "createMany", "createMany"]] as const,
    [seed, ["create", "create", "create"]] as const,
    [seed, ["createMany", "create", "createMany"]] as const,
  ]),
)(
  "three programs with one key add 100 pets each, in five minutes, and few requests are refused (seed %i): %j",
  async (seed, programs) => {
    const random = new Random(seed);
    vi.spyOn(Math, "random").mockImplementation(() => random.next());
    const service = newService(60, { day: 1_000, startMs: START_MS + random.int(0, MINUTE_MS) });
    const latencyMs = random.pick(5, 50, 300);
    const togetherMs = random.pick(0, 20, 2_000, 30_000);
    const done = programs.map(async (name) => {
      const { client } = newClient(service, DEFAULTS, { random, latencyMs });
      await sleep(random.int(0, togetherMs));
      return ADD[name](client);
    });
    const results = (await finish(Promise.all(done))).flat();
    expect(results.flatMap(({ error }) => error ?? [])).toEqual([]);
    expect(service.minutes()).toEqual([60, 60, 60, 60, 60]);
    expect(service.refused).toBeLessThan(60);
  },
);

it("four requests are sent before the first response, and the rest at once if nobody else has used the key", async () => {
  const service = newService(60);
  const { client, sentMs } = newClient(service, DEFAULTS);
  const answers = vi.spyOn(service, "answer");
  const calls = Promise.all(range(50).map((id) => client.pets.get(id)));
  await vi.advanceTimersByTimeAsync(0);
  expect(sentMs).toHaveLength(4);
  while (answers.mock.calls.length === 0) await vi.advanceTimersToNextTimerAsync();
  await vi.advanceTimersByTimeAsync(400);
  expect(sentMs).toHaveLength(50);
  await finish(calls);
});

it("a program that is alone waits for a new minute, and sends the whole limit in its first seconds", async () => {
  const service = newService(60, { startMs: START_MS + 50_000 });
  const { get, sentMs } = newClient(service, DEFAULTS);
  await finish(Promise.all(range(120).map(get)));
  const [first = 0, last = 0] = [Math.min(...sentMs.slice(60)), Math.max(...sentMs)];
  expect([first > 10_000, last - first <= 2_000, service.refused]).toEqual([true, true, 0]);
});

it("a program has an eighth of what is left under way while others use the key, and all of it when they have gone", async () => {
  const service = newService(60);
  let underway = 0;
  let most = 0;
  const fetch = async (url: unknown) => {
    if (`${url}`.endsWith("usage")) return service.usage();
    underway += 1;
    most = Math.max(most, underway);
    await sleep(100);
    underway -= 1;
    return service.answer();
  };
  const { get } = newClient(service, { ...DEFAULTS, fetch: fetch as typeof globalThis.fetch });
  const mostOf = async (count: number) => {
    most = 0;
    await finish(Promise.all(range(count).map(get)));
    return most;
  };
  expect(await mostOf(2)).toBe(2);
  service.answer();
  expect([await mostOf(1), await mostOf(40)]).toEqual([1, 7]);
  await vi.advanceTimersByTimeAsync(MINUTE_MS);
  expect(await mostOf(40)).toBe(8);
  await vi.advanceTimersByTimeAsync(MINUTE_MS);
  expect(await mostOf(40)).toBe(40);
});
