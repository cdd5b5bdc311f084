// A short run of the proof fuzz, and faults that it must notice.

import { afterAll, beforeAll, expect, it } from "vitest";
import { OPERATION_IDS } from "../../src/http/operations.ts";
import { fuzz } from "../stress/fuzz/checks.ts";
import { type Answer, type Request, type Service, startService } from "../stress/fuzz/service.ts";
import { jsonTexts, violation } from "../stress/fuzz/values.ts";
import fc from "../support/fast-check.ts";
import { SEED } from "../support/seed.ts";

const REQUESTS = 600;
/** Within so many, each fault is noticed. */
const MOST = 2_000;

let service: Service;

beforeAll(async () => {
  service = await startService();
});

afterAll(() => service.stop());

it(`${REQUESTS} valid and invalid requests get the documented responses`, async () => {
  const { counts } = await fuzz(service, REQUESTS, SEED);
  const kinds = OPERATION_IDS.flatMap((id) =>
    ["valid", "invalid key", "invalid method"].map((kind) => `${id}, ${kind}`),
  );
  expect([...counts.keys()]).toEqual(expect.arrayContaining(kinds));
});

const REFUSAL = JSON.stringify({ code: "invalid_request", message: "no", status: 400 });

/** Faults of a service, what the fuzzer reports, and how they change a response. */
const FAULTS: [fault: string, reported: RegExp, change: (answer: Answer) => Partial<Answer> | false][] = [
  ["sends another id", /\bid: 8|\/pets\/8/, ({ body }) => ({ body: body.replace(/^{"id":9/, '{"id":8') })],
  ["loses a field", /status: /, ({ body }) => ({ body: body.replace(/^({.*),"status":"[a-z]+"/, "$1") })],
  ["sends a wrong status", /not 413: 400/, ({ status }) => status === 413 && { status: 400, body: REFUSAL }],
  ["sends no Allow", /Allow is missing/, ({ headers: { allow: _, ...headers } }) => ({ headers })],
  [
    "has one page",
    /checkPages/,
    ({ headers: { link: _, ...headers }, body }) => body.startsWith("[") && { headers },
  ],
];

it.each(FAULTS)("a service that %s is noticed", async (_, reported, change) => {
  const send = async (request: Request) => {
    const answer = await service.send(request);
    return { ...answer, ...change(answer) };
  };
  await expect(fuzz({ ...service, send }, MOST, SEED)).rejects.toThrow(reported);
});

it("a new field is violated in every way, also an array and a nested object", () => {
  const name = { type: "string", minLength: 2, maxLength: 8, pattern: "^[a-z]*$" };
  const properties = {
    age: { type: "integer", minimum: 0, maximum: 30 },
    tags: { type: "array", items: name, minItems: 1, maxItems: 4, uniqueItems: true },
    owner: { type: "object", properties: { name }, required: ["name"] },
  };
  const schema = { type: "object", properties, required: ["age"] };
  const found = fc
    .sample(jsonTexts(schema), { numRuns: 3_000, seed: 1 })
    // Any item of an array.
    .map((text) => violation(schema, text)?.replace(/\/\d+/, "/0").replace(/^[ /]/, ""));
  const ways = [
    ...["type", "required", "age type", "age minimum", "age maximum"],
    ...["tags type", "tags minItems", "tags maxItems", "tags uniqueItems", "tags/0 type"],
    ...["tags/0 minLength", "tags/0 maxLength", "tags/0 pattern", "owner type", "owner required"],
    ...["owner/name type", "owner/name minLength", "owner/name maxLength", "owner/name pattern"],
  ];
  expect(new Set(found)).toEqual(new Set([undefined, ...ways]));
});
