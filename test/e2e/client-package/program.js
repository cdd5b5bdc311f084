// A program that uses the client. The tests run it in every runtime, with the client as an argument, because each runtime loads the
// package in its own way. It is JavaScript, because Node 20 and browsers run no TypeScript.

/**
 * @param {typeof import("../../../client/src/index.ts")} client
 * @param {string} baseURL
 * @param {string} apiKey
 */
export async function run({ ApiError, Petstore, PetstoreError, stringify }, baseURL, apiKey) {
  // The machine of a test may be busy.
  const petstore = new Petstore({ apiKey, baseURL, pace: true, timeoutMs: 120_000, totalTimeoutMs: 600_000 });
  const { pets } = petstore;

  // JSON.parse rounds the first three integers, and JSON.stringify throws on them. The name looks like a field.
  const created = [await pets.create({ name: `"id":1`, categoryId: 2n ** 63n - 1n, status: "sold" })];
  /** @type {import("../../../client/src/index.ts").NewPet[]} */
  const newPets = [-(2n ** 63n), 2n ** 53n + 1n, 0n, 5].map((categoryId) => {
    return { name: `"id":1`, categoryId, status: "sold" };
  });
  for await (const { pet, error } of pets.createMany(newPets)) {
    if (!pet) throw error;
    created.push(pet);
  }
  const firstFive = [];
  for await (const pet of pets.list({ limit: 2 })) {
    if (firstFive.push(pet) === 5) break;
  }
  const sold = [];
  for await (const { id } of pets.list({ status: "sold" })) sold.push(`${id}`);
  const got = await Promise.all(created.map(({ id }) => pets.get(id)));
  const missing = await pets.get(0).catch((error) => error);

  /** @type {(number | string)[][]} */
  const events = [];
  const logged = petstore.withOptions({
    apiKey: async () => apiKey,
    pace: false,
    onRequest: ({ callId, method, attempt }) => events.push([callId, method, attempt]),
    onResponse: async ({ callId, status, durationMs }) => events.push([callId, status, typeof durationMs]),
  });
  const { data, response, requestId } = await logged
    .request({ path: "/pets", query: { limit: 5 } })
    .withResponse();

  // Aborted when its request has been sent.
  const stop = new AbortController();
  let userAgent;
  const list = petstore
    .withOptions({
      fetch: (url, init) => {
        queueMicrotask(() => stop.abort("stop"));
        userAgent = new Headers(init?.headers).get("User-Agent");
        return fetch(url, init);
      },
    })
    .pets.list({}, { signal: stop.signal });

  return {
    created: created.map((pet) => stringify(pet)),
    got: got.map((pet) => stringify(pet)),
    firstFive: [stringify(firstFive), stringify(data)],
    events,
    hasRequestId: requestId === response.headers.get("X-Request-Id"),
    sold,
    plan: (await petstore.usage()).plan,
    minuteLimit: petstore.rateLimit?.minute?.limit,
    error: [missing instanceof ApiError && missing instanceof PetstoreError, missing.code, missing.status],
    aborted: await list.catch((reason) => reason),
    userAgent,
  };
}
