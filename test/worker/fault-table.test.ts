// What a client gets when a binding fails: each binding, each way to fail, each operation, in one table. Beside what its
// cell says, each of them shows that the request was counted once, that nothing is half written, and that the
// service is well as soon as the binding is. A client that leaves needs a socket: test/e2e/gone. Why a cell is as
// it is, the tests in faults.test.ts say.

import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { app } from "../support/worker/app.ts";
import { countPets, expectDocumented, newAddress, newKey, ORIGIN } from "../support/worker/client.ts";
import { stubDatabase } from "../support/worker/database-stub.ts";
import { hasSettled } from "../support/worker/has-settled.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { stubLimiters } from "../support/worker/stub-bindings.ts";

/** `+1`: a pet more. `alone`: the isolate decided by itself, and the log says so. `at 5 s`: not a millisecond earlier. */
const TABLE = `
the database, of a key that is known here
                         | listPets     | getPet       | createPet       | createPet, once | usage     | no operation
throws                   | 503          | 503          | 503             | 503             | 200       | 404
throws, retryable, once  | 200          | 200          | 503             | 201 +1          | 200       | 404
throws, retryable        | 503          | 503          | 503             | 503             | 200       | 404
throws, overloaded, once | 503          | 200          | 503             | 503             | 200       | 404
does it, throws, once    | 200          | 200          | 503 +1          | 201 +1          | 200       | 404
does it, throws          | 503          | 503          | 503 +1          | 503 +1          | 200       | 404
hangs                    | 503 at 5 s   | 503 at 5 s   | 503 at 5 s      | 503 at 5 s      | 200       | 404
does it, hangs           | 503 at 5 s   | 503 at 5 s   | 503 at 5 s +1   | 503 at 5 s +1   | 200       | 404
is slow                  | 200          | 200          | 201 +1          | 201 +1          | 200       | 404

the database, of a key that is not known here
                         | listPets     | getPet       | createPet       | createPet, once | usage     | no operation
throws                   | 503          | 503          | 503             | 503             | 503       | 503
throws, retryable, once  | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
throws, retryable        | 503          | 503          | 503             | 503             | 503       | 503
throws, overloaded, once | 503          | 503          | 503             | 503             | 503       | 503
does it, throws, once    | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
does it, throws          | 503          | 503          | 503             | 503             | 503       | 503
hangs                    | 503 at 5 s   | 503 at 5 s   | 503 at 5 s      | 503 at 5 s      | 503 at 5 s | 503 at 5 s
does it, hangs           | 503 at 5 s   | 503 at 5 s   | 503 at 5 s      | 503 at 5 s      | 503 at 5 s | 503 at 5 s
is slow                  | 200          | 200          | 201 +1          | 201 +1          | 200       | 404

the limiter
                         | listPets     | getPet       | createPet       | createPet, once | usage     | no operation
throws                   | 200 alone    | 200 alone    | 201 +1 alone    | 201 +1 alone    | 503       | 404 alone
throws, once             | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
throws, overloaded, once | 200 alone    | 200 alone    | 201 +1 alone    | 201 +1 alone    | 503       | 404 alone
does it, throws, once    | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
does it, throws          | 200 alone    | 200 alone    | 201 +1 alone    | 201 +1 alone    | 503       | 404 alone
hangs                    | 200 at 2 s alone | 200 at 2 s alone | 201 at 2 s +1 alone | 201 at 2 s +1 alone | 503 at 2 s | 404 at 2 s alone
does it, hangs           | 200 at 2 s alone | 200 at 2 s alone | 201 at 2 s +1 alone | 201 at 2 s +1 alone | 503 at 2 s | 404 at 2 s alone
is slow                  | 200          | 200          | 201 +1          | 201 +1          | 200       | 404
`;

const FREE = { minute: 60, day: 1_000 };

const TYPE = { "Content-Type": "application/json" };
const POST = { method: "POST", headers: TYPE, body: `{"name":"Rex","categoryId":1}` };
const POST_ONCE = { ...POST, headers: { ...TYPE, "Idempotency-Key": "once" } };

/** Each operation, and its answer when all is well. No pet is sold: a list of one page is read each time. */
const OPERATIONS: Record<string, [path: string, init: RequestInit, well: string]> = {
  listPets: ["/v1/pets?status=sold", {}, "200"],
  getPet: ["/v1/pets/1", {}, "200"],
  createPet: ["/v1/pets", POST, "201 +1"],
  "createPet, once": ["/v1/pets", POST_ONCE, "201 +1"],
  usage: ["/v1/usage", {}, "200"],
  "no operation": ["/v1/nowhere", {}, "404"],
};

type Call = () => Promise<unknown>;

/** What becomes of a binding's calls. `count`: how many it has met, this one included; `error`: as it says that it fails. */
type Fault = (call: Call, count: number, error: Error) => Promise<unknown>;

const fail = (error: Error) => Promise.reject(error);
const never = () => new Promise<never>(() => {});

const FAULTS: Record<string, Fault> = {
  throws: () => fail(new Error("out of order")),
  "throws, once": (call, count, error) => (count === 1 ? fail(error) : call()),
  "throws, retryable, once": (call, count, error) => (count === 1 ? fail(error) : call()),
  "throws, retryable": (_call, _count, error) => fail(error),
  // Who asks the same part again adds to its load. A read may go on from a replica to the primary.
  "throws, overloaded, once": (call, count, error) => (count === 1 ? fail(error) : call()),
  "does it, throws, once": (call, count, error) => (count === 1 ? call().then(() => fail(error)) : call()),
  "does it, throws": (call, _count, error) => call().then(() => fail(error)),
  hangs: never,
  "does it, hangs": (call) => call().then(never),
  // "is slow" is made where it is known how slow.
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

/** What a cell expects. */
function readCell(expected: string) {
  return {
    status: Number(expected.slice(0, 3)),
    created: expected.includes("+1") ? 1 : 0,
    isAlone: expected.includes("alone"),
    atMs: Number(/ at (\d) s/.exec(expected)?.[1] ?? 0) * 1_000,
  };
}

/** How a binding says that an error may pass, or that it has too much to do. */
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

/** The binding, each of whose calls meets `meet`. */
function stubBinding(binding: "DB" | "RATE_LIMITER", meet: (call: Call) => Promise<unknown>): Partial<Env> {
  if (binding === "DB") return { DB: stubDatabase(meet) };
  return { RATE_LIMITER: stubLimiters(env.RATE_LIMITER, meet) };
}

/** Sends a request of an operation to the app, over the given bindings. */
async function send(secret: string, operation: string, bindings: Partial<Env> = {}): Promise<Response> {
  const [path, init] = OPERATIONS[operation] ?? ["", {}];
  const headers = { ...init.headers, Authorization: `Bearer ${secret}`, "CF-Connecting-IP": newAddress() };
  const ctx = createExecutionContext();
  const response = await app.request(ORIGIN + path, { ...init, headers }, { ...env, ...bindings }, ctx);
  await waitOnExecutionContext(ctx);
  await expectDocumented(init.method ?? "GET", path, response);
  return response;
}

/** Sends it over a binding with a fault. With `atMs`, nothing may come back earlier. */
async function sendFaulty({ what, fault, operation, expected }: Cell, secret: string): Promise<Response> {
  const binding = what.startsWith("the database") ? "DB" : "RATE_LIMITER";
  const error = errorOf(binding, fault);
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const meetFault = FAULTS[fault] ?? ((call: Call) => released.then(call));
  let count = 0;
  const meet = (call: Call) => {
    count += 1;
    const result = meetFault(call, count, error);
    reach();
    return result;
  };

  const isTimed = FAULTS[fault] === undefined || readCell(expected).atMs > 0;
  if (isTimed) vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
  // A list is read while it is being counted: time must not run before the other binding has answered.
  let underway = 0;
  const watch = (call: Call) => {
    underway += 1;
    return call().finally(() => (underway -= 1));
  };
  const other = stubBinding(binding === "DB" ? "RATE_LIMITER" : "DB", watch);
  const response = send(secret, operation, { ...other, ...stubBinding(binding, meet) });
  if (isTimed) {
    await Promise.race([reached, response]);
    do await scheduler.wait(1);
    while (underway > 0);
    // One millisecond less than it is waited for.
    vi.advanceTimersByTime((readCell(expected).atMs || (binding === "DB" ? 5_000 : 2_000)) - 1);
    const isAnswered = await hasSettled(response);
    expect(isAnswered, "before its time").toBe(count === 0);
    if (FAULTS[fault] === undefined) release();
    else vi.advanceTimersByTime(1);
  }
  await response;
  if (isTimed) vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  return response;
}

/** What is stored: pets, and the creations of a key, each of which must have its pet. */
async function stored(keyId: string) {
  const { results } = await env.DB.prepare(
    "SELECT pets.id AS pet_id FROM creations LEFT JOIN pets ON pets.id = pet_id WHERE key_id = ?1",
  )
    .bind(keyId)
    .all<{ pet_id: number | null }>();
  expect(results.map(({ pet_id }) => pet_id)).not.toContain(null);
  return { pets: await countPets(), creations: results.length };
}

/** Steps the clock so far that nobody remembers that the database has just hung. */
function pause(): void {
  vi.setSystemTime(Date.now() + 5_000);
}

describe.each(CELLS)("when $what, $fault: $operation", (cell) => {
  it(`is answered with ${cell.expected}`, async () => {
    const { status, created, isAlone } = readCell(cell.expected);
    const [, , wellAnswer] = OPERATIONS[cell.operation] ?? ["", {}, ""];
    const well = readCell(wellAnswer);
    const isOnce = cell.operation.endsWith("once");
    const isCounted = cell.operation !== "usage";
    const { id, secret } = await newKey({ plan: "free" });
    let counted = 0;
    await env.DB.prepare("INSERT OR IGNORE INTO pets (id, name, category_id) VALUES (1, 'Rex', 1)").run();
    if (!cell.what.endsWith("not known here")) {
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
      isAlone || status === 503 ? [event] : undefined,
    );
    const isLookUp = cell.what.endsWith("not known here") && status === 503;
    if (isCounted && !isLookUp) counted += 1;
    const after = await stored(id);
    expect(after).toEqual({
      pets: before.pets + created,
      creations: before.creations + (isOnce ? created : 0),
    });

    // As soon as it works again all is well, and with an Idempotency-Key the pet is there once.
    pause();
    expect((await send(secret, cell.operation)).status).toBe(well.status);
    if (isCounted) counted += 1;
    expect(await countPets()).toBe(after.pets + (isOnce ? 1 - created : well.created));
    const { minute, day } = (await env.RATE_LIMITER.getByName(id).usage(FREE)).status.windows;
    expect([minute.used, day.used]).toEqual([counted, counted]);
  });
});

it("has every operation, and every fault of every binding", () => {
  // An error of the database may pass or not; those of the limiter are all alike.
  const faults = Object.keys(FAULTS).length + 1;
  expect(CELLS).toHaveLength((2 * (faults - 1) + faults - 2) * Object.keys(OPERATIONS).length);
});
