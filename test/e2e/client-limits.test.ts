// The client against the service, with more calls at once than the limits admit.

import { expect, it } from "vitest";
import { Petstore, type RateLimitError } from "../../client/src/index.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";
import { PATIENT } from "../support/hang.ts";

const petstore = sharedPetstore();

/**
 * Adds pets at once, far more than the key may add. Returns what the service answered, the pets, and the errors of the other calls. The
 * limit is that of a minute and of a day, so that a minute which begins meanwhile makes no difference.
 */
async function createMore(limit: number, count: number) {
  const { id, key } = await petstore.newKey("enterprise", { minute: limit, day: limit });
  const answers: string[] = [];
  const store = new Petstore({
    ...{ apiKey: key, baseURL: petstore.origin, ...PATIENT },
    async fetch(url, init) {
      const response = await fetch(url, init);
      const text = await response.text();
      answers.push(response.ok ? "created" : JSON.parse(text).code);
      return new Response(text, response);
    },
  });
  const names = Array.from({ length: count }, (_, index) => `${id} ${index}`);
  const calls = await Promise.allSettled(names.map((name) => store.pets.create({ name, categoryId: 1 })));
  const created = calls.flatMap((call) => (call.status === "fulfilled" ? [call.value] : []));
  const errors = calls.flatMap((call) => (call.status === "rejected" ? [call.reason as RateLimitError] : []));
  const usage = await (await petstore.call("/v1/usage", key)).json();
  return { answers, created, errors, usage };
}

it("300 creations at once with a limit of 60: at most 4 are refused, no ban, and each pet of a result is added once", async () => {
  const { answers, created, errors, usage } = await createMore(60, 300);
  const refused = answers.filter((answer) => answer !== "created");
  expect(refused.length).toBeLessThanOrEqual(4);
  expect(refused).toEqual(Array(refused.length).fill("rate_limit_exceeded"));
  expect(usage).toMatchObject({ bannedUntil: null, windows: { day: { used: 60 } } });
  expect(created).toHaveLength(answers.length - refused.length);
  for (const error of errors)
    expect(error).toMatchObject({ name: "RateLimitError", code: "rate_limit_exceeded" });
  expect(errors.filter(({ attempts }) => attempts > 0)).toHaveLength(refused.length);

  const { key } = await petstore.newKey("business");
  const names = new Set(created.map(({ name }) => name));
  const listed = [];
  for await (const pet of new Petstore({ apiKey: key, baseURL: petstore.origin, ...PATIENT }).pets.list())
    if (names.has(pet.name)) listed.push(pet);
  expect(listed).toEqual(created.sort((a, b) => (a.id < b.id ? -1 : 1)));
});
