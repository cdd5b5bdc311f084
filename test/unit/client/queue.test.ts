// The queue of a client: its bound on requests under way, its order, and its work, counted in steps.

import { beforeEach, expect, it, vi } from "vitest";
import type { Petstore } from "../../../client/src/index.ts";
import { Limiter, type Ticket } from "../../../client/src/limiter.ts";
import { type Answer, answer, never, newStore, PET, range, sleep } from "./answers.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"], now: 0 });
  return () => void vi.restoreAllMocks();
});

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
      await sleep(50);
      underway -= 1;
      return answer(200)(signal, path);
    };
    const { store, requests } = newStore([answer(200), slow], { maxConcurrency });
    // After a response, more than a few are sent at once.
    await get(store, 0);
    // usage() is a request of the client too.
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

it("a repeated request needs no second slot", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  const { store, requests } = newStore([answer(503, ""), answer(200)], { maxConcurrency: 1 });
  const calls = range(3).map((id) => get(store, id));
  await vi.runAllTimersAsync();
  expect(await Promise.all(calls)).toEqual([0, 1, 2]);
  expect(requests).toHaveLength(4);
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

const WAITING = 2_000;
const EXHAUSTED = {
  "RateLimit-Policy": '"minute";q=9000;w=60, "day";q=90000;w=86400',
  RateLimit: '"minute";r=0;t=20, "day";r=80000;t=80000',
};

/** Counts how often calls look whether they are admitted, in each millisecond from now on. */
function watchLooks() {
  const { admit } = Limiter.prototype;
  const looks = { all: 0, most: 0 };
  let at = { ms: 0, looks: 0 };
  vi.spyOn(Limiter.prototype, "admit").mockImplementation(function (this: Limiter, ...args) {
    const ms = performance.now();
    at = { ms, looks: at.ms === ms ? at.looks + 1 : 1 };
    Object.assign(looks, { all: looks.all + 1, most: Math.max(looks.most, at.looks) });
    return admit.apply(this, args);
  });
  return looks;
}

it("many waiting calls take a few steps each, keep their order, and those aborted leave", async () => {
  const { store, requests } = newStore([answer(200, PET, EXHAUSTED), answer(200)], {
    totalTimeoutMs: Infinity,
  });
  await get(store, 0);
  const now = vi.spyOn(performance, "now");
  const looks = watchLooks();
  const aborted = new AbortController();
  const stays = (id: number) => id % 50 === 0;
  const calls = range(WAITING).map((id) => get(store, id, stays(id) ? undefined : aborted.signal));
  await vi.advanceTimersByTimeAsync(0);
  aborted.abort("aborted");
  const ends = await Promise.all(calls.filter((_, id) => !stays(id)));
  expect(new Set(ends)).toEqual(new Set(["aborted"]));
  await vi.advanceTimersByTimeAsync(22_000);
  await Promise.all(calls);
  const [_, ...sent] = requests.map(({ url }) => Number(url.split("/").at(-1)));
  expect(sent).toEqual(range(WAITING).filter(stays));
  // Twice at first, and once it is the first of the queue or polls.
  expect(looks.all).toBeLessThan(2.1 * WAITING);
  expect(now.mock.calls.length - looks.all).toBeLessThan(6 * WAITING);
});

it("when the first response shows the limits, the waiting calls look at them, 500 at a time", async () => {
  const first: Answer = async (signal) => {
    await sleep(300);
    return answer(200, PET, EXHAUSTED)(signal);
  };
  const { store } = newStore([first, never], { totalTimeoutMs: Infinity });
  for (const id of range(WAITING)) void get(store, id);
  await vi.advanceTimersByTimeAsync(299);
  const looks = watchLooks();
  await vi.advanceTimersByTimeAsync(101);
  // Twice: each tells of its wait in between.
  expect(looks.most).toBeLessThan(1_100);
  expect(looks.all).toBeGreaterThan(1.9 * WAITING);
});

it("after a refusal, the waiting calls don't all look at the same time", async () => {
  const { store } = newStore([answer(429, "", { ...EXHAUSTED, "Retry-After": "20" }), never], {
    totalTimeoutMs: Infinity,
  });
  for (const id of range(WAITING)) void get(store, id);
  await vi.advanceTimersByTimeAsync(19_999);
  const looks = watchLooks();
  await vi.advanceTimersByTimeAsync(6_000);
  expect(looks.most).toBeLessThan(0.03 * WAITING);
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
  "to ask, to be admitted and to leave take as many steps with many calls as with few (%s)",
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
