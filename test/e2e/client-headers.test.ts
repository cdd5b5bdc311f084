// The client package has names of headers of its own. Each of them means to the running service what it means to the client.

import { beforeAll, expect, it } from "vitest";
import { type ApiError, Petstore, type PetstoreError } from "../../client/src/index.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

const service = sharedPetstore();
const PET = { name: "Rex", categoryId: 1 };
let petstore: Petstore;

async function newClient(...plan: Parameters<typeof service.newKey>): Promise<Petstore> {
  const { key } = await service.newKey(...plan);
  return new Petstore({ apiKey: key, baseURL: service.origin, maxRetries: 0 });
}

beforeAll(async () => {
  petstore = await newClient("business");
});

it("an error has the ID of its request", async () => {
  const requestId = `client-${Date.now()}`;
  const options = { headers: { [HEADER.requestId]: requestId } };
  const error: ApiError = await petstore.pets.get(0, options).catch((error) => error);
  expect([error.status, error.requestId]).toEqual([404, requestId]);
});

it("the client has the limits of both windows", async () => {
  const before = Date.now();
  await petstore.pets.list({ limit: 1 });
  const { minute, day } = petstore.rateLimit ?? {};
  const { minute: usedMinute, day: usedDay } = await petstore.usage();
  for (const [window, used] of [
    [minute, usedMinute],
    [day, usedDay],
  ] as const) {
    expect(window?.limit).toBe(used.limit);
    expect(window?.remaining).toBeLessThan(used.limit);
    expect(window?.resetAt.getTime()).toBeGreaterThan(before);
  }
});

it("an error after the last request says how long to wait", async () => {
  const limited = await newClient("enterprise", { minute: 1, day: 9 });
  const calls = [limited.pets.list(), limited.pets.list(), limited.pets.list()];
  const errors = (await Promise.allSettled(calls)).flatMap((call) =>
    call.status === "rejected" ? [call.reason as PetstoreError] : [],
  );
  expect(errors.length).toBeGreaterThan(0);
  for (const { retryAfterMs = 0 } of errors) {
    expect(retryAfterMs).toBeGreaterThan(0);
    expect(retryAfterMs).toBeLessThanOrEqual(60_000);
  }
});

it("a creation with the same idempotency key adds no second pet", async () => {
  const options = { idempotencyKey: crypto.randomUUID() };
  const first = await petstore.pets.create(PET, options);
  expect(await petstore.pets.create(PET, options)).toEqual(first);
});

it("a list has its next page", async () => {
  const created = [await petstore.pets.create(PET), await petstore.pets.create(PET)];
  const { pets, next } = await petstore.pets.list({ limit: 1 });
  expect(created).toHaveLength(2);
  const following = await petstore.pets.list(next);
  expect(following.pets[0]?.id).toBeGreaterThan(pets[0]?.id ?? 0n);
});
