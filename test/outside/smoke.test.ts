// The smoke test passes on the service, and notices what is wrong with one: here the service itself, behind a proxy that spoils
// one thing of its answers at a time.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { emptyState, freePort, keys, runScript, start } from "./petstore.ts";

let service: Awaited<ReturnType<typeof start>> | undefined;
let remove: () => Promise<void>;
let origin: string;
let key: string;

beforeAll(async () => {
  const { state, remove: removeState } = await emptyState();
  remove = removeState;
  const port = await freePort();
  service = await start(state, port);
  origin = `http://localhost:${port}`;
  // Each run uses up 15 requests.
  const made = await keys("create", "--name", "smoke", "--plan", "business", "--json", "--persist-to", state);
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

type Spoil = (answer: Answer, path: string, method: string) => Partial<Answer> | undefined | false;

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
    const changed = { ...answer, ...spoil(answer, url, method) };
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

it.each([
  [[], "name one address"],
  [["localhost:8787"], "localhost:8787 is no address"],
  [["http://localhost:9", "--key", "pet_x"], "that is no key"],
  [["http://localhost:9", "--new"], "and nothing else"],
])("a wrong use is told in one line: %j", async (words, problem) => {
  const { exitCode, stderr } = await smoke(...words);
  expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/^[^\n]+\n$/)]);
  expect(stderr).toContain(problem);
});

it("says that a service is not there", async () => {
  const { stderr } = await smoke(`http://localhost:${await freePort()}`);
  expect(stderr).toMatch(
    /^the smoke test failed: at the step "it says which build it is": .* can't be reached: .*\n$/,
  );
});
