// npm run smoke passes on the service, and fails on each fault that a proxy puts into the service's responses.

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type SmokeOptions, smokeTest } from "../../scripts/deploy/smoke-test.ts";
import { keys } from "../../scripts/keys.ts";
import { smoke } from "../../scripts/smoke.ts";
import { runInProcess } from "../support/e2e/in-process.ts";
import { emptyState, runScript, start, UNUSED_ORIGIN } from "../support/e2e/petstore.ts";

let service: Awaited<ReturnType<typeof start>> | undefined;
let remove: () => Promise<void>;
let origin: string;
let key: string;

beforeAll(async () => {
  const { state, remove: removeState } = await emptyState();
  remove = removeState;
  service = await start(state);
  origin = service.origin;
  // Each run takes up to 15 requests.
  const words = ["create", "--name", "smoke", "--plan", "business", "--json", "--persist-to", state];
  const made = await runInProcess("keys", keys, words);
  key = JSON.parse(made.stdout).key;
});

afterAll(async () => {
  for (const each of proxies) each.close();
  await service?.stop();
  await remove();
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

const proxies: Server[] = [];

/** Starts a proxy that changes the service's responses. Returns its origin. */
async function proxy(fault: Fault): Promise<string> {
  const server = createServer(async (request, response) => {
    const { method = "", url = "", headers } = request;
    const passed = without(headers as Record<string, string>, "host", "connection", "transfer-encoding");
    const body = method === "POST" ? await buffer(request) : null;
    const given = await fetch(origin + url, { method, headers: passed, body });
    const kept = without(
      Object.fromEntries(given.headers),
      "content-encoding",
      "transfer-encoding",
      "content-length",
    );
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

/** Runs the smoke test against the service behind a proxy. Returns its log, and its error if it fails. */
async function smokeTestWith(fault: Fault, options: Partial<SmokeOptions> = {}) {
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const origin = await proxy(fault);
  const error = await smokeTest({ origin, key, create: false, log, ...options }).then(
    () => undefined,
    ({ message }: Error) => message,
  );
  return { log: lines.join("\n"), error };
}

it("passes on the service, and creates a pet only with --create", async () => {
  const list = async () => {
    const response = await fetch(`${origin}/v1/pets?limit=100`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    return (await response.json()) as { name: string }[];
  };
  const before = await list();
  const run = (...args: string[]) => runScript("scripts/smoke.ts", args, { PETSTORE_KEY: key });
  const plain = await run(`${origin}/v1`);
  expect([plain.exitCode, plain.stderr]).toEqual([0, ""]);
  expect(plain.stdout).not.toContain("creates a pet");
  expect(await list()).toEqual(before);

  const create = await run(origin, "--create", "--build", "development");
  expect([create.exitCode, create.stderr]).toEqual([0, ""]);
  expect(create.stdout).toContain("ok: creates a pet once, with exact integers\n");
  expect((await list()).length).toBe(before.length + 1);
  expect(plain.stdout + create.stdout).not.toContain(key);
});

describe.concurrent("fails on", () => {
  const FIRST_PAGE = "/v1/pets?limit=2";
  it.each<[string, Fault, string]>([
    ["a failing list", (_, path) => path === FIRST_PAGE && { status: 500 }, "returned 500, expected 200"],
    [
      "another interface version",
      (_, path) => path === "/version" && { body: "{}" },
      "interface version is undefined",
    ],
    ["a page that is not HTML", (_, path) => path === "/" && { body: "{}" }, "GET / did not return HTML"],
    [
      "another document version",
      (_, path) => path === "/openapi.json" && { body: "{}" },
      "/openapi.json has version",
    ],
    [
      "a failing next page",
      (_, path) => path.includes("cursor=") && { status: 500 },
      "the next page returned 500",
    ],
    [
      "a redirect",
      () => ({ status: 302, headers: { location: "https://login.example" } }),
      "returned 302, expected 200, Location https://login.example",
    ],
    [
      "a list that is not an array",
      (_, path) => path === FIRST_PAGE && { body: "{}" },
      "did not return an array",
    ],
    ["too many pets", (_, path) => path === FIRST_PAGE && { body: "[1,2,3]" }, "an array of at most 2"],
    ["missing authentication", ({ status }) => status === 401 && { status: 200 }, "expected 401"],
    [
      "a missing WWW-Authenticate",
      ({ headers }) => ({ headers: without(headers, "www-authenticate") }),
      "has no WWW-Authenticate",
    ],
    ["an error without a code", ({ status }) => status === 404 && { body: "{}" }, "returned {}"],
    ["an HTML error", ({ status }) => status === 405 && { body: "<html>" }, 'the response is "<html>"'],
    [
      "an error without rate-limit headers",
      ({ status, headers }) => status === 400 && { headers: without(headers, "x-ratelimit-reset") },
      "has no X-RateLimit-Reset",
    ],
    ["missing validation", ({ status }) => status === 400 && { status: 201 }, "expected 400"],
    [
      "requests that are not counted",
      (_, path) => path === "/v1/usage" && { body: '{"days":[]}' },
      "GET /v1/usage does not count",
    ],
    [
      "rounded integers",
      ({ body }) => ({ body: body.replace("775807", "775808") }),
      "the pet was returned as",
    ],
    [
      "a wrong Location",
      (_, path) => /pets\/\d+$/.test(path) && { body: "{}" },
      "the pet at its Location is {}",
    ],
    [
      "a POST that is not idempotent",
      ({ body }, _, method) =>
        method === "POST" && { body: body.replace(/"id":\d+/, `"id":${performance.now()}`) },
      "the same Idempotency-Key got another response",
    ],
  ])("%s", async (_, fault, problem) => {
    const { error } = await smokeTestWith(fault, { create: true });
    expect(error).toMatch(/^step "/);
    expect(error).toContain(problem);
  });
});

describe.concurrent("with an expected build", () => {
  const OTHER_BUILD = { body: '{"interface":"1.0.0","build":"previous"}' };
  const WRONG_BUILD = "the build is previous, expected development";

  /** Expects the service's build, while a proxy changes the responses of GET /version whose number, from 1 on, is `wrong`. */
  async function expectBuild(
    wrong: (count: number) => boolean,
    change: Change = OTHER_BUILD,
    timeoutMs?: number,
  ) {
    let count = 0;
    const fault: Fault = (_, path) => {
      if (path !== "/version") return undefined;
      count += 1;
      return wrong(count) && change;
    };
    const outcome = await smokeTestWith(fault, { build: "development", timeoutMs });
    return { ...outcome, count };
  }

  it.each<[string, Change]>([
    ["another build responds", OTHER_BUILD],
    ["another server responds", { body: "<html>soon</html>" }],
    ["the path does not exist", { status: 404 }],
    ["there is no response", "none"],
  ])("waits while %s", async (_, change) => {
    const { error, log } = await expectBuild((count) => count <= 2, change);
    expect(error).toBeUndefined();
    expect(log).toContain("  waiting for development\n  ok: reports its build\n");
  });

  it("waits until the build responds several times in a row", async () => {
    const { error, count } = await expectBuild((number) => number === 2);
    expect(error).toBeUndefined();
    // Right, wrong, three in a row, and the last step.
    expect(count).toBe(6);
  });

  it("fails if the build does not respond in time", async () => {
    const { error } = await expectBuild(() => true, OTHER_BUILD, 1_000);
    expect(error).toBe(`step "reports its build": ${WRONG_BUILD}`);
  });

  it("fails if another build responds at the end", async () => {
    const { error } = await expectBuild((count) => count > 3);
    expect(error).toBe(`step "still reports that build": ${WRONG_BUILD}`);
  });
});

describe.concurrent("tolerates", () => {
  it("one lost connection per path", async () => {
    const seen = new Set<string>();
    const { error } = await smokeTestWith((_, path) => {
      if (seen.has(path)) return undefined;
      seen.add(path);
      return "none";
    });
    expect(error).toBeUndefined();
  });

  it("a lease that counts as used until it is released", async () => {
    let latestMs = 0;
    let reads = 0;
    const { error } = await smokeTestWith(({ body }, path) => {
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
  [[], "expected one URL"],
  [["localhost:8787"], "localhost:8787 is not the URL of a service"],
  [["http://localhost:9", "--key", "pet_x"], "not an API key"],
  [["http://localhost:9", "--new"], "Unknown option '--new'"],
  [["https://petstore.example/shop"], "is not the URL of a service"],
  [["http://localhost:9", "--within", "soon"], "--within must be a number of seconds"],
])("rejects the arguments %j in one line", async (args, problem) => {
  const { exitCode, stderr } = await runInProcess("smoke test", smoke, ["--key", key, ...args]);
  expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/^[^\n]+\n$/)]);
  expect(stderr).toContain(problem);
});

it("reports a service that can't be reached", async () => {
  const { stderr } = await runInProcess("smoke test", smoke, [UNUSED_ORIGIN, "--key", key]);
  expect(stderr).toMatch(/^smoke test failed: step "reports its build": can't reach http:.*: .*\n$/);
});
