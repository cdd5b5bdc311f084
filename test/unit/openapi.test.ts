// The published document: its operations and errors, and what the validator of the other tests rejects by it. test/worker/openapi.test.ts
// compares the document with the service; `npm run check` lints it and compares the client's types with it.

import { assert, expect, it } from "vitest";
import { app } from "../../src/app.ts";
import { ERROR_STATUS } from "../../src/http/errors.ts";
import { OPERATIONS } from "../../src/http/operations.ts";
import { DOCUMENT, EXAMPLES, RESPONSES } from "../support/openapi-document.ts";
import { type Exchange, findViolations } from "../support/openapi-validator.ts";

it("errors have a code that some example shows; their parts require their fields, because tools may read parts alone", () => {
  const shown = EXAMPLES.map(({ value }) => (value as { code?: unknown }).code);
  expect(shown).toEqual(expect.arrayContaining(Object.keys(ERROR_STATUS)));
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

/** The exchange of an example: its body, and the examples of its headers. */
function exchangeOf({ id, status, headers, value }: (typeof EXAMPLES)[number]): Exchange {
  assert(id !== "otherRequests");
  const { method, path } = OPERATIONS[id];
  const examples = Object.entries(headers).map(([name, { example }]) => [name.toLowerCase(), `${example}`]);
  return {
    ...{ method: method.toUpperCase(), path: `/v1${path.replace(/\{\w+\}/g, "1")}`, status },
    headers: { "content-type": "application/json", ...Object.fromEntries(examples) },
    body: JSON.stringify(value),
  };
}

/** Fields that a pet may lack. */
const OPTIONAL = ["available", "pending", "sold"];

/** The values that differ from a valid one in one place, where the document must not allow it. */
function mistakesIn(value: unknown): unknown[] {
  if (Array.isArray(value)) return mistakesIn(value[0]).map((each) => [each, ...value.slice(1)]);
  if (typeof value === "string") return ["", 1];
  if (typeof value === "number") return [value + 0.5, `${value}`];
  if (value === null) return ["null"];
  const fields = Object.entries(value as object);
  const changed = fields.flatMap(([name, each]) =>
    mistakesIn(each).map((other) => ({ ...(value as object), [name]: other })),
  );
  const without = fields
    .filter(([, each]) => !OPTIONAL.includes(each))
    .map(([name]) => Object.fromEntries(fields.filter(([other]) => other !== name)));
  return [...changed, ...without, { ...(value as object), unknown: 1 }];
}

// Every response of the tests in workerd is valid; these are not.
it.each(EXAMPLES.filter(({ id }) => id !== "otherRequests"))(
  "the document allows $name, and no mistake in it",
  async (example) => {
    const exchange = exchangeOf(example);
    expect(await findViolations(exchange)).toEqual([]);
    const headers = Object.keys(example.headers).flatMap((name) => ["?", "-1"].map((value) => [name, value]));
    for (const [name = "", value] of [...headers, ["x-powered-by", "pets"]]) {
      const changed = { ...exchange.headers, [name.toLowerCase()]: `${value}` };
      expect(await findViolations({ ...exchange, headers: changed }), `${name}: ${value}`).not.toEqual([]);
    }
    for (const value of mistakesIn(example.value)) {
      const body = JSON.stringify(value);
      expect(await findViolations({ ...exchange, body }), body).not.toEqual([]);
    }
  },
);

it.each([
  ["listPets 400 limit", '"status":400', '"status":401'],
  ["listPets 400 limit", '"code":"invalid_request"', '"code":"unauthorized"'],
  ["getUsage 200 unused", '"used":1', '"used":-1'],
  ["getUsage 200 unused", '"bannedUntil":null', '"bannedUntil":-1'],
  ["getUsage 200 unused", '"date":"2026-11-20"', '"date":"20.11.2026"'],
  [
    "getUsage 200 unused",
    '"days":[',
    '"days":[{"date":"2026-10-21","admitted":0,"refusedBy":{"minute":0,"day":0},"busiest":{"minute":0}},',
  ],
  ["getUsage 200 unused", /"days":\[\{"date".*?\},(?=\{"date")/, '"days":['],
])("the document does not allow %s with %s replaced by %s", async (name, part, other) => {
  const example = EXAMPLES.find((each) => each.name === name);
  assert(example !== undefined);
  const exchange = exchangeOf(example);
  const body = exchange.body.replace(part, other);
  expect(body).not.toBe(exchange.body);
  expect(await findViolations({ ...exchange, body })).not.toEqual([]);
});
