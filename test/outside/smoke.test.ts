// The smoke test passes on the service, and notices what is wrong with one: here the service itself, behind a proxy that spoils
// one thing of its answers at a time.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
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

/** Puts a proxy before the service, until the end of the test. Returns its address. */
async function spoilt(spoil: (answer: Answer, path: string, method: string) => void): Promise<string> {
  const proxy = createServer(async (request, response) => {
    const { method = "", url = "", headers } = request;
    const { host: _host, connection: _connection, "transfer-encoding": _encoding, ...passed } = headers;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length === 0 ? null : Buffer.concat(chunks);
    const given = await fetch(origin + url, { method, headers: passed as Record<string, string>, body });
    const { "content-encoding": _, "transfer-encoding": __, ...kept } = Object.fromEntries(given.headers);
    const answer = { status: given.status, headers: kept, body: await given.text() };
    spoil(answer, url, method);
    delete answer.headers["content-length"];
    response.writeHead(answer.status, answer.headers).end(answer.body);
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  onTestFinished(() => void proxy.close());
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}

it("passes on the service as it is, wherever of it the address leads, and adds a pet if it is told to", async () => {
  const [plain, create] = await Promise.all([
    smoke(`${origin}/v1`),
    smoke(origin, "--create", "--build", "development"),
  ]);
  expect([plain.exitCode, plain.stderr, create.exitCode, create.stderr]).toEqual([0, "", 0, ""]);
  expect(plain.stdout).not.toContain("adds a pet");
  expect(create.stdout).toContain("it adds a pet once, to the last digit");
  const pets = await fetch(`${origin}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });
  expect((await pets.text()).match(/"name":"Smoke /g)).toHaveLength(1);
  expect(plain.stdout + create.stdout).not.toContain(key);
});

describe("notices", () => {
  const LIST = "/v1/pets?limit=2";
  it.each<[string, (answer: Answer, path: string, method: string) => void, string]>([
    [
      "a page that fails",
      (answer, path) => void (path === LIST && (answer.status = 500)),
      "answered 500 instead of 200",
    ],
    [
      "another interface",
      (answer, path) => void (path === "/version" && (answer.body = "{}")),
      "it has version undefined",
    ],
    ["no page for people", (answer, path) => void (path === "/" && (answer.body = "{}")), "GET / is no page"],
    [
      "another document",
      (answer, path) => void (path === "/openapi.json" && (answer.body = "{}")),
      "the document is that of",
    ],
    ["a list that is none", (answer, path) => void (path === LIST && (answer.body = "{}")), "gives no array"],
    ["too many pets", (answer, path) => void (path === LIST && (answer.body = "[1,2,3]")), "gives no array"],
    [
      "a service without keys",
      (answer) => void (answer.status === 401 && (answer.status = 200)),
      "instead of 401",
    ],
    [
      "no word on how to send a key",
      ({ headers }) => void delete headers["www-authenticate"],
      "how to send one",
    ],
    [
      "an error of another form",
      (answer) => void (answer.status === 404 && (answer.body = "{}")),
      "was answered {}",
    ],
    [
      "an error that is a page",
      (answer) => void (answer.status === 405 && (answer.body = "<html>")),
      'answers with "<html>"',
    ],
    [
      "no limits in an error",
      ({ headers, status }) => void (status === 400 && delete headers["x-ratelimit-reset"]),
      "has no X-RateLimit-Reset",
    ],
    [
      "a body that is not checked",
      (answer) => void (answer.status === 400 && (answer.status = 201)),
      "instead of 400",
    ],
    [
      "requests that are not counted",
      (answer, path) => void (path === "/v1/usage" && (answer.body = '{"days":[]}')),
      "is not in GET /v1/usage",
    ],
    [
      "digits that are lost",
      (answer) => void (answer.body = answer.body.replace("9223372036854775807", "9223372036854775808")),
      "the pet came back as",
    ],
    [
      "a pet that is not where it should be",
      (answer, path) => void (/pets\/\d+$/.test(path) && (answer.body = "{}")),
      "the pet at its Location is {}",
    ],
  ])("%s", async (_, spoil, problem) => {
    const { exitCode, stderr } = await smoke(await spoilt(spoil), "--create");
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/^the smoke test failed: at the step "it [^\n]+\n$/),
    ]);
    expect(stderr).toContain(problem);
  });

  it("a creation that is done twice", async () => {
    let creations = 0;
    const url = await spoilt((answer, _path, method) => {
      if (method === "POST" && answer.status === 201)
        answer.body = answer.body.replace(/"id":\d+/, `"id":${(creations += 1)}`);
    });
    expect((await smoke(url, "--create")).stderr).toContain("sent again, was answered otherwise");
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
