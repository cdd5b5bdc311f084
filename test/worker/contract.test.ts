// The contract, and the decisions that fill its gaps. Tests with a table of inputs are in files of their own: bad-input, text,
// int64, pages, rate-limit-headers, keys, rate-limiter.

import { describe, expect, it, vi } from "vitest";
import { MESSAGES } from "../../src/http/messages.ts";
import {
  countPets,
  type ErrorBody,
  fetchWithoutKey,
  linkTo,
  newAddress,
  newClient,
  newKey,
  ORIGIN,
  walk,
} from "../support/worker/client.ts";
import { interceptStatements } from "../support/worker/database-stub.ts";

const SUNSET_MS = Date.UTC(2030, 11, 5);

describe("listPets", () => {
  it("returns a bare array of pets", async () => {
    const client = await newClient();
    const pet = await client.create({ name: "Bello", categoryId: 7, status: "pending" });
    const response = await client.get("/v1/pets");
    expect(response.status).toBe(200);
    expect(response.headers.get("Content-Type")).toBe("application/json");
    expect(await response.json()).toBeInstanceOf(Array);
    const pets = (await walk(client.get, "/v1/pets?limit=100")).flat();
    expect(pets.at(-1)).toEqual({ id: pet.id, name: "Bello", categoryId: 7, status: "pending" });
  });

  it("returns 20 pets by default, and up to 100 with `limit`", async () => {
    const client = await newClient();
    for (let pet = 0; pet < 101; pet += 1) await client.create();
    const lengths = ["", "?limit=1", "?limit=20", "?limit=99", "?limit=100"].map(
      async (query) => (await (await client.get(`/v1/pets${query}`)).json<unknown[]>()).length,
    );
    expect(await Promise.all(lengths)).toEqual([20, 1, 20, 99, 100]);
  });

  it.each(["available", "pending", "sold"])("filters by the status %s", async (status) => {
    const client = await newClient();
    for (const each of ["available", "pending", "sold", undefined]) {
      await client.create(each === undefined ? {} : { status: each });
    }
    const pets = await (await client.get(`/v1/pets?limit=100&status=${status}`)).json<{ status: string }[]>();
    expect(new Set(pets.map((pet) => pet.status))).toEqual(new Set([status]));
  });
});

describe("createPet", () => {
  it("returns 201 and the pet with a new id", async () => {
    const client = await newClient();
    const first = await client.post(`{"name":"Rex","categoryId":3,"status":"sold"}`);
    expect(first.status).toBe(201);
    expect(first.headers.get("Content-Type")).toBe("application/json");
    const pet = await first.json<{ id: number }>();
    expect(pet).toEqual({ id: pet.id, name: "Rex", categoryId: 3, status: "sold" });
    const second = await client.create();
    expect(second.id).toBeGreaterThan(pet.id);
  });

  it("returns the pet's path in Location", async () => {
    const client = await newClient();
    const response = await client.post(`{"name":"Rex","categoryId":3}`);
    const text = await response.text();
    const { id } = JSON.parse(text) as { id: number };
    expect(response.headers.get("Location")).toBe(`/v1/pets/${id}`);
    expect(await (await client.get(`/v1/pets/${id}`)).text()).toBe(text);
  });

  it("leaves an omitted status absent", async () => {
    const client = await newClient();
    const created = await client.post(`{"name":"Rex","categoryId":3}`);
    const text = await created.text();
    // `"status":null` would be a value that the contract does not allow.
    expect(text).not.toContain("status");
    expect(await (await client.get(created.headers.get("Location") ?? "")).text()).toBe(text);
  });

  it("accepts 1.0 and 1e3 as integers", async () => {
    const client = await newClient();
    for (const [written, meant] of [
      ["1.0", 1],
      ["1e3", 1000],
      ["-0", 0],
    ] as const) {
      const response = await client.post(`{"name":"Rex","categoryId":${written}}`);
      expect(await response.json<{ categoryId: number }>()).toMatchObject({ categoryId: meant });
    }
  });

  it("ignores unknown fields, including `id`", async () => {
    const client = await newClient();
    const response = await client.post(
      `{"id":424242,"name":"Rex","categoryId":1,"price":1e400,"tags":[{"a":null}],"__proto__":{"status":"sold"}}`,
    );
    expect(response.status).toBe(201);
    const pet = await response.json<{ id: number }>();
    expect(Object.keys(pet)).toEqual(["id", "name", "categoryId"]);
    expect(pet.id).not.toBe(424242);
  });

  it("uses the last of repeated fields, as JSON parsers do", async () => {
    const client = await newClient();
    const response = await client.post(`{"name":"one","name":"two","categoryId":1,"categoryId":2}`);
    expect(await response.json()).toMatchObject({ name: "two", categoryId: 2 });
  });
});

describe("getPet", () => {
  it("returns the pet", async () => {
    const client = await newClient();
    const pet = await client.create({ name: "Mia", status: "available" });
    const response = await client.get(`/v1/pets/${pet.id}`);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual(pet);
  });

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
    ["/v1/pets", "PUT", "GET, HEAD, POST"],
    ["/v1/pets", "PATCH", "GET, HEAD, POST"],
    ["/v1/pets", "DELETE", "GET, HEAD, POST"],
    ["/v1/pets", "OPTIONS", "GET, HEAD, POST"],
    ["/v1/pets", "QUERY", "GET, HEAD, POST"],
    ["/v1/pets/1", "POST", "GET, HEAD"],
    ["/v1/pets/1", "PUT", "GET, HEAD"],
    ["/v1/pets/1", "DELETE", "GET, HEAD"],
    ["/v1/pets/abc", "DELETE", "GET, HEAD"],
  ])("%s: rejects %s with 405 and Allow", async (path, method, allow) => {
    const client = await newClient();
    const response = await client.call(path, { method });
    expect(response.status).toBe(405);
    expect(response.headers.get("Allow")).toBe(allow);
    expect(await response.json<ErrorBody>()).toEqual({
      code: "method_not_allowed",
      message: MESSAGES.method_not_allowed.method(method, allow.split(", ")),
      status: 405,
    });
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

describe("quota consumption", () => {
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
});

describe("order of checks", () => {
  it("checks the rate limit before path, method and input", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 } });
    await client.get("/v1/pets");
    const before = await countPets();
    for (const response of [
      await client.get("/v1/nowhere"),
      await client.call("/v1/pets", { method: "DELETE" }),
      await client.post("{"),
      await client.post(`{"name":"Rex","categoryId":1}`),
    ]) {
      expect(response.status).toBe(429);
    }
    expect(await countPets()).toBe(before);
  });
});

describe("plans", () => {
  it.each([
    ["free", 60, 1_000],
    ["pro", 300, 10_000],
    ["business", 1_000, 100_000],
  ] as const)("%s: %i requests per minute and %i per day", async (plan, perMinute, perDay) => {
    const client = await newClient({ plan });
    const { headers } = await client.get("/v1/pets");
    expect(headers.get("X-RateLimit-Limit")).toBe(`${perMinute}`);
    expect(headers.get("RateLimit-Policy")).toBe(`"minute";q=${perMinute};w=60, "day";q=${perDay};w=86400`);
  });

  it("enterprise: each key has its own limits", async () => {
    const client = await newClient({
      plan: "enterprise",
      limits: { minute: 1_000_000_000, day: 999_999_999 },
    });
    const { headers } = await client.get("/v1/pets");
    expect(headers.get("RateLimit-Policy")).toBe('"minute";q=1000000000;w=60, "day";q=999999999;w=86400');
    expect(headers.get("X-RateLimit-Limit")).toBe("999999999");
  });
});

describe("CORS", () => {
  const origin = { Origin: "https://shop.example" };

  it("a preflight needs no key and consumes nothing", async () => {
    const address = { "CF-Connecting-IP": newAddress() };
    const preflight = {
      method: "OPTIONS",
      headers: {
        ...origin,
        ...address,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
      },
    };
    for (let times = 0; times < 100; times += 1) {
      const response = await fetchWithoutKey("/v1/pets", preflight);
      expect(response.status).toBe(204);
      expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
      expect(response.headers.get("Access-Control-Allow-Methods")).toBe("GET, HEAD, POST");
      expect(response.headers.get("Access-Control-Allow-Headers")).toBe("authorization,content-type");
      expect(response.headers.get("Access-Control-Max-Age")).toBe("7200");
      expect(response.headers.get("Vary")).toBe("Access-Control-Request-Headers");
      expect(response.headers.has("Access-Control-Allow-Credentials")).toBe(false);
    }
    for (let left = 59; left >= 0; left -= 1) {
      const { headers } = await fetchWithoutKey("/v1/pets", { headers: address });
      expect(headers.get("X-RateLimit-Remaining")).toBe(`${left}`);
    }
    const response = await fetchWithoutKey("/v1/pets", preflight);
    expect(response.status).toBe(204);
    expect(response.headers.get("X-RateLimit-Remaining")).toBe("0");
    expect(response.headers.has("Retry-After")).toBe(false);
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
  const overHttp = (client: Awaited<ReturnType<typeof newClient>>, host: string, path: string, init = {}) =>
    client.call(path, init, `http://${host}`);

  it.each([
    "petstore.example",
    "localhost.example",
    "notlocalhost",
    "127.0.0.1.example",
    "128.0.0.1",
    "0.0.0.0",
    "[::2]:8787",
  ])("is rejected with 400 on every path under /v1, and consumes nothing: %s", async (host) => {
    const client = await newClient({ plan: "free" });
    for (const [path, init] of [
      ["/v1/pets"],
      ["/v1/pets", { method: "POST", body: "{}" }],
      ["/v1/pets", { method: "DELETE" }],
      ["/v1/usage"],
      ["/v1/nowhere?url=http://localhost/"],
    ] as const) {
      const response = await overHttp(client, host, path, init);
      expect([response.status, await response.json()]).toEqual([
        400,
        {
          code: "invalid_request",
          message: MESSAGES.invalid_request.plainHttp,
          status: 400,
        },
      ]);
    }
    expect((await client.get("/v1/pets")).headers.get("X-RateLimit-Remaining")).toBe("59");
  });

  it("is rejected before the key is looked up", async () => {
    const client = await newClient();
    interceptStatements(() => Promise.reject(new Error("D1_ERROR: Network connection lost.")));
    expect((await overHttp(client, "petstore.example", "/v1/pets")).status).toBe(400);
    expect((await client.get("/v1/pets")).status).toBe(503);
  });

  it.each([
    "localhost",
    "localhost:8787",
    "pets.localhost:8787",
    "127.0.0.1:8787",
    "127.1.2.3",
    "[::1]:8787",
  ])("is allowed on the loopback host %s", async (host) => {
    expect((await overHttp(await newClient(), host, "/v1/pets")).status).toBe(200);
  });

  it("is allowed outside /v1, where no key is sent", async () => {
    expect((await fetchWithoutKey("/version", {}, "http://petstore.example")).status).toBe(200);
  });

  it("allows preflights, so that a page can read the 400", async () => {
    const headers = { Origin: "http://shop.example", "Access-Control-Request-Method": "GET" };
    const preflight = await fetchWithoutKey(
      "/v1/pets",
      { method: "OPTIONS", headers },
      "http://petstore.example",
    );
    expect(preflight.status).toBe(204);
    const response = await fetchWithoutKey("/v1/pets", {}, "http://petstore.example");
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
  });
});

describe("request ID", () => {
  it.each(["12345678", "a-b_C-9-", "x".repeat(64)])(
    "is taken from the client if it is valid: %s",
    async (id) => {
      const response = await fetchWithoutKey("/v1/pets", { headers: { "X-Request-Id": id } });
      expect(response.headers.get("X-Request-Id")).toBe(id);
    },
  );

  it.each(["1234567", "x".repeat(65), "with space", "a=b=c=d=e", "a.b.c.d.e", "<script>", ""])(
    "is generated if the client's is invalid: %j",
    async (id) => {
      const response = await fetchWithoutKey("/v1/pets", { headers: { "X-Request-Id": id } });
      expect(response.headers.get("X-Request-Id")).toMatch(/^[0-9a-f-]{36}$/);
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

describe("consistency", () => {
  it("a key sees a created pet in its next list", async () => {
    const client = await newClient();
    for (let times = 0; times < 5; times += 1) {
      const pet = await client.create({ status: "sold" });
      const pets = (await walk(client.get, "/v1/pets?status=sold&limit=100")).flat();
      expect(pets.at(-1)).toEqual(pet);
    }
  });
});

describe("API keys", () => {
  it("can't be created over HTTP", async () => {
    const client = await newClient();
    for (const path of ["/v1/keys", "/v1/key", "/v1/api-keys"]) {
      expect((await client.call(path, { method: "POST" })).status).toBe(404);
    }
  });

  it("are unique, and each can read all pets", async () => {
    const [one, other] = [await newClient(), await newClient()];
    const pet = await one.create();
    expect(await (await other.get(`/v1/pets/${pet.id}`)).json()).toEqual(pet);
    expect((await newKey()).secret).not.toBe((await newKey()).secret);
  });
});
