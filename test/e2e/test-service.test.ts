// The service in memory of petstore-client/testing answers as the real one does, where its README says so.

import { beforeAll, expect, it } from "vitest";
import { ApiError, Petstore } from "../../client/src/index.ts";
import { TestService } from "../../client/src/testing.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";
import { PATIENT } from "../support/hang.ts";

const petstore = sharedPetstore();
let real: Petstore;
let fake: Petstore;

beforeAll(async () => {
  const { key } = await petstore.newKey("business");
  real = new Petstore({ apiKey: key, baseURL: petstore.origin, ...PATIENT });
  fake = new Petstore({
    apiKey: key,
    baseURL: petstore.origin,
    fetch: new TestService({ perMinute: 1_000 }).fetch,
  });
});

/** What a program sees of a call. The ids of the two services differ. */
async function outcome(client: Petstore, work: (client: Petstore) => Promise<unknown>) {
  try {
    return JSON.stringify(await work(client), (name, value) =>
      name === "id" ? typeof value : typeof value === "bigint" ? `${value}` : value,
    );
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { name, status, code, message } = error;
    return { name, status, code, message };
  }
}

const pet = (fields: object) => (client: Petstore) =>
  client.pets.create({ name: "Rex", categoryId: 1, ...fields } as never);

/** Two creations with one key. */
const twice = (key: string, first: object, second: object) => async (client: Petstore) => {
  const options = { idempotencyKey: key };
  await client.pets.create(first as never, options);
  const { data, response } = await client.pets.create(second as never, options).withResponse();
  return [data, response.headers.get("Idempotent-Replayed")];
};

it.each<[string, (client: Petstore) => Promise<unknown>]>([
  ["a pet", pet({})],
  ["a pet with a status", pet({ status: "sold" })],
  ["the smallest category", pet({ categoryId: -(2n ** 63n) })],
  ["255 characters", pet({ name: "😀".repeat(255) })],
  ["256 characters", pet({ name: "😀".repeat(256) })],
  ["no name", pet({ name: undefined })],
  ["an empty name", pet({ name: "" })],
  ["a name that is a number", pet({ name: 5 })],
  ["a name with U+0000", pet({ name: "a\0" })],
  ["a name with a lone surrogate", pet({ name: "\ud800" })],
  ["no category", pet({ categoryId: undefined })],
  ["a category that is too large", pet({ categoryId: 2n ** 63n })],
  ["a category that is a text", pet({ categoryId: "5" })],
  [
    "a category that is no integer",
    (client) => client.request({ method: "POST", path: "/pets", body: { name: "Rex", categoryId: 1.5 } }),
  ],
  ["an unknown status", pet({ status: "lost" })],
  ["a status that is null", pet({ status: null })],
  ["a list as a body", (client) => client.request({ method: "POST", path: "/pets", body: [] })],
  ["no pet with this ID", (client) => client.pets.get(-1)],
  ["an unknown path", (client) => client.request({ path: "/toys" })],
  ["a limit of 0", (client) => client.pets.list({ limit: 0 })],
  ["a limit of 101", (client) => client.pets.list({ limit: 101 })],
  ["a status that is none", (client) => client.pets.list({ status: "lost" as never })],
  ["a cursor that is none", (client) => client.pets.list({ cursor: "lost" })],
  ["the same pet twice", twice("test-1", { name: "Ada", categoryId: 1 }, { categoryId: 1, name: "Ada" })],
])("%s", async (_, work) => {
  expect(await outcome(fake, work)).toEqual(await outcome(real, work));
});

it.each<[string, (client: Petstore) => Promise<unknown>]>([
  ["another method", (client) => client.request({ method: "PUT", path: "/pets" })],
  [
    "another pet with the same key",
    twice("test-2", { name: "Bo", categoryId: 1 }, { name: "Cleo", categoryId: 1 }),
  ],
])("%s gets the same error, with another message", async (_, work) => {
  const [ofFake, ofReal] = await Promise.all([outcome(fake, work), outcome(real, work)]);
  expect({ ...(ofFake as object), message: "" }).toEqual({ ...(ofReal as object), message: "" });
});
