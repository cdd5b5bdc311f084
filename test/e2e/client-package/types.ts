// @ts-nocheck
// Correct programs, which must compile, and mistakes, which must not. A test compiles a copy of this file without the first line
// in a project where the package is installed. It never runs.

// biome-ignore-all lint/correctness/noUndeclaredDependencies: that project has the package.

import {
  ApiError,
  type ListParameters,
  type Pet,
  Petstore,
  parse,
  RateLimitError,
  stringify,
} from "petstore-client";

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
  }

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
  // @ts-expect-error: unknown code
  if (new ApiError(404, {}, new Headers()).code === "gone") return;

  return (await petstore.pets.list({ limit: 2 })).next;
}
