// The queue of a client: its bound on requests under way, its order, and its work, counted in steps.

import { beforeEach, expect, it, vi } from "vitest";
import type { Petstore } from "../../../client/src/index.ts";
import { Limiter, type Ticket } from "../../../client/src/limiter.ts";
import { type Answer, answer, never, newStore, PET } from "./answers.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"], now: 0 });
  return () => void vi.restoreAllMocks();
});

const range = (length: number) => Array.from({ length }, (_, index) => index);
const get = (store: Petstore, id: number, signal?: AbortSignal) =>
  store.pets.get(id, { signal }).then(() => id, String);

it.each([
  [undefined, 64],
  [1, 1],
  [3, 3],
  [Infinity, 200],
] as const)(
  "with maxConcurrency %s, %i of 200 requests are under way at once, in their order",
  async (maxConcurrency, most) => {
    let underway = 0;
    const counts: number[] = [];
    const slow: Answer = async (signal, path) => {
      underway += 1;
      counts.push(underway);
      await new Promise((resolve) => setTimeout(resolve, 50));
      underway -= 1;
      return answer(200)(signal, path);
    };
    const { store, requests } = newStore([answer(200), slow], { maxConcurrency });
    // After a response, more than a few are sent at once.
    await get(store, 0);
    // usage() and what one call repeats are requests of the client too.
    const calls = range(200).map((id) => (id % 5 === 0 ? store.usage().catch(() => {}) : get(store, id)));
    await vi.runAllTimersAsync();
    await Promise.all(calls);
    expect(Math.max(...counts)).toBe(most);
    expect(requests).toHaveLength(201);
    const ids = requests.map(({ url }) => Number(url.split("/").at(-1))).filter((id) => id > 0);
    expect(ids).toEqual(range(200).filter((id) => id % 5 !== 0));
    // No slot stays empty, and none is filled late.
    expect(performance.now()).toBe(50 * Math.ceil(200 / most));
  },
);

it("repeated requests are within maxConcurrency, and go first", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  const { store, requests } = newStore([answer(503, ""), answer(200)], { maxConcurrency: 1 });
  const calls = range(3).map((id) => get(store, id));
  await vi.runAllTimersAsync();
  expect(await Promise.all(calls)).toEqual([0, 1, 2]);
  expect(
    requests
      .map(({ url }) => url.at(-1))
      .sort()
      .join(""),
  ).toBe("0012");
});

it("when the first call is aborted, the next one goes on at once", async () => {
  const { store, requests } = newStore([never, answer(200)]);
  // The first one asks for the limits.
  const paced = store.withOptions({ pace: true });
  const controller = new AbortController();
  const calls = [get(paced, 1, controller.signal), get(paced, 2)];
  await vi.advanceTimersByTimeAsync(100);
  controller.abort("aborted");
  await vi.advanceTimersByTimeAsync(0);
  expect(await Promise.all(calls)).toEqual(["aborted", 2]);
  expect(requests.map(({ ms }) => ms)).toEqual([0, 100, 100]);
});

const WAITING = 20_000;
const exhausted = answer(200, PET, {
  "RateLimit-Policy": '"minute";q=90000;w=60, "day";q=900000;w=86400',
  RateLimit: '"minute";r=0;t=20, "day";r=800000;t=80000',
});

it("20,000 waiting calls take a few steps each, keep their order, and those aborted leave", async () => {
  const { store, requests } = newStore([exhausted, answer(200)], {
    totalTimeoutMs: Infinity,
    maxConcurrency: 1_000,
  });
  await get(store, 0);
  const now = vi.spyOn(performance, "now");
  const admit = vi.spyOn(Limiter.prototype, "admit");
  const aborted = new AbortController();
  // One of 100 stays.
  const signalOf = (id: number) => (id % 100 === 0 ? undefined : aborted.signal);
  const calls = range(WAITING).map((id) => get(store, id, signalOf(id)));
  await vi.advanceTimersByTimeAsync(0);
  aborted.abort("aborted");
  expect((await Promise.all(calls.filter((_, id) => id % 100 !== 0))).every((end) => end === "aborted")).toBe(
    true,
  );
  await vi.advanceTimersByTimeAsync(22_000);
  await Promise.all(calls);
  const [_, ...sent] = requests.map(({ url }) => Number(url.split("/").at(-1)));
  expect(sent).toEqual(range(WAITING / 100).map((index) => 100 * index));
  // Twice at first, and once it is the first of the queue or polls.
  expect(admit.mock.calls.length).toBeLessThan(2.1 * WAITING);
  expect(now.mock.calls.length).toBeLessThan(6 * WAITING);
});

it("when the first response shows the limits, 20,000 waiting calls look at them, 500 at a time", async () => {
  const first: Answer = async (signal) => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    return exhausted(signal);
  };
  const { store } = newStore([first, never], { totalTimeoutMs: Infinity });
  for (let id = 0; id < WAITING; id += 1) void get(store, id);
  await vi.advanceTimersByTimeAsync(299);
  const admit = vi.spyOn(Limiter.prototype, "admit");
  await vi.advanceTimersByTimeAsync(1);
  // Twice: it tells of its wait in between.
  expect(admit.mock.calls.length).toBeLessThan(1_100);
  for (let ms = 0; ms < 100; ms += 1) {
    const before = admit.mock.calls.length;
    await vi.advanceTimersByTimeAsync(1);
    expect(admit.mock.calls.length - before).toBeLessThan(1_100);
  }
  expect(admit.mock.calls.length).toBeGreaterThan(39_000);
});

it("after a refusal, 20,000 waiting calls don't all look at the same time", async () => {
  const left = {
    "RateLimit-Policy": '"minute";q=90000;w=60, "day";q=900000;w=86400',
    RateLimit: '"minute";r=0;t=20, "day";r=800000;t=80000',
  };
  const { store } = newStore([answer(429, "", { ...left, "Retry-After": "20" }), never], {
    totalTimeoutMs: Infinity,
  });
  for (let id = 0; id < WAITING; id += 1) void get(store, id);
  await vi.advanceTimersByTimeAsync(19_999);
  const admit = vi.spyOn(Limiter.prototype, "admit");
  let most = 0;
  for (let ms = 0; ms < 6_000; ms += 1) {
    const before = admit.mock.calls.length;
    await vi.advanceTimersByTimeAsync(1);
    most = Math.max(most, admit.mock.calls.length - before);
  }
  expect(most).toBeLessThan(600);
});

/** Counts how often the links of a queue are read and written. */
function watch(tickets: Ticket[]): { steps: number } {
  const watched = { steps: 0 };
  for (const ticket of tickets) {
    for (const name of ["number", "previous", "next", "queue", "dueMs"] as const) {
      let value: unknown = ticket[name];
      const get = () => {
        watched.steps += 1;
        return value;
      };
      const set = (next: unknown) => {
        watched.steps += 1;
        value = next;
      };
      Object.defineProperty(ticket, name, { get, set });
    }
  }
  return watched;
}

it.each(["Node.js", "Cloudflare-Workers"])(
  "to ask, to be admitted and to leave take as many steps with 20,000 calls as with 20 (%s)",
  (userAgent) => {
    vi.stubGlobal("navigator", { userAgent });
    const stepsOf = (length: number) => {
      const limiter = new Limiter(length / 2);
      const tickets = range(length).map(() => limiter.enter(false, false));
      const watched = watch(tickets);
      const options = { pace: false, timeoutMs: 1_000 };
      for (const ticket of tickets) limiter.admit(ticket, 0, options);
      for (const ticket of tickets) limiter.admit(ticket, 1, options);
      // From the middle, then the others.
      for (const ticket of tickets.slice(length / 4)) limiter.leave(ticket);
      for (const ticket of tickets) limiter.leave(ticket);
      return watched.steps / length;
    };
    expect(stepsOf(WAITING)).toBeLessThan(1.1 * stepsOf(20));
    vi.unstubAllGlobals();
  },
);
