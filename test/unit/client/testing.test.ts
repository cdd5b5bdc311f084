// The service in memory: programs can be tested with it under faked timers. test/e2e/test-service.test.ts compares it with the real one.

import { mock } from "node:test";
import { afterEach, expect, it, vi } from "vitest";
import {
  ApiError,
  type ClientOptions,
  ConnectionError,
  Petstore,
  RateLimitError,
  TimeoutError,
} from "../../../client/src/index.ts";
import { TestService, type TestServiceOptions } from "../../../client/src/testing.ts";
import { range } from "./answers.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  mock.timers.reset();
});

function newTest(options: TestServiceOptions = {}, ofClient: Partial<ClientOptions> = {}) {
  const service = new TestService(options);
  const base = { apiKey: "any", baseURL: "https://petstore.test", fetch: service.fetch };
  return { service, client: new Petstore({ ...base, ...ofClient }) };
}

const petOf = (index: number) => ({ name: `${index}`, categoryId: 2n ** 62n + BigInt(index) });

it("pets are created, listed in pages and by status, and got", async () => {
  // The clock also goes on within a request, not in step with the requests.
  let reads = 0;
  vi.spyOn(Date, "now").mockImplementation(
    () => Date.parse("2026-11-26T10:00:00Z") + Math.floor(reads++ * Math.SQRT1_2),
  );
  const { service, client } = newTest();
  for await (const { pet, error } of client.pets.createMany(range(45).map(petOf)))
    expect([pet?.id, error]).toEqual([expect.any(BigInt), undefined]);
  const sold = await client.pets.create({ ...petOf(7), status: "sold" });
  expect(await Array.fromAsync(client.pets.list({ limit: 20 }))).toEqual(service.pets);
  expect(await Array.fromAsync(client.pets.list({ status: "sold" }))).toEqual([sold]);
  expect(await client.pets.get(sold.id)).toEqual(sold);
  expect(service.requests.slice(-2)).toEqual([
    "GET /v1/pets?limit=100&status=sold",
    `GET /v1/pets/${sold.id}`,
  ]);
  expect((await client.usage()).windows.minute).toMatchObject({ limit: 60, used: 51, remaining: 9 });
});

it("a creation whose response is lost is done once", async () => {
  const { service, client } = newTest();
  service.nextAnswers.push("lost");
  const { data, response } = await client.pets.create(petOf(1)).withResponse();
  expect([service.pets, response.headers.get("Idempotent-Replayed")]).toEqual([[data], "true"]);
  expect(service.requests).toEqual(["POST /v1/pets", "POST /v1/pets"]);
});

it("a refusal has Retry-After, and a pet that a test adds is listed whatever its id", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.parse("2026-11-26T10:00:50Z") });
  const { service } = newTest({ perMinute: 1 });
  service.pets.push({ id: -5n, name: "Old", categoryId: 1n });
  const list = async () => service.fetch("https://petstore.test/v1/pets");
  expect(await (await list()).text()).toContain("-5");
  const { status, headers } = await list();
  expect([status, headers.get("Retry-After")]).toEqual([429, "10"]);
});

it("the next requests get what a test wants", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const { service, client } = newTest({}, { maxRetries: 0, timeoutMs: 20 });
  service.nextAnswers.push(
    503,
    new TypeError("fetch failed"),
    new Response("<html>", { status: 502 }),
    "silence",
  );
  const errors: unknown[] = [];
  for (const _ of range(4)) errors.push(await client.pets.list().catch((error) => error));
  expect(errors.map((error) => (error as Error).constructor)).toEqual([
    ApiError,
    ConnectionError,
    ApiError,
    TimeoutError,
  ]);
  expect((await client.pets.list()).pets).toEqual([]);
  expect((await client.usage()).windows.minute.used).toBe(1);
});

/** How tests fake timers, and let time pass. */
const FAKES = {
  "vi.useFakeTimers()": {
    fake: () => void vi.useFakeTimers({ now: Date.parse("2026-11-26T10:00:50Z") }),
    pass: (ms: number) => vi.advanceTimersByTimeAsync(ms),
  },
  "timers of node:test": {
    fake: () => mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.parse("2026-11-26T10:00:50Z") }),
    pass: async (ms: number) => {
      await new Promise(setImmediate);
      mock.timers.tick(ms);
      await new Promise(setImmediate);
    },
  },
};

it.each(Object.entries(FAKES))(
  "under %s, calls wait for the next minute, and for no other",
  async (_, { fake, pass }) => {
    fake();
    const { service, client } = newTest({ perMinute: 2 });
    const ends: string[] = [];
    const calls = range(6).map((index) =>
      client.pets.create(petOf(index)).then(
        () => ends.push(`created`),
        (error) => ends.push(error instanceof RateLimitError ? "too late" : `${error}`),
      ),
    );
    await pass(0);
    expect(ends.sort()).toEqual(["created", "created"]);
    await pass(9_000);
    expect(service.pets).toHaveLength(2);
    for (const _ of range(10)) await pass(1_000);
    expect(service.pets).toHaveLength(4);
    for (const _ of range(70)) await pass(1_000);
    await Promise.all(calls);
    expect([service.pets.length, service.requests.length]).toEqual([6, 8]);
  },
);

it.each(Object.entries(FAKES))(
  "under %s, a time limit ends a call, and a retry comes after its pause",
  async (_, { fake, pass }) => {
    fake();
    const { service, client } = newTest();
    service.nextAnswers.push("silence", 503);
    const call = client.pets.list();
    let isDone = false;
    void call.then(() => (isDone = true));
    await pass(0);
    await pass(9_999);
    expect([service.requests.length, isDone]).toEqual([1, false]);
    for (const _ of range(20)) await pass(100);
    expect([service.requests.length, isDone]).toEqual([3, true]);
  },
);

it.each(Object.entries(FAKES))(
  "under %s, time also passes while no call waits",
  async (_, { fake, pass }) => {
    fake();
    const { service, client } = newTest({ perDay: 1 });
    await client.pets.list();
    await expect(client.pets.list()).rejects.toThrow(RateLimitError);
    await pass(86_400_000);
    await client.pets.list();
    expect(service.requests).toHaveLength(2);
  },
);

it("a call that was not sent because of the limits rejects with a RateLimitError, also if timers were late", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.parse("2026-11-26T10:00:31Z") });
  const { client } = newTest({}, { totalTimeoutMs: 30_000 });
  const calls = Promise.allSettled(range(100).map((index) => client.pets.create(petOf(index))));
  for (const _ of range(400)) await FAKES["timers of node:test"].pass(100);
  const failed = (await calls).flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
  expect(failed.length).toBeGreaterThan(0);
  expect(failed.filter((error) => !(error instanceof RateLimitError))).toEqual([]);
});
