// ./petstore smoke passes on the service, and fails on each fault in the service's responses. It waits on virtual time.

import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { smokeTest } from "../../scripts/deploy/smoke-test.ts";
import type { Io } from "../../scripts/lib/io.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { failure, runPetstore } from "../support/e2e/in-process.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

vi.mock(import("node:timers/promises"), async (original) => {
  const actual = await original();
  const wait = async (ms: number) => void vi.setSystemTime(Date.now() + ms);
  return { ...actual, setTimeout: wait as typeof actual.setTimeout };
});

type Answer = { status: number; headers: Headers; body: string };

/** A change of a response; "none" for a lost connection. */
type Change = Partial<Answer> | "none" | undefined | false;
type Fault = (answer: Answer, path: string, method: string) => Change;

const petstore = sharedPetstore();
let key: string;
let fault: Fault;

beforeAll(async () => {
  ({ key } = await petstore.newKey("business"));
  const pet = { method: "POST", headers: { "Content-Type": "application/json" } };
  // So many that there is a second page.
  for (const name of ["Kit", "Rex", "Zoë"])
    await petstore.call("/v1/pets", key, { ...pet, body: `{"name":"${name}","categoryId":1}` });
  const { fetch } = globalThis;
  vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => {
    const response = await fetch(url, init);
    const answer = { status: response.status, headers: response.headers, body: await response.text() };
    const change = fault(answer, `${url}`.slice(petstore.origin.length), init?.method ?? "GET");
    if (change === "none") throw new TypeError("the connection is lost");
    const { body, ...rest } = { ...answer, ...change };
    // A 204 must have no body, not even an empty one.
    return new Response(body || null, rest);
  });
});
afterAll(() => {
  vi.unstubAllGlobals();
});
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Runs `./petstore smoke` on the service, whose responses the fault changes. */
function smoke(options: string, changes: Fault) {
  fault = changes;
  return runPetstore(`smoke ${petstore.origin}${options}`, { env: { PETSTORE_KEY: key } });
}

it("passes on the service, and changes something only with --create", async () => {
  let created = 0;
  const count: Fault = ({ status }, _, method) => {
    if (method !== "GET" && status < 300) created += 1;
    return undefined;
  };
  const stdout = `${petstore.origin} passes the smoke test.\n`;
  const plain = await smoke("/v1", count);
  expect([plain.exitCode, plain.stdout, created]).toEqual([0, stdout, 0]);
  expect(plain.stderr).toMatch(/^Smoke test of .*\n {2}reports its build\n/);

  const create = await smoke(" --create", count);
  expect([create.exitCode, create.stdout, created > 0]).toEqual([0, stdout, true]);
  expect(create.stderr).toContain("  creates a pet once, with exact integers\n");
  expect(plain.stderr + create.stderr).not.toContain(key);
});

it("takes the key from standard input too, with the end of its line, but not from a terminal", async () => {
  fault = () => undefined;
  const run = (input: object) => runPetstore(`smoke ${petstore.origin}`, input);
  expect(await run({ piped: `${key}\n` })).toMatchObject({ exitCode: 0 });
  expect(await run({ piped: "pet_x" })).toMatchObject(failure(2, /^error: not an API key/));
  const problem = "error: no key: set PETSTORE_KEY, or write the key to standard input\n";
  for (const input of [{ piped: "" }, { stdin: `${key}\n` }])
    expect(await run(input)).toMatchObject({ exitCode: 2, stdout: "", stderr: problem });
});

const FIRST_PAGE = "/v1/pets?limit=2";
const LOGIN = { status: 302, headers: new Headers({ Location: "https://login.example" }) };
const THREE_PETS = `[${Array(3).fill('{"id":1,"categoryId":1}')}]`;

/** Changes the responses to a path, by default all of them. */
const at = (wanted: string, change: Change, isWrong = (_count: number) => true): Fault => {
  let count = 0;
  return (_, path) => {
    if (path !== wanted) return undefined;
    count += 1;
    return isWrong(count) && change;
  };
};
/** Changes the response to a creation. */
const ofCreation = (change: Fault): Fault => {
  return (answer, ...request) => answer.status === 201 && change(answer, ...request);
};
const replacing = (from: RegExp, to: () => string): Fault => {
  return ({ body }) => ({ body: body.replace(from, to) });
};
/** Replaces a header, or removes it. */
const withHeader = (name: string, value?: string): Fault => {
  return (answer) => {
    const headers = new Headers(answer.headers);
    headers.delete(name);
    if (value !== undefined) headers.set(name, value);
    return { headers };
  };
};
const newId = () => `"id":${Math.round(performance.now() * 1e3)}`;

it.each<[string, Fault, string]>([
  ["a lost connection", () => "none", "can't reach http:"],
  ["another interface version", at("/version", { body: "{}" }), "GET /version returned 200"],
  ["another document version", at("/openapi.json", { body: "{}" }), "GET /openapi.json returned 200"],
  ["a page that is not HTML", at("/", { body: "{}" }), "GET / returned 200"],
  ["a redirect", () => LOGIN, "returned 302, Location https://login.example: "],
  ["one failing list", at(FIRST_PAGE, { status: 500 }, (count) => count === 1), "limit=2 returned 500"],
  ["a list that is not an array", at(FIRST_PAGE, { body: "{}" }), "no valid response"],
  ["too many pets", at(FIRST_PAGE, { body: THREE_PETS }), "returned 3 pets"],
  ["a failing next page", (_, path) => path.includes("cursor=") && { status: 500 }, "returned 500, "],
  ["another pet", (_, path) => /pets\/\d+$/.test(path) && { body: "{}" }, 'pet": GET /v1/pets/'],
  ["missing authentication", ({ status }) => status === 401 && { status: 200 }, "; expected 401"],
  ["missing validation", ({ status }) => status === 400 && { status: 201 }, "; expected 400"],
  ["an error without a code", ({ status }) => status === 404 && { body: "{}" }, ": {}; expected not_found"],
  ["a missing header", withHeader(HEADER.rateLimitReset), "expected the header X-RateLimit-Reset"],
  ["uncounted requests", replacing(/"admitted":\d+/g, () => '"admitted":1'), "GET /v1/usage does not count"],
  ["rounded integers", replacing(/775807/, () => "775808"), '"categoryId":9223372036854775807'],
  ["a creation with another status", ofCreation(() => ({ status: 200 })), "POST /v1/pets returned 200 "],
  ["a wrong Location", ofCreation(withHeader("Location", "/v1/pets/0")), "GET /v1/pets/0 returned 404"],
  ["a POST that creates twice", ofCreation(replacing(/"id":\d+/, newId)), "; expected 201 {"],
  ["an unmarked repetition", ofCreation(withHeader(HEADER.idempotentReplayed)), "creation does not say so"],
])("fails on %s", async (_, changes, problem) => {
  const { exitCode, stdout, stderr } = await smoke(" --create", changes);
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/\nerror: smoke test failed: step "[^\n]+\n$/);
  expect(stderr).toContain(problem);
});

const loseOncePerPath = (): Fault => {
  const seen = new Set<string>();
  return (_, path) => {
    const isFirst = !seen.has(path);
    seen.add(path);
    return isFirst && "none";
  };
};
/** The first response about usage counts a lease if it comes soon after another request. */
const countLease = (): Fault => {
  let latestMs = 0;
  let isFirst = true;
  return ({ body }, path) => {
    if (path !== "/v1/usage") latestMs = Date.now();
    if (path !== "/v1/usage" || !isFirst) return undefined;
    isFirst = false;
    if (Date.now() - latestMs > 800) return undefined;
    const leased = (_: string, count: string) => `"admitted":${Number(count) + 1_000}`;
    return { body: body.replace(/"admitted":(\d+)(?=[^[]*\]\}$)/g, leased) };
  };
};

/** Runs the smoke test as a deployment does. Returns its error if it fails. */
function smokeTestAfterDeployment(changes: Fault): Promise<string | undefined> {
  fault = changes;
  const step: Io["step"] = (_, work) => work(() => {});
  const io = { note: () => {}, step };
  const isExpected = (build: string) => build === "development";
  return smokeTest(io, { origin: petstore.origin, key, create: true, isExpected }).then(
    () => undefined,
    ({ message }: Error) => message,
  );
}

const OTHER_BUILD = { body: '{"interface":"1.0.0","build":"previous"}' };

const inFirstTwo = (count: number) => count <= 2;

it.each([
  ["no response at first", at("/version", "none", inFirstTwo)],
  ["another server at first", at("/version", { body: "<html>soon</html>" }, inFirstTwo)],
  ["one lost connection per path", loseOncePerPath()],
  ["a lease that counts as used until it is released", countLease()],
])("after a deployment tolerates %s", async (_, changes) => {
  expect(await smokeTestAfterDeployment(changes)).toBeUndefined();
});

it("after a deployment waits until the expected build responds several times in a row", async () => {
  let last = 0;
  const isSecond = (count: number) => {
    last = count;
    return count === 2;
  };
  expect(await smokeTestAfterDeployment(at("/version", OTHER_BUILD, isSecond))).toBeUndefined();
  // Right, wrong, three in a row, and the last step.
  expect(last).toBe(6);
});

it("after a deployment fails if another build responds at the end", async () => {
  expect(await smokeTestAfterDeployment(at("/version", OTHER_BUILD, (count) => count > 3))).toBe(
    'smoke test failed: step "still reports that build": build previous responds, which is not the expected one',
  );
});
