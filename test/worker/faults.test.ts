// Responses when the limiter or the database fails. The bindings are real, behind stubs that throw, hang, answer late, or
// execute a call and lose its result.

import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { MESSAGES, type OutageMessage } from "../../src/http/messages.ts";
import { revokeKey } from "../../src/keys/admin.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { countPets, type ErrorBody, newClient, newKey, operator } from "../support/worker/client.ts";
import { stubDatabase } from "../support/worker/database-stub.ts";
import { hasSettled } from "../support/worker/has-settled.ts";
import { type LogLine, takeLogLines } from "../support/worker/log-lines.ts";
import { requestApp } from "../support/worker/request-app.ts";
import { stubLimiters } from "../support/worker/stub-bindings.ts";

const OUTAGES = MESSAGES.service_unavailable;

/** How a faulty binding handles a call. `call` executes it. */
type Fault = (call: () => Promise<unknown>) => Promise<unknown>;

const throws =
  (properties: object = {}): Fault =>
  async () => {
    throw Object.assign(new Error("out of order"), properties);
  };

/** The isolate does not retry after this error. */
const overloaded = throws({ overloaded: true });

const works: Fault = (call) => call();

const losesAnswer: Fault = async (call) => {
  await call();
  throw new Error("Network connection lost.");
};

/** The limiter's namespace. Its calls meet these faults in order, and the last one from then on. */
function faultyLimiter(...faults: Fault[]) {
  const calls: string[] = [];
  const RATE_LIMITER = stubLimiters(env.RATE_LIMITER, (call, method) => {
    calls.push(method);
    return (faults[Math.min(calls.length, faults.length) - 1] ?? works)(call);
  });
  return { calls, RATE_LIMITER };
}

/** The database. Every statement meets the fault. */
function faultyDatabase(fault: Fault) {
  const calls: string[] = [];
  const DB = stubDatabase((run, _, method) => {
    calls.push(method);
    return fault(run);
  });
  return { calls, DB };
}

function send(secret: string | undefined, path: string, bindings: Partial<Env> = {}, init: RequestInit = {}) {
  const headers = new Headers(init.headers);
  if (secret !== undefined) headers.set("Authorization", `Bearer ${secret}`);
  return requestApp(path, { ...init, headers }, bindings);
}

function left(response: Response): string | null {
  return response.headers.get("X-RateLimit-Remaining");
}

/** The failures in the latest log line. */
function failures(lines: LogLine[]): unknown {
  return lines.at(-1)?.failures;
}

/** Checks that a 503 conforms to the contract. */
async function expectServiceUnavailable(response: Response, message: OutageMessage) {
  expect(response.status).toBe(503);
  expect(response.headers.get("Retry-After")).toBe("5");
  expect(response.headers.get("Content-Type")).toBe("application/json");
  expect(response.headers.get("X-RateLimit-Limit")).toMatch(/^\d+$/);
  const body = await response.json<ErrorBody>();
  expect(Object.keys(body).sort()).toEqual(["code", "message", "status"]);
  expect(body).toMatchObject({ code: "service_unavailable", status: 503 });
  const requestId = response.headers.get("X-Request-Id") ?? "";
  expect(body.message).toBe(message({ retryAfterSeconds: 5, requestId }));
}

/** Fakes timers as well as the clock. */
function fakeTimers() {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
}

/** A fault that hangs, and a promise that resolves when a call meets it. */
function hanging() {
  const { promise: reached, resolve } = Promise.withResolvers<void>();
  const fault: Fault = () => {
    resolve();
    return new Promise(() => {});
  };
  return { fault, reached };
}

describe("with an unreachable limiter", () => {
  it.each([
    ["throws", throws(), 2],
    ["throws a non-error", () => Promise.reject("out of order"), 2],
    ["is overloaded", throws({ retryable: true, overloaded: true }), 1],
  ])("the isolate decides locally and logs the failure if the limiter %s", async (_, fault, calls) => {
    const { secret } = await newKey({ plan: "free" });
    const limiter = faultyLimiter(fault);
    const response = await send(secret, "/v1/pets", limiter);
    expect([response.status, left(response)]).toEqual([200, "59"]);
    expect(limiter.calls).toHaveLength(calls);
    expect(failures(takeLogLines())).toEqual([
      { event: "limiter_unavailable", cause: expect.stringContaining("out of order") },
    ]);
  });

  it("the isolate decides locally if getByName throws", async () => {
    const { secret } = await newKey({ plan: "free" });
    const RATE_LIMITER = {
      getByName() {
        throw new Error("no stub");
      },
    } as unknown as Env["RATE_LIMITER"];
    expect((await send(secret, "/v1/pets", { RATE_LIMITER })).status).toBe(200);
    expect(failures(takeLogLines())).toMatchObject([{ event: "limiter_unavailable" }]);
  });

  it("the isolate decides locally after 2 seconds without a retry if the limiter hangs", async () => {
    const { secret } = await newKey({ plan: "free" });
    const { fault, reached } = hanging();
    const limiter = faultyLimiter(fault);
    fakeTimers();
    const response = send(secret, "/v1/nowhere", limiter);
    await reached;
    vi.advanceTimersByTime(1_999);
    expect(await hasSettled(response)).toBe(false);
    vi.advanceTimersByTime(1);
    expect([(await response).status, left(await response)]).toEqual([404, "59"]);
    expect(limiter.calls).toEqual(["acquire"]);
    expect(failures(takeLogLines())).toEqual([
      {
        event: "limiter_unavailable",
        cause: "DeadlineExceeded: the limiter did not answer within 2000 ms",
      },
    ]);
  });

  it("other requests wait 4.25 seconds for a hanging call, then make another", async () => {
    const { secret } = await newKey({ plan: "free" });
    const { fault, reached } = hanging();
    const limiter = faultyLimiter(fault, works);
    fakeTimers();
    const startMs = Date.now();
    const first = send(secret, "/v1/nowhere", limiter);
    await reached;
    vi.setSystemTime(startMs + 4_249);
    const second = send(secret, "/v1/nowhere", limiter);
    expect(await hasSettled(second)).toBe(false);
    expect(limiter.calls).toHaveLength(1);
    vi.setSystemTime(startMs + 4_250);
    expect((await second).status).toBe(404);
    expect(limiter.calls).toHaveLength(2);
    vi.advanceTimersByTime(2_000);
    expect((await first).status).toBe(404);
  });

  it("the isolate enforces the same limits and sends the same headers", async () => {
    const { secret } = await newKey({ plan: "free" });
    const limiter = faultyLimiter(overloaded);
    const responses: Response[] = [];
    for (let request = 0; request < 70; request += 1) {
      responses.push(await send(secret, "/v1/nowhere", limiter));
    }
    expect(responses.map(({ status }) => status)).toEqual([...Array(60).fill(404), ...Array(10).fill(429)]);
    expect(responses[59]?.headers.get("RateLimit")).toBe('"minute";r=0;t=40, "day";r=940;t=41140');
    expect(responses[69]?.headers.get("Retry-After")).toBe("40");
    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
    expect(left(await send(secret, "/v1/nowhere", limiter))).toBe("59");
  });

  it("the isolate continues from the last known counts of the key", async () => {
    const { secret } = await newKey({ plan: "free" });
    for (let request = 0; request < 50; request += 1) await send(secret, "/v1/nowhere");
    const limiter = faultyLimiter(overloaded);
    const statuses: number[] = [];
    for (let request = 0; request < 12; request += 1) {
      statuses.push((await send(secret, "/v1/nowhere", limiter)).status);
    }
    expect(statuses).toEqual([...Array(10).fill(404), 429, 429]);
  });
});

const body = `{"name":"Rex","categoryId":1}`;
const post = { method: "POST", headers: { "Content-Type": "application/json" }, body };
const postOnce = { ...post, headers: { ...post.headers, "Idempotency-Key": "once" } };

let lists = 0n;

/** The path of a list that is not in the page cache. */
function unreadList(): string {
  lists += 1n;
  return `/v1/pets?cursor=${encodeCursor(lists)}`;
}

const petsPath = () => "/v1/pets";

const OPERATIONS: [name: string, newPath: () => string, init: RequestInit, message: OutageMessage][] = [
  ["listPets", unreadList, {}, OUTAGES.database],
  ["getPet", () => "/v1/pets/1", {}, OUTAGES.database],
  // Only with an Idempotency-Key is a retry safe.
  ["createPet", petsPath, post, OUTAGES.unknownOutcome],
  ["createPet, once", petsPath, postOnce, OUTAGES.unknownOutcomeIdempotent],
];

describe("with an unreachable database", () => {
  it.each(OPERATIONS)("%s gets 503 and consumes quota", async (_, newPath, init, message) => {
    const path = newPath();
    const { secret } = await newKey({ plan: "free" });
    await send(secret, "/v1/nowhere");
    const pets = await countPets();
    const response = await send(secret, path, faultyDatabase(throws()), init);
    expect(left(response)).toBe("58");
    await expectServiceUnavailable(response, message);
    expect(failures(takeLogLines())).toEqual([
      { event: "database_unavailable", cause: "Error: out of order" },
    ]);
    expect(await countPets()).toBe(pets);
    expect((await send(secret, path, {}, init)).status).not.toBe(503);
  });

  it.each(OPERATIONS)(
    "%s gets 503 after 5 seconds if the database hangs",
    async (_, newPath, init, message) => {
      const path = newPath();
      const { secret } = await newKey({ plan: "free" });
      await send(secret, "/v1/nowhere");
      const { fault, reached } = hanging();
      fakeTimers();
      const response = send(secret, path, faultyDatabase(fault), init);
      await reached;
      vi.advanceTimersByTime(4_999);
      expect(await hasSettled(response)).toBe(false);
      vi.advanceTimersByTime(1);
      await expectServiceUnavailable(await response, message);
    },
  );

  // SQLite reports SQLITE_FULL when the largest id is used up. Tests have no other way to fill a database.
  it.each([
    ["createPet", post],
    ["createPet, once", postOnce],
  ])("%s says that nothing was written if the database is full, and the log says why", async (_, init) => {
    const { secret } = await newKey();
    const full = "INSERT INTO pets (id, name, category_id) VALUES (9223372036854775807, 'last', 1)";
    await env.DB.prepare(full).run();
    const pets = await countPets();
    const response = await send(secret, "/v1/pets", {}, init);
    expect(await countPets()).toBe(pets);
    await env.DB.batch(
      [
        "DELETE FROM pets WHERE name = 'last'",
        "UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM pets) WHERE name = 'pets'",
      ].map((sql) => env.DB.prepare(sql)),
    );
    expect(response.status).toBe(503);
    expect(response.headers.get("Retry-After")).toBe("300");
    const requestId = response.headers.get("X-Request-Id") ?? "";
    expect((await response.json<ErrorBody>()).message).toBe(
      OUTAGES.databaseFull({ retryAfterSeconds: 300, requestId }),
    );
    expect(failures(takeLogLines())).toEqual([
      { event: "database_full", cause: expect.stringContaining("SQLITE_FULL") },
    ]);
    expect((await send(secret, "/v1/pets", {}, init)).status).toBe(201);
  });

  it("a late result is dropped, also if it is a failure", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    for (const outcome of [works, throws()]) {
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      const { fault: hang, reached } = hanging();
      const late: Fault = (call) => {
        void hang(call);
        return released.then(() => outcome(call));
      };
      fakeTimers();
      const response = send(secret, unreadList(), faultyDatabase(late));
      await reached;
      vi.advanceTimersByTime(5_000);
      await expectServiceUnavailable(await response, OUTAGES.database);
      // An unhandled rejection would fail the run.
      release();
      expect(await hasSettled(response)).toBe(true);
    }
  });

  it("a retry with the same Idempotency-Key creates no second pet if the result of the first was lost", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const pets = await countPets();
    const DB = stubDatabase((run, _, method) => (method === "batch" ? losesAnswer(run) : run()));
    // The service retries by itself, and fails again.
    expect((await send(secret, "/v1/pets", { DB }, postOnce)).status).toBe(503);
    expect((await send(secret, "/v1/pets", {}, postOnce)).status).toBe(201);
    expect(await countPets()).toBe(pets + 1);
  });

  it("a cached key stays valid for 5 minutes longer", async () => {
    const { secret } = await newKey();
    expect((await send(secret, "/v1/nowhere")).status).toBe(404);
    const database = faultyDatabase(throws());
    const startMs = Date.now();
    for (const [afterMs, status] of [
      [29_999, 404],
      [30_000, 404],
      [329_999, 404],
      [330_000, 503],
    ] as const) {
      vi.setSystemTime(startMs + afterMs);
      expect((await send(secret, "/v1/nowhere", database)).status).toBe(status);
    }
    const failure = [{ event: "database_unavailable", cause: "Error: out of order" }];
    expect(takeLogLines().map((line) => line.failures)).toEqual([
      undefined,
      undefined,
      failure,
      failure,
      failure,
    ]);
    expect((await send(secret, "/v1/nowhere")).status).toBe(404);
  });

  it("one request in 5 seconds looks up a cached key", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const database = faultyDatabase(throws());
    vi.setSystemTime(Date.now() + 30_000);
    for (let request = 0; request < 10; request += 1) await send(secret, "/v1/nowhere", database);
    expect(database.calls).toHaveLength(1);
    vi.setSystemTime(Date.now() + 5_000);
    for (let request = 0; request < 10; request += 1) await send(secret, "/v1/nowhere", database);
    expect(database.calls).toHaveLength(2);
  });

  it("a cached key is rejected from its expiry", async () => {
    const expiresAtMs = Date.now() + 60_000;
    const { secret } = await newKey({ expiresAtMs });
    await send(secret, "/v1/nowhere");
    const database = faultyDatabase(throws());
    vi.setSystemTime(expiresAtMs - 1);
    expect((await send(secret, "/v1/nowhere", database)).status).toBe(404);
    vi.setSystemTime(expiresAtMs);
    expect((await send(secret, "/v1/nowhere", database)).status).toBe(401);
  });

  it("one request in 5 seconds looks up a new key if the database hangs", async () => {
    const { secret } = await newKey();
    const { fault, reached } = hanging();
    const database = faultyDatabase(fault);
    fakeTimers();
    const response = send(secret, "/v1/pets", database);
    await reached;
    vi.advanceTimersByTime(5_000);
    await expectServiceUnavailable(await response, OUTAGES.database);
    vi.setSystemTime(Date.now() + 4_999);
    for (let request = 0; request < 10; request += 1) {
      await expectServiceUnavailable(await send(secret, "/v1/pets", database), OUTAGES.database);
    }
    expect(database.calls).toHaveLength(1);
    // If the clock was set back, the outage lies in the future and does not count.
    vi.setSystemTime(Date.now() - 3_600_000);
    expect((await send(secret, "/v1/pets")).status).toBe(200);
  });

  it("a lookup that fails late does not replace a newer result", async () => {
    const { id, secret } = await newKey();
    await send(secret, "/v1/nowhere");
    vi.setSystemTime(Date.now() + 30_000);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { fault: hang, reached } = hanging();
    const late: Fault = (call) => {
      void hang(call);
      return released.then(() => throws()(call));
    };
    const late503 = send(secret, "/v1/nowhere", faultyDatabase(late));
    await reached;
    await revokeKey(env.DB, id, operator());
    // Requests no longer wait for a lookup that began so long ago.
    vi.setSystemTime(Date.now() + 12_000);
    expect((await send(secret, "/v1/nowhere")).status).toBe(401);
    release();
    await late503;
    expect((await send(secret, "/v1/nowhere")).status).toBe(401);
  });

  it("an invalid statement gets 500, also when a cached key is looked up again", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    vi.setSystemTime(Date.now() + 30_000);
    const wrong = faultyDatabase(() =>
      Promise.reject(new Error("D1_ERROR: no such table: keys: SQLITE_ERROR")),
    );
    expect((await send(secret, "/v1/nowhere", wrong)).status).toBe(500);
    expect(failures(takeLogLines())).toMatchObject([{ event: "internal_error" }]);
    // It is not an outage: the next request looks the key up at once.
    expect((await send(secret, "/v1/nowhere")).status).toBe(404);
  });

  it("a disk failure gets 503", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const broken = faultyDatabase(() => Promise.reject(new Error("D1_ERROR: disk I/O error: SQLITE_IOERR")));
    await expectServiceUnavailable(await send(secret, "/v1/pets", broken), OUTAGES.database);
  });

  it("a key cached as unknown gets 503 when that result has expired", async () => {
    const secret = newSecret();
    expect((await send(secret, "/v1/pets")).status).toBe(401);
    const database = faultyDatabase(throws());
    expect((await send(secret, "/v1/pets", database)).status).toBe(401);
    vi.setSystemTime(Date.now() + 30_000);
    expect((await send(secret, "/v1/pets", database)).status).toBe(503);
  });

  it("a missing or malformed key gets 401 without a query", async () => {
    const database = faultyDatabase(throws());
    expect((await send(undefined, "/v1/pets", database)).status).toBe(401);
    expect((await send("no-key", "/v1/pets", database)).status).toBe(401);
    expect(database.calls).toEqual([]);
  });

  it("the log names both failures if the limiter fails too", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const bindings = { ...faultyDatabase(throws()), ...faultyLimiter(throws()) };
    const response = await send(secret, "/v1/pets", bindings);
    await expectServiceUnavailable(response, OUTAGES.database);
    expect(failures(takeLogLines())).toMatchObject([
      { event: "limiter_unavailable" },
      { event: "database_unavailable" },
    ]);
  });

  it("a new key is accepted as soon as the database answers again", async () => {
    const client = await newClient();
    await send(client.secret, "/v1/pets", faultyDatabase(throws()));
    expect((await client.get("/v1/pets")).status).toBe(200);
  });
});

describe("GET /v1/usage", () => {
  it("gets 503 if the limiter can't be reached, and says which part failed", async () => {
    const { secret } = await newKey();
    const response = await send(secret, "/v1/usage", faultyLimiter(throws()));
    await expectServiceUnavailable(response, OUTAGES.limiter);
    expect(failures(takeLogLines())).toMatchObject([{ event: "limiter_unavailable" }]);
    vi.setSystemTime(Date.now() + 1_000);
    expect((await send(secret, "/v1/usage")).status).toBe(200);
  });
});
