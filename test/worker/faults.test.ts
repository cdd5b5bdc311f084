// What clients get when the limiter or the database fails: bindings that throw, hang, answer late, or do what they were
// asked and lose the answer. What stands behind them is real.

import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { MESSAGES, type OutageMessage } from "../../src/http/messages.ts";
import { revokeKey } from "../../src/keys/admin.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { app } from "../support/worker/app.ts";
import {
  countPets,
  type ErrorBody,
  expectDocumented,
  newAddress,
  newClient,
  newKey,
  ORIGIN,
} from "../support/worker/client.ts";
import { stubDatabase } from "../support/worker/database-stub.ts";
import { hasSettled } from "../support/worker/has-settled.ts";
import { type LogLine, takeLogLines } from "../support/worker/log-lines.ts";
import { stubLimiters } from "../support/worker/stub-bindings.ts";

const OUTAGES = MESSAGES.service_unavailable;

/** What a faulty part does with a call: `call` is what the real one would do. */
type Fault = (call: () => Promise<unknown>) => Promise<unknown>;

const throws =
  (properties: object = {}): Fault =>
  async () => {
    throw Object.assign(new Error("out of order"), properties);
  };

/** The limiter is not called again after this. */
const overloaded = throws({ overloaded: true });

const works: Fault = (call) => call();

const losesAnswer: Fault = async (call) => {
  await call();
  throw new Error("Network connection lost.");
};

/** The limiter's namespace, whose calls meet these faults, one after the other, and the last one from then on. */
function faultyLimiter(...faults: Fault[]) {
  const calls: string[] = [];
  const RATE_LIMITER = stubLimiters(env.RATE_LIMITER, (call, method) => {
    calls.push(method);
    return (faults[Math.min(calls.length, faults.length) - 1] ?? works)(call);
  });
  return { calls, RATE_LIMITER };
}

/** The database, of which every statement that is run meets a fault. */
function faultyDatabase(fault: Fault) {
  const calls: string[] = [];
  const DB = stubDatabase((run, _, method) => {
    calls.push(method);
    return fault(run);
  });
  return { calls, DB };
}

/** Sends a request to the app over the given bindings, the others being as they are. */
async function send(
  secret: string | undefined,
  path: string,
  bindings: Partial<Env> = {},
  init: RequestInit = {},
) {
  const headers = new Headers(init.headers);
  if (secret !== undefined) headers.set("Authorization", `Bearer ${secret}`);
  headers.set("CF-Connecting-IP", newAddress());
  const ctx = createExecutionContext();
  const response = await app.request(ORIGIN + path, { ...init, headers }, { ...env, ...bindings }, ctx);
  await waitOnExecutionContext(ctx);
  await expectDocumented(init.method ?? "GET", path, response);
  return response;
}

function left(response: Response): string | null {
  return response.headers.get("X-RateLimit-Remaining");
}

/** What the latest line of the log says about failures. */
function failures(lines: LogLine[]): unknown {
  return lines.at(-1)?.failures;
}

/** Every response of a failing service is one that the contract knows. */
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

/** Fakes timers too; the clock is stepped by hand. */
function fakeTimers() {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
}

/** A fault that never ends, and a promise for its beginning. */
function hanging() {
  const { promise: reached, resolve } = Promise.withResolvers<void>();
  const fault: Fault = () => {
    resolve();
    return new Promise(() => {});
  };
  return { fault, reached };
}

describe("when the limiter can't be reached", () => {
  it.each([
    ["throws", throws(), 2],
    ["throws what is no error", () => Promise.reject("out of order"), 2],
    ["is overloaded", throws({ retryable: true, overloaded: true }), 1],
  ])("because it %s, the isolate counts alone and says so", async (_, fault, calls) => {
    const { secret } = await newKey({ plan: "free" });
    const limiter = faultyLimiter(fault);
    const response = await send(secret, "/v1/pets", limiter);
    expect([response.status, left(response)]).toEqual([200, "59"]);
    expect(limiter.calls).toHaveLength(calls);
    expect(failures(takeLogLines())).toEqual([
      { event: "limiter_unavailable", cause: expect.stringContaining("out of order") },
    ]);
  });

  it("because it throws before it can be called, the isolate counts alone", async () => {
    const { secret } = await newKey({ plan: "free" });
    const RATE_LIMITER = {
      getByName() {
        throw new Error("no stub");
      },
    } as unknown as Env["RATE_LIMITER"];
    expect((await send(secret, "/v1/pets", { RATE_LIMITER })).status).toBe(200);
    expect(failures(takeLogLines())).toMatchObject([{ event: "limiter_unavailable" }]);
  });

  it("because it hangs, it is given up after 2 seconds, not asked again, and the isolate counts alone", async () => {
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

  it("because it hangs, others wait for that call for 4.25 seconds, then make their own", async () => {
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

  it("the same limits hold, and the same headers say so", async () => {
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

  it("the isolate goes on from what it last knew of the key", async () => {
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

/** The path of a list that nobody has read yet: one that was read may be in memory. */
function unreadList(): string {
  lists += 1n;
  return `/v1/pets?cursor=${encodeCursor(lists)}`;
}

const petsPath = () => "/v1/pets";

const OPERATIONS: [name: string, newPath: () => string, init: RequestInit, message: OutageMessage][] = [
  ["listPets", unreadList, {}, OUTAGES.database],
  ["getPet", () => "/v1/pets/1", {}, OUTAGES.database],
  // Only who has sent a key already may send the creation again.
  ["createPet", petsPath, post, OUTAGES.unknownOutcome],
  ["createPet, once", petsPath, postOnce, OUTAGES.unknownOutcomeIdempotent],
];

describe("when the database can't be reached", () => {
  it.each(OPERATIONS)("%s answers 503, and counts", async (_, newPath, init, message) => {
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

  it.each(OPERATIONS)("%s answers 503 after 5 seconds if it hangs", async (_, newPath, init, message) => {
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
  });

  // SQLite calls a table full when its largest id is used up: the one way to a full database that is open here.
  it.each([
    ["createPet", post],
    ["createPet, once", postOnce],
  ])("because it is full, %s says that nothing was written, and the log that it is full", async (_, init) => {
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

  it("what it answers too late is dropped, be it a failure", async () => {
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
      // A failure that nobody handled would fail the run.
      release();
      expect(await hasSettled(response)).toBe(true);
    }
  });

  it("a creation that was done, but not answered, is there once if it is sent again with its Idempotency-Key", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const pets = await countPets();
    const DB = stubDatabase((run, _, method) => (method === "batch" ? losesAnswer(run) : run()));
    // It is tried again by itself, in vain.
    expect((await send(secret, "/v1/pets", { DB }, postOnce)).status).toBe(503);
    expect((await send(secret, "/v1/pets", {}, postOnce)).status).toBe(201);
    expect(await countPets()).toBe(pets + 1);
  });

  it("a key that is known here stays good for 5 minutes past its refresh", async () => {
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

  it("a key that is known here makes one request in 5 seconds wait for it", async () => {
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

  it("an expiry that is known here is kept", async () => {
    const expiresAtMs = Date.now() + 60_000;
    const { secret } = await newKey({ expiresAtMs });
    await send(secret, "/v1/nowhere");
    const database = faultyDatabase(throws());
    vi.setSystemTime(expiresAtMs - 1);
    expect((await send(secret, "/v1/nowhere", database)).status).toBe(404);
    vi.setSystemTime(expiresAtMs);
    expect((await send(secret, "/v1/nowhere", database)).status).toBe(401);
  });

  it("a key that is not known here gets 503, not 401", async () => {
    const { secret } = await newKey();
    const response = await send(secret, "/v1/pets", faultyDatabase(throws()));
    await expectServiceUnavailable(response, OUTAGES.database);
  });

  it("because it hangs, one request in 5 seconds waits for a key that is not known here", async () => {
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
    // A clock that was set back makes nobody wait for the end of an outage that is to come.
    vi.setSystemTime(Date.now() - 3_600_000);
    expect((await send(secret, "/v1/pets")).status).toBe(200);
  });

  it("because it hung, a key that is not known here is looked up again after 5 seconds", async () => {
    const { secret } = await newKey();
    const { fault, reached } = hanging();
    fakeTimers();
    const response = send(secret, "/v1/pets", faultyDatabase(fault));
    await reached;
    vi.advanceTimersByTime(5_000);
    expect((await response).status).toBe(503);
    vi.setSystemTime(Date.now() + 5_000);
    expect((await send(secret, "/v1/pets")).status).toBe(200);
  });

  it("a look-up that fails late does not undo one that was luckier meanwhile", async () => {
    const { id, secret } = await newKey();
    await send(secret, "/v1/nowhere");
    vi.setSystemTime(Date.now() + 30_000);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { fault: hang, reached } = hanging();
    const late: Fault = (call) => {
      void hang(call);
      return released.then(() => throws()(call));
    };
    const unlucky = send(secret, "/v1/nowhere", faultyDatabase(late));
    await reached;
    await revokeKey(env.DB, id, Date.now());
    // Nobody waits any longer for one that has taken so long.
    vi.setSystemTime(Date.now() + 12_000);
    expect((await send(secret, "/v1/nowhere")).status).toBe(401);
    release();
    await unlucky;
    expect((await send(secret, "/v1/nowhere")).status).toBe(401);
  });

  it("a statement that is wrong is a bug, 500, also when a key that is known is looked up again", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    vi.setSystemTime(Date.now() + 30_000);
    const wrong = faultyDatabase(() =>
      Promise.reject(new Error("D1_ERROR: no such table: keys: SQLITE_ERROR")),
    );
    expect((await send(secret, "/v1/nowhere", wrong)).status).toBe(500);
    expect(failures(takeLogLines())).toMatchObject([{ event: "internal_error" }]);
    // And it is no outage: as soon as it is mended, nobody is told of it any more.
    expect((await send(secret, "/v1/nowhere")).status).toBe(404);
  });

  it("because its disk fails, that is 503 and not 500", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const broken = faultyDatabase(() => Promise.reject(new Error("D1_ERROR: disk I/O error: SQLITE_IOERR")));
    await expectServiceUnavailable(await send(secret, "/v1/pets", broken), OUTAGES.database);
  });

  it("a key that was known to be none may have been made since: 503", async () => {
    const secret = newSecret();
    expect((await send(secret, "/v1/pets")).status).toBe(401);
    const database = faultyDatabase(throws());
    expect((await send(secret, "/v1/pets", database)).status).toBe(401);
    vi.setSystemTime(Date.now() + 30_000);
    expect((await send(secret, "/v1/pets", database)).status).toBe(503);
  });

  it("who sends no key, or what is no key, is told so", async () => {
    const database = faultyDatabase(throws());
    expect((await send(undefined, "/v1/pets", database)).status).toBe(401);
    expect((await send("no-key", "/v1/pets", database)).status).toBe(401);
    expect(database.calls).toEqual([]);
  });

  it("nor the limiter, the log names both", async () => {
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

  it("the next request succeeds as soon as the database answers again", async () => {
    const client = await newClient();
    await send(client.secret, "/v1/pets", faultyDatabase(throws()));
    expect((await client.get("/v1/pets")).status).toBe(200);
  });
});

describe("usage", () => {
  it("is 503 when the counters can't be reached, and says which part failed", async () => {
    const { secret } = await newKey();
    const response = await send(secret, "/v1/usage", faultyLimiter(throws()));
    await expectServiceUnavailable(response, OUTAGES.limiter);
    expect(failures(takeLogLines())).toMatchObject([{ event: "limiter_unavailable" }]);
    vi.setSystemTime(Date.now() + 1_000);
    expect((await send(secret, "/v1/usage")).status).toBe(200);
  });

  it("is 503 after 2 seconds when the object hangs", async () => {
    const { secret } = await newKey();
    await send(secret, "/v1/nowhere");
    const { fault, reached } = hanging();
    fakeTimers();
    const response = send(secret, "/v1/usage", faultyLimiter(fault));
    await reached;
    vi.advanceTimersByTime(2_000);
    expect((await response).status).toBe(503);
  });
});
