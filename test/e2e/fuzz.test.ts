// A short run of npm run fuzz. `FUZZ_SEED=N npm test -- test/e2e/fuzz.test.ts` repeats the run with the seed in the test name.

import { expect, it } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { operationsOf } from "../stress/fuzz/document.ts";
import { failureText } from "../stress/fuzz/failure.ts";
import { invalidParts } from "../stress/fuzz/parts.ts";
import { fuzz } from "../stress/fuzz/run.ts";
import { runningService } from "../stress/fuzz/service.ts";

const REQUESTS = 2_000;

/** Ends a run that hangs. */
const TIMEOUT_MS = 300_000;

const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 1_000_000_000));

it(
  `${REQUESTS} valid and invalid requests get the documented responses (seed ${seed})`,
  async () => {
    const { counts, failure } = await fuzz({ requests: REQUESTS, seed });
    expect(failure && failureText(failure)).toBeUndefined();
    expect(counts.requests).toBeGreaterThanOrEqual(REQUESTS);
    // Each operation got valid and invalid requests.
    for (const { operationId } of operationsOf(openApiDocument(""))) {
      expect([...(counts.cases.get(operationId)?.keys() ?? [])].sort()).toEqual(["invalid", "valid"]);
    }
    expect(counts.cases.get("malformed")?.size).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);

it("the fuzzer generates every kind of invalid value for a new field of the document", () => {
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
  const kinds = invalidParts(createPet, service, {}).map(({ what }) => what);
  expect(kinds.filter((what) => what.startsWith("body.age"))).toEqual([
    "body.age: null instead",
    "body.age: boolean instead",
    "body.age: string instead",
    "body.age: array instead",
    "body.age: object instead",
    "body.age: not an integer",
    "body.age: out of range",
    "body.age: far out of range",
    "body.age: not a JSON number",
    "body.age: missing",
  ]);
});
