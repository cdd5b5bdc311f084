// Retry-After in each of its forms, and what it stops, on virtual time and in a time zone that is not that of HTTP dates.

import { beforeEach, expect, it, vi } from "vitest";
import { type Answer, after, answer, create, createInTime, error, newStore } from "./answers.ts";

const NOW = "Thu, 26 Nov 2026 10:00:00 GMT";

beforeEach(() => {
  const { TZ } = process.env;
  process.env.TZ = "America/New_York";
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"], now: Date.parse(NOW) });
  vi.spyOn(Math, "random").mockReturnValue(0);
  return () => {
    if (TZ === undefined) delete process.env.TZ;
    else process.env.TZ = TZ;
    vi.restoreAllMocks();
  };
});

/** When the requests are sent that follow the first one, in seconds after it. */
const waitsOf = (requests: { ms: number }[]) =>
  requests.slice(1).map(({ ms }) => Math.round(ms - Number(requests[0]?.ms)) / 1_000);

it.each([
  ["42", 42],
  ["1.5", 1.5],
  ["0", 0],
  ["30s", 30],
  ["30 S", 30],
  ["5, 42 ,7", 42],
  ["Thu, 26 Nov 2026 10:00:42 GMT", 42],
  ["Thursday, 26-Nov-26 10:00:42 GMT", 42],
  ["Thu Nov 26 10:00:42 2026", 42],
  ["Thu, 26 Nov 2026 10:00:42", 42],
  ["Thu, 26 Nov 2026 11:00:42 +0100", 42],
  ["Thu, 26 Nov 2026 05:00:42 EST", 42],
  ["Thu, 26 Nov 2026 05:00:42 -05:00", 42],
  ["2026-11-26T10:00:42Z", 42],
  ["2026-11-26T10:00:42", 42],
  ["2026-11-26T15:30:42.5+05:30", 42.5],
  ["Thu, 26 Nov 2026 09:59:00 GMT", 0],
  ["7, Thu, 26 Nov 2026 10:00:42 GMT", 42],
  ["Thu, 26 Nov 2026 10:00:42 GMT, 43", 43],
  ["Thursday, 26-Nov-26 10:00:42 GMT, Thu Nov 26 10:00:44 2026", 44],
  ["", 5],
  ["soon", 5],
  ["-1", 5],
  ["1e1", 5],
  ["0x10", 5],
  ["1;2", 5],
  ["30 min", 5],
  ["Nov 27", 5],
  ["Thu, 99 Nov 2026 10:00:42 GMT", 5],
  ["soon, 2", 5],
  ["soon, 9", 9],
])("Retry-After: %s waits for %d s", async (value, seconds) => {
  // The clock of this machine is right, or wrong and that of the server known.
  for (const wrongMs of [0, 3_600_000]) {
    vi.setSystemTime(Date.parse(NOW) + wrongMs);
    const { store, requests } = newStore([error(503, "", { ...after(value), Date: NOW }), answer(201)]);
    await createInTime(store);
    expect(waitsOf(requests)).toEqual([seconds]);
  }
});

const FAR = ["600", "Thu, 26 Nov 2026 10:10:00 GMT"];
it.each(FAR)("without the time of the server, %s counts from the time of this machine", async (value) => {
  const { store } = newStore([error(503, "", after(value))]);
  expect((await create(store)).error).toMatchObject({ status: 503, retryAfterMs: 600_000 });
});

it("a 429 with a wait of a year stops other calls for a day", async () => {
  const { store, requests } = newStore([error(429, "", after(365 * 86_400)), answer(201)]);
  await create(store);
  await createInTime(store, { maxWaitMs: Infinity, totalTimeoutMs: Infinity });
  expect(waitsOf(requests)).toEqual([86_400]);
});

const REFUSALS: [string, Answer][] = [
  ["of the service", error(429, "rate_limit_exceeded", after(42))],
  ["of something else", answer(429, "<html>", after(42))],
  ["without a code", answer(429, "{}", after("42s, 1"))],
];

it.each(REFUSALS)("after a 429 %s, no call sends a request before Retry-After", async (_, refusal) => {
  const { store, requests } = newStore([refusal, answer(201)]);
  const calls = [create(store)];
  for (const ms of [0, 1_000, 20_000, 20_900]) {
    await vi.advanceTimersByTimeAsync(ms);
    calls.push(create(store), create(store, { maxRetries: 0 }));
  }
  const impatient = create(store, { maxWaitMs: 10 });
  await vi.runAllTimersAsync();
  expect((await Promise.all(calls)).map(({ error }) => error)).toEqual(Array(9).fill(undefined));
  // Others wait for the same time.
  expect(waitsOf(requests)).toEqual([42, 43, 44, 45, 46, 47, 47, 47, 47]);
  expect((await impatient).error).toMatchObject({ status: 429, attempts: 0, retryAfterMs: 5_100 });
});

it.each(REFUSALS)(
  "a call that consumes nothing keeps the Retry-After of its own 429 %s",
  async (_, refusal) => {
    const { store, requests } = newStore([refusal, answer(200)]);
    const done = store.usage();
    await vi.runAllTimersAsync();
    await done;
    expect(waitsOf(requests)).toEqual([42]);
  },
);

it.each<[string, Answer]>([["503", error(503, "", after("42"))], ...REFUSALS])(
  "pacing keeps the Retry-After of its own request: %s",
  async (_, refusal) => {
    const { store, requests } = newStore([refusal, answer(201)]);
    const paced = store.withOptions({ pace: true });
    const calls = [create(paced), create(paced)];
    await vi.runAllTimersAsync();
    await Promise.all(calls);
    expect(requests.map(({ method }) => method)).toEqual(["GET", "GET", "POST", "POST"]);
    expect(waitsOf(requests)).toEqual([42, 42, 42]);
  },
);
