// Responses when the limiter or the database fails. The bindings are real, behind stubs that throw, hang, or execute a call and
// lose its result. One table has each binding, fault and operation; special cases follow. test/unit/statements.test.ts and
// limiter-client.test.ts have the rules of retries. Clients that disconnect need a socket: test/e2e/disconnects.

import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { MESSAGES, type OutageMessage } from "../../src/http/messages.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { countPets, type ErrorBody, newKey, pass } from "../support/worker/client.ts";
import { stubDatabase } from "../support/worker/database-stub.ts";
import { hasSettled } from "../support/worker/has-settled.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { requestApp } from "../support/worker/request-app.ts";
import { stubLimiters } from "../support/worker/stub-bindings.ts";

/** `+1`: a pet was created. `local`: the isolate decided locally, and logged it. `at 5 s`: not a millisecond earlier. */
const TABLE = `
the database with a cached key
                         | listPets     | getPet       | createPet       | createPet, once | usage     | no operation
throws                   | 503          | 503          | 503             | 503             | 200       | 404
throws, retryable, once  | 200          | 200          | 503             | 201 +1          | 200       | 404
throws, retryable        | 503          | 503          | 503             | 503             | 200       | 404
throws, overloaded, once | 503          | 200          | 503             | 503             | 200       | 404
executes, throws, once   | 200          | 200          | 503 +1          | 201 +1          | 200       | 404
executes, throws         | 503          | 503          | 503 +1          | 503 +1          | 200       | 404
hangs                    | 503 at 5 s   | 503 at 5 s   | 503 at 5 s      | 503 at 5 s      | 200       | 404
executes, hangs          | 503 at 5 s   | 503 at 5 s   | 503 at 5 s +1   | 503 at 5 s +1   | 200       | 404

the database with a new key
                         | listPets     | getPet       | createPet       | createPet, once | usage     | no operation
throws                   | 503          | 503          | 503             | 503             | 503       | 503
throws, retryable, once  | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
throws, retryable        | 503          | 503          | 503             | 503             | 503       | 503
throws, overloaded, once | 503          | 503          | 503             | 503             | 503       | 503
executes, throws, once   | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
executes, throws         | 503          | 503          | 503             | 503             | 503       | 503
hangs                    | 503 at 5 s   | 503 at 5 s   | 503 at 5 s      | 503 at 5 s      | 503 at 5 s | 503 at 5 s
executes, hangs          | 503 at 5 s   | 503 at 5 s   | 503 at 5 s      | 503 at 5 s      | 503 at 5 s | 503 at 5 s

the limiter
                         | listPets     | getPet       | createPet       | createPet, once | usage     | no operation
throws                   | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503       | 404 local
throws, once             | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
throws, overloaded, once | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503       | 404 local
executes, throws, once   | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
executes, throws         | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503       | 404 local
hangs                    | 200 at 3 s local | 200 at 3 s local | 201 at 3 s +1 local | 201 at 3 s +1 local | 503 at 3 s | 404 at 3 s local
executes, hangs          | 200 at 3 s local | 200 at 3 s local | 201 at 3 s +1 local | 201 at 3 s +1 local | 503 at 3 s | 404 at 3 s local
`;

const OUTAGES = MESSAGES.service_unavailable;

const TYPE = { "Content-Type": "application/json" };
const POST = { method: "POST", headers: TYPE, body: `{"name":"Rex","categoryId":1}` };
const POST_ONCE = { ...POST, headers: { ...TYPE, "Idempotency-Key": "once" } };

/** A list without a next page, which is never cached. */
const LIST = `/v1/pets?cursor=${encodeCursor(2n ** 62n)}`;

/** Each operation, and its result without faults. */
const OPERATIONS: Record<string, [path: string, init: RequestInit, withoutFault: string]> = {
  listPets: [LIST, {}, "200"],
  getPet: ["/v1/pets/1", {}, "200"],
  createPet: ["/v1/pets", POST, "201 +1"],
  "createPet, once": ["/v1/pets", POST_ONCE, "201 +1"],
  usage: ["/v1/usage", {}, "200"],
  "no operation": ["/v1/nowhere", {}, "404"],
};

type Binding = "DB" | "RATE_LIMITER";

/** One call of a binding. `count`: the calls so far, including this one. `released`: by the test. */
type Call = { run: () => Promise<unknown>; count: number; released: Promise<unknown> };

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
  hangs: ({ released }) => released.then(() => fail("late")),
  "executes, hangs": ({ run, released }) => run().then(() => released),
};

interface Cell {
  what: string;
  fault: string;
  operation: string;
  expected: string;
}

const CELLS = TABLE.trim()
  .split("\n\n")
  .flatMap((block) => {
    const [what = "", header = "", ...rows] = block.split("\n");
    const [, ...operations] = columns(header);
    return rows.flatMap((row) => {
      const [fault = "", ...cells] = columns(row);
      return cells.map(
        (expected, index): Cell => ({ what, fault, operation: operations[index] ?? "", expected }),
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

/** A binding whose calls go through `intercept`. */
function stubBinding(name: Binding, intercept: (run: Call["run"]) => Promise<unknown>): Partial<Env> {
  if (name === "DB") return { DB: stubDatabase(intercept) };
  return { RATE_LIMITER: stubLimiters(env.RATE_LIMITER, intercept) };
}

/** A faulty binding. `calls` has an entry for each call, `reached` resolves at the first. */
function faulty(name: Binding, fault: Fault) {
  const calls: Call[] = [];
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const binding = stubBinding(name, (run) => {
    const call = { run, count: calls.length + 1, released };
    calls.push(call);
    reach();
    return fault(call);
  });
  return { calls, reached, release, binding };
}

function send(secret: string, path: string, bindings: Partial<Env> = {}, init: RequestInit = {}) {
  return requestApp(
    path,
    { ...init, headers: { ...init.headers, Authorization: `Bearer ${secret}` } },
    bindings,
  );
}

/** Fakes timers as well as the clock. */
function fakeTimers() {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
}

function sendOperation(secret: string, operation: string, bindings: Partial<Env> = {}): Promise<Response> {
  const [path, init] = OPERATIONS[operation] ?? ["", {}];
  return send(secret, path, bindings, init);
}

/** Sends a request through a faulty binding, and checks that it does not end before the `atMs` of the cell. */
async function sendFaulty({ what, fault, operation, expected }: Cell, secret: string): Promise<Response> {
  const name = what.startsWith("the database") ? "DB" : "RATE_LIMITER";
  const { atMs } = readCell(expected);
  const { reached, release, binding } = faulty(name, FAULTS[fault] as Fault);
  if (atMs === 0) return sendOperation(secret, operation, binding);
  fakeTimers();
  // The page is read while the limiter is called: the clock must not advance before the other binding has answered.
  let underway = 0;
  const other = stubBinding(name === "DB" ? "RATE_LIMITER" : "DB", (run) => {
    underway += 1;
    return run().finally(() => (underway -= 1));
  });
  const response = sendOperation(secret, operation, { ...other, ...binding });
  await reached;
  do await scheduler.wait(1);
  while (underway > 0);
  vi.advanceTimersByTime(atMs - 1);
  expect(await hasSettled(response), "answered before the deadline").toBe(false);
  vi.advanceTimersByTime(1);
  await response;
  release();
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  return response;
}

/** The failures in the latest log line. */
function latestFailures(): unknown {
  return takeLogLines().at(-1)?.failures;
}

/** Checks that a 503 says which part has failed, and when to retry. */
async function expectServiceUnavailable(response: Response, message: OutageMessage, retryAfterSeconds = 5) {
  expect([response.status, response.headers.get("Retry-After")]).toEqual([503, `${retryAfterSeconds}`]);
  const requestId = response.headers.get("X-Request-Id") ?? "";
  expect((await response.json<ErrorBody>()).message).toBe(message({ retryAfterSeconds, requestId }));
}

/** The message of a 503. Only with an Idempotency-Key is a retry of a creation safe. */
function outageOf({ what, operation }: Cell): OutageMessage {
  if (what === "the limiter") return OUTAGES.limiter;
  if (what.endsWith("new key") || !operation.startsWith("createPet")) return OUTAGES.database;
  return operation.endsWith("once") ? OUTAGES.unknownOutcomeIdempotent : OUTAGES.unknownOutcome;
}

beforeAll(async () => {
  await env.DB.prepare("INSERT OR IGNORE INTO pets (id, name, category_id) VALUES (1, 'Rex', 1)").run();
});

it.each(CELLS)("$what, $fault: $operation gets $expected, is counted once, and recovers", async (cell) => {
  const { status, created, isLocal, atMs } = readCell(cell.expected);
  const [, , withoutFault] = OPERATIONS[cell.operation] ?? ["", {}, ""];
  const recovered = readCell(withoutFault);
  const isOnce = cell.operation.endsWith("once");
  const isCounted = cell.operation !== "usage";
  const { secret } = await newKey({ plan: "free" });
  const isNew = cell.what.endsWith("new key");
  let counted = 0;
  if (!isNew) {
    await send(secret, "/v1/nowhere");
    counted += 1;
  }
  const before = await countPets();
  takeLogLines();

  const response = await sendFaulty(cell, secret);
  expect(response.status).toBe(status);
  if (status === 503) await expectServiceUnavailable(response, outageOf(cell));
  const event = cell.what === "the limiter" ? "limiter_unavailable" : "database_unavailable";
  expect(latestFailures()).toEqual(
    isLocal || status === 503 ? [expect.objectContaining({ event })] : undefined,
  );
  if (isCounted && !(isNew && status === 503)) counted += 1;
  expect(await countPets()).toBe(before + created);

  // The service recovers with the binding: at once, or after the pause that follows a look-up that hangs or a failed usage.
  if (atMs > 0) pass(5_000);
  else if (cell.operation === "usage") pass(1_000);
  expect((await sendOperation(secret, cell.operation)).status).toBe(recovered.status);
  if (isCounted) counted += 1;
  // With an Idempotency-Key there is one pet.
  expect(await countPets()).toBe(before + (isOnce ? 1 : created + recovered.created));
  // Without the rest of a lease.
  const { minute, day } = await (await send(secret, "/v1/usage")).json<UsageBody>();
  expect([minute.used, day.used]).toEqual([counted, counted]);
});

describe("with an unreachable database", () => {
  const throws: Fault = () => fail(new Error("out of order"));

  // SQLite reports SQLITE_FULL when the largest id is used up. Tests have no other way to fill a database.
  it.each([
    ["createPet", POST],
    ["createPet, once", POST_ONCE],
  ])("%s says that nothing was written if the database is full, and the log says why", async (_, init) => {
    const { secret } = await newKey();
    const last = await env.DB.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'pets'").first("seq");
    const full = "INSERT INTO pets (id, name, category_id) VALUES (9223372036854775807, 'last', 1)";
    await env.DB.prepare(full).run();
    const pets = await countPets();
    const response = await send(secret, "/v1/pets", {}, init);
    expect(await countPets()).toBe(pets);
    await env.DB.batch([
      env.DB.prepare("DELETE FROM pets WHERE name = 'last'"),
      env.DB.prepare("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'pets'").bind(last),
    ]);
    await expectServiceUnavailable(response, OUTAGES.databaseFull, 300);
    expect(latestFailures()).toEqual([
      { event: "database_full", cause: expect.stringContaining("SQLITE_FULL") },
    ]);
    expect((await send(secret, "/v1/pets", {}, init)).status).toBe(201);
  });

  it("a cached key stays valid for 5 minutes longer, and is looked up once in 5 seconds", async () => {
    const startMs = Date.now();
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const { calls, binding } = faulty("DB", throws);
    for (const [afterMs, status, lookups] of [
      // In the background.
      [29_999, 404, 1],
      [30_000, 404, 2],
      [34_999, 404, 2],
      [35_000, 404, 3],
      [329_999, 404, 4],
      [330_000, 503, 5],
    ] as const) {
      vi.setSystemTime(startMs + afterMs);
      expect((await send(secret, "/v1/nowhere", binding)).status).toBe(status);
      expect(latestFailures()).toEqual(
        afterMs < 30_000 ? undefined : [expect.objectContaining({ event: "database_unavailable" })],
      );
      expect(calls).toHaveLength(lookups);
    }
    // The service recovers with the database.
    expect((await send(secret, "/v1/nowhere")).status).toBe(404);
  });

  it("a new key is looked up once in 5 seconds if the database hangs", async () => {
    const { secret } = await newKey();
    const { calls, reached, binding } = faulty("DB", FAULTS.hangs as Fault);
    fakeTimers();
    const response = send(secret, "/v1/pets", binding);
    await reached;
    vi.advanceTimersByTime(5_000);
    await expectServiceUnavailable(await response, OUTAGES.database);
    pass(4_999);
    await expectServiceUnavailable(await send(secret, "/v1/pets", binding), OUTAGES.database);
    expect(calls).toHaveLength(1);
  });

  it("a key cached as unknown gets 503 when that result has expired", async () => {
    const secret = newSecret();
    expect((await send(secret, "/v1/pets")).status).toBe(401);
    const { binding } = faulty("DB", throws);
    expect((await send(secret, "/v1/pets", binding)).status).toBe(401);
    pass(30_000);
    expect((await send(secret, "/v1/pets", binding)).status).toBe(503);
  });

  it("an invalid statement gets 500, also when a cached key is looked up again", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    pass(30_000);
    const { binding } = faulty("DB", () => fail(new Error("D1_ERROR: no such table: keys: SQLITE_ERROR")));
    expect((await send(secret, "/v1/nowhere", binding)).status).toBe(500);
    expect(latestFailures()).toMatchObject([{ event: "internal_error" }]);
    // It is not an outage: the next request looks the key up at once.
    expect((await send(secret, "/v1/nowhere")).status).toBe(404);
  });

  it("the log names both failures if the limiter fails too", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const bindings = { ...faulty("DB", throws).binding, ...faulty("RATE_LIMITER", throws).binding };
    await expectServiceUnavailable(await send(secret, LIST, bindings), OUTAGES.database);
    expect(latestFailures()).toMatchObject([
      { event: "limiter_unavailable" },
      { event: "database_unavailable" },
    ]);
  });
});
