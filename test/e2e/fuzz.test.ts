// A short run of the proof fuzz, and faults that it must notice. `FUZZ_SEED=N npm test -- test/e2e/fuzz.test.ts` repeats the run with
// the seed in the test name.

import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Checks, documentedValues } from "../stress/fuzz/checks.ts";
import { OPERATIONS } from "../stress/fuzz/document.ts";
import type { Answer, Request } from "../stress/fuzz/http.ts";
import { cases } from "../stress/fuzz/requests.ts";
import { fuzz } from "../stress/fuzz/run.ts";
import { type Service, startService } from "../stress/fuzz/service.ts";
import { jsonTexts, violation } from "../stress/fuzz/values.ts";

const REQUESTS = 2_000;

/** Far more than any of the faults needs to show. */
const MAX_CASES = 2_000;

/** Ends a run that hangs. */
const TIMEOUT_MS = 300_000;

const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 1_000_000_000));

let service: Service;

beforeAll(async () => {
  service = await startService();
});

afterAll(() => service.stop());

it(
  `${REQUESTS} valid and invalid requests get the documented responses (seed ${seed})`,
  async () => {
    const { counts } = await fuzz(service, REQUESTS, seed);
    const kinds = OPERATIONS.flatMap(({ operationId }) =>
      ["valid", "invalid key", "invalid method"].map((kind) => `${operationId}, ${kind}`),
    );
    expect([...counts.keys()]).toEqual(expect.arrayContaining(kinds));
  },
  TIMEOUT_MS,
);

/** Faults of a service, what the fuzzer reports, and how they change a response. */
const FAULTS: [fault: string, reported: string, change: (answer: Answer) => Partial<Answer>][] = [
  ["acknowledges another id", "is not", ({ body }) => ({ body: body.replace(/^{"id":\d/, '{"id":8') })],
  ["loses a field", "the pet is not", ({ body }) => ({ body: body.replace(/,"status":"[a-z]+"/, "") })],
  ["sends a wrong status", "400 instead of 415", ({ status }) => ({ status: status === 415 ? 400 : status })],
  ["sends no Allow", "the header Allow is missing", ({ headers: { allow: _, ...headers } }) => ({ headers })],
  ["has one page", "page", ({ headers: { link: _, ...headers } }) => ({ headers })],
];

it.each(FAULTS)("a service that %s is noticed", { timeout: TIMEOUT_MS }, async (_, reported, change) => {
  const send = async (request: Request) => {
    const answer = await service.send(request);
    return { ...answer, ...change(answer) };
  };
  const faulty = { ...service, secret: await service.newSecret(), send };
  const checks = new Checks(faulty);
  const all = cases(faulty, await checks.start());
  // Cases of all kinds, until one shows the fault: how many that takes is up to chance.
  const found = async () => {
    for (const each of fc.sample(all, MAX_CASES)) {
      const problem = await checks.check(each).catch((error: Error) => error.message);
      if (problem?.includes(reported)) return true;
    }
    return false;
  };
  expect(await found()).toBe(true);
});

it("a new field is violated in every way, also an array and a nested object", () => {
  const properties = {
    age: { type: "integer", minimum: 0, maximum: 30 },
    mood: { type: "string", minLength: 1, maxLength: 20, pattern: "^[a-z]*$" },
    tags: {
      type: "array",
      items: { type: "string", minLength: 1, maxLength: 8 },
      minItems: 1,
      maxItems: 4,
      uniqueItems: true,
    },
    owner: {
      type: "object",
      properties: { name: { type: "string", maxLength: 10 }, since: { type: "integer", minimum: 1900 } },
      required: ["name"],
    },
  };
  const schema = { type: "object", properties, required: ["age"] };
  const found = fc
    .sample(jsonTexts(schema), { numRuns: 5_000, seed: 1 })
    // Any item of an array.
    .map((text) => violation(schema, text)?.replace(/\/\d+/, "/0"));
  const expected = {
    "": ["type", "required"],
    "/age": ["type", "minimum", "maximum"],
    "/mood": ["type", "minLength", "maxLength", "pattern"],
    "/tags": ["type", "minItems", "maxItems", "uniqueItems"],
    "/tags/0": ["type", "minLength", "maxLength"],
    "/owner": ["type", "required"],
    "/owner/name": ["type", "maxLength"],
    "/owner/since": ["type", "minimum"],
  };
  const ways = Object.entries(expected).flatMap(([path, keywords]) =>
    keywords.map((each) => `${path} ${each}`),
  );
  expect(new Set(found)).toEqual(new Set([undefined, ...ways]));
});

it("a created pet is compared without unknown members, also in arrays and nested objects", () => {
  const name = { type: "string" };
  const owner = { type: "object", properties: { name } };
  const schema = { type: "object", properties: { name, owner, owners: { type: "array", items: owner } } };
  const known = { name: "Rex", owner: { name: "Jo" }, owners: [{ name: "Al" }] };
  const sent = { name: "Rex", x: 1, owner: { name: "Jo", x: 1 }, owners: [{ name: "Al", toString: 1 }] };
  expect(documentedValues(sent, schema)).toEqual(known);
});
