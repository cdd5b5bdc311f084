// Clients that disconnect while their request is in a call of a binding. Only a socket can be disconnected; other faults are in
// test/worker/faults.test.ts.

import { once } from "node:events";
import { type IncomingMessage, type RequestOptions, request } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import { addTablesAndPets, newKey } from "../../../bench/cases/pets.ts";
import { PETSTORE } from "../../../bench/measure/implementations.ts";
import { type Databases, startWorkers } from "../../../bench/measure/workerd.ts";
import type { OperationId } from "../../../src/http/operations.ts";
import { sha256 } from "../../../src/lib/sha256.ts";
import { encodeCursor } from "../../../src/pets/cursor.ts";

let url: URL;
let databases: Databases;
let stop: () => Promise<void>;

beforeAll(async () => {
  const service = await startWorkers([{ ...PETSTORE, file: "test/e2e/disconnects/worker.ts" }]);
  ({ stop } = service);
  ({ url } = service.workers[0]);
  databases = await service.workers[0].databases();
  await addTablesAndPets(databases, PETS);
});

afterAll(() => stop());

/** One for each request, and more. */
const PETS = 100;
let latestPet = 0;

const JSON_TYPE = { "Content-Type": "application/json" };

/** A request of each operation, by the id of a pet of its own, and its status. */
const REQUESTS: Record<OperationId | "createPet, once", [status: number, options: RequestOptions]> = {
  // A list without a next page, which is never cached.
  listPets: [200, { path: `/v1/pets?cursor=${encodeCursor(2n ** 62n)}` }],
  getPet: [200, { path: "/v1/pets/{petId}" }],
  createPet: [201, { path: "/v1/pets", method: "POST", headers: JSON_TYPE }],
  "createPet, once": [
    201,
    { path: "/v1/pets", method: "POST", headers: { ...JSON_TYPE, "Idempotency-Key": "once" } },
  ],
  getUsage: [200, { path: "/v1/usage" }],
};
type Operation = keyof typeof REQUESTS;

const newSecret = () => newKey(databases.keys, 10_000);

/** Connects and sends a request. */
function open(operation: Operation, secret: string) {
  const [, options] = REQUESTS[operation];
  latestPet += 1;
  const path = options.path?.replace("{petId}", `${latestPet}`);
  const headers = { ...options.headers, Authorization: `Bearer ${secret}` };
  const body = options.method === "POST" ? `{"name":"Rex","categoryId":1}` : undefined;
  return request(url.href, { ...options, path, headers, agent: false }).end(body);
}

/** Sends a request. Returns the status, and the requests left of the day, because a minute may end during the test. */
async function send(operation: Operation, secret: string) {
  const [{ statusCode, headers }] = (await once(open(operation, secret), "response")) as [IncomingMessage];
  return [statusCode, Number(/"day";r=(\d+)/.exec(`${headers.ratelimit}`)?.[1])];
}

/** Closes the gate at a place, or opens it. */
const setGate = (place = "") => fetch(new URL(`/gate?place=${place}`, url), { method: "POST" });

/** Waits until this many requests have arrived since the gate was closed, and a call waits at it. */
const waitForArrival = (requests: number) => fetch(new URL(`/gate?requests=${requests}`, url));

/** Sends a request from each client, and disconnects all of them once all have arrived and a call waits at the gate. */
async function sendAndDisconnect(operation: Operation, secret: string, clients = 1): Promise<void> {
  const requests = Array.from({ length: clients }, () => open(operation, secret));
  await waitForArrival(clients);
  for (const each of requests) {
    // Only a reset tells the runtime that the client has gone: an end of what it sends does not.
    each.socket?.resetAndDestroy();
    await once(each, "error");
  }
  // When the server responds to this, it has seen the disconnects.
  await waitForArrival(clients);
}

const countPets = async () =>
  Number(await databases.pets.prepare("SELECT count(*) FROM pets").first("count(*)"));

/** Where the client disconnects: before a call of the binding, or before the result of the call returns. */
const PLACES = ["PETS_DB before", "PETS_DB after", "API_KEYS before", "API_KEYS after"];

const CELLS = PLACES.flatMap((place) =>
  (Object.keys(REQUESTS) as Operation[])
    // Usage runs no statement on pets.
    .filter((operation) => !place.startsWith("PETS_DB") || operation !== "getUsage")
    .map((operation) => [operation, place] as const),
);

it.each(CELLS)(
  "%s whose client disconnects at a call of %s is counted, writes all or nothing, and the next request succeeds",
  async (operation, place) => {
    const secret = await newSecret();
    expect(await send("listPets", secret)).toEqual([200, 9_999]);
    const before = await countPets();

    await setGate(place);
    await sendAndDisconnect(operation, secret);
    await setGate();
    const isCreation = operation.startsWith("createPet");
    const isStored = isCreation && place === "PETS_DB after";
    if (isStored) expect(await countPets()).toBe(before + 1);

    const remaining = operation === "getUsage" ? 9_999 : 9_997;
    const answer = [REQUESTS[operation][0], remaining];
    // If the gate was closed for too long, its call has failed, and the isolate answers that for a second.
    if (operation === "getUsage") await expect.poll(() => send(operation, secret)).toEqual(answer);
    else expect(await send(operation, secret)).toEqual(answer);
    const created = (await countPets()) - before;
    if (!isCreation) expect(created).toBe(0);
    else if (operation === "createPet, once") expect(created).toBe(1);
    else if (isStored) expect(created).toBe(2);
    // It may be stored after the disconnect.
    else expect([1, 2]).toContain(created);
  },
);

it("requests that wait for a running call are counted even if all clients disconnect", async () => {
  const secret = await newSecret();
  expect(await send("listPets", secret)).toEqual([200, 9_999]);
  await setGate("API_KEYS before");
  await sendAndDisconnect("listPets", secret, 4);
  await setGate();
  await expect.poll(() => send("getUsage", secret)).toEqual([200, 9_995]);
});

it("a look-up of a key goes on for another request that waits for it if the client that began it disconnects", async () => {
  const secret = await newSecret();
  await setGate("API_KEYS after");
  await sendAndDisconnect("getUsage", secret);
  const waiting = send("getUsage", secret);
  await waitForArrival(2);
  // From now on, a look-up of its own would find nothing.
  await databases.keys.prepare("DELETE FROM keys WHERE hash = unhex(?1)").bind(sha256(secret)).run();
  await setGate();
  expect(await waiting).toEqual([200, 10_000]);
});
