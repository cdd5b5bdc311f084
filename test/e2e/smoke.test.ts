// npx petstore smoke passes on the service, and fails on each fault in the service's responses.

import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type SmokeOptions, smokeTest } from "../../scripts/deploy/smoke-test.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { UNUSED_ORIGIN } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

type Answer = { status: number; headers: Headers; body: string };

/** A change of a response; "none" for a lost connection. */
type Change = Partial<Answer> | "none" | undefined | false;
type Fault = (answer: Answer, path: string, method: string) => Change;

const petstore = sharedPetstore();
let key: string;

/** By origin: each leads to the service, whose responses the fault changes. */
const faults = new Map<string, Fault>();

beforeAll(async () => {
  ({ key } = await petstore.newKey("business"));
  const pet = { method: "POST", headers: { "Content-Type": "application/json" } };
  // So many that there is a second page.
  for (const name of ["Kit", "Rex", "Zoë"])
    await petstore.call("/v1/pets", key, { ...pet, body: `{"name":"${name}","categoryId":1}` });
  const { fetch } = globalThis;
  vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => {
    const { origin, pathname, search } = new URL(url);
    const fault = faults.get(origin);
    if (fault === undefined) return fetch(url, init);
    const response = await fetch(petstore.origin + pathname + search, init);
    const answer = { status: response.status, headers: response.headers, body: await response.text() };
    const change = fault(answer, pathname + search, init?.method ?? "GET");
    if (change === "none") throw new TypeError("the connection is lost");
    const { body, ...rest } = { ...answer, ...change };
    return new Response(body, rest);
  });
});

afterAll(() => {
  vi.unstubAllGlobals();
});

/** Returns an origin that leads to the service with a fault. */
function originWith(fault: Fault): string {
  const origin = `http://${faults.size}.localhost`;
  faults.set(origin, fault);
  return origin;
}

/** Runs the smoke test on the service with a fault. Returns its error if it fails. */
function smokeTestWith(fault: Fault, options: Partial<SmokeOptions> = {}): Promise<string | undefined> {
  const io = { note: () => {}, step: <Result>(_: string, work: () => Promise<Result>) => work() };
  return smokeTest(io, { origin: originWith(fault), key, create: true, ...options }).then(
    () => undefined,
    ({ message }: Error) => message,
  );
}

const AFTER_DEPLOYMENT = { isExpected: (build: string) => build === "development" };

/** Runs `npx petstore smoke ARGUMENTS`, with the key in the environment. */
function smoke(...args: string[]) {
  return runPetstore(["smoke", ...args], { env: { PETSTORE_KEY: key } });
}

it("passes on the service, and changes something only with --create", async () => {
  let changes = 0;
  const origin = originWith(({ status }, _, method) => {
    if (method !== "GET" && status < 300) changes += 1;
    return undefined;
  });
  const stdout = `${origin} passes the smoke test.\n`;
  const plain = await smoke(`${origin}/v1`);
  expect([plain.exitCode, plain.stdout, changes]).toEqual([0, stdout, 0]);
  expect(plain.stderr).toMatch(/^Smoke test of .*\n {2}reports its build\n/);

  const create = await smoke(origin, "--create");
  // The second is a retry.
  expect([create.exitCode, create.stdout, changes]).toEqual([0, stdout, 2]);
  expect(create.stderr).toContain("  creates a pet once, with exact integers\n");
  expect(plain.stderr + create.stderr).not.toContain(key);
});

const FIRST_PAGE = "/v1/pets?limit=2";
const LOGIN = { status: 302, headers: new Headers({ Location: "https://login.example" }) };
const OTHER_BUILD = { body: '{"interface":"1.0.0","build":"previous"}' };

/** Changes the responses to a path, by default all of them. */
const at = (wanted: string, change: Change, isWrong = (_count: number) => true): Fault => {
  let count = 0;
  return (_, path) => {
    if (path !== wanted) return undefined;
    count += 1;
    return isWrong(count) && change;
  };
};
/** Changes the responses with a status. */
const having = (wanted: number, change: Change | Fault): Fault => {
  return (answer, path, method) => {
    if (answer.status !== wanted) return undefined;
    return typeof change === "function" ? change(answer, path, method) : change;
  };
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
const isFirst = (count: number) => count === 1;
const inFirstTwo = (count: number) => count <= 2;
const THREE_PETS = `[${Array(3).fill('{"id":1,"categoryId":1}')}]`;

it.concurrent.each<[string, Fault, string]>([
  ["another interface version", at("/version", { body: "{}" }), "GET /version returned 200"],
  ["another document version", at("/openapi.json", { body: "{}" }), "GET /openapi.json returned 200"],
  ["a page that is not HTML", at("/", { body: "{}" }), "GET / returned 200"],
  ["a redirect", () => LOGIN, "returned 302, Location https://login.example: "],
  ["one failing list", at(FIRST_PAGE, { status: 500 }, isFirst), "GET /v1/pets?limit=2 returned 500"],
  ["a list that is not an array", at(FIRST_PAGE, { body: "{}" }), "no valid response"],
  ["too many pets", at(FIRST_PAGE, { body: THREE_PETS }), "returned 3 pets"],
  ["a failing next page", (_, path) => path.includes("cursor=") && { status: 500 }, "returned 500, "],
  ["another pet", (_, path) => /pets\/\d+$/.test(path) && { body: "{}" }, 'pet": GET /v1/pets/'],
  ["missing authentication", having(401, { status: 200 }), "; expected 401"],
  ["missing validation", having(400, { status: 201 }), "; expected 400"],
  ["an error without a code", having(404, { body: "{}" }), ": {}; expected not_found"],
  ["a missing header", withHeader(HEADER.rateLimitReset), "expected the header X-RateLimit-Reset"],
  ["uncounted requests", replacing(/"admitted":\d+/g, () => '"admitted":1'), "GET /v1/usage does not count"],
  ["rounded integers", replacing(/775807/, () => "775808"), '"categoryId":9223372036854775807'],
  ["a wrong Location", having(201, withHeader("Location", "/v1/pets/0")), "GET /v1/pets/0 returned 404"],
  ["a POST that creates twice", having(201, replacing(/"id":\d+/, newId)), "POST /v1/pets returned 201"],
])("fails on %s", async (_, fault, problem) => {
  const error = await smokeTestWith(fault);
  expect(error).toMatch(/^smoke test failed: step "/);
  expect(error).toContain(problem);
});

const loseOncePerPath = (): Fault => {
  const seen = new Set<string>();
  return (_, path) => {
    if (seen.has(path)) return undefined;
    seen.add(path);
    return "none";
  };
};
/** The first response about usage counts a lease if it comes soon after another request. */
const countLease = (): Fault => {
  let latestMs = 0;
  let reads = 0;
  return ({ body }, path) => {
    if (path === "/v1/usage") reads += 1;
    else latestMs = performance.now();
    if (path !== "/v1/usage" || reads > 1 || performance.now() - latestMs > 800) return undefined;
    const leased = (_: string, count: string) => `"admitted":${Number(count) + 1_000}`;
    return { body: body.replace(/"admitted":(\d+)(?=[^[]*\]\}$)/g, leased) };
  };
};

it.concurrent.each([
  ["another build at first", at("/version", OTHER_BUILD, inFirstTwo)],
  ["another server at first", at("/version", { body: "<html>soon</html>" }, inFirstTwo)],
  ["no response at first", at("/version", "none", inFirstTwo)],
  ["one lost connection per path", loseOncePerPath()],
  ["a lease that counts as used until it is released", countLease()],
])("tolerates %s", async (_, fault) => {
  expect(await smokeTestWith(fault, AFTER_DEPLOYMENT)).toBeUndefined();
});

it.concurrent("waits until the expected build responds several times in a row", async () => {
  let last = 0;
  const isSecond = (count: number) => {
    last = count;
    return count === 2;
  };
  expect(await smokeTestWith(at("/version", OTHER_BUILD, isSecond), AFTER_DEPLOYMENT)).toBeUndefined();
  // Right, wrong, three in a row, and the last step.
  expect(last).toBe(6);
});

it.concurrent("fails if another build responds at the end", async () => {
  const fault = at("/version", OTHER_BUILD, (count) => count > 3);
  expect(await smokeTestWith(fault, AFTER_DEPLOYMENT)).toBe(
    'smoke test failed: step "still reports that build": build previous responds, which is not the expected one',
  );
});

it("reports a service that can't be reached", async () => {
  const { exitCode, stderr } = await smoke(UNUSED_ORIGIN);
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/\nerror: smoke test failed: step "reports its build": can't reach http:.*: .*\n$/);
});
