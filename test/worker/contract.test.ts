// The contract, and the decisions that fill its gaps. Tests with a table of inputs are in files of their own: bad-input, text,
// int64, pages, rate-limit-headers, keys, rate-limiter.

import { describe, expect, it, vi } from "vitest";
import { app } from "../../src/app.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import {
  addPets,
  countPets,
  type ErrorBody,
  fetchWithoutKey,
  linkTo,
  newAddress,
  newClient,
  ORIGIN,
} from "../support/worker/client.ts";
import { interceptStatements } from "../support/worker/database-stub.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

const SUNSET_MS = Date.UTC(2030, 11, 5);

describe("listPets", () => {
  it("returns a bare array of pets: 20 by default, up to 100 with `limit`", async () => {
    await addPets(101);
    const client = await newClient();
    for (const [query, length] of [
      ["", 20],
      ["?limit=1", 1],
      ["?limit=99", 99],
      ["?limit=100", 100],
    ] as const) {
      const response = await client.get(`/v1/pets${query}`);
      expect([response.status, response.headers.get("Content-Type")]).toEqual([200, "application/json"]);
      const pets = await response.json<unknown[]>();
      expect([Array.isArray(pets), pets.length]).toEqual([true, length]);
    }
  });

  it("filters by status", async () => {
    const client = await newClient();
    const statuses = ["available", "pending", "sold", undefined];
    const created = await Promise.all(statuses.map((status) => client.create({ name: "Bello", status })));
    const cursor = encodeCursor(BigInt(Math.min(...created.map(({ id }) => id))));
    const listed = async (filter: string) =>
      (await client.get(`/v1/pets?cursor=${cursor}${filter}`)).json<unknown[]>();
    expect(await listed("")).toEqual(created.toSorted((a, b) => a.id - b.id));
    for (const [index, status] of statuses.slice(0, 3).entries()) {
      expect(await listed(`&status=${status}`)).toEqual([created[index]]);
    }
  });
});

describe("createPet", () => {
  it.each([
    [`"name":"Rex","categoryId":3,"status":"sold"`],
    // `"status":null` would be a value that the contract does not allow.
    [`"name":"Rex","categoryId":3`],
    [`"name":"Rex","categoryId":1.0`, `"name":"Rex","categoryId":1`],
    [`"name":"Rex","categoryId":1e3`, `"name":"Rex","categoryId":1000`],
    [`"name":"Rex","categoryId":-0`, `"name":"Rex","categoryId":0`],
    [`"id":42,"name":"Rex","categoryId":1,"price":1e400,"tags":[{"a":null}]`, `"name":"Rex","categoryId":1`],
    // As JSON parsers do, it uses the last of repeated fields.
    [`"name":"one","name":"two","categoryId":1,"categoryId":2`, `"name":"two","categoryId":2`],
  ])("returns 201, the pet with a new id, and its path in Location: {%s}", async (sent, stored = sent) => {
    const client = await newClient();
    const { id: earlier } = await client.create();
    const response = await client.post(`{${sent}}`);
    expect([response.status, response.headers.get("Content-Type")]).toEqual([201, "application/json"]);
    const text = await response.text();
    const id = Number(text.match(/^\{"id":(\d+),/)?.[1]);
    expect(id).toBe(earlier + 1);
    expect(text).toBe(`{"id":${id},${stored}}`);
    expect(response.headers.get("Location")).toBe(`/v1/pets/${id}`);
    const read = await client.get(`/v1/pets/${id}`);
    expect([read.status, read.headers.get("Content-Type")]).toEqual([200, "application/json"]);
    expect(await read.text()).toBe(text);
  });
});

describe("getPet", () => {
  it("sends Deprecation, Sunset and a successor Link, also with a 404", async () => {
    const client = await newClient();
    const { id } = await client.create();
    for (const [path, status] of [
      [`/v1/pets/${id}`, 200],
      ["/v1/pets/999999999", 404],
    ] as const) {
      const response = await client.get(path);
      expect(response.status).toBe(status);
      expect(response.headers.get("Deprecation")).toBe("@1795046400");
      expect(response.headers.get("Sunset")).toBe("Thu, 05 Dec 2030 00:00:00 GMT");
      expect(response.headers.get("Link")).toBe(
        `<${ORIGIN}/v1/pets>; rel="successor-version", <${ORIGIN}/>; rel="deprecation"; type="text/html"`,
      );
    }
    const list = await client.get("/v1/pets");
    expect(list.headers.has("Deprecation") || list.headers.has("Sunset")).toBe(false);
  });

  it("returns 410 from the first millisecond of 5 December 2030", async () => {
    vi.setSystemTime(SUNSET_MS - 1);
    const client = await newClient();
    const { id } = await client.create();
    expect((await client.get(`/v1/pets/${id}`)).status).toBe(200);

    vi.setSystemTime(SUNSET_MS);
    for (const petId of [id, 999_999_999, "abc"]) {
      const response = await client.get(`/v1/pets/${petId}`);
      expect(response.status).toBe(410);
      expect(await response.json<ErrorBody>()).toEqual({
        code: "operation_removed",
        message: MESSAGES.operation_removed.getPet("Thu, 05 Dec 2030 00:00:00 GMT"),
        status: 410,
      });
      expect(response.headers.get("Sunset")).toBe("Thu, 05 Dec 2030 00:00:00 GMT");
      expect(linkTo("successor-version", response)).toBe("/v1/pets");
    }
    expect((await client.get("/v1/pets")).status).toBe(200);
  });
});

describe("routing", () => {
  it.each([
    ["/v1/pets", ["PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"], "GET, HEAD, POST"],
    ["/v1/pets/1", ["POST", "PUT", "DELETE"], "GET, HEAD"],
    ["/v1/pets/abc", ["DELETE"], "GET, HEAD"],
    ["/v1/usage", ["POST"], "GET, HEAD"],
  ])("%s: rejects %j with 405 and Allow: %s", async (path, methods, allow) => {
    const client = await newClient();
    const use = allow.replace(/, (\w+)$/, " or $1");
    for (const method of methods) {
      const response = await client.call(path, { method });
      expect(response.status).toBe(405);
      expect(response.headers.get("Allow")).toBe(allow);
      expect(await response.json<ErrorBody>()).toEqual({
        code: "method_not_allowed",
        message: `${method} is not allowed; use ${use}`,
        status: 405,
      });
    }
  });

  it("rejects a wrong method on an unknown path with 404", async () => {
    const client = await newClient();
    const response = await client.call("/v1/store", { method: "DELETE" });
    expect(response.status).toBe(404);
    expect(response.headers.has("Allow")).toBe(false);
  });

  it("HEAD returns the status and headers of GET without a body", async () => {
    const client = await newClient({ plan: "free" });
    const { id } = await client.create();
    for (const path of [
      "/v1/pets?limit=1",
      `/v1/pets/${id}`,
      "/v1/pets/999999999",
      "/v1/store",
      "/v1/pets?limit=x",
    ]) {
      const get = await client.get(path);
      const head = await client.call(path, { method: "HEAD" });
      expect(head.status).toBe(get.status);
      expect(await head.text()).toBe("");
      const varying = ["ratelimit", "x-ratelimit-remaining", "x-request-id"];
      const stable = ({ headers }: Response) => [...headers].filter(([name]) => !varying.includes(name));
      expect(stable(head)).toEqual(stable(get));
      // A HEAD counts like any other request.
      const left = ({ headers }: Response) => Number(headers.get("X-RateLimit-Remaining"));
      expect(left(head)).toBe(left(get) - 1);
    }
  });
});

it("counts every admitted request, whatever its status", async () => {
  const client = await newClient({ plan: "free" });
  const outcomes = [
    await client.get("/v1/pets"),
    await client.post("{"),
    await client.post("x", { "Content-Type": "text/plain" }),
    await client.get("/v1/pets/0"),
    await client.get("/v1/nowhere"),
    await client.call("/v1/pets", { method: "DELETE" }),
  ];
  expect(outcomes.map(({ status }) => status)).toEqual([200, 400, 415, 404, 404, 405]);
  const left = outcomes.map(({ headers }) => headers.get("X-RateLimit-Remaining"));
  expect(left).toEqual(["59", "58", "57", "56", "55", "54"]);
});

it("checks the rate limit before path, method and input", async () => {
  const client = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 } });
  await client.get("/v1/pets");
  const before = await countPets();
  const refused = [
    await client.get("/v1/nowhere"),
    await client.call("/v1/pets", { method: "DELETE" }),
    await client.post("{"),
    await client.post(`{"name":"Rex","categoryId":1}`),
  ];
  expect(refused.map(({ status }) => status)).toEqual([429, 429, 429, 429]);
  expect(await countPets()).toBe(before);
});

it.each([
  ["free", undefined, 60, 1_000],
  ["pro", undefined, 300, 10_000],
  ["business", undefined, 1_000, 100_000],
  ["enterprise", { minute: 1_000_000_000, day: 999_999_999 }, 1_000_000_000, 999_999_999],
] as const)("the plan %s %j has %i requests per minute and %i per day", async (plan, limits, minute, day) => {
  const client = await newClient({ plan, ...(limits && { limits }) });
  const { headers } = await client.get("/v1/pets");
  expect(headers.get("RateLimit-Policy")).toBe(`"minute";q=${minute};w=60, "day";q=${day};w=86400`);
  expect(headers.get("X-RateLimit-Limit")).toBe(`${Math.min(minute, day)}`);
});

describe("CORS", () => {
  const origin = { Origin: "https://shop.example" };

  it("a preflight needs no key and consumes nothing, also when its address has no requests left", async () => {
    const address = { "CF-Connecting-IP": newAddress() };
    const requested = {
      "Access-Control-Request-Method": "POST",
      "Access-Control-Request-Headers": "authorization,content-type",
    };
    const preflight = { method: "OPTIONS", headers: { ...origin, ...address, ...requested } };
    for (let left = 60; left >= 0; left -= 1) {
      const { status, headers } = await fetchWithoutKey("/v1/pets", preflight);
      expect([status, headers.get("X-RateLimit-Remaining")]).toEqual([204, `${left}`]);
      expect(headers.get("Access-Control-Allow-Origin")).toBe("*");
      expect(headers.get("Access-Control-Allow-Methods")).toBe("GET, HEAD, POST");
      expect(headers.get("Access-Control-Allow-Headers")).toBe("authorization,content-type");
      expect(headers.get("Access-Control-Max-Age")).toBe("7200");
      expect(headers.get("Vary")).toBe("Access-Control-Request-Headers");
      expect(headers.has("Access-Control-Allow-Credentials") || headers.has("Retry-After")).toBe(false);
      await fetchWithoutKey("/v1/pets", { headers: address });
    }
  });

  it("every origin can read a 404 outside /v1", async () => {
    const response = await fetchWithoutKey("/pets", { headers: origin });
    expect([response.status, response.headers.get("Access-Control-Allow-Origin")]).toEqual([404, "*"]);
  });

  it("an OPTIONS request that is not a preflight needs a key", async () => {
    const withoutOrigin = { "Access-Control-Request-Method": "POST" };
    for (const headers of [{}, origin, withoutOrigin]) {
      expect((await fetchWithoutKey("/v1/pets", { method: "OPTIONS", headers })).status).toBe(401);
    }
  });

  it("every response, including errors, allows all origins and exposes its headers", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 4, day: 9 } });
    const responses = [
      await client.call("/v1/pets", { headers: origin }),
      await client.post("{"),
      await client.get("/v1/pets/0"),
      await client.call("/v1/pets", { method: "DELETE" }),
      await client.get("/v1/pets"),
      await fetchWithoutKey("/v1/pets", { headers: origin }),
    ];
    expect(responses.map(({ status }) => status)).toEqual([200, 400, 404, 405, 429, 401]);
    for (const { headers } of responses) {
      expect(headers.get("Access-Control-Allow-Origin")).toBe("*");
      expect(headers.has("Access-Control-Allow-Credentials")).toBe(false);
      expect(headers.get("Access-Control-Expose-Headers")).toBe("*");
    }
  });
});

describe("Plain HTTP", () => {
  it.each([
    ["petstore.example", "/v1/pets", {}],
    ["petstore.example", "/v1/pets", { method: "POST", body: "{}" }],
    ["petstore.example", "/v1/pets", { method: "DELETE" }],
    ["petstore.example", "/v1/usage", {}],
    ["petstore.example", "/v1/nowhere?url=http://a.localhost/", {}],
    ["localhost.example", "/v1/pets", {}],
    ["notlocalhost", "/v1/pets", {}],
    ["127.0.0.1.example", "/v1/pets", {}],
    ["128.0.0.1", "/v1/pets", {}],
    ["0.0.0.0", "/v1/pets", {}],
    ["[::2]:8787", "/v1/pets", {}],
  ])("is rejected with 400, and consumes nothing: %s%s %j", async (host, path, init) => {
    const client = await newClient({ plan: "free" });
    const response = await client.call(path, init, `http://${host}`);
    expect([response.status, await response.json()]).toEqual([
      400,
      { code: "invalid_request", message: MESSAGES.invalid_request.plainHttp, status: 400 },
    ]);
    // A page of any origin can read it.
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
    expect((await client.get("/v1/pets")).headers.get("X-RateLimit-Remaining")).toBe("59");
  });

  it("is rejected before the key is looked up", async () => {
    const client = await newClient();
    interceptStatements(() => Promise.reject(new Error("D1_ERROR: Network connection lost.")));
    expect((await client.call("/v1/pets", {}, "http://petstore.example")).status).toBe(400);
    expect((await client.get("/v1/pets")).status).toBe(503);
  });

  it("is allowed on loopback hosts", async () => {
    const client = await newClient();
    const names = ["localhost", "localhost:8787", "pets.localhost:8787"];
    for (const host of [...names, "127.0.0.1:8787", "127.1.2.3", "[::1]:8787"]) {
      expect((await client.call("/v1/pets", {}, `http://${host}`)).status, host).toBe(200);
    }
  });

  it("is allowed outside /v1, where no key is sent", async () => {
    const statusOf = async (path: string) =>
      (await fetchWithoutKey(path, {}, "http://petstore.example")).status;
    expect([await statusOf("/version"), await statusOf("/pets")]).toEqual([200, 404]);
  });

  it("allows preflights, so that a page can read the 400", async () => {
    const headers = { Origin: "http://shop.example", "Access-Control-Request-Method": "GET" };
    const init = { method: "OPTIONS", headers };
    expect((await fetchWithoutKey("/v1/pets", init, "http://petstore.example")).status).toBe(204);
  });
});

describe("request ID", () => {
  const idOf = async (id: string) =>
    (await fetchWithoutKey("/v1/pets", { headers: { "X-Request-Id": id } })).headers.get("X-Request-Id");

  it.each(["12345678", "a-b_C-9-", "x".repeat(64)])(
    "is taken from the client if it is valid: %s",
    async (id) => {
      expect(await idOf(id)).toBe(id);
    },
  );

  it.each(["1234567", "x".repeat(65), "with space", "a=b=c=d=e", "a.b.c.d.e", "<script>", ""])(
    "is generated if the client's is invalid: %j",
    async (id) => {
      expect(await idOf(id)).toMatch(/^[0-9a-f-]{36}$/);
    },
  );

  it("is unique and on every response, also outside the API", async () => {
    const client = await newClient();
    const paths = ["/", "/nowhere", "/v1/pets", "/v1/pets/0", "/v1/pets?limit=x", "/v1/nowhere"];
    const ids = await Promise.all(
      paths.map(async (path) => (await client.get(path)).headers.get("X-Request-Id")),
    );
    for (const id of ids) expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(new Set(ids).size).toBe(paths.length);
  });
});

describe("GET /version", () => {
  it("returns the versions of interface and build, and is logged", async () => {
    const response = await fetchWithoutKey("/version", { headers: { "X-Request-Id": "request-1" } });
    expect(await response.json()).toEqual({ interface: "1.0.0", build: "development" });
    expect(response.headers.get("Cache-Control")).toBe("no-store");
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
    expect(response.headers.get("Access-Control-Expose-Headers")).toBe("*");
    expect(takeLogLines()).toMatchObject([{ requestId: "request-1", route: "/version", status: 200 }]);
  });

  it("needs no key, no binding and no rate limit", async () => {
    for (let times = 0; times < 70; times += 1) {
      expect((await app.request(`${ORIGIN}/version`, {}, {})).status).toBe(200);
    }
  });
});
