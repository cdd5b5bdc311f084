// A program that uses the client. The tests run it in every runtime, with the client as an argument, because each runtime loads the
// package in its own way. It is JavaScript, because Node 20 and browsers run no TypeScript.

/**
 * @param {typeof import("../../../client/src/index.ts")} client
 * @param {string} baseURL
 * @param {string} apiKey
 */
export async function run({ ApiError, Petstore, PetstoreError, stringify }, baseURL, apiKey) {
  const petstore = new Petstore({ apiKey, baseURL, pace: true });
  const { pets } = petstore;

  // JSON.parse rounds the first three, and JSON.stringify throws on them. The name looks like a field.
  const categories = [2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n, 0n, 5];
  const created = await Promise.all(
    categories.map((categoryId) => pets.create({ name: `"id":1`, categoryId, status: "sold" })),
  );
  const firstFive = [];
  for await (const pet of pets.list({ limit: 2 })) {
    if (firstFive.push(pet) === 5) break;
  }
  const sold = [];
  for await (const { id } of pets.list({ status: "sold" })) sold.push(`${id}`);
  const got = await Promise.all(created.map(({ id }) => pets.get(id)));
  const missing = await pets.get(0).catch((error) => error);

  // Aborted when its request has been sent.
  const stop = new AbortController();
  let userAgent;
  const list = new Petstore({
    ...{ apiKey, baseURL },
    fetch: (url, init) => {
      queueMicrotask(() => stop.abort("stop"));
      userAgent = new Headers(init?.headers).get("User-Agent");
      return fetch(url, init);
    },
  }).pets.list({}, { signal: stop.signal });

  return {
    created: created.map((pet) => stringify(pet)),
    got: got.map((pet) => stringify(pet)),
    firstFive: stringify(firstFive),
    sold,
    plan: (await petstore.usage()).plan,
    minuteLimit: petstore.rateLimit?.minute?.limit,
    error: [missing instanceof ApiError && missing instanceof PetstoreError, missing.code, missing.status],
    aborted: await list.catch((reason) => reason),
    userAgent,
  };
}
