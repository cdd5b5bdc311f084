// Options of the client and of calls, and what they have in common: their checks, which never repeat a value, and withOptions().

import { inspect } from "node:util";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type CallOptions, type ClientOptions, Petstore } from "../../../client/src/index.ts";
import { answer, error, leftOf, newStore, PET, USAGE } from "./answers.ts";

const SECRET = "pet_secret_that_nobody_sees";
const BASE = { apiKey: SECRET, baseURL: "https://petstore.test" };

beforeEach(() => void vi.stubEnv("PETSTORE_API_KEY", undefined).stubEnv("PETSTORE_BASE_URL", undefined));
afterEach(() => void vi.unstubAllEnvs());

/** What the work throws, or its promise rejects with. It shows no secret. */
async function problemOf(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    expect(error).toBeInstanceOf(TypeError);
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain("secret");
    return (error as Error).message;
  }
  return "none";
}

const NUMBERS = [Number.NaN, -1, "5000", null, 1n, {}, [], true];
const HOSTS = [`http://${SECRET}`, `https://user:${SECRET}@petstore.test`, `ftp://localhost/${SECRET}`];
const HEADERS = [{ Authorization: `${SECRET}ключ` }, { [`${SECRET} `]: "1" }, [[SECRET]], SECRET, 5, null];
it.each<[name: string, of: string, values: unknown[]]>([
  ["apiKey", "client", ["", ` ${SECRET}`, `${SECRET}\n`, `${SECRET}ключ`, 5, null, { secret: SECRET }]],
  ["baseURL", "client", [...HOSTS, SECRET, "", `https://petstore.test?key=${SECRET}`, null, 5]],
  ["headers", "client and call", HEADERS],
  ["maxRetries", "client and call", NUMBERS],
  ["timeoutMs", "client and call", [0, ...NUMBERS]],
  ["totalTimeoutMs", "client and call", [0, ...NUMBERS]],
  ["maxWaitMs", "client and call", NUMBERS],
  ["maxConcurrency", "client", [0, ...NUMBERS]],
  ["maxResponseBytes", "client", [0, ...NUMBERS]],
  ["allowInsecureHTTP", "client", ["true", 1, null]],
  ["pace", "client", ["true", 1, null]],
  ["fetch", "client", [{}, null]],
  ...["onRequest", "onResponse", "onWait", "onEnd"].map((name): [string, string, unknown[]] => [
    name,
    "client",
    [SECRET, null],
  ]),
  ["retries", "client and call", [1]],
  ["toString", "client and call", [1]],
])("%s: a wrong value, or an unknown option, of a %s is refused by its name", async (name, of, values) => {
  const { store, requests } = newStore([answer(200)]);
  const problem = expect.stringMatching(RegExp(`^${name}: `));
  for (const value of values) {
    const wrong = { [name]: value };
    expect([value, await problemOf(() => new Petstore({ ...BASE, ...wrong }))]).toEqual([value, problem]);
    expect([value, await problemOf(() => store.pets.create(NEW, wrong))]).toEqual([value, problem]);
    // None of a call is one of the client's that a call lacks.
    if (of === "client")
      expect(await problemOf(() => store.pets.list({}, wrong as CallOptions))).toEqual(problem);
  }
  expect(await problemOf(() => store.withOptions({ [name]: values[0] }))).toEqual(problem);
  expect(requests).toEqual([]);
});

const NEW = { name: "Rex", categoryId: 1 };

it.each([
  ["signal", "no"],
  ["idempotencyKey", ""],
  ["idempotencyKey", "a b"],
  ["idempotencyKey", "a".repeat(256)],
])("%s: of a call, %j is refused; the client has no such option", async (name, value) => {
  const { store } = newStore([answer(200)]);
  expect(await problemOf(() => store.pets.create(NEW, { [name]: value }))).toMatch(`${name}: `);
  const right = { signal: AbortSignal.abort(), idempotencyKey: "1" }[name];
  expect(await problemOf(() => new Petstore({ ...BASE, [name]: right }))).toMatch("no such option");
});

it("undefined is the same as absent", async () => {
  const absent = (...names: string[]) => Object.fromEntries(names.map((name) => [name, undefined]));
  const both = absent("maxRetries", "timeoutMs", "totalTimeoutMs", "maxWaitMs", "headers");
  const client = { ...both, ...absent("pace", "onWait", "maxConcurrency") };
  const { store, requests } = newStore([answer(201)], client);
  await store.pets.create(NEW, { ...both, ...absent("signal", "idempotencyKey") });
  await store.withOptions(absent("apiKey", "baseURL")).pets.create(NEW);
  const keys = requests.map(({ headers }) => headers.get("Authorization"));
  expect(keys).toEqual(Array(2).fill("Bearer pet_secret"));
});

it("the environment has the defaults of apiKey and baseURL", async () => {
  expect(await problemOf(() => new Petstore())).toMatch(/^apiKey: .*PETSTORE_API_KEY/);
  vi.stubEnv("PETSTORE_API_KEY", SECRET);
  expect(await problemOf(() => new Petstore())).toMatch(/^baseURL: .*PETSTORE_BASE_URL/);
  vi.stubEnv("PETSTORE_BASE_URL", "http://localhost:8787");
  const fetch = vi.fn(async (_: unknown, _init?: RequestInit) => new Response(PET));
  await new Petstore({ fetch }).pets.get(1);
  await new Petstore({ ...BASE, fetch }).pets.get(1);
  const sent = fetch.mock.calls.map(([url, init]) => [url, new Headers(init?.headers).get("Authorization")]);
  expect(sent).toEqual([
    ["http://localhost:8787/v1/pets/1", `Bearer ${SECRET}`],
    ["https://petstore.test/v1/pets/1", `Bearer ${SECRET}`],
  ]);
  // A copy is of the same service.
  const original = new Petstore({ fetch });
  vi.stubEnv("PETSTORE_BASE_URL", "");
  await original.withOptions({ maxRetries: 0 }).pets.get(1);
  expect(fetch.mock.lastCall?.[0]).toBe("http://localhost:8787/v1/pets/1");
  // Browsers and some Workers have none.
  vi.stubGlobal("process", undefined);
  expect(await problemOf(() => new Petstore())).toMatch(/^apiKey: /);
  vi.unstubAllGlobals();
});

it("a function gives the key for each request, also for those that are repeated", async () => {
  let count = 0;
  const { store, requests } = newStore([error(503, ""), answer(200)], {
    apiKey: async () => `key${++count}`,
  });
  vi.spyOn(Math, "random").mockReturnValue(0);
  await store.pets.get(1);
  await store.usage();
  const keys = requests.map(({ headers }) => headers.get("Authorization"));
  expect(keys).toEqual(["Bearer key1", "Bearer key2", "Bearer key3"]);
  vi.restoreAllMocks();
});

it.each([
  ["garbage", async () => `${SECRET}\n`],
  ["nothing", () => undefined as unknown as string],
  ["an object", () => ({ SECRET }) as unknown as string],
])("a function that gives %s as key is refused, without a request", async (_, apiKey) => {
  const { store, requests } = newStore([answer(200)], { apiKey });
  expect(await problemOf(() => store.pets.get(1))).toMatch(/^apiKey: /);
  expect(requests).toEqual([]);
});

it("the error of a function that gives no key is that of the call", async () => {
  const failure = new Error("vault");
  const { store } = newStore([answer(200)], { apiKey: () => Promise.reject(failure) });
  await expect(store.pets.get(1)).rejects.toBe(failure);
});

it("plain http to other hosts must be allowed", async () => {
  const options = { baseURL: "http://api:8787" };
  expect(await problemOf(() => newStore([], options))).toMatch(/^baseURL: .*allowInsecureHTTP/);
  const { store, requests } = newStore([answer(200)], { ...options, allowInsecureHTTP: true });
  await store.pets.get(1);
  await store.withOptions({ maxRetries: 0 }).pets.get(1);
  expect(requests.map(({ url }) => url)).toEqual(Array(2).fill("http://api:8787/v1/pets/1"));
  const wrong = { baseURL: `http://user:${SECRET}@api`, allowInsecureHTTP: true };
  expect(await problemOf(() => newStore([], wrong))).toMatch(/^baseURL: /);
});

it.each<[ClientOptions, boolean]>([
  [{ maxRetries: 0 }, true],
  [{ pace: true, headers: { one: "1" } }, true],
  [{ apiKey: undefined }, true],
  [{ apiKey: "other" }, false],
  [{ baseURL: "https://else.test" }, false],
])("withOptions(%j) shares limits and queue: %s", async (options, isShared) => {
  const { store } = newStore([answer(200, PET, leftOf("r=0;t=20")), answer(200)]);
  const other = store.withOptions(options);
  await store.pets.get(1);
  const done = other.pets.get(1, { maxWaitMs: 0 });
  if (isShared) await expect(done).rejects.toMatchObject({ name: "RateLimitError", attempts: 0 });
  else await done;
  expect(other.rateLimit?.minute?.remaining).toBe(isShared ? 0 : undefined);
});

it("clients that share a queue have one maxConcurrency", async () => {
  const { store } = newStore([answer(200)]);
  expect(await problemOf(() => store.withOptions({ maxConcurrency: 1 }))).toMatch(/^maxConcurrency: /);
  expect(await problemOf(() => store.withOptions({ maxConcurrency: 1, apiKey: "other" }))).toBe("none");
  expect(await problemOf(() => store.withOptions({ maxConcurrency: 64 }))).toBe("none");
});

it("withOptions keeps the other options, and leaves the original as it was", async () => {
  const { store, requests } = newStore([answer(200)], { headers: { one: "1", two: "1" } });
  const other = store.withOptions({ apiKey: "other" }).withOptions({ headers: { three: "3" } });
  await Promise.all([store.pets.get(1), other.pets.get(1)]);
  const names = ["Authorization", "one", "three"];
  const sent = requests.map(({ headers }) => names.map((name) => headers.get(name)).join());
  expect(sent).toEqual(["Bearer pet_secret,1,", "Bearer other,1,3"]);
});

const BIG = { id: 2n ** 62n };
it.each([
  [{ path: "/toys" }, "GET /toys", null],
  [{ path: "/toys/5", query: { a: "b c", n: 1n, none: undefined } }, "GET /toys/5?a=b+c&n=1", null],
  [{ method: "POST", path: "/toys", body: BIG }, "POST /toys", '{"id":4611686018427387904}'],
  [{ method: "PUT", path: "/toys", body: null }, "PUT /toys", "null"],
  [{ method: "DELETE", path: "/toys/5" }, "DELETE /toys/5", null],
])("request(%o) is sent as it says", async (parameters, line, body) => {
  const { store, requests } = newStore([error(503, ""), answer(200, '{"id":9007199254740993}')]);
  vi.spyOn(Math, "random").mockReturnValue(0);
  expect(await store.request<{ id: bigint }>(parameters)).toEqual({ id: 9007199254740993n });
  const [first, second] = requests;
  const lines = requests.map(({ method, url }) => `${method} ${url.replace("https://petstore.test/v1", "")}`);
  expect(lines).toEqual([line, line]);
  expect([first?.body, first?.headers.get("Content-Type")]).toEqual([body, body && "application/json"]);
  expect(first?.key).toEqual(first?.method === "GET" ? null : expect.stringMatching(/^\d+(-\d+){3}$/));
  expect([second?.body, second?.key]).toEqual([first?.body, first?.key]);
  await store.request({ ...parameters, method: "POST" }, { idempotencyKey: "mine" });
  expect(requests[2]?.key).toBe("mine");
  vi.restoreAllMocks();
});

it("request() to another origin is impossible, and an empty response has no data", async () => {
  const { store, requests } = newStore([() => new Response(null, { status: 204 })]);
  for (const path of ["toys", "https://else.test", "", "/../v2", "/%2e%2E/v2", "/toys?a=b", "/toys#a"])
    expect(await problemOf(() => store.request({ path }))).toMatch(/^path: /);
  expect(await store.request({ method: "DELETE", path: "//else.test/@else.test" })).toBeUndefined();
  expect(requests.map(({ url }) => new URL(url).host)).toEqual(["petstore.test"]);
});

const REX = expect.objectContaining({ name: "Rex" });
it.each<[string, (store: Petstore) => { withResponse(): Promise<unknown> }, unknown, string?]>([
  ["list", ({ pets }) => pets.list(), { pets: [REX] }, `[${PET}]`],
  ["get", ({ pets }) => pets.get(1), REX],
  ["create", ({ pets }) => pets.create(NEW), REX],
  ["usage", (store) => store.usage(), { windows: {} }, USAGE],
  ["request", (store) => store.request({ path: "/" }), null, "null"],
])(
  "%s: withResponse has the data, the response and the id of the request, of the same request",
  async (_, call, data, body) => {
    const { store, requests } = newStore([answer(200, body, { two: "2" })]);
    const promise = call(store);
    const result = await promise.withResponse();
    expect(result).toEqual({ data, response: expect.any(Response), requestId: "req" });
    expect((result as { response: Response }).response.headers.get("two")).toBe("2");
    expect(await promise).toEqual(data);
    expect(requests).toHaveLength(1);
  },
);
