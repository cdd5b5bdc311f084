// What errors say: class, request, response, and the program's own call.

import { beforeEach, expect, it, vi } from "vitest";
import {
  ApiError,
  ConnectionError,
  type Page,
  type PetList,
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
const HTML = `<html>${"é".repeat(3_000)}`;

async function failureOf(store: Petstore, maxRetries = 0): Promise<PetstoreError> {
  const options = { maxRetries, idempotencyKey: "mine", timeoutMs: 7_000 };
  const done = store.pets.create(NEW, options).then(undefined, (error) => error);
  await vi.runAllTimersAsync();
  return done;
}

it.each<[string, Answer, string, object, string[]]>([
  [
    "an error of the service",
    error(404, "not_found"),
    "not_found",
    { status: 404, code: "not_found" },
    ["ApiError"],
  ],
  [
    "a limit",
    error(429, "rate_limit_exceeded", after(7)),
    "rate_limit_exceeded",
    { status: 429, retryAfterMs: 7_000 },
    ["RateLimitError", "ApiError"],
  ],
  [
    "a page of HTML",
    answer(502, HTML),
    "unexpected response with status 502",
    { status: 502, body: HTML.slice(0, 2_048) },
    ["ApiError"],
  ],
  [
    "another JSON",
    answer(502, '{"code":1}'),
    "unexpected response with status 502",
    { status: 502, body: '{"code":1}' },
    ["ApiError"],
  ],
  [
    "an empty error",
    answer(400, ""),
    "unexpected response with status 400",
    { status: 400, body: "" },
    ["ApiError"],
  ],
  [
    "a page with 200",
    answer(200, HTML),
    "no valid response: Unexpected token '<'",
    { status: 200, body: HTML.slice(0, 2_048), cause: expect.any(SyntaxError) },
    ["ConnectionError"],
  ],
  [
    "another JSON with 200",
    answer(200, "[]"),
    "no valid response: not a pet",
    { status: 200, body: "[]" },
    ["ConnectionError"],
  ],
  [
    "a lost connection",
    networkError,
    "no valid response: ECONNRESET",
    { cause: expect.any(TypeError) },
    ["ConnectionError"],
  ],
  ["no response", never, "no complete response in 7000 ms", {}, ["TimeoutError", "ConnectionError"]],
  [
    "no body",
    () => new Response(new ReadableStream(), { status: 201, headers: { "X-Request-Id": "req" } }),
    "no complete response in 7000 ms",
    { status: 201 },
    ["TimeoutError", "ConnectionError"],
  ],
])("%s: the error says what happened, of which request", async (_, each, message, more, classes) => {
  for (const maxRetries of [0, 1]) {
    const { store, requests } = newStore([each]);
    const failed = await failureOf(store, maxRetries);
    const about = { name: classes[0], method: "POST", url: PETS_URL, idempotencyKey: "mine" };
    const attempts = requests.length;
    expect(failed).toMatchObject({ ...about, attempts, ...more, message: expect.stringContaining(message) });
    const hasResponse = "status" in more;
    expect([failed.requestId, failed.headers instanceof Headers]).toEqual([
      hasResponse ? "req" : undefined,
      hasResponse,
    ]);
    expect(
      Object.entries(CLASSES)
        .filter(([, Class]) => failed instanceof Class)
        .map(([name]) => name)
        .sort(),
    ).toEqual([...classes, "PetstoreError"].sort());
    // Of errors of the service, people see the message as it is.
    expect(failed.message === message || failed.message.startsWith(`POST ${PETS_URL}: ${message}`)).toBe(
      true,
    );
    expect(failed.stack).toMatch(`${classes[0]}: ${failed.message}\n`);
    expect("body" in failed).toBe("body" in more);
  }
});

it("of a URL, errors and hooks show limit, status and cursor only", async () => {
  const events: { url: string }[] = [];
  const { store, requests } = newStore([error(400, "")], { onRequest: (event) => events.push(event) });
  const query = {
    limit: 5,
    token: "secret",
    status: "sold",
    "a&b": "secret=",
    cursor: "c",
    xlimit: "secret",
  };
  const failed = (await store.request({ path: "/toys", query }).catch((error) => error)) as PetstoreError;
  const shown = "https://petstore.test/v1/toys?limit=5&…&status=sold&…&cursor=c&…";
  expect([failed.url, events[0]?.url]).toEqual([shown, shown]);
  expect(requests[0]?.url).toContain("token=secret");
});

const asIs = (made: PromiseLike<unknown>) => made;

// The functions await nothing, because the stack of V8 has those that do.
it.each<[string, (store: Petstore) => unknown, ((made: never) => PromiseLike<unknown>)?]>([
  [
    "create",
    function theProgram({ pets }) {
      return pets.create(NEW);
    },
  ],
  [
    "get",
    function theProgram({ pets }) {
      return pets.get(1);
    },
  ],
  [
    "list",
    function theProgram({ pets }) {
      return pets.list();
    },
  ],
  [
    "for await",
    function theProgram({ pets }) {
      return pets.list();
    },
    (list: PetList) => Array.fromAsync(list),
  ],
  [
    "pages",
    function theProgram({ pets }) {
      return pets.list().pages();
    },
    (pages: AsyncIterable<Page>) => Array.fromAsync(pages),
  ],
  [
    "usage",
    function theProgram(store) {
      return store.usage();
    },
  ],
  [
    "request",
    function theProgram(store) {
      return store.request({ path: "/" });
    },
  ],
  [
    "withResponse",
    function theProgram(store) {
      return store.usage().withResponse();
    },
  ],
])(
  "the stack of an error of %s has the function that called, also after waits",
  async (_, program, use = asIs) => {
    for (const answers of [[never], [networkError, error(400, "")], [answer(200, "{"), networkError]]) {
      const { store } = newStore(answers, { maxRetries: 1 });
      const done = Promise.resolve(use(program(store) as never)).then(undefined, (error) => error);
      await vi.runAllTimersAsync();
      expect((await done).stack).toContain("theProgram");
    }
  },
);

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
  for (const other of [
    null,
    undefined,
    1,
    "ApiError",
    {},
    { petstoreErrorKinds: "ApiError" },
    { petstoreErrorKinds: 5 },
    new Error("ApiError"),
    Object.assign(new Error(), { name: "ApiError" }),
  ])
    expect(other instanceof ApiError).toBe(false);
});

it("a program's own class of errors is an ordinary one", () => {
  const details = { method: "GET", url: "", attempts: 0 };
  class OwnError extends TimeoutError {}
  const own = new OwnError("own", details);
  expect([own instanceof OwnError, own instanceof TimeoutError, own instanceof ApiError]).toEqual([
    true,
    true,
    false,
  ]);
  expect(new TimeoutError("", details) instanceof OwnError).toBe(false);
  expect([own.name, `${own}`]).toEqual(["OwnError", "OwnError: own"]);
  // Minifiers give classes of different scopes the same name.
  const classes = [0, 1].map(() => class Same extends PetstoreError {});
  const [One = OwnError, Other = OwnError] = classes;
  expect([new One("", details) instanceof One, new One("", details) instanceof Other]).toEqual([true, false]);
  class ApiLike extends PetstoreError {
    static override readonly name = "ApiError";
  }
  expect([
    new ApiLike("", details) instanceof ApiError,
    new ApiError("", details) instanceof ApiLike,
  ]).toEqual([false, false]);
});

it("the error of a call that was not sent names the limit, and has nothing of another call's response", async () => {
  const { store } = newStore([error(429, "rate_limit_exceeded", { ...leftOf("r=0;t=20"), ...after(20) })], {
    maxRetries: 0,
  });
  await failureOf(store);
  const list = await store.pets.list({}, { totalTimeoutMs: 1_000 }).catch((failure) => failure);
  expect(list).toMatchObject({
    attempts: 0,
    message: expect.stringMatching(
      /: not sent, because the limit per minute is used up: nothing is admitted for \d+ ms$/,
    ),
  });
  expect([list.requestId, [...list.headers]]).toEqual([undefined, []]);
});
