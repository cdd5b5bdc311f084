// npm run smoke passes on the service, and fails on each fault that a proxy puts into the service's responses.

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type SmokeOptions, smokeTest } from "../../scripts/deploy/smoke-test.ts";
import smokeCommand from "../../scripts/smoke.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { UNUSED_ORIGIN } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

const petstore = sharedPetstore();
const proxies: Server[] = [];
let key: string;

beforeAll(async () => {
  // Each run takes up to 15 requests.
  ({ key } = await petstore.newKey("business"));
});

afterAll(() => {
  for (const each of proxies) each.close();
});

/** Header names are in lower case. */
interface Answer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** A change of a response; "none" cuts the connection. */
type Change = Partial<Answer> | "none" | undefined | false;
type Fault = (answer: Answer, path: string, method: string) => Change;

/** Starts a proxy that changes the service's responses. Returns its origin. */
async function proxy(fault: Fault): Promise<string> {
  const server = createServer(async (request, response) => {
    const { method = "", url = "", headers } = request;
    const passed = without(headers as Record<string, string>, "host", "connection", "transfer-encoding");
    const body = method === "POST" ? await buffer(request) : null;
    const given = await fetch(petstore.origin + url, { method, headers: passed, body });
    const ofConnection = ["content-encoding", "transfer-encoding", "content-length"];
    const kept = without(Object.fromEntries(given.headers), ...ofConnection);
    const answer = { status: given.status, headers: kept, body: await given.text() };
    const change = fault(answer, url, method);
    if (change === "none") return void request.socket.destroy();
    const changed = { ...answer, ...change };
    response.writeHead(changed.status, changed.headers).end(changed.body);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  proxies.push(server);
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function without(headers: Record<string, string>, ...names: string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
}

/** Runs the smoke test against the service behind a proxy. Returns its error if it fails. */
async function smokeTestWith(fault: Fault, options: Partial<SmokeOptions> = {}): Promise<string | undefined> {
  const io = { note: () => {}, step: <Result>(_: string, work: () => Promise<Result>) => work() };
  const origin = await proxy(fault);
  return smokeTest(io, { origin, key, create: false, ...options }).then(
    () => undefined,
    ({ message }: Error) => message,
  );
}

/** Runs `npm run smoke -- ARGUMENTS`, with the key in the environment. */
function smoke(...args: string[]) {
  return runCommandInProcess(smokeCommand, args, { env: { PETSTORE_KEY: key } });
}

it("passes on the service, and creates a pet only with --create", async () => {
  const { origin } = petstore;
  const list = async () => (await (await petstore.call("/v1/pets?limit=100", key)).json()) as unknown[];
  const before = await list();
  const plain = await smoke(`${origin}/v1`);
  expect([plain.exitCode, plain.stdout]).toEqual([0, `${origin} passes the smoke test.\n`]);
  expect(plain.stderr).toMatch(/^Smoke test of .*\n {2}reports its build\n/);
  expect(plain.stderr).not.toContain("creates a pet");
  expect(await list()).toEqual(before);

  const create = await smoke(origin, "--create");
  expect([create.exitCode, create.stdout]).toEqual([0, plain.stdout]);
  expect(create.stderr).toContain("  creates a pet once, with exact integers\n");
  expect((await list()).length).toBe(before.length + 1);
  expect(plain.stderr + create.stderr).not.toContain(key);
});

describe.concurrent("fails on", () => {
  const FIRST_PAGE = "/v1/pets?limit=2";
  const RESET = "x-ratelimit-reset";
  const login = { status: 302, headers: { location: "https://login.example" } };
  const at = (wanted: string, change: Change) => ((_, path) => path === wanted && change) satisfies Fault;
  const having = (wanted: number, change: Change) =>
    (({ status }) => status === wanted && change) satisfies Fault;
  const replacing = (from: RegExp, to: () => string) =>
    (({ body }) => ({ body: body.replace(from, to) })) satisfies Fault;

  it.each<[string, Fault, string]>([
    ["another interface version", at("/version", { body: "{}" }), "GET /version returned 200"],
    ["another document version", at("/openapi.json", { body: "{}" }), "GET /openapi.json returned 200"],
    ["a page that is not HTML", at("/", { body: "{}" }), "GET / returned 200"],
    ["a redirect", () => login, "returned 302, Location https://login.example: "],
    ["a failing list", at(FIRST_PAGE, { status: 500 }), "GET /v1/pets?limit=2 returned 500"],
    ["a list that is not an array", at(FIRST_PAGE, { body: "{}" }), "did not return an array"],
    ["a list that is not JSON", at(FIRST_PAGE, { body: "<html>" }), "is not valid JSON"],
    ["too many pets", at(FIRST_PAGE, { body: "[1,2,3]" }), "an array of at most 2"],
    ["a failing next page", (_, path) => path.includes("cursor=") && { status: 500 }, "returned 500, "],
    ["missing authentication", having(401, { status: 200 }), "; expected 401"],
    ["missing validation", having(400, { status: 201 }), "; expected 400"],
    ["an error without a code", having(404, { body: "{}" }), ": {}; expected not_found"],
    ["a missing header", ({ headers }) => ({ headers: without(headers, RESET) }), "header X-RateLimit-Reset"],
    [
      "uncounted requests",
      replacing(/"admitted":\d+/g, () => '"admitted":1'),
      "GET /v1/usage does not count",
    ],
    ["rounded integers", replacing(/775807/, () => "775808"), '; expected "categoryId":'],
    ["a wrong Location", (_, path) => /pets\/\d+$/.test(path) && { body: "{}" }, ": {}; expected {"],
    [
      "a POST that creates twice",
      replacing(/"id":\d+/, () => `"id":${performance.now()}`),
      "POST /v1/pets returned 201",
    ],
  ])("%s", async (_, fault, problem) => {
    const error = await smokeTestWith(fault, { create: true });
    expect(error).toMatch(/^smoke test failed: step "/);
    expect(error).toContain(problem);
  });
});

describe.concurrent("with an expected build", () => {
  const OTHER_BUILD = { body: '{"interface":"1.0.0","build":"previous"}' };

  /** Expects the service's build. Changes the responses of GET /version whose number, from 1 on, is `wrong`, and counts all. */
  async function expectBuild(wrong: (count: number) => boolean, change: Change = OTHER_BUILD) {
    let count = 0;
    const fault: Fault = (_, path) => {
      if (path !== "/version") return undefined;
      count += 1;
      return wrong(count) && change;
    };
    const error = await smokeTestWith(fault, { isExpected: (build) => build === "development" });
    return { error, count };
  }

  it.each<[string, Change]>([
    ["another build responds", OTHER_BUILD],
    ["another server responds", { body: "<html>soon</html>" }],
    ["there is no response", "none"],
  ])("waits while %s", async (_, change) => {
    expect((await expectBuild((count) => count <= 2, change)).error).toBeUndefined();
  });

  it("waits until the build responds several times in a row", async () => {
    // Right, wrong, three in a row, and the last step.
    expect(await expectBuild((count) => count === 2)).toEqual({ error: undefined, count: 6 });
  });

  it("fails if another build responds at the end", async () => {
    const problem = "build previous responds, which is not the expected one";
    const error = `smoke test failed: step "still reports that build": ${problem}`;
    expect(await expectBuild((count) => count > 3)).toMatchObject({ error });
  });
});

describe.concurrent("tolerates", () => {
  it("one lost connection per path", async () => {
    const seen = new Set<string>();
    const error = await smokeTestWith((_, path) => {
      if (seen.has(path)) return undefined;
      seen.add(path);
      return "none";
    });
    expect(error).toBeUndefined();
  });

  it("a lease that counts as used until it is released", async () => {
    let latestMs = 0;
    let reads = 0;
    const error = await smokeTestWith(({ body }, path) => {
      if (path === "/v1/usage") reads += 1;
      else latestMs = performance.now();
      if (path !== "/v1/usage" || reads > 1 || performance.now() - latestMs > 800) return undefined;
      const leased = (_: string, count: string) => `"admitted":${Number(count) + 1_000}`;
      return { body: body.replace(/"admitted":(\d+)(?=[^[]*\]\}$)/g, leased) };
    });
    expect(error).toBeUndefined();
  });
});

it.each([
  [[], "missing required argument 'url'"],
  [["http://localhost:9", "http://localhost:9"], "too many arguments"],
  [["localhost:8787"], "It must be the URL of a service"],
  [["https://petstore.example/shop"], "It must be the URL of a service"],
  [["http://localhost:9", "--key", "pet_x"], "not an API key"],
])("rejects the arguments %j in one line", async (args, problem) => {
  const { exitCode, stdout, stderr } = await smoke(...args);
  expect([exitCode, stdout, stderr]).toEqual([2, "", expect.stringMatching(/^error: [^\n]+\n$/)]);
  expect(stderr).toContain(problem);
});

it("rejects a call without a key", async () => {
  const stderr = "error: no key: npm run smoke -- URL --key KEY, or set PETSTORE_KEY\n";
  const outcome = { exitCode: 2, stdout: "", stderr };
  expect(await runCommandInProcess(smokeCommand, [UNUSED_ORIGIN])).toEqual(outcome);
});

it("reports a service that can't be reached", async () => {
  const { exitCode, stderr } = await smoke(UNUSED_ORIGIN);
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/\nerror: smoke test failed: step "reports its build": can't reach http:.*: .*\n$/);
});
