// The response for each binding, fault and operation, in one table. Each test also checks that the request was counted once,
// that nothing is half written, and that the service recovers with the binding. Clients that disconnect need a socket:
// test/e2e/disconnects. faults.test.ts has the messages and the log.

import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { countPets, newKey } from "../support/worker/client.ts";
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
is slow                  | 200          | 200          | 201 +1          | 201 +1          | 200       | 404

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
is slow                  | 200          | 200          | 201 +1          | 201 +1          | 200       | 404

the limiter
                         | listPets     | getPet       | createPet       | createPet, once | usage     | no operation
throws                   | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503       | 404 local
throws, once             | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
throws, overloaded, once | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503       | 404 local
executes, throws, once   | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
executes, throws         | 200 local    | 200 local    | 201 +1 local    | 201 +1 local    | 503       | 404 local
hangs                    | 200 at 2 s local | 200 at 2 s local | 201 at 2 s +1 local | 201 at 2 s +1 local | 503 at 2 s | 404 at 2 s local
executes, hangs          | 200 at 2 s local | 200 at 2 s local | 201 at 2 s +1 local | 201 at 2 s +1 local | 503 at 2 s | 404 at 2 s local
is slow                  | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
`;

const FREE = { minute: 60, day: 1_000 };

const TYPE = { "Content-Type": "application/json" };
const POST = { method: "POST", headers: TYPE, body: `{"name":"Rex","categoryId":1}` };
const POST_ONCE = { ...POST, headers: { ...TYPE, "Idempotency-Key": "once" } };

/** Each operation, and its result without faults. No pet is sold: a list of one page is never in the page cache. */
const OPERATIONS: Record<string, [path: string, init: RequestInit, withoutFault: string]> = {
  listPets: ["/v1/pets?status=sold", {}, "200"],
  getPet: ["/v1/pets/1", {}, "200"],
  createPet: ["/v1/pets", POST, "201 +1"],
  "createPet, once": ["/v1/pets", POST_ONCE, "201 +1"],
  usage: ["/v1/usage", {}, "200"],
  "no operation": ["/v1/nowhere", {}, "404"],
};

type Call = () => Promise<unknown>;

/** How a faulty binding handles a call. `count`: calls so far, including this one. `error`: the binding's own error. */
type Fault = (call: Call, count: number, error: Error) => Promise<unknown>;

const fail = (error: Error) => Promise.reject(error);
const never = () => new Promise<never>(() => {});

const FAULTS: Record<string, Fault> = {
  throws: () => fail(new Error("out of order")),
  "throws, once": (call, count, error) => (count === 1 ? fail(error) : call()),
  "throws, retryable, once": (call, count, error) => (count === 1 ? fail(error) : call()),
  "throws, retryable": (_call, _count, error) => fail(error),
  // A retry would add to the load of the same part. A read may continue from a replica to the primary.
  "throws, overloaded, once": (call, count, error) => (count === 1 ? fail(error) : call()),
  "executes, throws, once": (call, count, error) => (count === 1 ? call().then(() => fail(error)) : call()),
  "executes, throws": (call, _count, error) => call().then(() => fail(error)),
  hangs: never,
  "executes, hangs": (call) => call().then(never),
  // sendFaulty makes "is slow", because it knows the deadline.
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

/** The error of a binding that is overloaded, or that a retry may reach. */
function errorOf(binding: "DB" | "RATE_LIMITER", fault: string): Error {
  const isOverload = fault.includes("overloaded");
  if (binding === "DB") {
    const text = isOverload ? "D1 DB is overloaded. Too many requests queued." : "Network connection lost.";
    return new Error(`D1_ERROR: ${text}`);
  }
  // The platform sets both for an object that is overloaded, and neither for one that has crashed.
  const properties = isOverload ? { overloaded: true, retryable: true } : {};
  return Object.assign(new Error("Network connection lost."), properties);
}

/** The binding. Its calls go through `intercept`. */
function stubBinding(
  binding: "DB" | "RATE_LIMITER",
  intercept: (call: Call) => Promise<unknown>,
): Partial<Env> {
  if (binding === "DB") return { DB: stubDatabase(intercept) };
  return { RATE_LIMITER: stubLimiters(env.RATE_LIMITER, intercept) };
}

function send(secret: string, operation: string, bindings: Partial<Env> = {}): Promise<Response> {
  const [path, init] = OPERATIONS[operation] ?? ["", {}];
  return requestApp(
    path,
    { ...init, headers: { ...init.headers, Authorization: `Bearer ${secret}` } },
    bindings,
  );
}

/** Sends a request through a faulty binding, and checks that it does not end before the `atMs` of the cell. */
async function sendFaulty({ what, fault, operation, expected }: Cell, secret: string): Promise<Response> {
  const binding = what.startsWith("the database") ? "DB" : "RATE_LIMITER";
  const error = errorOf(binding, fault);
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const applyFault = FAULTS[fault] ?? ((call: Call) => released.then(call));
  let count = 0;
  const intercept = (call: Call) => {
    count += 1;
    const result = applyFault(call, count, error);
    reach();
    return result;
  };

  const isTimed = FAULTS[fault] === undefined || readCell(expected).atMs > 0;
  if (isTimed) vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
  // The page is read while the limiter is called: the clock must not advance before the other binding has answered.
  let underway = 0;
  const watch = (call: Call) => {
    underway += 1;
    return call().finally(() => (underway -= 1));
  };
  const other = stubBinding(binding === "DB" ? "RATE_LIMITER" : "DB", watch);
  const response = send(secret, operation, { ...other, ...stubBinding(binding, intercept) });
  if (isTimed) {
    await Promise.race([reached, response]);
    do await scheduler.wait(1);
    while (underway > 0);
    // One millisecond before the deadline.
    vi.advanceTimersByTime((readCell(expected).atMs || (binding === "DB" ? 5_000 : 2_000)) - 1);
    const isAnswered = await hasSettled(response);
    expect(isAnswered, "answered before the deadline").toBe(count === 0);
    if (FAULTS[fault] === undefined) release();
    else vi.advanceTimersByTime(1);
  }
  await response;
  if (isTimed) vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  return response;
}

/** The number of pets, and of the key's idempotency records, each of which must have its pet. */
async function stored(keyId: string) {
  const { results } = await env.DB.prepare(
    "SELECT pets.id AS pet_id FROM creations LEFT JOIN pets ON pets.id = pet_id WHERE key_id = ?1",
  )
    .bind(keyId)
    .all<{ pet_id: number | null }>();
  expect(results.map(({ pet_id }) => pet_id)).not.toContain(null);
  return { pets: await countPets(), creations: results.length };
}

/** Advances the clock beyond the pause that follows a hanging lookup. */
function pause(): void {
  vi.setSystemTime(Date.now() + 5_000);
}

describe.each(CELLS)("$what, $fault: $operation", (cell) => {
  it(`gets ${cell.expected}`, async () => {
    const { status, created, isLocal } = readCell(cell.expected);
    const [, , withoutFault] = OPERATIONS[cell.operation] ?? ["", {}, ""];
    const recovered = readCell(withoutFault);
    const isOnce = cell.operation.endsWith("once");
    const isCounted = cell.operation !== "usage";
    const { id, secret } = await newKey({ plan: "free" });
    let counted = 0;
    await env.DB.prepare("INSERT OR IGNORE INTO pets (id, name, category_id) VALUES (1, 'Rex', 1)").run();
    if (!cell.what.endsWith("new key")) {
      await send(secret, "no operation");
      counted += 1;
    }
    pause();
    const before = await stored(id);
    takeLogLines();

    const response = await sendFaulty(cell, secret);
    expect(response.status).toBe(status);
    const failures = takeLogLines().at(-1)?.failures as { event: string }[] | undefined;
    const event = cell.what === "the limiter" ? "limiter_unavailable" : "database_unavailable";
    expect(failures?.map((failure) => failure.event)).toEqual(
      isLocal || status === 503 ? [event] : undefined,
    );
    const isLookUp = cell.what.endsWith("new key") && status === 503;
    if (isCounted && !isLookUp) counted += 1;
    const after = await stored(id);
    expect(after).toEqual({
      pets: before.pets + created,
      creations: before.creations + (isOnce ? created : 0),
    });

    // The service recovers with the binding, and with an Idempotency-Key there is one pet.
    pause();
    expect((await send(secret, cell.operation)).status).toBe(recovered.status);
    if (isCounted) counted += 1;
    expect(await countPets()).toBe(after.pets + (isOnce ? 1 - created : recovered.created));
    const { minute, day } = (await env.RATE_LIMITER.getByName(id).usage(FREE)).status.windows;
    expect([minute.used, day.used]).toEqual([counted, counted]);
  });
});

it("the table has every operation and every fault of every binding", () => {
  // Errors of the database are retryable or not. The limiter has no such difference.
  const faults = Object.keys(FAULTS).length + 1;
  expect(CELLS).toHaveLength((2 * (faults - 1) + faults - 2) * Object.keys(OPERATIONS).length);
});
