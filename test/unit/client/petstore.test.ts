// What the client sends and reads: base URLs, headers, pages.

import { expect, it, vi } from "vitest";
import { type ClientOptions, type Page, Petstore } from "../../../client/src/index.ts";
import { OPERATION_IDS, OPERATIONS, type OperationId } from "../../../src/http/operations.ts";
import { MAX_PAGE_SIZE } from "../../../src/pets/schema.ts";

/** More than any test sends: a walk that does not end fails instead of filling the memory. */
const MAX_REQUESTS = 100;

/** A client of a list of pages with 2 pets each, and the requests that it sends. */
function newStore(
  options: Partial<ClientOptions> = {},
  link = (page: number) => `https://else.test/?cursor=${page}`,
) {
  const requests: { url: URL; method: string | undefined; headers: Headers }[] = [];
  const fetch = async (address: unknown, { headers, method }: RequestInit = {}) => {
    const url = new URL(`${address}`);
    requests.push({ url, method, headers: new Headers(headers) });
    if (requests.length > MAX_REQUESTS) throw new Error("too many requests");
    const page = Number(url.searchParams.get("cursor"));
    const pets = [2 * page, 2 * page + 1].map((id) => ({ id, name: "", categoryId: 0 }));
    const links = { Link: `<https://x.test>; rel="first", <${link(page + 1)}>; rel="next"` };
    return new Response(JSON.stringify(pets), page < 3 ? { headers: links } : {});
  };
  const base = { apiKey: "key", baseURL: "https://petstore.test", fetch: fetch as typeof globalThis.fetch };
  return { store: new Petstore({ ...base, maxRetries: 0, ...options }), requests };
}

it.each([
  ["https://petstore.test", "https://petstore.test/v1"],
  ["https://petstore.test//", "https://petstore.test/v1"],
  ["https://petstore.test/v1/", "https://petstore.test/v1"],
  ["https://petstore.test/a/v2", "https://petstore.test/a/v2"],
  ["http://localhost:8787", "http://localhost:8787/v1"],
  ["http://shop.localhost", "http://shop.localhost/v1"],
  ["http://127.0.0.12:1/v1", "http://127.0.0.12:1/v1"],
  ["http://[::1]", "http://[::1]/v1"],
  ["http://127.0.0.1.petstore.test", undefined],
  ["http://localhost.petstore.test", undefined],
  ["http://notlocalhost", undefined],
  ["http://user:password@shop.localhost", undefined],
  ["https://petstore.test/#there", undefined],
])("the base URL %s is %s", async (baseURL, base) => {
  if (base === undefined) return expect(() => newStore({ baseURL })).toThrow(TypeError);
  const { store, requests } = newStore({ baseURL: new URL(baseURL) });
  await store.pets.list({});
  expect(`${requests[0]?.url}`).toBe(`${base}/pets`);
});

it("a number that is no integer, or may be rounded already, is refused", async () => {
  const { store, requests } = newStore();
  for (const id of [2 ** 53, -(2 ** 63), 1e300, 1.5, Number.NaN]) {
    await expect(store.pets.get(id)).rejects.toThrow("id: must be a bigint");
    await expect(store.pets.create({ name: "", categoryId: id })).rejects.toThrow(TypeError);
  }
  expect(requests).toEqual([]);
});

it("headers of a call replace those of the client, which replace its own; browsers set User-Agent", async () => {
  const { store, requests } = newStore({ headers: { "user-agent": "mine", one: "1", two: "1" } });
  await store.pets.list({}, { headers: { TWO: "2" } });
  const expected = {
    accept: "application/json",
    authorization: "Bearer key",
    "user-agent": "mine",
    one: "1",
    two: "2",
  };
  expect(Object.fromEntries(requests[0]?.headers ?? [])).toEqual(expected);
  for (const [userAgent, sent] of [
    ["Mozilla/5.0", null],
    ["Node.js/22", "petstore-client/1.0.0"],
  ] as const) {
    vi.stubGlobal("navigator", { userAgent });
    const { store, requests } = newStore();
    await store.pets.list();
    expect(requests[0]?.headers.get("User-Agent")).toBe(sent);
  }
  vi.unstubAllGlobals();
});

const CALLS: Record<OperationId, (store: Petstore) => PromiseLike<unknown>> = {
  listPets: ({ pets }) => pets.list(),
  createPet: ({ pets }) => pets.create({ name: "Rex", categoryId: 1 }),
  getPet: ({ pets }) => pets.get(5n),
  getUsage: (store) => store.usage(),
};

it.each(OPERATION_IDS)("the client has %s", async (id) => {
  const { store, requests } = newStore();
  // The response is a list, whatever the operation.
  await CALLS[id](store).then(undefined, () => {});
  const { method, path } = OPERATIONS[id];
  const sent = requests.map((each) => [each.method, each.url.pathname.replace("5", "{petId}")]);
  expect(sent).toEqual([[method.toUpperCase(), `/v1${path}`]]);
});

it("a list is requested when it is awaited or iterated, page by page, and only from the origin of the client", async () => {
  const { store, requests } = newStore();
  const list = store.pets.list({ status: "sold" });
  expect(requests).toEqual([]);
  const page: Page = await list;
  expect([await list, await list.finally(), page.next]).toEqual([
    page,
    page,
    { status: "sold", cursor: "1" },
  ]);
  const ids: bigint[] = [];
  for await (const { id } of list) {
    ids.push(id);
    if (id === 3n) break;
  }
  for await (const { pets } of store.pets.list({ cursor: "2", limit: 2 }).pages())
    ids.push(...pets.map(({ id }) => id));
  expect(ids).toEqual([0n, 1n, 2n, 3n, 4n, 5n, 6n, 7n]);
  const first = "https://petstore.test/v1/pets";
  expect(requests.map(({ url }) => `${url}`.replace(first, ""))).toEqual([
    "?status=sold",
    `?limit=${MAX_PAGE_SIZE}&status=sold`,
    `?limit=${MAX_PAGE_SIZE}&status=sold&cursor=1`,
    "?limit=2&cursor=2",
    "?limit=2&cursor=3",
  ]);
});

it("a parameter that lists do not have is refused, such as an option of calls", async () => {
  const { store, requests } = newStore();
  const parameters = { limit: 2, signal: AbortSignal.abort() };
  await expect(store.pets.list(parameters).withResponse()).rejects.toThrow(/^signal: /);
  expect(requests).toEqual([]);
});

it.each([
  ["https://petstore.test/v1/pets", 1],
  ["https://petstore.test/v1/pets?cursor=1", 2],
  ["/v1/pets", 1],
])("a walk whose next page is %s rejects, and does not go on forever", async (link, sent) => {
  const { store, requests } = newStore({}, () => link);
  const walk = Array.fromAsync(store.pets.list());
  await expect(walk).rejects.toThrow("no valid response");
  expect(requests).toHaveLength(sent);
});
