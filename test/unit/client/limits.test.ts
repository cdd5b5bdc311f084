// Pacing, on virtual time: the client against the service's own arithmetic of windows and bans, over a network with random latencies.

import { beforeEach, expect, it, vi } from "vitest";
import { type ClientOptions, Petstore } from "../../../client/src/index.ts";
import { acquire, statusOf } from "../../../src/keys/object/acquire.ts";
import { rollOver, UNUSED_QUOTA } from "../../../src/keys/object/quota.ts";
import { headersOf } from "../../../src/rate-limit/headers.ts";
import { startOfWindowMs } from "../../../src/rate-limit/windows.ts";
import { Random } from "../../simulation/random.ts";
import { NO_REQUESTS } from "../../support/key-record.ts";

const START_MS = Date.parse("2026-11-23T10:00:00Z");
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"], now: START_MS });
  const random = new Random(1);
  vi.spyOn(Math, "random").mockImplementation(() => random.next());
  return () => void vi.restoreAllMocks();
});

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A key of the service, with one isolate that holds no leases. The client does not know its clock. */
function newService(minute: number, { day = 1e6, startMs = START_MS } = {}) {
  // Steps of the machine's clock don't change performance.now().
  const originMs = startMs - performance.now();
  const admittedMs: number[] = [];
  const minuteOf = (ms: number) => startOfWindowMs("minute", ms);
  const service = {
    limits: { minute, day },
    quota: UNUSED_QUOTA,
    admittedMs,
    refused: 0,
    calls: 0,
    nowMs: () => Math.floor(originMs + performance.now()),
    answer(): Response {
      const nowMs = service.nowMs();
      service.calls += 1;
      const call = { client: "isolate", number: service.calls, requests: 1, arrivedMs: nowMs };
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
      return new Response("{}", { headers: headersOf({ ...status, admitted: true }) });
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

/** A client that paces, with the times at which it sends, over a network with a longest time. Each way, it may lose a share. */
function newClient(
  service: ReturnType<typeof newService>,
  options: Partial<ClientOptions> = {},
  { random = new Random(1), latencyMs = 100 } = {},
) {
  const network = { lossShare: 0, lost: 0 };
  const sentMs: number[] = [];
  const travel = async () => {
    await sleep(random.int(1, latencyMs));
    if (!random.chance(network.lossShare)) return;
    network.lost += 1;
    throw new TypeError("fetch failed");
  };
  const fetch = async (url: unknown) => {
    const [id = ""] = `${url}`.split("/").slice(-1);
    if (id !== "usage") sentMs[Number(id)] = performance.now();
    await travel();
    const response = id === "usage" ? service.usage() : service.answer();
    await travel();
    return response;
  };
  const base = { apiKey: "key", baseURL: "https://petstore.test", pace: true, ...PATIENT };
  const client = new Petstore({ ...base, fetch: fetch as typeof globalThis.fetch, ...options });
  const get = (id: number) => client.pets.get(id);
  return { client, get, sentMs, network };
}

/** Lets time pass until `done`. */
async function finish<Result>(done: Promise<Result>): Promise<Result> {
  const state = { isDone: false };
  const end = () => Object.assign(state, { isDone: true });
  done.then(end, end);
  await vi.advanceTimersByTimeAsync(0);
  while (!state.isDone) await vi.advanceTimersToNextTimerAsync();
  return done;
}

const range = (length: number) => Array.from({ length }, (_, index) => index);

it.each(range(60))(
  "one client: none is refused, and none waits while requests are left (seed %i)",
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
    const { get, sentMs } = newClient(service, {}, { random, latencyMs });
    const spreadMs = random.pick(0, 4 * latencyMs, 200_000);
    const calledMs = range(random.int(1, 5) * limit + 3).map(() => random.int(0, spreadMs));
    calledMs.sort((one, other) => one - other);
    const calls = calledMs.map((ms, id) => (ms > 0 ? sleep(ms).then(() => get(id)) : get(id)));
    setTimeout(() => vi.setSystemTime(START_MS + 7 * HOUR_MS), random.int(0, 90_000));
    await finish(Promise.all(calls));

    const { admittedMs, refused } = service;
    expect([admittedMs.length, refused]).toEqual([calls.length, 0]);
    // The time of a client to learn of the window and to wake up.
    const marginMs = 4 * latencyMs + 2_100;
    const isEarlier = (ms: number) => (other: number) => other < ms;
    for (const windowMs of new Set(admittedMs.map((ms) => startOfWindowMs("minute", ms)))) {
      const endMs = windowMs + MINUTE_MS;
      const before = admittedMs.filter(isEarlier(windowMs));
      const wanted = calledMs.filter(isEarlier(endMs - marginMs - startMs)).length - before.length;
      const usedToday = before.filter((ms) => ms >= startOfWindowMs("day", windowMs)).length;
      const admitted = admittedMs.filter(isEarlier(endMs)).length - before.length;
      expect(admitted).toBeGreaterThanOrEqual(Math.min(wanted, limit, day - usedToday));
    }
    // Earlier calls first.
    const late = sentMs.filter((ms, id) => sentMs.slice(id + 1).some((other) => ms > other + marginMs));
    expect(late).toEqual([]);
  },
);

it("a lost response costs one request or refusal at most, and an outage does not exhaust the limits", async () => {
  const service = newService(60);
  const { client, get, network } = newClient(service);
  network.lossShare = 0.1;
  await finish(Promise.all(range(150).map(get)));
  const unused = service
    .minutes()
    .slice(0, -1)
    .map((count) => 60 - count);
  expect(unused.reduce((sum, count) => sum + count, service.refused)).toBeLessThanOrEqual(network.lost);

  await vi.advanceTimersByTimeAsync(2 * MINUTE_MS);
  network.lossShare = 1;
  await finish(Promise.allSettled(range(60).map((id) => client.pets.get(id, { maxRetries: 0 }))));
  network.lossShare = 0;
  const sinceMs = performance.now();
  await finish(Promise.all(range(10).map(get)));
  // None can still be on its way then.
  expect(performance.now() - sinceMs).toBeLessThan(11_000);
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
  expect(performance.now()).toBeLessThan(10 * MINUTE_MS + 15_000);
});

it("aborted calls leave the queue, and no timer stays behind", async () => {
  const service = newService(3);
  const { client } = newClient(service);
  const aborts = range(10).map(() => new AbortController());
  const calls = aborts.map(({ signal }, id) => client.pets.get(id, { signal }).then(() => id, String));
  await vi.advanceTimersByTimeAsync(1_000);
  for (const id of [3, 4, 6, 9]) aborts[id]?.abort("aborted");
  const done = [0, 1, 2, "aborted", "aborted", 5, "aborted", 7, 8, "aborted"];
  expect(await finish(Promise.all(calls))).toEqual(done);
  expect([service.minutes(), vi.getTimerCount()]).toEqual([[3, 3], 0]);
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
