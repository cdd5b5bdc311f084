// Clients that disconnect while their request is in a call of a binding. Only a socket can be disconnected; other faults are in
// test/worker/fault-table.test.ts.

import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addTablesAndPets } from "../../../bench/cases/pets.ts";
import { type RunningWorker, startWorkers } from "../../../bench/measure/workerd.ts";
import { createKey } from "../../../src/keys/admin.ts";
import { sha256 } from "../../../src/lib/sha256.ts";

let service: RunningWorker;
let database: D1Database;
let stop: () => Promise<void>;

beforeAll(async () => {
  const { workers, stop: stopAll } = await startWorkers([
    {
      file: "test/e2e/disconnects/worker.ts",
      database: "DB",
      object: { binding: "RATE_LIMITER", className: "RateLimiter" },
    },
  ]);
  const [worker] = workers;
  if (worker === undefined) throw new Error("the Worker did not start");
  service = worker;
  stop = stopAll;
  database = await worker.database();
  await addTablesAndPets(database, 1);
});

afterAll(() => stop());

const JSON_TYPE = "Content-Type: application/json";
const PET = `{"name":"Rex","categoryId":1}`;

/** The request of each operation, and the status of its response. */
const OPERATIONS = {
  listPets: { head: ["GET /v1/pets?status=sold HTTP/1.1"], body: "", status: 200 },
  getPet: { head: ["GET /v1/pets/1 HTTP/1.1"], body: "", status: 200 },
  createPet: { head: ["POST /v1/pets HTTP/1.1", JSON_TYPE], body: PET, status: 201 },
  "createPet, once": {
    head: ["POST /v1/pets HTTP/1.1", JSON_TYPE, "Idempotency-Key: once"],
    body: PET,
    status: 201,
  },
  usage: { head: ["GET /v1/usage HTTP/1.1"], body: "", status: 200 },
} as const;
type Operation = keyof typeof OPERATIONS;

/** Where the client disconnects: before a call of the binding, or before the result of the call returns. */
const PLACES = [
  ["DB", "before"],
  ["DB", "after"],
  ["RATE_LIMITER", "before"],
  ["RATE_LIMITER", "after"],
] as const;

const CELLS = PLACES.flatMap(([binding, place]) =>
  (Object.keys(OPERATIONS) as Operation[])
    // With a cached key, usage runs no statement.
    .filter((operation) => binding !== "DB" || operation !== "usage")
    .map((operation) => ({ binding, place, operation })),
);

async function newSecret(): Promise<string> {
  const { secret } = await createKey(
    database,
    { name: "a test", plan: "pro", expiresAtMs: null },
    { by: "a test", nowMs: Date.now() },
  );
  return secret;
}

/** The bytes of a request. */
function requestText(operation: Operation, secret: string): string {
  const { head, body } = OPERATIONS[operation];
  const lines = [
    ...head,
    "Host: localhost",
    `Authorization: Bearer ${secret}`,
    `Content-Length: ${body.length}`,
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}

/** Sends a request and reads the head of its response. */
async function send(operation: Operation, secret: string): Promise<{ status: number; remaining: number }> {
  const socket = connect(Number(service.url.port), "127.0.0.1");
  socket.write(requestText(operation, secret));
  let head = "";
  for await (const chunk of socket) {
    head += chunk;
    if (head.includes("\r\n\r\n")) break;
  }
  return {
    status: Number(head.slice("HTTP/1.1 ".length).slice(0, 3)),
    // Of the day, because a minute may end during the test.
    remaining: Number(/^RateLimit: .*"day";r=(\d+)/im.exec(head)?.[1]),
  };
}

/** POST opens the gate, or closes it as `search` says. Returns how many calls wait at it, and how many requests have arrived. */
async function gate(method: "GET" | "POST", search = "") {
  const response = await fetch(new URL(`/gate${search}`, service.url), { method });
  return (await response.json()) as { waiting: number; arrived: number };
}

/** Waits until this many requests have arrived since the gate was closed, and a call waits at it. */
async function waitForArrival(requests: number): Promise<void> {
  for (;;) {
    const { waiting, arrived } = await gate("GET");
    if (waiting > 0 && arrived >= requests) return;
  }
}

/** Sends a request from each client, and disconnects all of them once all have arrived and a call waits at the gate. */
async function sendAndDisconnect(operation: Operation, secret: string, clients = 1): Promise<void> {
  const sockets = Array.from({ length: clients }, () => connect(Number(service.url.port), "127.0.0.1"));
  for (const socket of sockets) socket.write(requestText(operation, secret));
  await waitForArrival(clients);
  for (const socket of sockets) {
    socket.resetAndDestroy();
    await once(socket, "close");
  }
  // When the server responds to this, it has seen the disconnects.
  await gate("GET");
}

/** The number of pets, and of idempotency records without their pet. */
async function stored(): Promise<{ pets: number; orphans: number }> {
  const sql = `SELECT (SELECT count(*) FROM pets) AS pets,
    (SELECT count(*) FROM creations WHERE pet_id NOT IN (SELECT id FROM pets)) AS orphans`;
  const row = await database.prepare(sql).first<{ pets: number; orphans: number }>();
  if (row === null) throw new Error("the query returned no row");
  return row;
}

describe.each(CELLS)("$operation whose client disconnects $place a $binding call", (cell) => {
  it("is counted, writes all or nothing, and the next request succeeds", async () => {
    const { binding, place, operation } = cell;
    const { status } = OPERATIONS[operation];
    const secret = await newSecret();
    expect(await send("createPet", secret)).toEqual({ status: 201, remaining: 9_999 });
    const before = await stored();

    await gate("POST", `?binding=${binding}&place=${place}`);
    await sendAndDisconnect(operation, secret);
    await gate("POST");
    const isCreation = status === 201;
    const isStored = isCreation && binding === "DB" && place === "after";
    if (isStored) expect(await stored()).toEqual({ pets: before.pets + 1, orphans: 0 });

    const remaining = operation === "usage" ? 9_999 : 9_997;
    expect(await send(operation, secret)).toEqual({ status, remaining });
    // If the pet was not stored before the disconnect, it may be stored later. With an Idempotency-Key it is stored once.
    const { pets, orphans } = await stored();
    const created = pets - before.pets;
    expect(orphans).toBe(0);
    if (!isCreation) expect(created).toBe(0);
    else if (operation === "createPet, once") expect(created).toBe(1);
    else if (isStored) expect(created).toBe(2);
    else expect([1, 2]).toContain(created);
  });
});

it("requests that wait for a running call are counted even if all clients disconnect", async () => {
  const secret = await newSecret();
  expect(await send("listPets", secret)).toEqual({ status: 200, remaining: 9_999 });
  await gate("POST", "?binding=RATE_LIMITER&place=before");
  await sendAndDisconnect("listPets", secret, 4);
  await gate("POST");
  await expect.poll(async () => (await send("usage", secret)).remaining, { timeout: 10_000 }).toBe(9_995);
});

it("a look-up of a key goes on for another request that waits for it if the client that began it disconnects", async () => {
  const secret = await newSecret();
  await gate("POST", "?binding=DB&place=after");
  await sendAndDisconnect("usage", secret);
  const waiting = send("usage", secret);
  await waitForArrival(2);
  // From now on, a look-up of its own would find nothing.
  await database.prepare("DELETE FROM keys WHERE hash = unhex(?1)").bind(sha256(secret)).run();
  await gate("POST");
  expect((await waiting).status).toBe(200);
});
