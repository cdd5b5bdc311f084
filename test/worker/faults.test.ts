// Responses when a database or the object of a key fails. The bindings are real, behind stubs that throw, hang, or execute a call and
// lose its result. One table has each binding, caller, fault and operation; special cases follow. test/unit/statements.test.ts and
// key-client.test.ts have the rules of retries. Clients that disconnect need a socket: test/e2e/disconnects.

import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES, type OutageMessage } from "../../src/http/messages.ts";
import type { OperationId } from "../../src/http/operations.ts";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { rotateKey } from "../../src/operators/admin.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import {
  acquire,
  batch,
  countPets,
  type ErrorBody,
  fetchWithoutKey,
  newClient,
  newKey,
  operator,
  pass,
  usageAt,
  watchObjects,
} from "../support/worker/client.ts";
import { interceptStatements, stubDatabase } from "../support/worker/database-stub.ts";
import { fakeTimeouts } from "../support/worker/fake-timeouts.ts";
import { hasSettled } from "../support/worker/has-settled.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { requestApp } from "../support/worker/request-app.ts";
import { stubKeyObjects } from "../support/worker/stub-bindings.ts";

/**
 * Each block has the bindings that fail, and the keys for which they do: known to the isolate, new to it but stored in its object, or
 * new to both. The object's record is 10 s old, so that it has to be read. `+1`: a pet was created. `local`: the isolate decided by
 * itself, or could not ask the object, and logged it. `at 5 s`: not a millisecond earlier.
 */
const TABLE = `
PETS_DB: known, new
                         | listPets     | getPet       | createPet       | createPet, once | getUsage  | no operation
throws                   | 503          | 503          | 503             | 503             | 200       | 404
throws, retryable, once  | 200          | 200          | 503             | 201 +1          | 200       | 404
throws, retryable        | 503          | 503          | 503             | 503             | 200       | 404
throws, overloaded, once | 503          | 200          | 503             | 503             | 200       | 404
executes, throws, once   | 200          | 200          | 503 +1          | 201 +1          | 200       | 404
executes, throws         | 503          | 503          | 503 +1          | 503 +1          | 200       | 404
hangs                    | 503 at 5 s   | 503 at 5 s   | 503 at 5 s      | 503 at 5 s      | 200       | 404
executes, hangs          | 503 at 5 s   | 503 at 5 s   | 503 at 5 s +1   | 503 at 5 s +1   | 200       | 404

PETS_DB: stored
                         | listPets     | getPet       | createPet       | createPet, once | getUsage  | no operation
throws                   | 503          | 503          | 503             | 503             | 200       | 404
hangs                    | 503 at 5 s   | 503 at 5 s   | 503 at 5 s      | 503 at 5 s      | 200       | 404

KEYS_DB: known, stored
                         | listPets     | getPet       | createPet       | createPet, once | getUsage  | no operation
throws                   | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
throws, retryable, once  | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
hangs                    | 200 at 2 s   | 200 at 2 s   | 201 at 2 s +1   | 201 at 2 s +1   | 200 at 2 s | 404 at 2 s

KEYS_DB: new
                         | listPets     | getPet       | createPet       | createPet, once | getUsage  | no operation
throws                   | 503          | 503          | 503             | 503             | 503       | 503
throws, retryable, once  | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
throws, overloaded, once | 503          | 503          | 503             | 503             | 503       | 503
hangs                    | 503 at 2 s   | 503 at 2 s   | 503 at 2 s      | 503 at 2 s      | 503 at 2 s | 503 at 2 s

API_KEYS: known
                         | listPets     | getPet       | createPet       | createPet, once | getUsage  | no operation
throws                   | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503 local | 404 local
throws, once             | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
throws, overloaded, once | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503 local | 404 local
executes, throws, once   | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
executes, throws         | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503 local | 404 local
hangs                    | 200 at 3 s local | 200 at 3 s local | 201 at 3 s +1 local | 201 at 3 s +1 local | 503 at 3 s local | 404 at 3 s local
executes, hangs          | 200 at 3 s local | 200 at 3 s local | 201 at 3 s +1 local | 201 at 3 s +1 local | 503 at 3 s local | 404 at 3 s local

API_KEYS: stored, new
                         | listPets     | getPet       | createPet       | createPet, once | getUsage  | no operation
throws                   | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503 local | 404 local
throws, once             | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
throws, overloaded, once | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 200 local | 404 local
executes, throws         | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503 local | 404 local
hangs                    | 200 at 3 s local | 200 at 3 s local | 201 at 3 s +1 local | 201 at 3 s +1 local | 503 at 5 s local | 404 at 3 s local

KEYS_DB, API_KEYS: known
                         | listPets     | getPet       | createPet       | createPet, once | getUsage  | no operation
throws                   | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503 local | 404 local
throws, overloaded, once | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503 local | 404 local
hangs                    | 200 at 3 s local | 200 at 3 s local | 201 at 3 s +1 local | 201 at 3 s +1 local | 503 at 3 s local | 404 at 3 s local

KEYS_DB, API_KEYS: stored, new
                         | listPets     | getPet       | createPet       | createPet, once | getUsage  | no operation
throws                   | 503 local    | 503 local    | 503 local       | 503 local       | 503 local | 503 local
throws, once             | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
hangs                    | 503 at 5 s local | 503 at 5 s local | 503 at 5 s local | 503 at 5 s local | 503 at 5 s local | 503 at 5 s local
`;

const OUTAGES = MESSAGES.service_unavailable;

const TYPE = { "Content-Type": "application/json" };
const POST = { method: "POST", headers: TYPE, body: `{"name":"Rex","categoryId":1}` };
const POST_ONCE = { ...POST, headers: { ...TYPE, [HEADER.idempotencyKey]: "once" } };

/** A list without a next page, which is never cached. */
const LIST = `/v1/pets?cursor=${encodeCursor(2n ** 62n)}`;

type Column = OperationId | "createPet, once" | "no operation";

/** A request of each operation, and its result without faults. The table has the same columns. */
const REQUESTS: Record<Column, [path: string, init: RequestInit, withoutFault: string]> = {
  listPets: [LIST, {}, "200"],
  getPet: ["/v1/pets/1", {}, "200"],
  createPet: ["/v1/pets", POST, "201 +1"],
  "createPet, once": ["/v1/pets", POST_ONCE, "201 +1"],
  getUsage: ["/v1/usage", {}, "200"],
  "no operation": ["/v1/nowhere", {}, "404"],
};

type Binding = "PETS_DB" | "KEYS_DB" | "API_KEYS";

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

const CELLS = TABLE.trim()
  .split("\n\n")
  .flatMap((block) => {
    const [title = "", header = "", ...rows] = block.split("\n");
    const [broken = "", keys = ""] = title.split(": ");
    const [, ...operations] = columns(header) as Column[];
    return rows.flatMap((row) => {
      const [fault = "", ...cells] = columns(row);
      if (`${operations}` !== `${Object.keys(REQUESTS)}` || cells.length !== operations.length)
        throw new Error(`the columns are not ${Object.keys(REQUESTS)}: ${title}: ${row}`);
      return cells.flatMap((expected, index) =>
        keys
          .split(", ")
          .map((key) => ({ broken, key, fault, operation: operations[index], expected }) as Cell),
      );
    });
  });

function columns(line: string): string[] {
  return line.split("|").map((each) => each.trim());
}

/** Parses a cell. */
function readCell(expected: string) {
  return {
    status: Number(expected.slice(0, 3)),
    created: expected.includes("+1") ? 1 : 0,
    isLocal: expected.includes("local"),
    atMs: Number(/ at (\d) s/.exec(expected)?.[1] ?? 0) * 1_000,
  };
}

/** A binding whose calls go through `intercept`; of statements in KEYS_DB those about the key, also of its object. */
function stubBinding(
  name: Binding,
  keyId: string,
  intercept: (run: Call["run"]) => Promise<unknown>,
): Partial<Env> {
  if (name === "API_KEYS") return { API_KEYS: stubKeyObjects(env.API_KEYS, intercept) };
  if (name === "PETS_DB") return { PETS_DB: stubDatabase("PETS_DB", intercept) };
  interceptStatements("KEYS_DB", (run, _place, _method, parameters) =>
    parameters.includes(keyId) ? intercept(run) : run(),
  );
  return {};
}

/**
 * A faulty binding. `calls` has an entry for each call. Calls that hang poll, as the test does: a promise that one object resolves
 * makes the code that awaits it in another one run on behalf of the first.
 */
function faulty(name: Binding, keyId: string, fault: Fault) {
  const calls: Call[] = [];
  let isReleased = false;
  const hang = async () => {
    while (!isReleased) await scheduler.wait(1);
  };
  const binding = stubBinding(name, keyId, (run) => {
    const call = { run, count: calls.length + 1, hang };
    calls.push(call);
    return fault(call);
  });
  const release = () => {
    isReleased = true;
  };
  return { calls, binding, release };
}

function send(secret: string, path: string, bindings: Partial<Env> = {}, init: RequestInit = {}) {
  return requestApp(
    path,
    { ...init, headers: { ...init.headers, Authorization: `Bearer ${secret}` } },
    bindings,
  );
}

function sendOperation(secret: string, operation: Column, bindings: Partial<Env> = {}): Promise<Response> {
  const [path, init] = REQUESTS[operation];
  return send(secret, path, bindings, init);
}

/** Sends a request through faulty bindings, and checks that it ends at the `atMs` of the cell. */
async function sendFaulty(
  { broken, fault, operation, expected }: Cell,
  { id, secret }: { id: string; secret: string },
): Promise<Response> {
  const { atMs } = readCell(expected);
  const names = broken.split(", ") as Binding[];
  const faults = names.map((name) => faulty(name, id, FAULTS[fault] as Fault));
  const bindings: Partial<Env> = Object.assign({}, ...faults.map(({ binding }) => binding));
  if (atMs === 0) return sendOperation(secret, operation, bindings);
  const restoreTimeouts = fakeTimeouts();
  // The page is read while the object is called: the clock must not advance before the other bindings have answered. A call of the
  // object lasts as long as its read.
  let underway = 0;
  for (const name of ["PETS_DB", "KEYS_DB", "API_KEYS"] as const) {
    if (broken.includes(name) || (name === "API_KEYS" && broken.includes("KEYS_DB"))) continue;
    const other = stubBinding(name, id, (run) => {
      underway += 1;
      return run().finally(() => (underway -= 1));
    });
    Object.assign(bindings, other);
  }
  const settle = async () => {
    do await scheduler.wait(TURN_MS);
    while (underway > 0);
  };
  const response = sendOperation(secret, operation, bindings);
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

const STEP_MS = 1_000;
/** Longer than the code between an answer and the next call. */
const TURN_MS = 5;
/** Longer than an answer takes after its deadline. */
const LATE_MS = 5_000;

/** The failures in the latest log line. */
function latestFailures() {
  const failures = takeLogLines().at(-1)?.failures ?? [];
  return failures as { event: string; cause: string; hint?: string }[];
}

/** Checks that a 503 says which part has failed, and when to retry. */
async function expectServiceUnavailable(response: Response, message: OutageMessage, retryAfterSeconds = 5) {
  expect([response.status, response.headers.get(HEADER.retryAfter)]).toEqual([503, `${retryAfterSeconds}`]);
  const requestId = response.headers.get(HEADER.requestId) ?? "";
  expect((await response.json<ErrorBody>()).message).toBe(message({ retryAfterSeconds, requestId }));
}

/** The message of a 503. Only with an Idempotency-Key is a retry of a creation safe. */
function outageOf({ broken, key, operation }: Cell): OutageMessage {
  // Only usage can't do without the object if the isolate gets the record elsewhere.
  if (broken.includes("API_KEYS") && (key === "known" || !broken.includes("KEYS_DB"))) return OUTAGES.limiter;
  if (broken.includes("KEYS_DB") || !operation.startsWith("createPet")) return OUTAGES.database;
  return operation.endsWith("once") ? OUTAGES.unknownOutcomeIdempotent : OUTAGES.unknownOutcome;
}

/** A Free key. Its object's record, if there is one, is too old to be used without a read. */
async function newKeyFor(key: Cell["key"]) {
  const { id, secret } = await newKey({ plan: "free" });
  if (key === "known") await send(secret, "/v1/nowhere");
  if (key === "stored") {
    await acquire(id, batch(1));
    await evictDurableObject(env.API_KEYS.getByName(id));
  }
  pass(10_000);
  return { id, secret };
}

/** The pause before a call of the object is repeated. */
const RETRY_PAUSE_MS = 250;

/** Until the end of the test, nobody waits for that pause. */
function skipRetryPause() {
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation((ms) => wait(ms === RETRY_PAUSE_MS ? 0 : ms));
}

beforeAll(async () => {
  await env.PETS_DB.prepare("INSERT OR IGNORE INTO pets (id, name, category_id) VALUES (1, 'Rex', 1)").run();
});

it.each(CELLS)(
  "$broken, $fault, $key key: $operation gets $expected, is counted once, and recovers",
  async (cell) => {
    const { status, created, isLocal, atMs } = readCell(cell.expected);
    const { broken, key, operation } = cell;
    const [, , withoutFault] = REQUESTS[operation];
    const recovered = readCell(withoutFault);
    const isOnce = operation.endsWith("once");
    const isCounted = operation !== "getUsage";
    const { id, secret } = await newKeyFor(key);
    let counted = key === "new" ? 0 : 1;
    skipRetryPause();
    const before = await countPets();
    takeLogLines();

    const response = await sendFaulty(cell, { id, secret });
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
    expect((await sendOperation(secret, operation)).status).toBe(recovered.status);
    if (isCounted) counted += 1;
    // With an Idempotency-Key there is one pet.
    expect(await countPets()).toBe(before + (isOnce ? 1 : created + recovered.created));
    // Without the rest of a lease.
    const { minute, day } = await (await send(secret, "/v1/usage")).json<UsageBody>();
    expect([minute.used, day.used]).toEqual([counted, counted]);
  },
);

const throws: Fault = () => fail(new Error("out of order"));

describe("without the database of pets", () => {
  // SQLite reports SQLITE_FULL when the largest id is used up. Tests have no other way to fill a database.
  it.each([
    ["createPet", POST],
    ["createPet, once", POST_ONCE],
  ])("%s says that nothing was written if the database is full, and the log says why", async (_, init) => {
    const { secret } = await newKey();
    const last = await env.PETS_DB.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'pets'").first(
      "seq",
    );
    const full = "INSERT INTO pets (id, name, category_id) VALUES (9223372036854775807, 'last', 1)";
    await env.PETS_DB.prepare(full).run();
    const pets = await countPets();
    const response = await send(secret, "/v1/pets", {}, init);
    expect(await countPets()).toBe(pets);
    await env.PETS_DB.batch([
      env.PETS_DB.prepare("DELETE FROM pets WHERE name = 'last'"),
      env.PETS_DB.prepare("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'pets'").bind(last),
    ]);
    await expectServiceUnavailable(response, OUTAGES.databaseFull, 300);
    expect(latestFailures()).toEqual([
      { event: "database_full", cause: expect.stringContaining("SQLITE_FULL") },
    ]);
    expect((await send(secret, "/v1/pets", {}, init)).status).toBe(201);
  });

  it("keys are identified, limited and refused as before, and usage is shown", async () => {
    interceptStatements("PETS_DB", () => fail(new Error("D1_ERROR: no such table: pets: SQLITE_ERROR")));
    const client = await newClient({ plan: "enterprise", limits: { minute: 3, day: 9 } });
    const rotated = await rotateKey(env.KEYS_DB, client.id, 0, operator());
    const statusOf = async (secret: string) => (await send(secret, "/v1/nowhere")).status;
    expect([await statusOf(newSecret(newKeyId())), await statusOf(client.secret)]).toEqual([401, 401]);
    const secret = rotated.ok ? rotated.secret : "";
    expect(await statusOf(secret)).toBe(404);
    expect((await send(secret, "/v1/pets", {}, POST)).status).toBe(500);
    expect([await statusOf(secret), await statusOf(secret)]).toEqual([404, 429]);
    const usage = await send(secret, "/v1/usage");
    expect((await usage.json<UsageBody>()).minute).toMatchObject({ limit: 3, used: 3, remaining: 0 });
    expect((await fetchWithoutKey("/v1/pets")).status).toBe(401);
  });
});

describe("without the database of keys", () => {
  it("a record is used for 5 minutes and 10 s after its read, and read at most once in 5 s", async () => {
    const startMs = Date.now();
    const { id, secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const { calls } = faulty("KEYS_DB", id, throws);
    for (const [afterMs, status, reads] of [
      [10_000, 404, 1],
      [14_999, 404, 1],
      [15_000, 404, 2],
      [19_999, 404, 2],
      [309_999, 404, 3],
      [310_000, 503, 4],
    ] as const) {
      vi.setSystemTime(startMs + afterMs);
      expect((await send(secret, "/v1/nowhere")).status).toBe(status);
      expect(calls).toHaveLength(reads);
    }
    expect(latestFailures()).toMatchObject([{ event: "database_unavailable" }]);
    // The service recovers with the database.
    vi.restoreAllMocks();
    expect((await send(secret, "/v1/nowhere")).status).toBe(404);
  });

  it("a new key is read once in 5 s if the database hangs", async () => {
    const { id, secret } = await newKey();
    const { calls, release } = faulty("KEYS_DB", id, FAULTS.hangs as Fault);
    const restoreTimeouts = fakeTimeouts();
    const response = send(secret, "/v1/pets");
    while (calls.length === 0) await scheduler.wait(1);
    pass(2_000);
    await expectServiceUnavailable(await response, OUTAGES.database);
    pass(4_999);
    await expectServiceUnavailable(await send(secret, "/v1/pets"), OUTAGES.database);
    expect(calls).toHaveLength(1);
    restoreTimeouts();
    release();
  });

  it("the id of no key, and a secret that its key's record lacks, get 401 while that is remembered, then 503", async () => {
    const { id, secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const unknown = [newSecret(newKeyId()), newSecret(id)];
    pass(1_000);
    const statusesOf = async () =>
      (await Promise.all(unknown.map((each) => send(each, "/v1/nowhere")))).map(({ status }) => status);
    expect(await statusesOf()).toEqual([401, 401]);
    interceptStatements("KEYS_DB", () => fail(new Error("out of order")));
    pass(29_999);
    expect(await statusesOf()).toEqual([401, 401]);
    pass(1);
    expect(await statusesOf()).toEqual([503, 503]);
  });

  it.each(["known to the isolate", "new to the isolate"])(
    "a new secret gets a 503 at once, at the cost of a call or two, from a key that is %s",
    async (key) => {
      const { id, secret } = await newKey();
      await (key.startsWith("known") ? send(secret, "/v1/nowhere") : acquire(id, batch(1)));
      const rotated = await rotateKey(env.KEYS_DB, id, 100_000, operator());
      pass(1_000);
      const { calls } = faulty("KEYS_DB", id, throws);
      const asked = watchObjects(id);
      const response = await send(rotated.ok ? rotated.secret : "", "/v1/nowhere");
      await expectServiceUnavailable(response, OUTAGES.database);
      expect(calls).toHaveLength(1);
      expect(asked.length).toBeLessThanOrEqual(2);
      // The old secret works all the same.
      expect((await send(secret, "/v1/nowhere")).status).toBe(404);
    },
  );

  it("a statement that the schema does not fit gets 503, and the log says to migrate", async () => {
    const { id, secret } = await newKey();
    faulty("KEYS_DB", id, () => fail(new Error("D1_ERROR: no such table: keys: SQLITE_ERROR")));
    await expectServiceUnavailable(await send(secret, "/v1/nowhere"), OUTAGES.database);
    const cause = expect.stringContaining("no such table: keys");
    const hint = expect.stringContaining("npx petstore migrate");
    expect(latestFailures()).toEqual([{ event: "database_unavailable", cause, hint }]);
    vi.restoreAllMocks();
    expect((await send(secret, "/v1/nowhere")).status).toBe(404);
  });
});

describe("without the object", () => {
  it("the isolate uses its record for 30 s, then reads one from the primary; without that it answers 503", async () => {
    const { id, secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const { binding } = faulty("API_KEYS", id, throws);
    let reads = 0;
    let isAway = false;
    stubBinding("KEYS_DB", id, (run) => {
      reads += 1;
      return isAway ? fail(LOST) : run();
    });
    const statusOf = async (bindings: Partial<Env>) => (await send(secret, "/v1/nowhere", bindings)).status;
    pass(29_999);
    expect([await statusOf(binding), reads]).toEqual([404, 0]);
    pass(1);
    expect([await statusOf(binding), reads]).toEqual([404, 1]);
    pass(29_999);
    expect([await statusOf(binding), reads]).toEqual([404, 1]);
    isAway = true;
    pass(1);
    expect(await statusOf(binding)).toBe(503);
    isAway = false;
    expect(await statusOf({})).toBe(404);
  });

  it("the isolate has the limits of the record that it has read, and the object learns what was counted", async () => {
    const { id, secret } = await newKey({ plan: "enterprise", limits: { minute: 2, day: 9 } });
    const { binding } = faulty("API_KEYS", id, throws);
    const statuses: number[] = [];
    for (let request = 0; request < 3; request += 1)
      statuses.push((await send(secret, "/v1/nowhere", binding)).status);
    expect(statuses).toEqual([404, 404, 429]);
    pass(1_000);
    expect((await send(secret, "/v1/nowhere")).status).toBe(429);
    expect((await usageAt(id)).status.windows.minute).toMatchObject({ used: 2, refused: 2 });
  });

  it("an object that is back without a record is as one that is away: the isolate decides until its record is 30 s old", async () => {
    const { id, secret } = await newKey();
    const { binding } = faulty("API_KEYS", id, throws);
    expect((await send(secret, "/v1/nowhere", binding)).status).toBe(404);
    faulty("KEYS_DB", id, throws);
    pass(29_999);
    takeLogLines();
    expect((await send(secret, "/v1/nowhere")).status).toBe(404);
    expect(latestFailures()).toMatchObject([{ event: "limiter_unavailable" }]);
    pass(1);
    await expectServiceUnavailable(await send(secret, "/v1/nowhere"), OUTAGES.database);
  });

  it("nobody is asked about a new key for 5 s after the object and the primary have hung", async () => {
    const { id, secret } = await newKey();
    const [object, keys] = [
      faulty("API_KEYS", id, FAULTS.hangs as Fault),
      faulty("KEYS_DB", id, FAULTS.hangs as Fault),
    ];
    const restoreTimeouts = fakeTimeouts();
    const response = send(secret, "/v1/nowhere", object.binding);
    while (object.calls.length === 0) await scheduler.wait(1);
    pass(3_000);
    while (keys.calls.length === 0) await scheduler.wait(1);
    pass(2_000);
    await expectServiceUnavailable(await response, OUTAGES.database);
    await scheduler.wait(TURN_MS);
    pass(4_999);
    await expectServiceUnavailable(await send(secret, "/v1/nowhere", object.binding), OUTAGES.database);
    expect([object.calls.length, keys.calls.length]).toEqual([1, 1]);
    restoreTimeouts();
    for (const { release } of [object, keys]) release();
  });

  it("the log names both failures if the database of pets fails too", async () => {
    const { id, secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const bindings = { ...faulty("PETS_DB", id, throws).binding, ...faulty("API_KEYS", id, throws).binding };
    await expectServiceUnavailable(await send(secret, LIST, bindings), OUTAGES.database);
    expect(latestFailures()).toMatchObject([
      { event: "limiter_unavailable" },
      { event: "database_unavailable" },
    ]);
  });
});
