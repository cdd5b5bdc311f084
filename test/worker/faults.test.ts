// Responses when a database or the object of a key fails. The bindings are real, behind stubs that throw, hang, or execute a call and
// lose its result. One table has each binding, caller, fault and operation; a full database follows. The rules of retries, of local
// decisions, and of how long a record is used have tests in test/unit: statements.test.ts, key-state.test.ts, key-calls.test.ts and
// key-reader.test.ts. Clients that disconnect need a socket: test/e2e/disconnects.

import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES, type OutageMessage } from "../../src/http/messages.ts";
import type { OperationId } from "../../src/http/operations.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { insertPet } from "../../src/pets/store.ts";
import { interceptCalls, interceptStatements, objectOf } from "../support/worker/bindings.ts";
import {
  acquire,
  batch,
  type Client,
  countPets,
  LAST_PAGE,
  newClient,
  POST,
} from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { fakeTimeouts, hasSettled, pass, skipPauses, turns } from "../support/worker/time.ts";

/**
 * Each block begins with the bindings that fail, and the keys for which they do: known to the isolate, new to it but stored in its object, or
 * new to both. The object's record is 10 s old, so that it has to be read. `+1`: a pet was created. `local`: the isolate decided by
 * itself, or could not ask the object, and logged it. `at 5 s`: not a second earlier. An empty cell is like its neighbours, because a fault of
 * the limiter is that of all operations, or depends on whether the operation may read a replica.
 */
const TABLE = `
PETS_DB: known           | listPets   | getPet     | createPet     | createPet, once | getUsage | no operation
throws                   | 503        | 503        | 503           | 503             | 200      | 404
throws, retryable, once  | 200        | 200        | 503           | 201 +1          |          |
throws, retryable        | 503        | 503        | 503           | 503             |          |
throws, overloaded, once | 503        |            | 503           | 503             |          |
executes, throws, once   | 200        | 200        | 503 +1        | 201 +1          |          |
executes, throws         | 503        | 503        | 503 +1        | 503 +1          |          |
hangs                    | 503 at 5 s | 503 at 5 s | 503 at 5 s    | 503 at 5 s      | 200      | 404
executes, hangs          | 503 at 5 s | 503 at 5 s | 503 at 5 s +1 | 503 at 5 s +1   |          |

PETS_DB: stored, new | listPets   | createPet
throws               | 503        | 503
hangs                | 503 at 5 s | 503 at 5 s

PETS_DB, API_KEYS: known | listPets  | createPet | getUsage
throws                   | 503 local | 503 local | 503 local

KEYS_DB: known, stored | listPets   | createPet     | getUsage
throws                 | 200        | 201 +1        | 200
hangs                  | 200 at 2 s | 201 at 2 s +1 | 200 at 2 s

KEYS_DB: new             | listPets   | createPet | getUsage
throws                   | 503        | 503       | 503
throws, retryable, once  | 200        |           | 200
throws, overloaded, once | 503        |           | 503
hangs                    | 503 at 2 s |           | 503 at 2 s

API_KEYS: known          | listPets         | createPet           | getUsage
throws                   | 200 local        | 201 +1 local        | 503 local
throws, once             | 200              |                     | 200
throws, overloaded, once | 200 local        |                     | 503 local
executes, throws, once   | 200              |                     | 200
executes, throws         | 200 local        |                     | 503 local
hangs                    | 200 at 3 s local | 201 at 3 s +1 local | 503 at 3 s local
executes, hangs          | 200 at 3 s local |                     | 503 at 3 s local

API_KEYS: stored, new    | listPets         | createPet    | getUsage
throws                   | 200 local        | 201 +1 local | 503 local
throws, once             | 200              |              | 200
throws, overloaded, once | 200 local        |              | 200 local
executes, throws         | 200 local        |              | 503 local
hangs                    | 200 at 3 s local |              | 503 at 5 s local

KEYS_DB, API_KEYS: known | listPets         | createPet    | getUsage
throws                   | 200 local        | 201 +1 local | 503 local
hangs                    | 200 at 3 s local |              | 503 at 3 s local

KEYS_DB, API_KEYS: stored, new | listPets         | createPet | getUsage
throws                         | 503 local        | 503 local | 503 local
throws, once                   | 200              |           | 200
hangs                          | 503 at 5 s local |           | 503 at 5 s local
`;

const OUTAGES = MESSAGES.service_unavailable;

const POST_ONCE = { ...POST, headers: { ...POST.headers, [HEADER.idempotencyKey]: "once" } };

type Column = OperationId | "createPet, once" | "no operation";

/** A request of each operation, by the id of a pet of its own, and its status without faults. The first block of the table has each. */
const REQUESTS: Record<Column, [path: string, init: RequestInit, status: number]> = {
  listPets: [LAST_PAGE, {}, 200],
  getPet: ["/v1/pets/{petId}", {}, 200],
  createPet: ["/v1/pets", POST, 201],
  "createPet, once": ["/v1/pets", POST_ONCE, 201],
  getUsage: ["/v1/usage", {}, 200],
  "no operation": ["/v1/nowhere", {}, 404],
};

interface Cell {
  /** The bindings. */
  broken: string;
  key: "known" | "stored" | "new";
  fault: string;
  operation: Column;
  expected: string;
}

const columns = (line: string) => line.split("|").map((each) => each.trim());

const CELLS = TABLE.trim()
  .split("\n\n")
  .flatMap((block, number) => {
    const [header = "", ...rows] = block.split("\n");
    const [title = "", ...operations] = columns(header);
    const [broken = "", keys = ""] = title.split(": ");
    if (number === 0) expect(operations.toSorted()).toEqual(Object.keys(REQUESTS).sort());
    return rows.flatMap((row) => {
      const [fault = "", ...cells] = columns(row);
      expect(cells, row).toHaveLength(operations.length);
      return cells.flatMap((expected, index) =>
        keys
          .split(", ")
          .filter(() => expected !== "")
          .map((key) => ({ broken, key, fault, operation: operations[index], expected }) as Cell),
      );
    });
  });

/** A retry may reach the binding. */
const LOST = new Error("D1_ERROR: Network connection lost.");
/** A retry would add to the load of the same part. D1 has the message only, an object the properties. */
const OVERLOADED = Object.assign(new Error("D1_ERROR: D1 DB is overloaded. Too many requests queued."), {
  overloaded: true,
  retryable: true,
});

/**
 * Breaks the bindings of a cell until the end of the test: of API_KEYS and KEYS_DB only the calls about the key, also those from its object.
 * Calls that hang poll, as the test does: a promise that one object resolves makes the code that awaits it in another one run on behalf of
 * the first. `working` is the number of calls under way that will end by themselves.
 */
function breakBindings({ broken, fault }: Cell, keyId: string) {
  const state = { working: 0, hasFailed: false, isReleased: false };
  const newFault = () => {
    let calls = 0;
    return async (run: () => Promise<unknown>) => {
      calls += 1;
      state.hasFailed = true;
      if (fault.endsWith("once") && calls > 1) return run();
      if (fault.includes("executes")) await run();
      while (fault.includes("hangs") && !state.isReleased) await scheduler.wait(1);
      // A late failure is dropped: an unhandled rejection would fail the run. What is thrown may also not be an Error.
      if (fault.includes("overloaded")) throw OVERLOADED;
      throw fault === "throws" ? "out of order" : LOST;
    };
  };
  const work = (run: () => Promise<unknown>) => {
    state.working += 1;
    return run().finally(() => (state.working -= 1));
  };
  const [pets, keys, objects] = ["PETS_DB", "KEYS_DB", "API_KEYS"].map((name) =>
    broken.includes(name) ? newFault() : work,
  ) as [typeof work, typeof work, typeof work];
  interceptStatements("PETS_DB", pets);
  interceptStatements("KEYS_DB", (run, _place, parameters) =>
    parameters.includes(keyId) ? keys(run) : run(),
  );
  // A call of the object lasts as long as its read.
  if (broken !== "KEYS_DB") interceptCalls(keyId, objects);
  return state;
}

const STEP_MS = 1_000;

/** Sends the request through the broken bindings of a cell, and checks that it ends at the time that the cell has. */
async function sendFaulty(cell: Cell, keyId: string, send: () => Promise<Response>): Promise<Response> {
  const atMs = Number(/ at (\d) s/.exec(cell.expected)?.[1] ?? 0) * 1_000;
  const state = breakBindings(cell, keyId);
  if (atMs === 0) {
    skipPauses();
    return send();
  }
  fakeTimeouts();
  // The page is read while the object is called: the clock must not advance before the other bindings have answered.
  const settle = async () => {
    // The code between an answer and the next call runs too.
    do await turns();
    while (!state.hasFailed || state.working > 0);
  };
  const response = send();
  // In steps, because the deadline of one part may begin when that of another ends.
  for (let ms = 0; ms < atMs; ms += STEP_MS) {
    await settle();
    expect(await hasSettled(response), `answered after ${ms} ms`).toBe(false);
    pass(STEP_MS);
  }
  await response;
  // Other deadlines that end now.
  await settle();
  state.isReleased = true;
  return response;
}

/** The failures in the line of the latest request: that of an object may come after it. */
function latestFailures() {
  const failures = takeLogLines().findLast(({ event }) => event === "request")?.failures ?? [];
  return failures as { event: string; cause: string }[];
}

/** Checks that a 503 says which part has failed, and when to retry. */
async function expectServiceUnavailable(response: Response, message: OutageMessage, retryAfterSeconds = 5) {
  expect([response.status, response.headers.get(HEADER.retryAfter)]).toEqual([503, `${retryAfterSeconds}`]);
  const requestId = response.headers.get(HEADER.requestId) ?? "";
  expect(await response.json()).toMatchObject({ message: message({ retryAfterSeconds, requestId }) });
}

/** The message of a 503. Only with an Idempotency-Key is a retry of a creation safe. */
function outageOf({ broken, key, operation }: Cell): OutageMessage {
  const hasRecord = key === "known" || !broken.includes("KEYS_DB");
  // Only usage can't do without the object if the isolate gets the record elsewhere.
  if (operation === "getUsage" && broken.includes("API_KEYS") && hasRecord) return OUTAGES.limiter;
  if (broken.includes("KEYS_DB") || !operation.startsWith("createPet")) return OUTAGES.database;
  return operation.endsWith("once") ? OUTAGES.unknownOutcomeIdempotent : OUTAGES.unknownOutcome;
}

/** A client with a Free key. Its object's record, if there is one, is too old to be used without a read. */
async function newClientFor(key: Cell["key"]): Promise<Client> {
  const client = await newClient({ plan: "free" });
  if (key === "known") await client.status();
  if (key === "stored") {
    await acquire(client.id, batch(1));
    await evictDurableObject(objectOf(client.id));
  }
  pass(10_000);
  return client;
}

/** Sends the request of an operation, about a pet that exists for it alone. */
async function newRequest(operation: Column, { call }: Client): Promise<() => Promise<Response>> {
  const { id } = await insertPet(env.PETS_DB, { name: "Rex", categoryId: 1n });
  const [path, init] = REQUESTS[operation];
  return () => call(path.replace("{petId}", id), init);
}

it.each(CELLS)(
  "$broken, $fault, $key key: $operation: $expected, counted once, and recovers",
  async (cell) => {
    const { broken, key, operation, expected } = cell;
    const [, , statusWithoutFault] = REQUESTS[operation];
    const client = await newClientFor(key);
    const [send, sendAgain] = [await newRequest(operation, client), await newRequest(operation, client)];
    const before = await countPets();
    takeLogLines();
    const response = await sendFaulty(cell, client.id, send);
    const isUnavailable = expected.startsWith("503");
    const outage = outageOf(cell);
    if (isUnavailable) await expectServiceUnavailable(response, outage);
    else expect(`${response.status}`).toBe(expected.slice(0, 3));
    const events = expected.includes("local") ? ["limiter_unavailable"] : [];
    if (isUnavailable && outage !== OUTAGES.limiter) events.push("database_unavailable");
    expect([...new Set(latestFailures().map(({ event }) => event))]).toEqual(events);
    // Also if the service itself repeated the statements, because their result was lost.
    expect(response.headers.has(HEADER.idempotentReplayed)).toBe(false);
    const created = expected.includes("+1") ? 1 : 0;
    expect(await countPets()).toBe(before + created);
    vi.restoreAllMocks();

    // The service recovers with its bindings: at once, or after the pause that follows a part that hangs or a failed usage.
    pass(expected.includes(" at ") ? 5_000 : operation === "getUsage" ? 1_000 : 0);
    const again = await sendAgain();
    expect(again.status).toBe(statusWithoutFault);
    // With an Idempotency-Key there is one pet.
    const isReplay = operation.endsWith("once") && created === 1;
    expect(again.headers.get(HEADER.idempotentReplayed)).toBe(isReplay ? "true" : null);
    const createdAgain = statusWithoutFault === 201 && !isReplay;
    expect(await countPets()).toBe(before + created + Number(createdAgain));
    // The first request of a key that is not new, and both requests. Without a record, nothing is counted.
    const isCounted = !(isUnavailable && broken.includes("KEYS_DB"));
    const counted = Number(key !== "new") + (operation === "getUsage" ? 0 : 1 + Number(isCounted));
    const { windows } = await (await client.get("/v1/usage")).json<UsageBody>();
    const { minute, day } = windows;
    expect([minute.used, day.used]).toEqual([counted, counted]);
  },
);

// SQLite reports SQLITE_FULL when the largest id is used up. Tests have no other way to fill a database.
it.each([POST, POST_ONCE])(
  "if the database is full, a 503 says that nothing was written: %j",
  async (init) => {
    const { call } = await newClient();
    const select = "SELECT seq FROM sqlite_sequence WHERE name = 'pets'";
    const last = await env.PETS_DB.prepare(select).first("seq");
    await env.PETS_DB.exec(
      "INSERT INTO pets (id, name, category_id) VALUES (9223372036854775807, 'last', 1)",
    );
    const pets = await countPets();
    const response = await call("/v1/pets", init);
    expect(await countPets()).toBe(pets);
    await env.PETS_DB.exec("DELETE FROM pets WHERE name = 'last'");
    await env.PETS_DB.exec(`UPDATE sqlite_sequence SET seq = ${last} WHERE name = 'pets'`);
    await expectServiceUnavailable(response, OUTAGES.databaseFull, 300);
    const cause = expect.stringContaining("SQLITE_FULL");
    expect(latestFailures()).toEqual([{ event: "database_full", cause }]);
    expect((await call("/v1/pets", init)).status).toBe(201);
  },
);
