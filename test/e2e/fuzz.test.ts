// A short run of npm run fuzz, and faults that it must notice. `FUZZ_SEED=N npm test -- test/e2e/fuzz.test.ts` repeats the run with
// the seed in the test name.

import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { Checks } from "../stress/fuzz/checks.ts";
import { operationsOf } from "../stress/fuzz/document.ts";
import type { Answer, Request } from "../stress/fuzz/http.ts";
import { cases } from "../stress/fuzz/requests.ts";
import { fuzz } from "../stress/fuzz/run.ts";
import { type Service, startService } from "../stress/fuzz/service.ts";
import { jsonTexts, violation } from "../stress/fuzz/values.ts";

const REQUESTS = 2_000;

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
    const { counts, failure } = await fuzz({ service, requests: REQUESTS, seed });
    expect(failure).toBeUndefined();
    expect(counts.requests).toBeGreaterThanOrEqual(REQUESTS);
    const kinds = operationsOf(openApiDocument("")).flatMap(({ operationId }) =>
      ["valid", "invalid key", "invalid method"].map((kind) => `${operationId}, ${kind}`),
    );
    expect([...counts.kinds.keys()]).toEqual(expect.arrayContaining(kinds));
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

it.each(FAULTS)("a service that %s is noticed", async (_, reported, change) => {
  const send = async (request: Request) => {
    const answer = await service.send(request);
    return { ...answer, ...change(answer) };
  };
  const faulty = { ...service, secret: await service.newSecret(), send };
  const checks = new Checks(faulty);
  const all = cases(operationsOf(openApiDocument("")), faulty, await checks.start());
  let problems: string[] = [];
  for (const each of fc.sample(all, { numRuns: 500, seed: 1 })) {
    problems = await checks.problems(each);
    if (problems.length > 0) break;
  }
  expect(problems).toContainEqual(expect.stringContaining(reported));
});

it("a new field is violated in every way", () => {
  const properties = {
    age: { type: "integer", minimum: 0, maximum: 30 },
    mood: { type: "string", minLength: 1, pattern: "^[a-z]*$" },
  };
  const schema = { type: "object", properties, required: ["age"] };
  const found = fc
    .sample(jsonTexts(schema), { numRuns: 2_000, seed: 1 })
    .map((text) => violation(schema, text));
  const ofAge = ["type", "minimum", "maximum"].map((keyword) => `/age ${keyword}`);
  const ofMood = ["type", "minLength", "pattern"].map((keyword) => `/mood ${keyword}`);
  expect(new Set(found)).toEqual(new Set([undefined, " type", " required", ...ofAge, ...ofMood]));
});
