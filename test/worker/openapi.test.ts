// Compares the published document with the service: sends values on both sides of every bound, sends every example, and provokes
// every status and header. test/support/worker/client.ts checks, for all tests, that no response is undocumented. `npm run check`
// lints the document.

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { app } from "../../src/app.ts";
import { ERROR_STATUS } from "../../src/http/errors.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { EXAMPLE_PETS } from "../../src/openapi/examples.ts";
import { fillGuide } from "../../src/openapi/guide.ts";

import { NewPet, PageQuery, Pet } from "../../src/pets/schema.ts";
import { insertPet } from "../../src/pets/store.ts";
import {
  banKey,
  fetchWithoutKey,
  invalidatePageCache,
  newAddress,
  newClient,
} from "../support/worker/client.ts";
import { interceptStatements } from "../support/worker/database-stub.ts";
import { trackSecret } from "../support/worker/secrets.ts";

type Client = Awaited<ReturnType<typeof newClient>>;

interface Documented {
  headers: Record<string, { $ref?: string; example?: unknown }>;
  content: {
    "application/json": { schema: { allOf?: unknown[] }; examples: Record<string, { value: unknown }> };
  };
}

interface ErrorPart {
  properties: object;
  required?: string[];
}

const document = openApiDocument("");
const { paths, components } = document;
const operations = {
  listPets: paths["/pets"].get,
  createPet: paths["/pets"].post,
  getPet: paths["/pets/{petId}"].get,
  getUsage: paths["/usage"].get,
  otherRequests: document["x-other-requests"],
};
type OperationId = keyof typeof operations;

/** Resolves a schema or response that may be a reference. */
function resolved<Kind>(value: unknown): Kind {
  const { $ref } = value as { $ref?: string };
  if ($ref === undefined) return value as Kind;
  return $ref
    .slice(2)
    .split("/")
    .reduce<unknown>((parent, name) => (parent as Record<string, unknown>)[name], document) as Kind;
}

const schemaOf = (name: string) => components.schemas[name] ?? {};
const limit = operations.listPets.parameters.find(({ name }) => name === "limit")?.schema ?? {};
const status = resolved<{ enum: string[] }>(
  operations.listPets.parameters.find(({ name }) => name === "status")?.schema,
);
const petName = schemaOf("NewPet").properties?.name as {
  minLength: number;
  maxLength: number;
  pattern: string;
};

const pet = (fields: Record<string, unknown>) => JSON.stringify({ name: "Rex", categoryId: 1, ...fields });

describe("a schema of the document", () => {
  it("has exactly the validated fields", () => {
    expect(Object.keys(schemaOf("NewPet").properties ?? {})).toEqual(Object.keys(NewPet.shape));
    expect(Object.keys(schemaOf("Pet").properties ?? {})).toEqual(Object.keys(Pet.shape));
    const parameters = operations.listPets.parameters.map(({ name, required }) => [name, required]);
    expect(parameters).toEqual(Object.keys(PageQuery.shape).map((name) => [name, false]));
    for (const { schema } of operations.listPets.parameters) {
      expect(resolved<Record<string, unknown>>(schema)).toHaveProperty("type");
    }
  });

  it("allows unknown fields in requests, but not in responses", () => {
    expect(schemaOf("NewPet")).not.toHaveProperty("additionalProperties");
    for (const name of ["Pet", "Error", "Usage", "UsageWindow", "UsageDay"]) {
      expect(schemaOf(name).additionalProperties, name).toBe(false);
    }
  });

  it("requires the fields that the service requires", async () => {
    const client = await newClient();
    const complete: Record<string, unknown> = { name: "Rex", categoryId: 1, status: "sold" };
    const required: string[] = [];
    for (const field of Object.keys(complete)) {
      const response = await client.post(JSON.stringify({ ...complete, [field]: undefined }));
      if (response.status === 400) required.push(field);
    }
    expect(schemaOf("NewPet").required).toEqual(required);
    expect(schemaOf("Pet").required).toEqual(["id", ...required]);
  });

  it("has the bounds and the default of `limit`", async () => {
    const client = await newClient();
    const { minimum, maximum, default: byDefault, type } = limit as Record<string, number | string>;
    expect(type).toBe("integer");
    const statusFor = async (value: unknown) => (await client.get(`/v1/pets?limit=${value}`)).status;
    expect([await statusFor(minimum), await statusFor(maximum)]).toEqual([200, 200]);
    expect([await statusFor(Number(minimum) - 1), await statusFor(Number(maximum) + 1)]).toEqual([400, 400]);
    expect(schemaOf("Pets").maxItems).toBe(maximum);
    for (let created = 0; created <= Number(byDefault); created += 1) await client.create();
    const page = await client.get("/v1/pets");
    expect(await page.json()).toHaveLength(Number(byDefault));
  });

  it("has the bounds of `name`, in code points", async () => {
    const client = await newClient();
    const { minLength, maxLength, pattern } = petName;
    // Two UTF-16 units each.
    const statusFor = async (length: number) =>
      (await client.post(pet({ name: "🦜".repeat(length) }))).status;
    expect([await statusFor(minLength), await statusFor(maxLength)]).toEqual([201, 201]);
    expect([await statusFor(minLength - 1), await statusFor(maxLength + 1)]).toEqual([400, 400]);
    for (const name of ["a\0b", "\0", "a\u0001b", "é\n"]) {
      const isFine = new RegExp(pattern, "u").test(name);
      expect((await client.post(pet({ name }))).status).toBe(isFine ? 201 : 400);
    }
  });

  it("has int64 where the service accepts exactly that range", async () => {
    const client = await newClient();
    const int64 = { type: "integer", format: "int64" };
    const description = expect.any(String);
    expect(schemaOf("NewPet").properties?.categoryId).toEqual({ ...int64, description });
    expect(schemaOf("Pet").properties?.categoryId).toEqual({ ...int64, description });
    expect(schemaOf("Pet").properties?.id).toEqual({ ...int64, description });
    expect(operations.getPet.parameters[0]?.schema).toEqual(int64);
    for (const [categoryId, expected] of [
      ["9223372036854775807", 201],
      ["-9223372036854775808", 201],
      ["9223372036854775808", 400],
      ["-9223372036854775809", 400],
      ["1.5", 400],
      ['"1"', 400],
    ] as const) {
      expect((await client.post(`{"name":"Rex","categoryId":${categoryId}}`)).status).toBe(expected);
    }
  });

  it("enumerates the statuses that the service accepts", async () => {
    const client = await newClient();
    expect(schemaOf("NewPet").properties?.status).toEqual({ $ref: "#/components/schemas/PetStatus" });
    for (const value of [...status.enum, "lost", "SOLD", ""]) {
      const isKnown = status.enum.includes(value);
      expect((await client.post(pet({ status: value }))).status).toBe(isKnown ? 201 : 400);
      expect((await client.get(`/v1/pets?status=${value}`)).status).toBe(isKnown ? 200 : 400);
    }
  });

  it("has the pattern of `Idempotency-Key` that the service uses", async () => {
    const client = await newClient();
    const [parameter] = operations.createPet.parameters;
    const pattern = new RegExp(parameter?.schema.pattern as string);
    const outcomes: Record<string, boolean> = {};
    const long = "x".repeat(255);
    const keys = [
      "a",
      long,
      `${long}x`,
      '"a"',
      `"${long}"`,
      `"${long}x"`,
      '""',
      '"',
      'a"',
      '"a\\"b"',
      '"a\\b"',
      "a b",
    ];
    for (const key of keys) {
      const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
      const isAccepted = (await client.post(pet({}), headers)).status === 201;
      expect(isAccepted, key).toBe(pattern.test(key));
      outcomes[key] = isAccepted;
    }
    expect(new Set(Object.values(outcomes))).toEqual(new Set([true, false]));
  });

  it("enumerates the error codes, each of which some operation returns", () => {
    expect(schemaOf("Error").properties?.code?.enum).toEqual(Object.keys(ERROR_STATUS));
    const answered = new Set<unknown>();
    for (const { responses } of Object.values(operations)) {
      for (const response of Object.values(responses)) {
        const { examples } = resolved<Documented>(response).content["application/json"];
        for (const { value } of Object.values(examples)) answered.add((value as { code?: unknown }).code);
      }
    }
    for (const code of Object.keys(ERROR_STATUS)) expect(answered).toContain(code);
  });

  it("requires, in each part of an error, the fields of that part, because tools may read parts alone", () => {
    const parts = Object.values(operations).flatMap(({ responses }) =>
      Object.values(responses).flatMap((response) => {
        const { schema } = resolved<Documented>(response).content["application/json"];
        return (schema.allOf ?? []).map((part) => resolved<ErrorPart>(part));
      }),
    );
    for (const { properties, required } of parts) expect(required).toEqual(Object.keys(properties));
    expect(parts.length).toBeGreaterThan(0);
  });
});

describe("the document", () => {
  const routes = app.routes.filter(({ method }) => method !== "ALL");

  it("has every route of the app except GET /version", () => {
    const documented = Object.entries(paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method.toUpperCase()} /v1${path}`),
    );
    const names = routes.map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, "{$1}")}`);
    expect(new Set(names)).toEqual(new Set([...documented, "GET /version"]));
  });

  it("has only methods that preflights allow", async () => {
    const methods = new Set(routes.map(({ method }) => method));
    if (methods.has("GET")) methods.add("HEAD");
    const preflight = await fetchWithoutKey("/v1/pets", {
      method: "OPTIONS",
      headers: { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" },
    });
    const allowed = preflight.headers.get("Access-Control-Allow-Methods")?.split(", ");
    expect(allowed?.toSorted()).toEqual([...methods].toSorted());
  });

  it("has the version of the contract", () => {
    expect(document.info.version).toBe("1.0.0");
  });

  it("requires a body for createPet, as the service does", async () => {
    expect(operations.createPet.requestBody.required).toBe(true);
    const bodyless = await (await newClient()).call("/v1/pets", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
    });
    expect(bodyless.status).toBe(400);
  });

  it("requires a bearer token for every operation", () => {
    expect(document.security).toEqual([{ apiKey: [] }]);
    expect(components.securitySchemes.apiKey).toMatchObject({ type: "http", scheme: "bearer" });
    for (const operation of Object.values(operations)) expect(operation).not.toHaveProperty("security");
  });

  it("marks only getPet as deprecated, with the sunset date of the service", async () => {
    const deprecated = Object.entries(operations).filter(([, operation]) => "deprecated" in operation);
    expect(deprecated.map(([id]) => id)).toEqual(["getPet"]);
    expect(operations.getPet.deprecated).toBe(true);
    const sunset = (await (await newClient()).get("/v1/pets/1")).headers.get("Sunset");
    expect(new Date(sunset ?? "").toISOString()).toBe(`${operations.getPet["x-sunset"]}T00:00:00.000Z`);
  });

  it("has a guide with the figures of the contract and of the service", () => {
    expect(fillGuide("{{minLimit}} {{maxLimit}} {{defaultLimit}}")).toBe("1 100 20");
    expect(fillGuide("{{keyChangeSeconds}} {{anonymousPerMinute}} {{daysKept}}")).toBe("30 60 30");
    expect(fillGuide("{{toleratedRefusals}} {{banMinutes}} {{idempotencyHours}}")).toBe("180 10 24");
    expect(fillGuide("{{deprecatedAt}}, {{removedAt}}")).toBe("19 November 2026, 5 December 2030");
    expect(fillGuide("{{plans}}").split("\n").slice(2)).toEqual([
      "| Free | 60 | 1,000 |",
      "| Pro | 300 | 10,000 |",
      "| Business | 1,000 | 100,000 |",
      "| Enterprise | as agreed | as agreed |",
    ]);
    expect(fillGuide("{{errors}}")).toContain("larger than 64 KiB");
    for (const [code, number] of Object.entries(ERROR_STATUS)) {
      expect(fillGuide("{{errors}}")).toContain(`| ${number} | \`${code}\` | `);
    }
    expect(() => fillGuide("{{nonsense}}")).toThrow("unknown placeholder {{nonsense}}");
  });
});

/** A request of each operation. */
const REQUESTS: Record<OperationId, [path: string, init: RequestInit]> = {
  listPets: ["/v1/pets?limit=2", {}],
  createPet: [
    "/v1/pets",
    postOf(operations.createPet.requestBody.content["application/json"].examples.complete.value),
  ],
  getPet: ["/v1/pets/1", {}],
  getUsage: ["/v1/usage", {}],
  otherRequests: ["/v1/nowhere", {}],
};

const REQUEST_ID = components.headers["X-Request-Id"]?.example as string;
const TRACED = { "X-Request-Id": REQUEST_ID };

/** Provokes the response of each example. `forAny` has the responses that operations share. */
const PROVOCATIONS: Record<string, () => Promise<Response>> = {
  "listPets 200 firstPage": async () => (await free()).call("/v1/pets?limit=2", { headers: TRACED }),
  "listPets 400 limit": async () => (await free()).get("/v1/pets?limit=0"),
  "listPets 400 status": async () => (await free()).get("/v1/pets?status=lost"),
  "listPets 400 cursor": async () => (await free()).get("/v1/pets?cursor=made-up"),
  "createPet 201 complete": async () => send(await free(), "createPet"),
  "createPet 201 withoutStatus": async () => {
    const client = await free();
    await send(client, "createPet");
    const { examples } = operations.createPet.requestBody.content["application/json"];
    return client.call("/v1/pets", postOf(examples.withoutStatus.value));
  },
  "createPet 400 missing": async () => (await free()).post(`{"name":"Rex"}`),
  "createPet 400 json": async () => (await free()).post("{"),
  "createPet 400 name": async () => named(await free(), "order 4711"),
  "createPet 413 large": async () => (await free()).post(" ".repeat(70_000)),
  "createPet 415 text": async () => (await free()).post("Rex", { "Content-Type": "text/plain" }),
  "createPet 415 compressed": async () =>
    (await free()).post("{}", { "Content-Type": "application/json", "Content-Encoding": "gzip" }),
  "createPet 422 reused": async () => {
    const client = await free();
    await named(client, "order-4711", "Rex");
    return named(client, "order-4711", "Mimi");
  },
  "getPet 200 complete": async () => (await free()).get("/v1/pets/1"),
  "getPet 200 withoutStatus": async () => (await free()).get("/v1/pets/3"),
  "getPet 404 pet": async () => (await free()).get("/v1/pets/999"),
  "getPet 410 removed": async () => {
    vi.setSystemTime(Date.UTC(2030, 11, 5));
    return (await free()).get("/v1/pets/1");
  },
  "getUsage 200 unused": async () => {
    const client = await free();
    await client.get("/v1/pets");
    return client.get("/v1/usage");
  },
  "otherRequests 404 path": async () => (await free()).get("/v1/nowhere"),
  "otherRequests 405 method": async () => (await free()).call("/v1/pets", { method: "DELETE" }),
  ...Object.assign({}, ...(Object.keys(operations) as OperationId[]).map(forAny)),
};

/** Provokes the responses that operations share. getUsage never refuses a valid key. */
function forAny(id: OperationId): Record<string, () => Promise<Response>> {
  const provocations = {
    "400 plainHttp": () => fetchWithoutKey(...REQUESTS[id], "http://petstore.example"),
    "401 missing": () => fetchWithoutKey(...REQUESTS[id]),
    "401 unknown": async () => {
      const secret = newSecret();
      trackSecret(secret);
      return withHeaders(id, { Authorization: `Bearer ${secret}` });
    },
    "429 minute": async () => send(await used(60), id),
    "429 banned": async () => {
      const client = await free();
      await banKey(client.id);
      return send(client, id);
    },
    "429 withoutKey": async () => {
      const address = { "CF-Connecting-IP": newAddress() };
      for (let request = 0; request < 60; request += 1)
        await fetchWithoutKey("/v1/pets", { headers: address });
      return withHeaders(id, address);
    },
    // Real faults: a missing table, an unreachable database.
    "500 fault": async () => {
      const client = await free();
      await env.DB.exec("ALTER TABLE keys RENAME TO lost_keys");
      const response = await send(client, id, TRACED);
      await env.DB.exec("ALTER TABLE lost_keys RENAME TO keys");
      return response;
    },
    "503 database": async () => {
      const client = await free();
      cutDatabaseOff();
      return send(client, id, TRACED);
    },
  };
  return Object.fromEntries(
    Object.entries(provocations)
      .filter(([name]) => id !== "getUsage" || (name !== "429 minute" && name !== "429 banned"))
      .map(([name, provoke]) => [`${id} ${name}`, provoke]),
  );
}

/** Responses whose headers differ from the examples: the last page, and operations that fail after they have started. */
const MORE: typeof PROVOCATIONS = {
  "listPets 200": async () => (await free()).get("/v1/pets?limit=100"),
  "getPet 500": async () => {
    const client = await free();
    await env.DB.exec("ALTER TABLE pets RENAME TO lost_pets");
    const response = await client.get("/v1/pets/1");
    await env.DB.exec("ALTER TABLE lost_pets RENAME TO pets");
    return response;
  },
  "getPet 503": async () => {
    const client = await free();
    await client.get("/v1/nowhere");
    cutDatabaseOff();
    return client.get("/v1/pets/1");
  },
};

const answers = new Map<string, { status: number; headers: Headers; body: unknown }>();

/** Provokes a response, once. */
async function answerTo(name: string) {
  const provoke = PROVOCATIONS[name] ?? MORE[name];
  if (provoke === undefined) throw new Error(`no provocation for ${name}`);
  let answer = answers.get(name);
  if (answer === undefined) {
    const response = await provoke();
    answer = { status: response.status, headers: response.headers, body: await response.json() };
    answers.set(name, answer);
  }
  return answer;
}

describe("an example of the document", () => {
  beforeEach(async () => {
    invalidatePageCache();
    await env.DB.batch(
      ["DELETE FROM pets", "DELETE FROM sqlite_sequence WHERE name = 'pets'"].map((sql) =>
        env.DB.prepare(sql),
      ),
    );
    const { rex, mimi, goldie } = EXAMPLE_PETS;
    for (const each of [rex, mimi, goldie]) {
      await insertPet(env.DB, { ...each, categoryId: BigInt(each.categoryId) });
    }
  });

  it("exists for every response", () => {
    for (const [id, { responses }] of Object.entries(operations)) {
      for (const [number, response] of Object.entries(responses)) {
        const { content } = resolved<Documented>(response);
        expect(Object.keys(content["application/json"].examples), `${id} ${number}`).not.toEqual([]);
      }
    }
  });

  const examples = Object.entries(operations).flatMap(([id, { responses }]) =>
    Object.entries(responses).flatMap(([number, response]) => {
      const { content } = resolved<Documented>(response);
      return Object.entries(content["application/json"].examples).map(
        ([name, { value }]) => [`${id} ${number} ${name}`, Number(number), value] as const,
      );
    }),
  );

  it("is sent by this file", () => {
    expect(examples.map(([name]) => name).sort()).toEqual(Object.keys(PROVOCATIONS).sort());
  });

  it.each(examples)("%s is what the service returns", async (name, number, value) => {
    const answer = await answerTo(name);
    expect(answer.status).toBe(number);
    expect(answer.body).toEqual(value);
  });

  it("of a parameter is accepted", async () => {
    const client = await newClient();
    for (const { name, example } of operations.listPets.parameters) {
      const path = `/v1/pets?${name}=${example}`;
      expect((await client.get(path)).status, path).toBe(200);
    }
    for (const { example } of operations.createPet.parameters) {
      expect((await named(client, `${example}`)).status).toBe(201);
    }
    for (const { example } of operations.getPet.parameters) {
      expect((await client.get(`/v1/pets/${example}`)).status).toBe(200);
    }
  });

  it("of a header occurs in a response, and so does every documented header", async () => {
    const unseen = new Set<string>();
    // An optional header must be absent somewhere.
    const neverMissing = new Set<string>();
    const examplesUnseen = new Set<string>();
    const everything = Object.keys({ ...PROVOCATIONS, ...MORE });
    const documentedIn = (name: string) => {
      const [id = "", number = ""] = name.split(" ");
      const responses: Record<string, unknown> = operations[id as OperationId].responses;
      return Object.entries(resolved<Documented>(responses[number]).headers).map(([header, each]) => {
        const { example, required } = resolved<{ example: unknown; required: boolean }>(each);
        const seen = `${id} ${number} ${header}`;
        return { header, required, seen, exampleSeen: `${header}: ${example}`, example };
      });
    };
    for (const name of everything) {
      for (const { required, seen, exampleSeen } of documentedIn(name)) {
        unseen.add(seen);
        if (!required) neverMissing.add(seen);
        examplesUnseen.add(exampleSeen);
      }
    }
    for (const name of everything) {
      const { headers } = await answerTo(name);
      vi.restoreAllMocks();
      vi.setSystemTime(new Date("2026-11-20T12:34:20.500Z"));
      for (const { header, seen, exampleSeen, example } of documentedIn(name)) {
        const value = headers.get(header);
        if (value !== null) unseen.delete(seen);
        else neverMissing.delete(seen);
        if (value === `${example}`) examplesUnseen.delete(exampleSeen);
      }
      await env.DB.exec("DELETE FROM pets WHERE id > 3");
      await env.DB.exec("UPDATE sqlite_sequence SET seq = 3 WHERE name = 'pets'");
    }
    expect([...unseen]).toEqual([]);
    expect([...neverMissing]).toEqual([]);
    expect([...examplesUnseen]).toEqual([]);
  });
});

describe("validation against the document", () => {
  /** Replaces parts of the response to a request such as "POST /v1/pets", and returns what the validator reports. */
  async function problems(request: string, headers: Record<string, string>, body?: (text: string) => string) {
    invalidatePageCache();
    await env.DB.exec("DELETE FROM pets");
    const client = await free();
    await client.create();
    const [path = "", method = "GET"] = request.split(" ").reverse();
    const response = method === "POST" ? await client.post(pet({})) : await client.get(path);
    const text = await response.text();
    const exchange = {
      method,
      path,
      status: response.status,
      headers: { ...Object.fromEntries(response.headers), ...headers },
      body: body?.(text) ?? text,
    };
    const verdict = await env.OPENAPI_VALIDATOR.fetch("http://petstore.example", {
      method: "POST",
      body: JSON.stringify(exchange),
    });
    return verdict.json();
  }

  it("accepts the responses of the service", async () => {
    expect(await problems("/v1/pets?limit=1", {})).toEqual([]);
    expect(await problems("POST /v1/pets", {})).toEqual([]);
    expect(await problems("/v1/usage", {})).toEqual([]);
    expect(await problems("/v1/pets?limit=0", {})).toEqual([]);
  });

  it.each([
    ["/v1/pets", "ratelimit", "minute;r=1"],
    ["/v1/pets", "ratelimit", '"minute";r=59, "day";r=999'],
    ["/v1/pets", "ratelimit-policy", '"minute";q=60;w=61, "day";q=1000;w=86400'],
    ["/v1/pets", "x-ratelimit-limit", "0"],
    ["/v1/pets", "x-ratelimit-remaining", "-1"],
    ["/v1/pets", "x-ratelimit-reset", "soon"],
    ["/v1/pets", "x-request-id", "1234567"],
    ["/v1/pets", "x-request-id", "x".repeat(65)],
    ["/v1/pets", "access-control-allow-origin", "https://shop.example"],
    ["POST /v1/pets", "location", "https://petstore.example"],
    ["/v1/pets", "link", "/v1/pets?cursor=x"],
    ["/v1/pets", "link", '</v1/pets>; rel="prev"'],
    ["/v1/pets", "retry-after", "1"],
    ["/v1/pets", "x-powered-by", "pets"],
    ["/v1/pets", "content-type", "text/plain"],
    ["/v1/pets/999", "sunset", "Thu, 05 Dec 2030 00:00:01 GMT"],
    ["/v1/pets/999", "deprecation", "@1"],
    ["/v1/usage", "cache-control", "max-age=1"],
  ])("rejects %s with the header %s: %s", async (request, name, value) => {
    expect(await problems(request, { [name]: value })).not.toEqual([]);
  });

  it.each([
    ["/v1/pets", '"categoryId":1', '"categoryId":1.5'],
    ["/v1/pets", '"categoryId":1', '"categoryId":"1"'],
    ["/v1/pets", '"name":"Rex"', '"name":""'],
    ["/v1/pets", '"name":"Rex"', '"name":"Rex","status":"lost"'],
    ["/v1/pets", '"name":"Rex"', '"name":"Rex","colour":"red"'],
    ["/v1/pets?limit=0", '"status":400', '"status":401'],
    ["/v1/pets?limit=0", '"code":"invalid_request"', '"code":"unauthorized"'],
    ["/v1/pets?limit=0", /"message":"[^"]*"/, '"message":""'],
    ["/v1/pets?limit=0", '"status":400', '"status":400,"more":1'],
    ["/v1/usage", '"used":1', '"used":-1'],
    ["/v1/usage", '"plan":"free"', '"plan":"gold"'],
    ["/v1/usage", '"bannedUntil":null', '"bannedUntil":-1'],
    ["/v1/usage", '"date":"2026-11-20"', '"date":"20.11.2026"'],
    ["/v1/usage", '"days":[', '"days":[{"date":"2026-10-21","admitted":0,"refused":0},'],
    ["/v1/usage", /"days":\[\{[^}]*\},/, '"days":['],
  ])("rejects %s with %s replaced by %s", async (path, part, other) => {
    let isReplaced = false;
    const spoil = (text: string) => {
      const spoiled = text.replace(part, other);
      isReplaced = spoiled !== text;
      return spoiled;
    };
    expect(await problems(path, {}, spoil)).not.toEqual([]);
    expect(isReplaced).toBe(true);
  });
});

/** A client on the Free plan, like in all examples. */
function free(): Promise<Client> {
  return newClient({ plan: "free" });
}

/** A client that has sent so many requests in this minute. */
async function used(requests: number): Promise<Client> {
  const client = await free();
  for (let request = 0; request < requests; request += 1) await client.get("/v1/nowhere");
  return client;
}

function send(client: Client, id: OperationId, headers: HeadersInit = {}): Promise<Response> {
  const [path, init] = REQUESTS[id];
  return client.call(path, { ...init, headers: { ...init.headers, ...headers } as HeadersInit });
}

function withHeaders(id: OperationId, headers: Record<string, string>): Promise<Response> {
  const [path, init] = REQUESTS[id];
  return fetchWithoutKey(path, { ...init, headers: { ...init.headers, ...headers } as HeadersInit });
}

/** Adds a pet with an Idempotency-Key. */
function named(client: Client, idempotencyKey: string, name = "Rex"): Promise<Response> {
  return client.post(pet({ name }), {
    "Content-Type": "application/json",
    "Idempotency-Key": idempotencyKey,
  });
}

function postOf(body: unknown): RequestInit {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
}

/** Makes the database unreachable until the end of the test. */
function cutDatabaseOff(): void {
  interceptStatements(() => Promise.reject(new Error("D1_ERROR: Network connection lost.")));
}
