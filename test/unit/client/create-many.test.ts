// createMany: order, any length, bounded reading, what fails, how it ends early, and its repetition.

import { getEventListeners } from "node:events";
import { beforeEach, expect, it, vi } from "vitest";
import { type NewPet, Petstore, TimeoutError } from "../../../client/src/index.ts";
import { finish, range, sleep } from "./answers.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"] });
  return () => void vi.restoreAllMocks();
});

const petOf = (index: number): NewPet => ({ name: `${index}`, categoryId: 0 });

/** A service that adds a pet once for each key. A pet of an even index takes longer than the next one; "bad" is refused. */
function newStore(maxConcurrency?: number) {
  const pets = new Map<string | null, string>();
  const most = { underway: 0, now: 0, aborted: 0 };
  const fetch = async (_: unknown, { headers, body, signal }: RequestInit = {}) => {
    most.now += 1;
    most.underway = Math.max(most.underway, most.now);
    signal?.addEventListener("abort", () => (most.aborted += 1));
    const pet = JSON.parse(`${body}`);
    await sleep(pet.name % 2 ? 10 : 25);
    most.now -= 1;
    if (pet.name === "bad")
      return Response.json(
        { code: "invalid_request", message: "bad" },
        { status: 400, headers: { "X-Request-Id": "of bad" } },
      );
    const key = new Headers(headers).get("Idempotency-Key");
    const sent = { "X-Request-Id": `of ${pet.name}`, "Idempotent-Replayed": `${pets.has(key)}` };
    if (!pets.has(key)) pets.set(key, JSON.stringify({ ...pet, id: pets.size }));
    return new Response(pets.get(key), { status: 201, headers: sent });
  };
  const base = { apiKey: "key", baseURL: "https://petstore.test", maxRetries: 0, maxConcurrency };
  return { store: new Petstore({ ...base, fetch: fetch as typeof globalThis.fetch }), pets, most };
}

const isBad = (index: number) => index % 7 === 3;
/** 20 pets, of which 3 are bad. */
const inputs = range(20).map((index) => (isBad(index) ? { ...petOf(index), name: "bad" } : petOf(index)));
async function* slowly() {
  for (const input of inputs) {
    await sleep(30);
    yield input;
  }
}

it.each<[string, () => Iterable<NewPet> | AsyncIterable<NewPet>]>([
  ["an array", () => inputs],
  ["a set", () => new Set(inputs)],
  ["a slow async generator", slowly],
])("%s: each pet has its result, in order, and a repetition adds nothing", async (name, iterable) => {
  for (const maxConcurrency of [1, 3, undefined]) {
    const { store, pets, most } = newStore(maxConcurrency);
    const addAll = (options = {}) => finish(Array.fromAsync(store.pets.createMany(iterable(), options)));
    const results = await addAll({ idempotencyKey: "mine" });
    const expected = inputs.map((input, index) => {
      const pet = isBad(index) ? undefined : expect.objectContaining({ name: input.name });
      const error = pet
        ? undefined
        : expect.objectContaining({ status: 400, idempotencyKey: `mine-${index}` });
      return { index, input, requestId: `of ${input.name}`, isReplayed: false, pet, error };
    });
    expect(results).toStrictEqual(expected);
    const replayed = results.map((result) => ({ ...result, isReplayed: result.error === undefined }));
    expect(await addAll({ idempotencyKey: "mine" })).toEqual(replayed);
    const keys = range(20).flatMap((index) => (isBad(index) ? [] : [`mine-${index}`]));
    expect(new Set(pets.keys())).toEqual(new Set(keys));
    const mayBe = Math.min(maxConcurrency ?? 64, 20);
    expect(most.underway).toBeLessThanOrEqual(mayBe);
    if (name === "an array") expect(most.underway).toBe(mayBe);
    // Without a key, each iteration has its own.
    await addAll();
    expect(pets.size).toBe(34);
  }
});

it.each([
  [undefined, 64],
  [2, 2],
  [Infinity, 1_000],
])(
  "with maxConcurrency %s, an endless source is read at most %i ahead, and closed by break",
  async (maxConcurrency, ahead) => {
    const { store, pets, most } = newStore(maxConcurrency);
    let [read, isClosed] = [0, false];
    function* endless() {
      try {
        for (;;) yield petOf(read++);
      } finally {
        isClosed = true;
      }
    }
    const work = async () => {
      for await (const { index, pet } of store.pets.createMany(endless())) {
        expect(pet?.name).toBe(`${index}`);
        // The program is slow, and the client does not read on meanwhile.
        await sleep(1_000);
        expect(read).toBeLessThanOrEqual(index + 1 + ahead);
        if (index === 1) break;
      }
    };
    await finish(work());
    await vi.advanceTimersByTimeAsync(0);
    const created = pets.size;
    expect([isClosed, created <= 2 + ahead]).toEqual([true, true]);
    await vi.runAllTimersAsync();
    expect([pets.size, most.aborted]).toEqual([created, read - created]);
  },
);

it("results that are not ordered come as creations end, and all of them", async () => {
  const { store, most } = newStore(8);
  const indexes: number[] = [];
  const work = async () => {
    for await (const { index, input, pet } of store.pets.createMany(inputs, { ordered: false })) {
      expect(pet?.name ?? "bad").toBe(input.name);
      indexes.push(index);
    }
  };
  await finish(work());
  // Names that are odd are faster.
  expect(indexes.slice(0, 3)).toEqual([1, 5, 7]);
  expect([...indexes].sort((one, other) => one - other)).toEqual(range(20));
  expect(most.underway).toBe(8);
});

it("an error that is none is one in a result", async () => {
  const { store } = newStore();
  const broken = store.withOptions({ onRequest: () => Promise.reject(undefined) });
  const [result] = await finish(Array.fromAsync(broken.pets.createMany([petOf(0)])));
  expect(result?.error).toBeInstanceOf(Error);
});

it("break aborts the creations that are under way", async () => {
  const { store, most } = newStore(8);
  const work = async () => {
    for await (const { index } of store.pets.createMany(inputs)) if (index === 0) break;
  };
  await finish(work());
  expect(most.aborted).toBeGreaterThan(0);
});

it("the error of a source is thrown after the results before it", async () => {
  const { store } = newStore();
  const failure = new Error("source");
  const source = function* () {
    for (const index of range(5)) yield petOf(index);
    throw failure;
  };
  const indexes: number[] = [];
  const work = async () => {
    for await (const { index } of store.pets.createMany(source())) indexes.push(index);
  };
  await expect(finish(work())).rejects.toBe(failure);
  expect(indexes).toEqual(range(5));
});

const held = new TimeoutError("held", { method: "GET", url: "", attempts: 1 });
it.each(["before", "while its source is slow", "while pets are being created"])(
  "an abort %s ends it at once with its reason",
  async (when) => {
    const { store, most } = newStore();
    const controller = new AbortController();
    const { signal } = controller;
    if (when === "before") controller.abort(held);
    const source = async function* () {
      yield petOf(1);
      if (when === "while its source is slow") await new Promise(() => {});
      yield petOf(2);
    };
    const results: unknown[] = [];
    const work = async () => {
      for await (const result of store.pets.createMany(source(), { signal })) results.push(result);
    };
    const done = work().catch((error) => ({ error }));
    await vi.advanceTimersByTimeAsync(when === "while its source is slow" ? 500 : 5);
    controller.abort(held);
    await vi.advanceTimersByTimeAsync(0);
    expect(await Promise.race([done, "not yet"])).toEqual({ error: held });
    for (const result of results) expect(result).toMatchObject({ index: 0 });
    if (when === "before") expect(most.underway).toBe(0);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  },
);

it("an error that a source throws when it is closed is not left unhandled", async () => {
  const { store } = newStore();
  async function* source() {
    try {
      for (const index of range(99)) yield petOf(index);
    } finally {
      // biome-ignore lint/correctness/noUnsafeFinally: what is tested.
      throw new Error("closing");
    }
  }
  const work = async () => {
    for await (const _ of store.pets.createMany(source())) break;
  };
  await finish(work());
  // Vitest fails if a rejection is unhandled.
  await vi.runAllTimersAsync();
});

it("a function gives the key of each pet, and is called with pets only", async () => {
  const { store, pets } = newStore();
  const idempotencyKey = ({ name }: NewPet, index: number) =>
    name === "2" ? (undefined as never) : `${name}+${index}`;
  const work = Array.fromAsync(store.pets.createMany(range(4).map(petOf), { idempotencyKey }));
  const results = await finish(work);
  expect([...pets.keys()].sort()).toEqual(["0+0", "1+1", "3+3"]);
  const refused = expect.objectContaining({ message: expect.stringMatching(/^idempotencyKey: /) });
  expect(results.map(({ error }) => error)).toEqual([undefined, undefined, refused, undefined]);
});

it.each([
  [{ idempotencyKey: "" }, /^idempotencyKey: /],
  [{ maxRetries: Number.NaN }, /^maxRetries: /],
  [{ signal: "no" as unknown as AbortSignal }, /^signal: /],
  [{ retries: 1 } as object, /^retries: /],
  [{ ordered: "no" } as object, /^ordered: /],
])("the options %j are refused at once, and not pet by pet", async (options, message) => {
  const { store, pets } = newStore();
  const work = Array.fromAsync(store.pets.createMany(inputs, options));
  await expect(finish(work)).rejects.toThrow(message);
  expect(pets.size).toBe(0);
});

it("a text is a key of up to 238 characters, because the index of any pet is added", async () => {
  const { store, pets } = newStore();
  const work = (length: number) =>
    finish(Array.fromAsync(store.pets.createMany([petOf(0)], { idempotencyKey: "a".repeat(length) })));
  await work(238);
  expect(pets.size).toBe(1);
  await expect(work(239)).rejects.toThrow(/^idempotencyKey: .*238/);
});
