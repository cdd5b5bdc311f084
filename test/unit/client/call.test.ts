// Retries, waits, deadlines, aborts, hooks and errors of a call, on virtual time: what is sent, when, and how the call ends.

import { getEventListeners } from "node:events";
import { inspect } from "node:util";
import { beforeEach, expect, it, vi } from "vitest";
import {
  ApiError,
  ConnectionError,
  type CreateOptions,
  type Petstore,
  TimeoutError,
} from "../../../client/src/index.ts";
import {
  type Answer,
  after,
  answer,
  create,
  createInTime,
  cutOff,
  error,
  full,
  HOUR_MS,
  halfABody,
  KEY,
  leftOf,
  networkError,
  never,
  newStore,
  PETS_URL,
  sleep,
  slow,
  untilAbort,
} from "./answers.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"] });
  return () => void vi.restoreAllMocks();
});

const OK = "9223372036854775807";

// The answers before a success; how the call ends; the shortest wait and its jitter before each further request, in seconds.
type Row = [name: string, answers: Answer[], end: string, waits: string, options?: CreateOptions];
const PATIENT = { maxRetries: Infinity, maxWaitMs: Infinity, totalTimeoutMs: Infinity, timeoutMs: Infinity };
it.each<Row>([
  ["200", [answer(200)], OK, ""],
  ["201", [answer(201)], OK, ""],
  ["broken JSON", [answer(200, "{"), answer(200, "[]")], OK, "0+0.5 0+1"],
  ["another JSON", [answer(200, '{"id":null}')], OK, "0+0.5"],
  ...[301, 400, 401, 404, 410, 413, 415, 422].map((it): Row => [`${it}`, [error(it, "")], "ApiError", ""]),
  ["408, 500, 503", [error(408, ""), error(500, ""), error(503, "")], "ApiError", "0+0.5 0+1"],
  ["a page of HTML", [answer(520, "<html>")], OK, "0+0.5"],
  ["a 429", [error(429, "rate_limit_exceeded", after(42))], OK, "42+1"],
  ["the longest wait", [error(429, "rate_limit_exceeded", after(60))], OK, "60+1"],
  ["a ban", [error(429, "key_banned", after(600))], "RateLimitError", ""],
  ["a ban and patience", [error(429, "key_banned", after(600))], OK, "600+1", PATIENT],
  ["503 after 5", [error(503, "", after(5))], OK, "5+1"],
  ["503 after 300", [error(503, "", after(300))], "ApiError", ""],
  ["a wait until the deadline", [error(503, "", after(50))], "ApiError", "", { totalTimeoutMs: 50_000 }],
  ["ten seconds of 503", [error(503, "", after(10)), error(503, "", after(5))], OK, "10+1 5+1"],
  ["a wait without its body", [cutOff(503, after(42))], OK, "42+1"],
  ["a ban without its body", [cutOff(429, after(600))], "ConnectionError", ""],
  ["a wait with another body", [answer(200, "<html>", after(42))], OK, "42+1"],
  ["0", [error(503, "", after(0))], OK, "0+0.5"],
  ["network errors", [networkError, networkError], OK, "0+0.5 0+1"],
  ["no response", [untilAbort], OK, "10+0.5"],
  ["half a body", [halfABody], OK, "10+0.5"],
  ["an ignored signal", [never, never, never], "TimeoutError", "10+0.5 10+1"],
  ["no retries", [networkError], "ConnectionError", "", { maxRetries: 0 }],
  ["a slow response", [slow], OK, "", PATIENT],
  ["patience", Array(7).fill(networkError), OK, "0+0.5 0+1 0+2 0+4 0+8 0+8 0+8", PATIENT],
])("%s: it is retried if and when it may be", async (_, answers, end, waits, options) => {
  for (const random of [0, 0.999]) {
    vi.spyOn(Math, "random").mockReturnValue(random);
    const { store, requests } = newStore([...answers, answer(201)]);
    const done = await createInTime(store, options);
    expect(done.end).toBe(end);
    const waitsMs = requests.slice(1).map(({ ms }, index) => ms - Number(requests[index]?.ms));
    const expected = [...waits.matchAll(/(\S+)\+(\S+)/g)].map(([, least, jitter]) => {
      return expect.closeTo(1_000 * (Number(least) + random * Number(jitter)), -1);
    });
    expect(waitsMs).toEqual(expected);
    expect(new Set(requests.map(({ key, body }) => `${key} ${body}`)).size).toBe(1);
  }
  expect(vi.getTimerCount()).toBe(0);
});

it.each([
  never,
  untilAbort,
  halfABody,
  networkError,
  answer(200, ""),
  error(503, "", after(7)),
  error(429, "", after(60)),
])("a call ends by its deadline, and sends nothing later (%#)", async (each) => {
  for (const totalTimeoutMs of [1, 400, 25_300]) {
    const { store, requests } = newStore([each]);
    const deadlineMs = performance.now() + totalTimeoutMs;
    const done = await createInTime(store, { totalTimeoutMs, maxRetries: Infinity });
    expect(done).toMatchObject({ end: expect.stringMatching(/Error$/) });
    expect(done.ms).toBeLessThanOrEqual(totalTimeoutMs);
    expect(requests.every(({ ms }) => ms < deadlineMs)).toBe(true);
  }
});

it.each([
  ["sent before the deadline", { totalTimeoutMs: 20_100, maxWaitMs: 20_000 }, OK, 20_033, 1],
  ["rejected at once if the deadline is earlier", { totalTimeoutMs: 19_900 }, "RateLimitError", 0, 0],
  ["rejected at once if that takes too long", { maxWaitMs: 19_900 }, "RateLimitError", 0, 0],
])("a call that waits for requests to be left is %s", async (_, options, end, ms, waits) => {
  vi.spyOn(Math, "random").mockReturnValue(0.999);
  const onWait = vi.fn();
  const { store } = newStore([full("r=0;t=20")], { pace: true, onWait });
  await create(store);
  const done = await createInTime(store, options);
  expect(done).toMatchObject({ end, ms: expect.closeTo(ms, -1) });
  const exhausted = { code: "rate_limit_exceeded", retryAfterMs: 20_034, attempts: 0 };
  if (waits === 0) expect(done.error).toMatchObject(exhausted);
  const wait = { callId: expect.any(Number), method: "POST", url: PETS_URL, attempt: 1 };
  expect(onWait.mock.calls).toEqual(Array(waits).fill([{ ...wait, waitMs: expect.closeTo(ms, -1) }]));
});

it("a call that waits behind one without a response times out", async () => {
  const onWait = vi.fn();
  const { store } = newStore([never], { pace: true, maxWaitMs: 0, maxRetries: 0, onWait });
  const both = [create(store), create(store, { totalTimeoutMs: 5_000 })];
  await vi.runAllTimersAsync();
  const timeout = (ms: number) => ({ end: "TimeoutError", ms: expect.closeTo(ms, -1) });
  expect(await Promise.all(both)).toMatchObject([timeout(10_000), timeout(5_000)]);
  expect(onWait).not.toHaveBeenCalled();
});

const neverDone = () => new Promise<never>(() => {});
/** An error that would be retried if the client took it for its own. */
const heldError = new TimeoutError("of another call", { method: "GET", url: PETS_URL, attempts: 1 });

it.each<[string, unknown, unknown?]>([
  ["an error of the client", heldError],
  ["a frozen error", Object.freeze(new Error("frozen"))],
  ["null", null],
  ["0", 0],
  ["an empty text", ""],
  ["a missing one", undefined, expect.objectContaining({ name: "AbortError" })],
])("a call rejects with the reason of its signal, wherever it is: %s", async (_, reason, end = reason) => {
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  const held = inspect(heldError);
  const controller = new AbortController();
  const { signal } = controller;
  const full20 = full("r=0;t=20");
  const places = [
    newStore([networkError]),
    newStore([never]),
    newStore([untilAbort]),
    newStore([halfABody]),
    newStore([error(429, "", after(42))]),
    newStore([answer(201)], { apiKey: neverDone }),
    newStore([answer(201)], { onRequest: neverDone }),
    newStore([answer(201)], { onResponse: neverDone }),
    newStore([networkError], { onWait: neverDone }),
    newStore([never, answer(201)], { maxConcurrency: 1 }),
    newStore([full20, answer(201)]),
  ];
  const count = () => places.reduce((sum, { requests }) => sum + requests.length, 0);
  const stores = places.map(({ store }) => store);
  await stores.at(-1)?.usage();
  const call = (store: Petstore) => store.pets.get(1, { signal }).then(String, (error) => ({ error }));
  const ends = Promise.all([...stores, ...stores, ...stores].map(call));
  await vi.advanceTimersByTimeAsync(100);
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  const sent = count();
  controller.abort(reason);
  expect(await ends).toEqual(Array(33).fill({ error: end }));
  expect(await Promise.all(stores.map(call))).toEqual(Array(11).fill({ error: end }));
  expect([vi.getTimerCount(), getEventListeners(signal, "abort").length]).toEqual([0, 0]);
  await vi.runAllTimersAsync();
  expect([count(), inspect(heldError)]).toEqual([sent, held]);
});

it.each(["onRequest", "onResponse", "onWait", "onEnd"] as const)(
  "%s is awaited, its error is that of the call, and it can't outlast the deadline, or a wait that it tells of",
  async (hook) => {
    const answers = [error(503, "")];
    const throwing = () => {
      throw heldError;
    };
    for (const fail of [throwing, async () => throwing()]) {
      const { store, requests } = newStore(answers, { [hook]: fail });
      const done = await createInTime(store);
      expect(done.error).toBe(heldError);
      expect(requests).toHaveLength({ onRequest: 0, onResponse: 1, onWait: 1, onEnd: 3 }[hook]);
    }
    const { store } = newStore(answers, { [hook]: neverDone, totalTimeoutMs: 7_000, maxRetries: 0 });
    const done = await createInTime(store, { maxRetries: 9 });
    const timeout = { end: "TimeoutError", ms: 7_000 };
    const failure = { end: "ApiError", ms: expect.toSatisfy((ms: number) => ms < 7_000) };
    const isLate = hook === "onRequest" || hook === "onResponse";
    expect(done).toMatchObject(isLate ? timeout : { ...failure, ms: expect.any(Number) });
    expect(done.ms).toBeLessThanOrEqual(7_000);
  },
);

it("a creation is repeated for 24 hours after its first request, and not longer; other calls are", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  // A ban of 20 hours, then an outage of 30.
  const outage = Array(30).fill(error(503, "", after(3_600)));
  const answers = [error(429, "key_banned", after(72_000)), ...outage, answer(200)];
  const { store, requests } = newStore(answers, PATIENT);
  await store.usage({ maxRetries: 0 }).catch(() => {});
  const creation = create(store);
  await vi.advanceTimersByTimeAsync(60 * HOUR_MS);
  expect(await creation).toMatchObject({ error: { status: 503, attempts: 24 } });
  const reading = store.pets.get(1);
  await vi.runAllTimersAsync();
  expect(await reading).toMatchObject({ name: "Rex" });
  const methods = requests.map(({ method }) => method?.at(0)).join("");
  expect(methods).toBe(`G${"P".repeat(24)}${"G".repeat(7)}`);
});

it.each([
  [200, ConnectionError, {}],
  [502, ApiError, { body: "a".repeat(2_048) }],
])("a response of status %i that does not end is cut at maxResponseBytes", async (status, Class, more) => {
  for (const maxResponseBytes of [undefined, 5_000]) {
    const chunk = new TextEncoder().encode("a".repeat(1_000));
    let bytes = 0;
    const cancel = vi.fn();
    const pull = (stream: ReadableStreamDefaultController) => {
      stream.enqueue(chunk);
      bytes += chunk.length;
    };
    const response = () => new Response(new ReadableStream({ pull, cancel }), { status });
    const { store } = newStore([response], { maxRetries: 0, maxResponseBytes });
    const { error } = await create(store);
    expect(error).toBeInstanceOf(Class);
    expect(error).toMatchObject({ status, ...more });
    expect(cancel).toHaveBeenCalledOnce();
    expect(bytes).toBeLessThan((maxResponseBytes ?? 1_048_576) + 4_000);
  }
});

it.each([
  ["the failure, if it is none of the limits'", error(503, "", leftOf("r=0;t=20")), { status: 503 }],
  [
    "the wait, if it was refused",
    error(429, "", { ...leftOf("r=0;t=20"), ...after(1) }),
    { retryAfterMs: 20_000 },
  ],
])("a call that can't be repeated in time rejects with %s", async (_, each, expected) => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  const { store } = newStore([each, answer(201)]);
  const done = await createInTime(store, { totalTimeoutMs: 15_000 });
  expect(done.error).toMatchObject({ attempts: 1, ...expected });
});

it("durationMs is the time of the request, without hooks and key functions", async () => {
  const slowly = () => new Promise<string>((resolve) => setTimeout(resolve, 700, KEY));
  const onResponse = vi.fn();
  const { store } = newStore([answer(201)], { apiKey: slowly, onRequest: slowly, onResponse });
  const done = await createInTime(store);
  expect(done.ms).toBe(1_400);
  expect(onResponse).toHaveBeenCalledWith(expect.objectContaining({ durationMs: 0 }));
});

it("a response that is no usage is not taken for one", async () => {
  for (const body of ["{}", "null", "[]", '{"minute":{}}']) {
    const { store } = newStore([answer(200, body)], { maxRetries: 0 });
    await expect(store.usage()).rejects.toThrow("not a usage");
  }
});

it("neither hooks nor errors show the key", async () => {
  const events: unknown[] = [];
  const hook = (event: object) => events.push(event);
  const hooks = { onRequest: hook, onResponse: hook, onWait: hook, onEnd: hook };
  const { store } = newStore([networkError, error(503, "service_unavailable")], { ...hooks, maxRetries: 1 });
  const { error: failed } = await createInTime(store);
  expect([failed.attempts, events.length]).toEqual([2, 5]);
  const shown = [store, store.pets, failed, failed.cause, events].map((one) =>
    [inspect(one, { depth: 9, showHidden: true }), JSON.stringify(one), `${one}`, failed.stack].join(),
  );
  expect(shown.join()).not.toContain(KEY);
});

/** What a log of JSON has of the events of a call. */
async function logOf(answers: Answer[], options: CreateOptions = {}) {
  const log: string[] = [];
  const hook = (name: string) => (event: object) => log.push(JSON.stringify({ name, ...event }));
  const [onRequest, onResponse, onWait, onEnd] = ["request", "response", "wait", "end"].map(hook);
  const { store } = newStore(answers, { onRequest, onResponse, onWait, onEnd });
  await createInTime(store, { idempotencyKey: "mine", ...options });
  return log.map((line) => JSON.parse(line));
}

const slowly =
  (each: Answer): Answer =>
  async (signal, path) => {
    await sleep(20.7);
    return each(signal, path);
  };

it("events can be logged as JSON: errors with what they know, headers as a record, whole milliseconds", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0.3337);
  const now = performance.now.bind(performance);
  // A fake clock has whole milliseconds.
  vi.spyOn(performance, "now").mockImplementation(() => now() * 1.0001);
  const log = await logOf([networkError, slowly(error(400, "invalid_request"))]);
  const about = { callId: expect.any(Number), method: "POST", url: PETS_URL };
  const sent = { method: "POST", url: PETS_URL, idempotencyKey: "mine" };
  const ofError = { name: "ApiError", code: "invalid_request", message: "invalid_request" };
  const ofLoss = { name: "ConnectionError", message: `POST ${PETS_URL}: no valid response: ECONNRESET` };
  const lost = { ...ofLoss, ...sent, attempts: 1, cause: "TypeError: fetch failed" };
  const ended = { status: 400, requestId: "req" };
  const headers = { "content-type": "text/plain;charset=UTF-8", "x-request-id": "req" };
  const durationMs = expect.toSatisfy(Number.isInteger);
  expect(log).toEqual([
    { name: "request", ...about, attempt: 1 },
    { name: "wait", ...about, attempt: 2, waitMs: 167, error: lost },
    { name: "request", ...about, attempt: 2 },
    { name: "response", ...about, attempt: 2, ...ended, durationMs, headers },
    {
      name: "end",
      ...about,
      attempts: 2,
      ...ended,
      durationMs: 186,
      error: { ...ofError, ...sent, ...ended, attempts: 2 },
    },
  ]);
});

it.each<[string, Answer[], object, CreateOptions?]>([
  ["succeeds", [answer(201)], { attempts: 1, status: 201, requestId: "req" }],
  ["is lost", [networkError], { attempts: 3, error: { name: "ConnectionError" } }],
  [
    "is late",
    [never],
    { attempts: 1, durationMs: 7, error: { name: "TimeoutError" } },
    { totalTimeoutMs: 7 },
  ],
  ["is aborted", [never], { attempts: 0, error: "stop" }, { signal: AbortSignal.abort("stop") }],
])("the end of a call that %s is an event", async (_, answers, event, options) => {
  const ends = (await logOf(answers, options)).filter(({ name }) => name === "end");
  expect(ends).toMatchObject([event]);
});

it("each creation has a key of its own", async () => {
  const { store, requests } = newStore([answer(201)]);
  await Promise.all([create(store), create(store)]);
  const [first, second] = requests.map(({ key }) => key);
  expect(first).toMatch(/^\d+(-\d+){3}$/);
  expect(second).not.toBe(first);
});

it("usage does not wait for requests to be left", async () => {
  const { store, requests } = newStore([full("r=0;t=20")], { pace: true });
  await create(store);
  await store.usage();
  expect([requests.length, store.rateLimit?.day?.remaining]).toEqual([2, 940]);
});
