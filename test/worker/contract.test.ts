// Decisions that fill gaps of the contract. test/e2e/fuzz.test.ts creates and reads pets, and tries methods and paths; refused input is in
// bad-input.test.ts, lists are in pages.test.ts, keys in keys.test.ts, rate-limit headers in test/unit/windows.test.ts. For all tests,
// every response is validated against the document.

import { beforeEach, expect, it, vi } from "vitest";
import { app } from "../../src/app.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { methodsOf } from "../../src/http/operations.ts";
import { withChecksum } from "../../src/keys/secret.ts";
import {
  type Client,
  countPets,
  exhaust,
  fetchWithoutKey,
  newAddress,
  newClient,
  ORIGIN,
  REX,
} from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

let client: Client;

beforeEach(async () => {
  client = await newClient();
});

it("getPet announces its removal, and gets 410 from the first millisecond of 5 December 2030", async () => {
  const sunsetMs = Date.UTC(2030, 11, 5);
  vi.setSystemTime(sunsetMs - 1);
  const { id } = await client.create();
  const statusOf = async (petId: number | string) => {
    const { status, headers } = await client.get(`/v1/pets/${petId}`);
    expect(headers.get(HEADER.deprecation)).toBe("@1795046400");
    expect(headers.get(HEADER.sunset)).toBe("Thu, 05 Dec 2030 00:00:00 GMT");
    expect(headers.get("Link")).toBe(
      `<${ORIGIN}/v1/pets>; rel="successor-version", <${ORIGIN}/>; rel="deprecation"; type="text/html"`,
    );
    return status;
  };
  expect([await statusOf(id), await statusOf(999_999_999)]).toEqual([200, 404]);

  vi.setSystemTime(sunsetMs);
  expect([await statusOf(id), await statusOf("abc")]).toEqual([410, 410]);
  expect((await client.get("/v1/pets")).status).toBe(200);
});

it("HEAD returns the status and headers of GET without a body", async () => {
  const { id } = await client.create();
  const { rateLimit, rateLimitRemaining, requestId } = HEADER;
  const varying = [rateLimit, rateLimitRemaining, requestId].map((name) => name.toLowerCase());
  const stable = ({ headers }: Response) => [...headers].filter(([name]) => !varying.includes(name));
  for (const path of ["/v1/pets?limit=1", `/v1/pets/${id}`, "/v1/store", "/v1/pets?limit=x"]) {
    const [get, head] = [await client.get(path), await client.call(path, { method: "HEAD" })];
    expect([head.status, await head.text()]).toEqual([get.status, ""]);
    expect(stable(head)).toEqual(stable(get));
  }
});

it("checks the rate limit before path, method and input", async () => {
  const limited = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 } });
  await limited.get("/v1/pets");
  const before = await countPets();
  const refused = [
    await limited.get("/v1/nowhere"),
    await limited.call("/v1/pets", { method: "DELETE" }),
    await limited.post("{"),
    await limited.post(REX),
  ];
  expect(refused.map(({ status }) => status)).toEqual([429, 429, 429, 429]);
  expect(await countPets()).toBe(before);
});

const PREFLIGHT = { Origin: "http://shop.example", "Access-Control-Request-Method": "POST" };

it("CORS: a preflight needs no key, also when its address has no requests left", async () => {
  const address = newAddress();
  await exhaust(address);
  const requested = { "Access-Control-Request-Headers": "authorization,content-type" };
  const { status, headers } = await fetchWithoutKey("/v1/pets", {
    method: "OPTIONS",
    headers: { ...PREFLIGHT, ...requested, "CF-Connecting-IP": address },
  });
  expect([status, headers.get(HEADER.rateLimitRemaining)]).toEqual([204, "0"]);
  expect(Object.fromEntries(headers)).toMatchObject({
    "access-control-allow-origin": "*",
    "access-control-allow-headers": "authorization,content-type",
    "access-control-allow-methods": methodsOf().join(", "),
    "access-control-max-age": "7200",
    vary: "Access-Control-Request-Headers",
  });
  expect(headers.has("Access-Control-Allow-Credentials") || headers.has(HEADER.retryAfter)).toBe(false);
});

it("CORS: an OPTIONS request that is not a preflight needs a key", async () => {
  const { Origin, ...withoutOrigin } = PREFLIGHT;
  for (const headers of [{}, { Origin }, withoutOrigin])
    expect((await fetchWithoutKey("/v1/pets", { method: "OPTIONS", headers })).status).toBe(401);
});

const OTHERS = ["localhost.example", "notlocalhost", "127.0.0.1.example", "128.0.0.1", "[::2]:8787"];
const LOOPBACK = ["localhost", "pets.localhost:8787", "127.0.0.1:8787", "127.1.2.3", "[::1]:8787"];

it.each<[string, number, path?: string]>([
  ["petstore.example", 400, "/v1/nowhere?url=http://a.localhost/"],
  ...OTHERS.map((host): [string, number] => [host, 400]),
  ...LOOPBACK.map((host): [string, number] => [host, 200]),
])("Plain HTTP is allowed on loopback hosts only: %s gets %i", async (host, status, path = "/v1/pets") => {
  expect((await client.call(path, {}, `http://${host}`)).status).toBe(status);
});

it("Plain HTTP is allowed outside /v1, where no key is sent, and for preflights, so that a page can read the 400", async () => {
  const statusOf = async (path: string, init = {}) =>
    (await fetchWithoutKey(path, init, "http://petstore.example")).status;
  expect([await statusOf("/version"), await statusOf("/pets")]).toEqual([200, 404]);
  expect(await statusOf("/v1/pets", { method: "OPTIONS", headers: PREFLIGHT })).toBe(204);
});

const idOf = async (id: string, path = "/v1/pets") =>
  (await fetchWithoutKey(path, { headers: { [HEADER.requestId]: id } })).headers.get(HEADER.requestId);

const KEY = "pet_0123456789ABCDEFGHIJKLMNOPQRSTUV1aEZpU";
const BARE = withChecksum(`pet_${"Ab3".repeat(14)}xy`).slice(4);

it.each(["12345678", "a-b_C-9-", "x".repeat(64), "pet_shop_request_1"])(
  "a valid request ID of the client is taken: %s",
  async (id) => {
    expect(await idOf(id)).toBe(id);
  },
);

it.each(["1234567", "x".repeat(65), "with space", "a.b.c.d.e", "", KEY, `x_${KEY}_x`, BARE])(
  "a new, unique request ID replaces one that is invalid or contains a key: %j",
  async (id) => {
    const ids = await Promise.all(["/v1/pets", "/", "/nowhere"].map((path) => idOf(id, path)));
    for (const each of ids) expect(each).toMatch(/^[0-9a-f-]{36}$/);
    expect(new Set(ids).size).toBe(3);
  },
);

it("GET /version has the versions of interface and build, needs no key and no binding, and is logged", async () => {
  const response = await fetchWithoutKey("/version", { headers: { [HEADER.requestId]: "request-1" } });
  expect(await response.json()).toEqual({ interface: "1.0.0", build: "development" });
  expect(response.headers.get("Cache-Control")).toBe("no-store");
  expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
  // Objects of keys of other tests may still write lines.
  const own = takeLogLines().filter(({ event }) => event === "request");
  expect(own).toMatchObject([{ requestId: "request-1", route: "/version", status: 200 }]);
  expect((await app.request(`${ORIGIN}/version`, {}, {})).status).toBe(200);
});
