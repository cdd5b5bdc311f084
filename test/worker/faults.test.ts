// Responses when a database or the object of a key fails. The bindings are real, behind stubs that throw, hang, or execute a call and
// lose its result. One table has each binding, caller, fault and operation; special cases follow. test/unit/statements.test.ts,
// key-client.test.ts and record-reader.test.ts have the rules of retries, of local decisions, and of how long a record is used. Clients that
// disconnect need a socket: test/e2e/disconnects.

import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES, type OutageMessage } from "../../src/http/messages.ts";
import type { OperationId } from "../../src/http/operations.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { interceptCalls, interceptStatements, objectOf } from "../support/worker/bindings.ts";
import { acquire, batch, type Client, countPets, newClient } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { fakeTimeouts, hasSettled, pass } from "../support/worker/time.ts";

/**
 * Each block has the bindings that fail, and the keys for which they do: known to the isolate, new to it but stored in its object, or
 * new to both. The object's record is 10 s old, so that it has to be read. `+1`: a pet was created. `local`: the isolate decided by
 * itself, or could not ask the object, and logged it. `at 5 s`: not a millisecond earlier.
 */
const TABLE = `
PETS_DB: known
                         | listPets     | getPet       | createPet       | createPet, once | getUsage   | no operation
throws                   | 503          | 503          | 503             | 503             | 200        | 404
throws, retryable, once  | 200          | 200          | 503             | 201 +1          | 200        | 404
throws, retryable        | 503          | 503          | 503             | 503             | 200        | 404
throws, overloaded, once | 503          | 200          | 503             | 503             | 200        | 404
executes, throws, once   | 200          | 200          | 503 +1          | 201 +1          | 200        | 404
executes, throws         | 503          | 503          | 503 +1          | 503 +1          | 200        | 404
hangs                    | 503 at 5 s   | 503 at 5 s   | 503 at 5 s      | 503 at 5 s      | 200        | 404
executes, hangs          | 503 at 5 s   | 503 at 5 s   | 503 at 5 s +1   | 503 at 5 s +1   | 200        | 404

PETS_DB: stored, new
                         | listPets     | createPet
throws                   | 503          | 503
hangs                    | 503 at 5 s   | 503 at 5 s

PETS_DB, API_KEYS: known
                         | listPets     | createPet       | getUsage
throws                   | 503 local    | 503 local       | 503 local

KEYS_DB: known, stored
                         | listPets     | createPet       | getUsage
throws                   | 200          | 201 +1          | 200
hangs                    | 200 at 2 s   | 201 at 2 s +1   | 200 at 2 s

KEYS_DB: new
                         | listPets     | createPet       | getUsage
throws                   | 503          | 503             | 503
throws, retryable, once  | 200          | 201 +1          | 200
throws, overloaded, once | 503          | 503             | 503
hangs                    | 503 at 2 s   | 503 at 2 s      | 503 at 2 s

API_KEYS: known
                         | listPets         | createPet           | getUsage
throws                   | 200 local        | 201 +1 local        | 503 local
throws, once             | 200              | 201 +1              | 200
throws, overloaded, once | 200 local        | 201 +1 local        | 503 local
executes, throws, once   | 200              | 201 +1              | 200
executes, throws         | 200 local        | 201 +1 local        | 503 local
hangs                    | 200 at 3 s local | 201 at 3 s +1 local | 503 at 3 s local
executes, hangs          | 200 at 3 s local | 201 at 3 s +1 local | 503 at 3 s local

API_KEYS: stored, new
                         | listPets         | createPet           | getUsage
throws                   | 200 local        | 201 +1 local        | 503 local
throws, once             | 200              | 201 +1              | 200
throws, overloaded, once | 200 local        | 201 +1 local        | 200 local
executes, throws         | 200 local        | 201 +1 local        | 503 local
hangs                    | 200 at 3 s local | 201 at 3 s +1 local | 503 at 5 s local

KEYS_DB, API_KEYS: known
                         | listPets         | createPet           | getUsage
throws                   | 200 local        | 201 +1 local        | 503 local
hangs                    | 200 at 3 s local | 201 at 3 s +1 local | 503 at 3 s local

KEYS_DB, API_KEYS: stored, new
                         | listPets         | createPet           | getUsage
throws                   | 503 local        | 503 local           | 503 local
throws, once             | 200              | 201 +1              | 200
hangs                    | 503 at 5 s local | 503 at 5 s local    | 503 at 5 s local
`;

const OUTAGES = MESSAGES.service_unavailable;

const TYPE = { "Content-Type": "application/json" };
const POST = { method: "POST", headers: TYPE, body: `{"name":"Rex","categoryId":1}` };
const POST_ONCE = { ...POST, headers: { ...TYPE, [HEADER.idempotencyKey]: "once" } };

/** A list without a next page, which is never cached. */
const LIST = `/v1/pets?cursor=${encodeCursor(2n ** 62n)}`;

type Column = OperationId | "createPet, once" | "no operation";

/** A request of each operation, and its result without faults. The first block of the table has the same columns. */
const REQUESTS: Record<Column, [path: string, init: RequestInit, withoutFault: string]> = {
  listPets: [LIST, {}, "200"],
  getPet: ["/v1/pets/1", {}, "200"],
  createPet: ["/v1/pets", POST, "201 +1"],
  "createPet, once": ["/v1/pets", POST_ONCE, "201 +1"],
  getUsage: ["/v1/usage", {}, "200"],
  "no operation": ["/v1/nowhere", {}, "404"],
};

const BINDINGS = ["PETS_DB", "KEYS_DB", "API_KEYS"] as const;
type Binding = (typeof BINDINGS)[number];

/** One call of a binding. `count`: the calls so far, including this one. `hang` waits until the test releases the call. */
type Call = { run: () => Promise<unknown>; count: number; hang: () => Promise<unknown> };

/** How a faulty binding handles a call. */
type Fault = (call: Call) => Promise<unknown>;

/** A retry may reach either binding. */
const LOST = new Error("D1_ERROR: Network connection lost.");
/** A retry would add to the load of the same part. D1 has the message only, an object the properties. */
const OVERLOADED = Object.assign(new Error("D1_ERROR: D1 DB is overloaded. Too many requests queued."), {
  overloaded: true,
  retryable: true,
});

const fail = (error: unknown) => Promise.reject(error);
const failsOnce =
  (error: Error): Fault =>
  ({ run, count }) =>
    count === 1 ? fail(error) : run();

const FAULTS: Record<string, Fault> = {
  // Not an Error.
  throws: () => fail("out of order"),
  "throws, once": failsOnce(LOST),
  "throws, retryable, once": failsOnce(LOST),
  "throws, retryable": () => fail(LOST),
  // A read may continue from a replica to the primary.
  "throws, overloaded, once": failsOnce(OVERLOADED),
  "executes, throws, once": ({ run, count }) => (count === 1 ? run().then(() => fail(LOST)) : run()),
  "executes, throws": ({ run }) => run().then(() => fail(LOST)),
  // Late failures and results are dropped: an unhandled rejection would fail the run.
  hangs: ({ hang }) => hang().then(() => fail("late")),
  "executes, hangs": ({ run, hang }) => run().then(hang),
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
    const [title = "", header = "", ...rows] = block.split("\n");
    const [broken = "", keys = ""] = title.split(": ");
    const [, ...operations] = columns(header) as Column[];
    if (number === 0) expect(operations).toEqual(Object.keys(REQUESTS));
    return rows.flatMap((row) => {
      const [fault = "", ...cells] = columns(row);
      expect(cells, row).toHaveLength(operations.length);
      return cells.flatMap((expected, index) =>
        keys
          .split(", ")
          .map((key) => ({ broken, key, fault, operation: operations[index], expected }) as Cell),
      );
    });
  });

/** Parses a cell. */
function readCell(expected: string) {
  return {
    status: Number(expected.slice(0, 3)),
    created: expected.includes("+1") ? 1 : 0,
    isLocal: expected.includes("local"),
    atMs: Number(/ at (\d) s/.exec(expected)?.[1] ?? 0) * 1_000,
  };
}

/** Intercepts the calls of a binding; of those to objects and to KEYS_DB only those about the key, also from its object. */
function intercept(name: Binding, keyId: string, handle: (run: Call["run"]) => Promise<unknown>): void {
  if (name === "API_KEYS") interceptCalls((run, _, id) => (id === keyId ? handle(run) : run()));
  else
    interceptStatements(name, (run, _place, _method, parameters) =>
      name === "PETS_DB" || parameters.includes(keyId) ? handle(run) : run(),
    );
}

/**
 * Makes a binding faulty. `calls` has an entry for each call. Calls that hang poll, as the test does: a promise that one object resolves
 * makes the code that awaits it in another one run on behalf of the first.
 */
function breakBinding(name: Binding, keyId: string, fault: Fault) {
  const calls: Call[] = [];
  let isReleased = false;
  const hang = async () => {
    while (!isReleased) await scheduler.wait(1);
  };
  intercept(name, keyId, (run) => {
    const call = { run, count: calls.length + 1, hang };
    calls.push(call);
    return fault(call);
  });
  const release = () => {
    isReleased = true;
  };
  return { calls, release };
}

const STEP_MS = 1_000;
/** Longer than the code between an answer and the next call. */
const TURN_MS = 5;
/** Longer than an answer takes after its deadline. */
const LATE_MS = 5_000;

/** Sends a request through faulty bindings, and checks that it ends at the `atMs` of the cell. */
async function sendFaulty(
  { broken, fault, operation, expected }: Cell,
  { id, call }: Client,
): Promise<Response> {
  const { atMs } = readCell(expected);
  const names = broken.split(", ") as Binding[];
  const faults = names.map((name) => breakBinding(name, id, FAULTS[fault] as Fault));
  const [path, init] = REQUESTS[operation];
  if (atMs === 0) return call(path, init);
  const restoreTimeouts = fakeTimeouts();
  // The page is read while the object is called: the clock must not advance before the other bindings have answered. A call of the
  // object lasts as long as its read.
  let underway = 0;
  for (const name of BINDINGS) {
    if (names.includes(name) || (name === "API_KEYS" && names.includes("KEYS_DB"))) continue;
    intercept(name, id, (run) => {
      underway += 1;
      return run().finally(() => (underway -= 1));
    });
  }
  const settle = async () => {
    do await scheduler.wait(TURN_MS);
    while (underway > 0);
  };
  const response = call(path, init);
  while (faults.every(({ calls }) => calls.length === 0)) await scheduler.wait(1);
  await settle();
  // In steps, because the deadline of one part may begin when that of another ends.
  for (let ms = STEP_MS; ms < atMs; ms += STEP_MS) {
    pass(STEP_MS);
    await settle();
  }
  pass(STEP_MS - 1);
  await settle();
  expect(await hasSettled(response), "answered before the deadline").toBe(false);
  pass(1);
  const late = scheduler.wait(LATE_MS).then(() => expect.fail("not answered at the deadline"));
  await Promise.race([response, late]);
  // Other deadlines that end now.
  await settle();
  for (const { release } of faults) release();
  restoreTimeouts();
  return response;
}

/** The failures in the latest log line. */
function latestFailures() {
  const failures = takeLogLines().at(-1)?.failures ?? [];
  return failures as { event: string; cause: string; hint?: string }[];
}

/** Checks that a 503 says which part has failed, and when to retry. */
async function expectServiceUnavailable(response: Response, message: OutageMessage, retryAfterSeconds = 5) {
  expect([response.status, response.headers.get(HEADER.retryAfter)]).toEqual([503, `${retryAfterSeconds}`]);
  const requestId = response.headers.get(HEADER.requestId) ?? "";
  expect((await response.json<{ message: string }>()).message).toBe(
    message({ retryAfterSeconds, requestId }),
  );
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

/** The longest pauses before a call of the object and a statement are repeated. */
const RETRY_PAUSES_MS = { call: 250, statement: 150 };

/** Until the end of the test, nobody waits for those pauses. */
function skipRetryPauses() {
  const { setTimeout } = globalThis;
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation((ms) => wait(ms === RETRY_PAUSES_MS.call ? 0 : ms));
  vi.spyOn(globalThis, "setTimeout").mockImplementation(((callback: () => void, ms = 0) =>
    setTimeout(callback, ms <= RETRY_PAUSES_MS.statement ? 0 : ms)) as never);
}

beforeAll(async () => {
  await env.PETS_DB.prepare("INSERT OR IGNORE INTO pets (id, name, category_id) VALUES (1, 'Rex', 1)").run();
});

it.each(CELLS)(
  "$broken, $fault, $key key: $operation: $expected, counted once, and recovers",
  async (cell) => {
    const { status, created, isLocal, atMs } = readCell(cell.expected);
    const { broken, key, operation } = cell;
    const [path, init, withoutFault] = REQUESTS[operation];
    const recovered = readCell(withoutFault);
    const isOnce = operation.endsWith("once");
    const isCounted = operation !== "getUsage";
    const client = await newClientFor(key);
    let counted = key === "new" ? 0 : 1;
    skipRetryPauses();
    const before = await countPets();
    takeLogLines();

    const response = await sendFaulty(cell, client);
    expect(response.status).toBe(status);
    const outage = outageOf(cell);
    if (status === 503) await expectServiceUnavailable(response, outage);
    const events = isLocal ? ["limiter_unavailable"] : [];
    if (status === 503 && outage !== OUTAGES.limiter) events.push("database_unavailable");
    expect([...new Set(latestFailures().map(({ event }) => event))]).toEqual(events);
    // Without a record, nothing is counted.
    if (isCounted && !(status === 503 && broken.includes("KEYS_DB"))) counted += 1;
    expect(await countPets()).toBe(before + created);
    vi.restoreAllMocks();

    // The service recovers with its bindings: at once, or after the pause that follows a part that hangs or a failed usage.
    if (atMs > 0) pass(5_000);
    else if (operation === "getUsage") pass(1_000);
    expect((await client.call(path, init)).status).toBe(recovered.status);
    if (isCounted) counted += 1;
    // With an Idempotency-Key there is one pet.
    expect(await countPets()).toBe(before + (isOnce ? 1 : created + recovered.created));
    // Without the rest of a lease.
    const { minute, day } = await (await client.get("/v1/usage")).json<UsageBody>();
    expect([minute.used, day.used]).toEqual([counted, counted]);
  },
);

// SQLite reports SQLITE_FULL when the largest id is used up. Tests have no other way to fill a database.
it.each([POST, POST_ONCE])(
  "if the database is full, a 503 says that nothing was written: %j",
  async (init) => {
    const { call } = await newClient();
    const last = await env.PETS_DB.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'pets'").first(
      "seq",
    );
    const full = "INSERT INTO pets (id, name, category_id) VALUES (9223372036854775807, 'last', 1)";
    await env.PETS_DB.prepare(full).run();
    const pets = await countPets();
    const response = await call("/v1/pets", init);
    expect(await countPets()).toBe(pets);
    await env.PETS_DB.batch([
      env.PETS_DB.prepare("DELETE FROM pets WHERE name = 'last'"),
      env.PETS_DB.prepare("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'pets'").bind(last),
    ]);
    await expectServiceUnavailable(response, OUTAGES.databaseFull, 300);
    const cause = expect.stringContaining("SQLITE_FULL");
    expect(latestFailures()).toEqual([{ event: "database_full", cause }]);
    expect((await call("/v1/pets", init)).status).toBe(201);
  },
);
