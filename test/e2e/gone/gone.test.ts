// Clients that leave while a binding has their request: nothing is half written, the request counts, and whoever comes
// next is served as ever. Over a socket, because only that can be cut off; the rest of the table is in test/worker/fault-table.test.ts.

import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addTablesAndPets } from "../../../bench/cases/pets.ts";
import { type RunningWorker, startWorkers } from "../../../bench/measure/workerd.ts";
import { createKey } from "../../../src/keys/admin.ts";

let service: RunningWorker;
let database: D1Database;
let stop: () => Promise<void>;

beforeAll(async () => {
  const { workers, stop: stopAll } = await startWorkers([
    {
      file: "test/e2e/gone/worker.ts",
      database: "DB",
      object: { binding: "RATE_LIMITER", className: "RateLimiter" },
    },
  ]);
  const [worker] = workers;
  if (worker === undefined) throw new Error("one Worker was started, and none runs");
  service = worker;
  stop = stopAll;
  database = await worker.database();
  await addTablesAndPets(database, 1);
});

afterAll(() => stop());

const JSON_TYPE = "Content-Type: application/json";
const PET = `{"name":"Rex","categoryId":1}`;

/** What the client of each operation sends, and the answer when all is well. */
const OPERATIONS = {
  listPets: { head: ["GET /v1/pets?status=sold HTTP/1.1"], body: "", well: 200 },
  getPet: { head: ["GET /v1/pets/1 HTTP/1.1"], body: "", well: 200 },
  createPet: { head: ["POST /v1/pets HTTP/1.1", JSON_TYPE], body: PET, well: 201 },
  "createPet, once": {
    head: ["POST /v1/pets HTTP/1.1", JSON_TYPE, "Idempotency-Key: once"],
    body: PET,
    well: 201,
  },
  usage: { head: ["GET /v1/usage HTTP/1.1"], body: "", well: 200 },
} as const;
type Operation = keyof typeof OPERATIONS;

/** Where a request can be when its client leaves: a call of this binding is about to be made, or was made and is not answered. */
const PLACES = [
  ["DB", "before"],
  ["DB", "after"],
  ["RATE_LIMITER", "before"],
  ["RATE_LIMITER", "after"],
] as const;

const CELLS = PLACES.flatMap(([binding, place]) =>
  (Object.keys(OPERATIONS) as Operation[])
    // No statement is run for the usage of a key that is known.
    .filter((operation) => binding !== "DB" || operation !== "usage")
    .map((operation) => ({ binding, place, operation })),
);

async function newSecret(): Promise<string> {
  const { secret } = await createKey(
    database,
    { name: "a test", plan: "pro", expiresAtMs: null },
    Date.now(),
  );
  return secret;
}

/** A request as it is written to a socket. */
function written(operation: Operation, secret: string): string {
  const { head, body } = OPERATIONS[operation];
  const lines = [
    ...head,
    "Host: localhost",
    `Authorization: Bearer ${secret}`,
    `Content-Length: ${body.length}`,
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}

/** Sends a request and reads the head of its answer. */
async function send(operation: Operation, secret: string): Promise<{ status: number; left: number }> {
  const socket = connect(Number(service.url.port), "127.0.0.1");
  socket.write(written(operation, secret));
  let answer = "";
  for await (const chunk of socket) {
    answer += chunk;
    if (answer.includes("\r\n\r\n")) break;
  }
  return {
    status: Number(answer.slice("HTTP/1.1 ".length).slice(0, 3)),
    // Of the day, because a minute may end meanwhile.
    left: Number(/^RateLimit: .*"day";r=(\d+)/im.exec(answer)?.[1]),
  };
}

/** Works the gate; returns how many calls have come to it. */
async function gate(method: "GET" | "POST", search = ""): Promise<number> {
  const response = await fetch(new URL(`/gate${search}`, service.url), { method });
  return (await response.json()) as number;
}

/** Sends a request and leaves when it has come to the gate. */
async function leave(operation: Operation, secret: string): Promise<void> {
  const socket = connect(Number(service.url.port), "127.0.0.1");
  socket.write(written(operation, secret));
  while ((await gate("GET")) === 0);
  socket.resetAndDestroy();
  await once(socket, "close");
  // When the server answers to this, it has seen that.
  await gate("GET");
}

/** The pets there are, and the creations that are remembered without their pet. */
async function stored(): Promise<{ pets: number; orphans: number }> {
  const sql = `SELECT (SELECT count(*) FROM pets) AS pets,
    (SELECT count(*) FROM creations WHERE pet_id NOT IN (SELECT id FROM pets)) AS orphans`;
  const row = await database.prepare(sql).first<{ pets: number; orphans: number }>();
  if (row === null) throw new Error("an aggregate gave no row");
  return row;
}

describe.each(CELLS)("when a client leaves $place its call of $binding: $operation", (cell) => {
  it("is counted, leaves nothing half done, and the next one is served as ever", async () => {
    const { binding, place, operation } = cell;
    const { well } = OPERATIONS[operation];
    const secret = await newSecret();
    expect(await send("createPet", secret)).toEqual({ status: 201, left: 9_999 });
    const before = await stored();

    await gate("POST", `?binding=${binding}&place=${place}`);
    await leave(operation, secret);
    await gate("POST");
    const isCreation = well === 201;
    const isDone = isCreation && binding === "DB" && place === "after";
    if (isDone) expect(await stored()).toEqual({ pets: before.pets + 1, orphans: 0 });

    const left = operation === "usage" ? 9_999 : 9_997;
    expect(await send(operation, secret)).toEqual({ status: well, left });
    // What was not done when the client left may be done or not; with an Idempotency-Key it is there once in any case.
    const { pets, orphans } = await stored();
    const created = pets - before.pets;
    expect(orphans).toBe(0);
    if (!isCreation) expect(created).toBe(0);
    else if (operation === "createPet, once") expect(created).toBe(1);
    else if (isDone) expect(created).toBe(2);
    else expect([1, 2]).toContain(created);
  });
});

it("requests that wait for the call of another one are counted then, though all clients leave meanwhile", async () => {
  const secret = await newSecret();
  expect(await send("listPets", secret)).toEqual({ status: 200, left: 9_999 });
  await gate("POST", "?binding=RATE_LIMITER&place=before");
  const sockets = Array.from({ length: 4 }, () => connect(Number(service.url.port), "127.0.0.1"));
  for (const socket of sockets) socket.write(written("listPets", secret));
  while ((await gate("GET")) === 0);
  for (const socket of sockets) {
    socket.resetAndDestroy();
    await once(socket, "close");
  }
  // When the server answers to this, it has seen that.
  await gate("GET");
  await gate("POST");
  await expect.poll(async () => (await send("usage", secret)).left, { timeout: 10_000 }).toBe(9_995);
});
