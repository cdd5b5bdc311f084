// @ts-nocheck
// Correct programs, which must compile, and mistakes, which must not. A test compiles a copy of this file without the first line
// in a project where the package is installed. It never runs.

// biome-ignore-all lint/correctness/noUndeclaredDependencies: that project has the package.

import {
  ApiError,
  type ApiPromise,
  ConnectionError,
  type CreateResult,
  type ListParameters,
  type NewPet,
  type Pet,
  Petstore,
  parse,
  RateLimitError,
  type RequestEvent,
  stringify,
} from "petstore-client";
import { type TestAnswer, TestService } from "petstore-client/testing";

export async function use(signal: AbortSignal): Promise<ListParameters | undefined> {
  const petstore = new Petstore({ apiKey: "pet_1", baseURL: new URL("https://petstore.example"), fetch });
  const headers = { "X-Request-Id": "12345678" };
  const pet: Pet = await petstore.pets.create({ name: "Rex", categoryId: 5 }, { signal, headers });
  const same = parse(stringify(pet)) as Pet;
  const byId = new Map<bigint, Pet>([[same.id, same]]);
  for await (const { id, status = "sold" } of petstore.pets.list({ status: "sold" })) {
    if (status === "sold" && id > 5 && !byId.has(id)) await petstore.pets.get(id);
  }
  const { maybe = undefined }: { maybe?: undefined } = {};
  await petstore.pets.list({ limit: maybe, status: maybe }, { signal: maybe, maxRetries: maybe });
  await petstore.pets.create({ name: "Rex", categoryId: 5, status: maybe }, { idempotencyKey: maybe });
  new Petstore({
    apiKey: "pet_1",
    baseURL: "https://petstore.example",
    fetch: maybe,
    pace: maybe,
    onWait: maybe,
  });
  try {
    for await (const { pets } of petstore.pets.list().pages()) pets.map(({ name }) => name.length);
    (await petstore.usage()).days.map(({ admitted }) => admitted.toFixed());
  } catch (error) {
    if (error instanceof RateLimitError) error.retryAfterMs?.toFixed();
    else if (error instanceof ApiError && error.code === "not_found") error.headers.get("Date");
    // @ts-expect-error: unknown code
    else if (error instanceof ApiError && error.code === "gone") return;
  }

  const numbers: number[] = [];
  const fish: AsyncIterable<NewPet & { line: number }> = (async function* () {
    yield { name: "Nemo", categoryId: 5n, line: 1 };
  })();
  for await (const result of petstore.pets.createMany(fish, { idempotencyKey: "fish", signal })) {
    const { index, input, pet, error }: CreateResult<NewPet & { line: number }> = result;
    if (pet) byId.set(pet.id, pet);
    else if (error instanceof ConnectionError) numbers.push(index, input.line, error.body?.length ?? 0);
    // @ts-expect-error: it may have failed
    result.pet.id;
  }
  for await (const { pet, error, requestId, isReplayed } of petstore.pets.createMany(fish, {
    ordered: false,
  })) {
    if (error === undefined) numbers.push(pet.name.length);
    else numbers.push(`${error}`.length);
    if (pet) numbers.push(pet.name.length, requestId?.length ?? 0, isReplayed ? 1 : 0);
    // @ts-expect-error: it may have failed
    pet.name;
  }
  const logged = petstore.withOptions({
    ...{ apiKey: async () => "pet_2", headers: new Headers(), allowInsecureHTTP: true },
    ...{ maxConcurrency: 1, maxResponseBytes: Infinity },
    onRequest: ({ callId }: RequestEvent) => numbers.push(callId),
    onResponse: async ({ callId, status, durationMs }) => callId + status + durationMs,
    onWait: ({ waitMs, error }) => numbers.push(waitMs, error?.message.length ?? 0),
  });
  const call: ApiPromise<Pet> = logged.request<Pet>({ method: "PUT", path: "/pets/1", body: { ...pet } });
  const { data, response, requestId = "" } = await call.withResponse();
  same.id = data.id + BigInt(response.status + requestId.length);
  (await logged.pets.list().withResponse()).data.pets.map(({ id }) => id);
  new Petstore().usage({ headers: [["X-Request-Id", "12345678"]] }).catch(() => {});

  const service = new TestService({ perMinute: 5 });
  const answers: TestAnswer[] = [503, new Response(), new Error(), "silence"];
  service.nextAnswers.push(...answers);
  service.pets.push(pet);
  new Petstore({ apiKey: "any", baseURL: "https://petstore.test", fetch: service.fetch });
  // @ts-expect-error: no answer
  service.nextAnswers.push("nothing");

  // @ts-expect-error: no pet
  petstore.pets.createMany(["Rex"]);
  // @ts-expect-error: an operation has a path
  petstore.request({ method: "PUT" });
  // @ts-expect-error: unknown
  (await petstore.request({ path: "/pets" })).length;
  // @ts-expect-error: a signal is of a call
  petstore.withOptions({ signal });
  // @ts-expect-error: a list has no idempotency key
  petstore.pets.list({}, { idempotencyKey: "list" });
  // @ts-expect-error: no such option
  new Petstore({ timeout: 5 });
  // @ts-expect-error: status is optional
  pet.status.length;
  // @ts-expect-error: no integer
  await petstore.pets.create({ name: "Rex", categoryId: "5" });
  // @ts-expect-error: categoryId is required
  await petstore.pets.create({ name: "Rex" });
  // @ts-expect-error: unknown status
  await petstore.pets.create({ name: "Rex", categoryId: 5, status: "lost" });
  // @ts-expect-error: unknown status
  await petstore.pets.list({ status: "lost" });

  return (await petstore.pets.list({ limit: 2 })).next;
}
