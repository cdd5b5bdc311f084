// What npm run fuzz does, a little of it: 2,000 requests made from the published document. The seed is another one each time,
// and is printed; FUZZ_SEED=N npm test -- test/e2e/fuzz.test.ts repeats a run. And that a field which the document gains
// is tried without a word about it in the fuzzer.

import { expect, it } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { operationsOf } from "../stress/fuzz/document.ts";
import { failureText } from "../stress/fuzz/failure.ts";
import { brokenParts } from "../stress/fuzz/parts.ts";
import { fuzz } from "../stress/fuzz/run.ts";
import { runningService } from "../stress/fuzz/service.ts";

const REQUESTS = 2_000;

/** Only to end what hangs. */
const TIMEOUT_MS = 300_000;

const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 1_000_000_000));

it(
  `${REQUESTS} requests that fit the document, or break it, are answered as it says (seed ${seed})`,
  async () => {
    const { counts, failure } = await fuzz({ requests: REQUESTS, seed });
    expect(failure && failureText(failure)).toBeUndefined();
    expect(counts.requests).toBeGreaterThanOrEqual(REQUESTS);
    // Each operation was tried with what fits and with what does not.
    for (const { operationId } of operationsOf(openApiDocument(""))) {
      expect([...(counts.cases.get(operationId)?.keys() ?? [])].sort()).toEqual(["broken", "valid"]);
    }
    expect(counts.cases.get("malformed")?.size).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);

it("a field that the document gains is broken in each way", () => {
  const document = structuredClone(openApiDocument("")) as {
    components: { schemas: Record<string, object> };
  };
  const { NewPet } = document.components.schemas as Record<
    string,
    { properties: object; required: string[] }
  >;
  Object.assign(NewPet?.properties ?? {}, { age: { type: "integer", minimum: 0, maximum: 30 } });
  NewPet?.required.push("age");
  const createPet = operationsOf(document).find(({ operationId }) => operationId === "createPet");
  if (createPet === undefined) throw new Error("the document has no createPet");
  const service = runningService(new URL("http://localhost"), "pet_key");
  const ways = brokenParts(createPet, service, {}).map(({ what }) => what);
  expect(ways.filter((what) => what.startsWith("body.age"))).toEqual([
    "body.age: null in its place",
    "body.age: boolean in its place",
    "body.age: string in its place",
    "body.age: array in its place",
    "body.age: object in its place",
    "body.age: no integer",
    "body.age: out of range",
    "body.age: far out of range",
    "body.age: no number of JSON",
    "body.age: missing",
  ]);
});
