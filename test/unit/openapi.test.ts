// The published document: its schemas, operations and guide, and what the validator of the other tests rejects by it.
// test/worker/openapi.test.ts compares the document with the service; `npm run check` lints it.

import { assert, expect, it } from "vitest";
import { app } from "../../src/app.ts";
import { ERROR_STATUS } from "../../src/http/errors.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { OPERATIONS } from "../../src/http/operations.ts";
import { fillGuide } from "../../src/openapi/guide.ts";
import { DOCUMENT, DOCUMENTED, EXAMPLES, RESPONSES } from "../support/openapi-document.ts";
import { type Exchange, findViolations } from "../support/openapi-validator.ts";

const { components } = DOCUMENT;
const schemaOf = (name: string) => components.schemas[name] ?? {};

it("schemas of requests allow unknown fields, those of responses don't", () => {
  expect(schemaOf("NewPet")).not.toHaveProperty("additionalProperties");
  for (const name of ["Pet", "Error", "Usage", "UsageWindow", "UsageDay"])
    expect(schemaOf(name).additionalProperties, name).toBe(false);
});

it("schemas have int64 for ids and categories, and refer to the statuses by name", () => {
  const { categoryId, status } = schemaOf("NewPet").properties ?? {};
  const { id, categoryId: stored } = schemaOf("Pet").properties ?? {};
  for (const schema of [id, categoryId, stored, DOCUMENTED.getPet.parameters[0]?.schema])
    expect(schema).toMatchObject({ type: "integer", format: "int64" });
  expect(status).toEqual({ $ref: "#/components/schemas/PetStatus" });
});

it("errors have an enumerated code that some operation returns; their parts require their fields, because tools may read parts alone", () => {
  const codes = Object.keys(ERROR_STATUS);
  expect(schemaOf("Error").properties?.code?.enum).toEqual(codes);
  const answered = EXAMPLES.map(({ value }) => (value as { code?: unknown }).code);
  expect(answered).toEqual(expect.arrayContaining(codes));
  const parts = RESPONSES.flatMap(({ content }) => content?.["application/json"].schema.allOf ?? []);
  for (const { properties, required } of parts) expect(required).toEqual(Object.keys(properties));
  expect(parts.length).toBeGreaterThan(0);
});

it("the document has each route of the app but GET /version, with the id of its operation", () => {
  const routes = app.routes
    .filter(({ method, path }) => method !== "ALL" && path !== "/version")
    .map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, "{$1}")}`);
  const documented = Object.entries(DOCUMENT.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { operationId }]) => {
      expect(OPERATIONS[operationId]).toEqual({ method, path });
      return `${method.toUpperCase()} /v1${path}`;
    }),
  );
  expect(new Set(documented)).toEqual(new Set(routes));
  expect(documented).toHaveLength(Object.keys(OPERATIONS).length);
});

it("the document has the version of the contract, and requires a bearer token, and for createPet a body", () => {
  expect(DOCUMENT.info.version).toBe("1.0.0");
  expect(DOCUMENT.security).toEqual([{ apiKey: [] }]);
  expect(components.securitySchemes.apiKey).toMatchObject({ type: "http", scheme: "bearer" });
  for (const operation of Object.values(DOCUMENTED)) expect(operation).not.toHaveProperty("security");
  expect(DOCUMENTED.createPet.requestBody.required).toBe(true);
});

it("the document marks only getPet as deprecated, with the date of its Sunset header", () => {
  const deprecated = Object.entries(DOCUMENTED).filter(([, operation]) => "deprecated" in operation);
  expect(deprecated.map(([id]) => id)).toEqual(["getPet"]);
  const sunset = new Date(`${components.headers.Sunset?.example}`).toISOString();
  expect(sunset).toBe(`${DOCUMENTED.getPet["x-sunset"]}T00:00:00.000Z`);
});

it("the guide has the figures of the contract and of the service", () => {
  expect(fillGuide("{{minLimit}} {{maxLimit}} {{defaultLimit}}")).toBe("1 100 20");
  expect(fillGuide("{{keyChangeSeconds}} {{anonymousPerMinute}} {{daysKept}}")).toBe("30 60 30");
  expect(fillGuide("{{toleratedRefusals}} {{banMinutes}} {{idempotencyHours}}")).toBe("180 10 24");
  expect(fillGuide("{{deprecatedAt}}, {{removedAt}}")).toBe("19 November 2026, 5 December 2030");
});

const LIST = "listPets 200 firstPage";
const ERROR = "listPets 400 limit";
const USAGE = "getUsage 200 unused";

/** The exchange of an example: its body, and the examples of its headers. */
function exchangeOf(name: string): Exchange {
  const found = EXAMPLES.find((each) => each.name === name);
  assert(found !== undefined && found.id !== "otherRequests");
  const examples = Object.entries(found.headers).map(([header, { example }]) => [
    header.toLowerCase(),
    example,
  ]);
  const headers = { "content-type": "application/json", ...Object.fromEntries(examples) };
  const { method, path } = OPERATIONS[found.id];
  const sent = { method: method.toUpperCase(), path: `/v1${path.replace(/\{\w+\}/g, "1")}` };
  return { ...sent, status: found.status, headers, body: JSON.stringify(found.value) };
}

// Every response of the tests in workerd is valid; these are not.
it.each([
  [LIST, HEADER.rateLimit, "minute;r=1"],
  [LIST, HEADER.rateLimitPolicy, '"minute";q=60;w=61, "day";q=1000;w=86400'],
  [LIST, HEADER.rateLimitLimit, "0"],
  [LIST, HEADER.rateLimitRemaining, "-1"],
  [LIST, HEADER.rateLimitReset, "soon"],
  [LIST, HEADER.requestId, "1234567"],
  [LIST, "access-control-allow-origin", "https://shop.example"],
  ["createPet 201 complete", "location", "https://petstore.example"],
  [LIST, "link", "/v1/pets?cursor=x"],
  [LIST, "x-powered-by", "pets"],
  ["getPet 404 pet", HEADER.sunset, "Thu, 05 Dec 2030 00:00:01 GMT"],
  ["getPet 404 pet", HEADER.deprecation, "@1"],
  [USAGE, "cache-control", "max-age=1"],
])("the document does not allow %s with the header %s: %s", async (name, header, value) => {
  const exchange = exchangeOf(name);
  expect(await findViolations(exchange)).toEqual([]);
  const headers = { ...exchange.headers, [header.toLowerCase()]: value };
  expect(await findViolations({ ...exchange, headers })).not.toEqual([]);
});

it.each([
  [LIST, '"categoryId":1', '"categoryId":1.5'],
  [ERROR, '"status":400', '"status":401'],
  [ERROR, '"code":"invalid_request"', '"code":"unauthorized"'],
  [ERROR, /"message":"[^"]*"/, '"message":""'],
  [USAGE, '"used":1', '"used":-1'],
  [USAGE, '"plan":"free"', '"plan":"gold"'],
  [USAGE, '"bannedUntil":null', '"bannedUntil":-1'],
  [USAGE, '"date":"2026-11-20"', '"date":"20.11.2026"'],
  [USAGE, '"days":[', '"days":[{"date":"2026-10-21","admitted":0,"refused":0},'],
  [USAGE, /"days":\[\{[^}]*\},/, '"days":['],
])("the document does not allow %s with %s replaced by %s", async (name, part, other) => {
  const exchange = exchangeOf(name);
  const body = exchange.body.replace(part, other);
  expect(body).not.toBe(exchange.body);
  expect(await findViolations({ ...exchange, body })).not.toEqual([]);
});
