// What errors say: class, request, response, and the program's own call.

import { beforeEach, expect, it, vi } from "vitest";
import {
  ApiError,
  ConnectionError,
  type Petstore,
  PetstoreError,
  RateLimitError,
  TimeoutError,
} from "../../../client/src/index.ts";
import {
  type Answer,
  after,
  answer,
  error,
  leftOf,
  networkError,
  never,
  newStore,
  PETS_URL,
} from "./answers.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"] });
  return () => void vi.restoreAllMocks();
});

const NEW = { name: "Rex", categoryId: 1 };
const CLASSES = { PetstoreError, ApiError, RateLimitError, ConnectionError, TimeoutError };

async function failureOf(store: Petstore, maxRetries = 0): Promise<PetstoreError> {
  const options = { maxRetries, idempotencyKey: "mine", timeoutMs: 7_000 };
  const done = store.pets.create(NEW, options).then(undefined, (error) => error);
  await vi.runAllTimersAsync();
  return done;
}

const LIMIT = error(429, "rate_limit_exceeded", after(7));
const HTML = `<html>${"é".repeat(3_000)}`;
const CUT = { body: HTML.slice(0, 2_048) };
const UNEXPECTED = "unexpected response with status 502";
const noBody = () => new Response(new ReadableStream(), { status: 201, headers: { "X-Request-Id": "req" } });

it.each<[string, Answer, object, string[]]>([
  ["not_found", error(404, "not_found"), { status: 404, code: "not_found" }, ["ApiError"]],
  ["rate_limit_exceeded", LIMIT, { status: 429, retryAfterMs: 7_000 }, ["RateLimitError", "ApiError"]],
  [UNEXPECTED, answer(502, HTML), { status: 502, ...CUT }, ["ApiError"]],
  [UNEXPECTED, answer(502, '{"code":1}'), { status: 502, body: '{"code":1}' }, ["ApiError"]],
  ["unexpected response with status 400", answer(400, ""), { status: 400, body: "" }, ["ApiError"]],
  [
    "no valid response: Unexpected token '<'",
    answer(200, HTML),
    { status: 200, ...CUT, cause: expect.any(SyntaxError) },
    ["ConnectionError"],
  ],
  ["no valid response: not a pet", answer(200, "[]"), { status: 200, body: "[]" }, ["ConnectionError"]],
  ["no valid response: ECONNRESET", networkError, { cause: expect.any(TypeError) }, ["ConnectionError"]],
  ["no complete response in 7000 ms", never, {}, ["TimeoutError", "ConnectionError"]],
  ["no complete response in 7000 ms", noBody, { status: 201 }, ["TimeoutError", "ConnectionError"]],
])("an error says what happened, of which request: %s", async (message, each, more, classes) => {
  for (const maxRetries of [0, 1]) {
    const { store, requests } = newStore([each]);
    const failed = await failureOf(store, maxRetries);
    const about = { name: classes[0], method: "POST", url: PETS_URL, idempotencyKey: "mine" };
    const attempts = requests.length;
    expect(failed).toMatchObject({ ...about, attempts, ...more });
    const hasResponse = "status" in more;
    expect([failed.requestId, failed.headers instanceof Headers]).toEqual([
      hasResponse ? "req" : undefined,
      hasResponse,
    ]);
    const kinds = Object.entries(CLASSES).filter(([, Class]) => failed instanceof Class);
    expect(new Set(kinds.map(([name]) => name))).toEqual(new Set([...classes, "PetstoreError"]));
    // Of errors of the service, people see the message as it is.
    const start = message.includes(" ") ? `POST ${PETS_URL}: ${message}` : message;
    expect(failed.message.slice(0, start.length)).toBe(start);
    expect(failed.stack).toMatch(`${classes[0]}: ${failed.message}\n`);
    expect("body" in failed).toBe("body" in more);
  }
});

it("of a URL, errors and hooks show limit, status and cursor only", async () => {
  const events: { url: string }[] = [];
  const { store, requests } = newStore([error(400, "")], { onRequest: (event) => events.push(event) });
  const hidden = { token: "secret", "a&b": "secret=", xlimit: "secret" };
  const query = { limit: 5, ...hidden, status: "sold", cursor: "c" };
  const failed = (await store.request({ path: "/toys", query }).catch((error) => error)) as PetstoreError;
  const shown = "https://petstore.test/v1/toys?limit=5&…&…&…&status=sold&cursor=c";
  expect([failed.url, events[0]?.url]).toEqual([shown, shown]);
  expect(requests[0]?.url).toContain("token=secret");
});

const all = (list: AsyncIterable<unknown>) => Array.fromAsync(list);

it.each<[string, (store: Petstore) => unknown, ((made: never) => unknown)?]>([
  ["create", ({ pets }) => pets.create(NEW)],
  ["get", ({ pets }) => pets.get(1)],
  ["list", ({ pets }) => pets.list()],
  ["for await", ({ pets }) => pets.list(), all],
  ["pages", ({ pets }) => pets.list().pages(), all],
  ["usage", (store) => store.usage()],
  ["request", (store) => store.request({ path: "/" })],
  ["withResponse", (store) => store.usage().withResponse()],
])("the stack of an error of %s has the function that called, also after waits", async (_, call, use) => {
  for (const answers of [[never], [networkError, error(400, "")], [answer(200, "{"), networkError]]) {
    const { store } = newStore(answers, { maxRetries: 1 });
    // It awaits nothing, because the stack of V8 has functions that do.
    const made = (function theProgram() {
      return call(store);
    })();
    const done = Promise.resolve(use ? use(made as never) : made).then(undefined, (error) => error);
    await vi.runAllTimersAsync();
    expect((await done).stack).toContain("theProgram");
  }
});

it("tools can replace the stack of an error", async () => {
  const { store } = newStore([error(400, "")]);
  const failed = await failureOf(store);
  failed.stack = "mapped";
  expect(failed.stack).toBe("mapped");
});

it("instanceof knows errors of another copy of the package, and no others", async () => {
  vi.resetModules();
  const copy = await import("../../../client/src/index.ts");
  expect(copy.PetstoreError).not.toBe(PetstoreError);
  const { store } = newStore([error(429, "", after(7))]);
  const failed = await failureOf(store);
  const kinds = Object.keys(CLASSES) as (keyof typeof CLASSES)[];
  expect(kinds.map((kind) => failed instanceof copy[kind])).toEqual([true, true, true, false, false]);
  const kindless = [
    null,
    undefined,
    1,
    "ApiError",
    {},
    Object.assign(new Error("ApiError"), { name: "ApiError" }),
  ];
  for (const other of [...kindless, { petstoreErrorKinds: "ApiError" }, { petstoreErrorKinds: 5 }])
    expect(other instanceof ApiError).toBe(false);
});

it("a program's own class of errors is an ordinary one, also if its name is that of another class", () => {
  const details = { method: "GET", url: "", attempts: 0 };
  class OwnError extends TimeoutError {}
  // Minifiers give classes of different scopes the same name.
  const [One = OwnError, Other = OwnError] = [0, 1].map(() => class Same extends PetstoreError {});
  class ApiLike extends PetstoreError {
    static override readonly name = "ApiError";
  }
  const all = [OwnError, TimeoutError, ApiError, One, Other, ApiLike];
  const instanceOf = (Class: typeof PetstoreError) => {
    const made = new Class("own", details);
    return all.filter((each) => made instanceof each);
  };
  expect(instanceOf(OwnError)).toEqual([OwnError, TimeoutError]);
  for (const Class of all.slice(1)) expect(instanceOf(Class)).toEqual([Class]);
  expect(`${new OwnError("own", details)}`).toBe("OwnError: own");
});

it("the error of a call that was not sent names the limit, and has nothing of another call's response", async () => {
  const { store } = newStore([error(429, "rate_limit_exceeded", { ...leftOf("r=0;t=20"), ...after(20) })], {
    maxRetries: 0,
  });
  await failureOf(store);
  const list = await store.pets.list({}, { totalTimeoutMs: 1_000 }).catch((failure) => failure);
  expect(list).toMatchObject({
    attempts: 0,
    message: expect.stringMatching(/ the limit per minute .* \d+ ms$/),
  });
  expect([list.requestId, [...list.headers]]).toEqual([undefined, []]);
});
