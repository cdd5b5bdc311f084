// The smoke test passes on the service, and notices what is wrong with one: here the service itself, behind a proxy that spoils
// one thing of its answers at a time.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { keys } from "../../scripts/keys.ts";
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
  // Each run uses up 15 requests.
  const words = ["create", "--name", "smoke", "--plan", "business", "--json", "--persist-to", state];
  const made = await runInProcess("keys", keys, words);
  key = JSON.parse(made.stdout).key;
});

afterAll(async () => {
  await service?.stop();
  await remove();
});

function smoke(...words: string[]) {
  return runScript("scripts/smoke.ts", words, { PETSTORE_KEY: key });
}

/** An answer of the service, to be spoilt. Header names are in lower case. */
interface Answer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** What is changed of an answer, or whether there is none at all. */
type Change = Partial<Answer> | "none" | undefined | false;
type Spoil = (answer: Answer, path: string, method: string) => Change;

/** Puts a proxy before the service that changes its answers, until the end of the test. Returns its address. */
async function spoilt(spoil: Spoil): Promise<string> {
  const proxy = createServer(async (request, response) => {
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
    const change = spoil(answer, url, method);
    if (change === "none") return void request.socket.destroy();
    const changed = { ...answer, ...change };
    response.writeHead(changed.status, changed.headers).end(changed.body);
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  onTestFinished(() => void proxy.close());
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}

function without(headers: Record<string, string>, ...names: string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
}

it("passes on the service as it is, and changes nothing, whatever of its address is given", async () => {
  const list = async () => {
    const response = await fetch(`${origin}/v1/pets?limit=100`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    return (await response.json()) as { name: string }[];
  };
  const before = await list();
  const plain = await smoke(`${origin}/v1`);
  expect([plain.exitCode, plain.stderr]).toEqual([0, ""]);
  expect(plain.stdout).not.toContain("adds a pet");
  expect(await list()).toEqual(before);

  const create = await smoke(origin, "--create", "--build", "development");
  expect([create.exitCode, create.stderr]).toEqual([0, ""]);
  expect(create.stdout).toContain("it adds a pet once, to the last digit\n");
  expect((await list()).length).toBe(before.length + 1);
  expect(plain.stdout + create.stdout).not.toContain(key);
});

describe("notices", () => {
  const FIRST_PAGE = "/v1/pets?limit=2";
  it.each<[string, Spoil, string]>([
    ["a page that fails", (_, path) => path === FIRST_PAGE && { status: 500 }, "answered 500 instead of 200"],
    ["another interface", (_, path) => path === "/version" && { body: "{}" }, "it has version undefined"],
    ["no page for people", (_, path) => path === "/" && { body: "{}" }, "GET / is no page"],
    ["another document", (_, path) => path === "/openapi.json" && { body: "{}" }, "the document is that of"],
    [
      "a next page that fails",
      (_, path) => path.includes("cursor=") && { status: 500 },
      "the next page was answered 500",
    ],
    [
      "a way elsewhere",
      () => ({ status: 302, headers: { location: "https://login.example" } }),
      "answered 302 instead of 200, to https://login.example",
    ],
    ["a list that is none", (_, path) => path === FIRST_PAGE && { body: "{}" }, "gives no array"],
    ["too many pets", (_, path) => path === FIRST_PAGE && { body: "[1,2,3]" }, "gives no array"],
    ["a service without keys", ({ status }) => status === 401 && { status: 200 }, "instead of 401"],
    [
      "no word on how to send a key",
      ({ headers }) => ({ headers: without(headers, "www-authenticate") }),
      "how to send one",
    ],
    ["an error of another form", ({ status }) => status === 404 && { body: "{}" }, "was answered {}"],
    [
      "an error that is a page",
      ({ status }) => status === 405 && { body: "<html>" },
      'answers with "<html>"',
    ],
    [
      "no limits in an error",
      ({ status, headers }) => status === 400 && { headers: without(headers, "x-ratelimit-reset") },
      "has no X-RateLimit-Reset",
    ],
    ["a body that is not checked", ({ status }) => status === 400 && { status: 201 }, "instead of 400"],
    [
      "requests that are not counted",
      (_, path) => path === "/v1/usage" && { body: '{"days":[]}' },
      "is not in GET /v1/usage",
    ],
    [
      "digits that are lost",
      ({ body }) => ({ body: body.replace("775807", "775808") }),
      "the pet came back as",
    ],
    [
      "a pet that is not where it should be",
      (_, path) => /pets\/\d+$/.test(path) && { body: "{}" },
      "the pet at its Location is {}",
    ],
    [
      "a creation that is done twice",
      ({ body }, _, method) =>
        method === "POST" && { body: body.replace(/"id":\d+/, `"id":${performance.now()}`) },
      "sent again, was answered otherwise",
    ],
  ])("%s", async (_, spoil, problem) => {
    const { exitCode, stderr } = await smoke(await spoilt(spoil), "--create");
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/^the smoke test failed: at the step "it [^\n]+\n$/),
    ]);
    expect(stderr).toContain(problem);
  });
});

describe("waits", () => {
  /** The build that answers after so many looks; the one before says that it is another. */
  const beginningWith = (
    looks: number,
    before: Change = { body: '{"interface":"1.0.0","build":"before"}' },
  ): Spoil => {
    let looked = 0;
    return (_, path) => {
      if (path !== "/version") return undefined;
      looked += 1;
      return looked <= looks && before;
    };
  };

  it.each<[string, Change]>([
    ["another build answers", { body: '{"interface":"1.0.0","build":"before"}' }],
    ["somebody else answers", { body: "<html>soon</html>" }],
    ["nothing is there", { status: 404 }],
    ["nobody answers", "none"],
  ])("as long as %s", async (_, before) => {
    const url = await spoilt(beginningWith(2, before));
    const { exitCode, stdout, stderr } = await smoke(url, "--build", "development");
    expect([exitCode, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("  waiting until development answers\n  it says which build it is\n");
  });

  it("until the build answers several times in a row", async () => {
    let looked = 0;
    const url = await spoilt((_, path) => {
      if (path === "/version") looked += 1;
      return path === "/version" && looked === 2 && { body: '{"interface":"1.0.0","build":"before"}' };
    });
    expect((await smoke(url, "--build", "development")).exitCode).toBe(0);
    // One, another, three in a row, and once more in the end.
    expect(looked).toBe(6);
  });

  it("not for ever", async () => {
    const { stderr } = await smoke(
      await spoilt(beginningWith(1_000)),
      "--build",
      "development",
      "--within",
      "1",
    );
    expect(stderr).toContain(
      'at the step "it says which build it is": what answers is before, not development\n',
    );
  });

  it("for a build that is there to the end", async () => {
    let looked = 0;
    const url = await spoilt((_, path) => {
      if (path === "/version") looked += 1;
      return path === "/version" && looked > 3 && { body: '{"interface":"1.0.0","build":"before"}' };
    });
    const { stderr } = await smoke(url, "--build", "development");
    expect(stderr).toContain(
      'at the step "it is still that build": what answers is before, not development\n',
    );
  });
});

describe("takes no offence", () => {
  it("at a connection that is lost once", async () => {
    const met = new Set<string>();
    const url = await spoilt((_, path) => {
      if (met.has(path)) return undefined;
      met.add(path);
      return "none";
    });
    expect(await smoke(url, "--create")).toMatchObject({ exitCode: 0, stderr: "" });
  });

  it("at what another isolate has leased for quick requests, and gives back", async () => {
    let latestMs = 0;
    const url = await spoilt((answer, path) => {
      const nowMs = performance.now();
      const isLeased = nowMs - latestMs < 800;
      if (!path.startsWith("/v1/usage")) latestMs = nowMs;
      if (path !== "/v1/usage" || !isLeased) return undefined;
      return {
        body: answer.body.replace(
          /"admitted":(\d+)(?=[^[]*\]\}$)/g,
          (_, count) => `"admitted":${Number(count) + 20}`,
        ),
      };
    });
    expect(await smoke(url)).toMatchObject({ exitCode: 0, stderr: "" });
  });
});

it.each([
  [[], "name one address"],
  [["localhost:8787"], "localhost:8787 is no address"],
  [["http://localhost:9", "--key", "pet_x"], "that is no key"],
  [["http://localhost:9", "--new"], "and nothing else"],
  [["https://petstore.example/shop"], "is no address of the service"],
  [["http://localhost:9", "--within", "soon"], "--within must be a number of seconds"],
])("a wrong use is told in one line: %j", async (words, problem) => {
  const { exitCode, stderr } = await smoke(...words);
  expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/^[^\n]+\n$/)]);
  expect(stderr).toContain(problem);
});

it("says that a service is not there", async () => {
  const { stderr } = await smoke(UNUSED_ORIGIN);
  expect(stderr).toMatch(
    /^the smoke test failed: at the step "it says which build it is": .* can't be reached: .*\n$/,
  );
});
