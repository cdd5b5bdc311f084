// How old what a client sees may be: pets with a lagging replica, and changes of keys, which are read at the primary. keys.test.ts has
// new secrets, bans.test.ts lifted bans, faults.test.ts a database that fails.

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { OPERATION_IDS, OPERATIONS } from "../../src/http/operations.ts";
import { changePlan, revokeKey, setExpiry } from "../../src/operators/admin.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import {
  linkTo,
  newAddress,
  newClient,
  newKey,
  operator,
  pass,
  usageAt,
  watchObjects,
  watchReads,
} from "../support/worker/client.ts";
import { interceptStatements } from "../support/worker/database-stub.ts";
import { hasSettled } from "../support/worker/has-settled.ts";
import { laggingDatabase } from "../support/worker/lagging-database.ts";
import { requestApp } from "../support/worker/request-app.ts";

interface Pet {
  id: number;
}

const POST = {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ name: "Rex", categoryId: 1 }),
};

/** A client of a service with an empty replica. Its lists begin after all existing pets. */
async function newService(...lagging: Parameters<typeof laggingDatabase>) {
  const { PETS_DB, asked, catchUp } = await laggingDatabase(...lagging);
  const { secret } = await newKey();
  const address = newAddress();
  const call = (path: string, init: RequestInit = {}, bindings = { PETS_DB }) => {
    const headers = { ...init.headers, Authorization: `Bearer ${secret}`, "CF-Connecting-IP": address };
    return requestApp(path, { ...init, headers }, bindings);
  };
  /** Returns the ids. */
  const create = async (count: number) => {
    const ids: number[] = [];
    while (ids.length < count) ids.push((await (await call("/v1/pets", POST)).json<Pet>()).id);
    return ids;
  };
  const status = async (path: string) => (await call(path)).status;
  const ids = async (path: string) => (await (await call(path)).json<Pet[]>()).map(({ id }) => id);
  const [first = 0] = await create(1);
  const list = (limit: number) => `/v1/pets?limit=${limit}&cursor=${encodeCursor(BigInt(first) + 1n)}`;
  asked.length = 0;
  return { asked, catchUp, call, create, status, ids, list };
}

/** A replica whose statements fail, for instance because it has no tables yet. */
function failingReplica(): D1Database {
  const fail = () => Promise.reject(new Error("D1_ERROR: no such table: pets: SQLITE_ERROR"));
  const failing = { prepare: () => failing, bind: () => failing, all: fail, first: fail };
  return { withSession: () => failing } as unknown as D1Database;
}

describe("with a lagging replica", () => {
  it.each(OPERATION_IDS.filter((id) => OPERATIONS[id].method === "get"))(
    "%s has the answer of the primary",
    async (id) => {
      const { create, call } = await newService();
      const [petId] = await create(3);
      const path = `/v1${OPERATIONS[id].path}`.replace("{petId}", `${petId}`);
      const [ours, primary] = [await call(path), await call(path, {}, { PETS_DB: env.PETS_DB })];
      expect([ours.status, await ours.text()]).toEqual([200, await primary.text()]);
    },
  );

  it("a key sees a created pet in its next list, also at the end of a page", async () => {
    const { create, ids, list } = await newService();
    const created: number[] = [];
    for (let count = 0; count < 5; count += 1) {
      created.push(...(await create(1)));
      expect(await ids(list(3))).toEqual(created.slice(0, 3));
      expect(await ids(list(100))).toEqual(created);
    }
  });

  it("a page that has a next page is read from the replica again, or else from the primary", async () => {
    const { create, catchUp, call, list, asked } = await newService();
    const created = await create(4);
    const expectPage = async () => {
      pass(30_000);
      asked.length = 0;
      // The page cache serves the second request.
      for (let request = 0; request < 2; request += 1) {
        const response = await call(list(3));
        expect((await response.json<Pet[]>()).map(({ id }) => id)).toEqual(created.slice(0, 3));
        expect(linkTo("next", response)).toBeDefined();
      }
    };
    await expectPage();
    await expectPage();
    expect(asked).toEqual(["nearest", "primary"]);
    await catchUp();
    await expectPage();
    expect(asked).toEqual(["nearest"]);
  });

  it("a pet that only the primary has is found, an unknown one is not", async () => {
    const { create, catchUp, status, asked } = await newService();
    const [old] = await create(1);
    await catchUp();
    const [young = 0] = await create(1);
    for (const [id, found, places] of [
      [old, 200, ["nearest"]],
      [young, 200, ["nearest", "primary"]],
      [young + 1_000, 404, ["nearest", "primary"]],
    ] as const) {
      asked.length = 0;
      expect(await status(`/v1/pets/${id}`)).toBe(found);
      expect(asked).toEqual(places);
    }
  });

  it("pets and lists are found while the replica fails", async () => {
    const { create, ids, list, status } = await newService({ nearest: failingReplica() });
    const [id] = await create(2);
    expect(await status(`/v1/pets/${id}`)).toBe(200);
    // A page that has a next page is read from the replica when it is no longer fresh.
    expect(await ids(list(1))).toEqual([id]);
    pass(30_000);
    expect(await ids(list(1))).toEqual([id]);
  });

  it("one read suffices for a pet and for a 404 if the nearest is the primary", async () => {
    const { create, status, asked } = await newService({ nearest: env.PETS_DB });
    const [id = 0] = await create(1);
    asked.length = 0;
    expect(await status(`/v1/pets/${id}`)).toBe(200);
    expect(await status(`/v1/pets/${id + 1_000}`)).toBe(404);
    expect(asked).toEqual(["nearest", "nearest"]);
  });
});

describe("a change of a key", () => {
  const statusOf = async (client: { get(path: string): Promise<Response> }) =>
    (await client.get("/v1/nowhere")).status;

  it("takes effect after 30 s, also in an isolate that asks nobody: a revocation while it has a lease", async () => {
    const client = await newClient();
    // The third request is admitted from the lease that the second has brought.
    for (let request = 0; request < 3; request += 1) expect(await statusOf(client)).toBe(404);
    await revokeKey(env.KEYS_DB, client.id, operator());
    expect(await statusOf(client)).toBe(404);
    pass(30_000);
    expect(await statusOf(client)).toBe(401);
  });

  it("takes effect after 30 s although the isolate refuses by itself: a larger plan", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 } });
    expect([await statusOf(client), await statusOf(client)]).toEqual([404, 429]);
    await changePlan(env.KEYS_DB, client.id, "pro", undefined, operator());
    const calls = watchObjects(client.id);
    expect(await statusOf(client)).toBe(429);
    expect(calls).toEqual([]);
    pass(30_000);
    expect(await statusOf(client)).toBe(404);
  });

  it("takes effect after 10 s if its object is asked: a revocation, a plan, an expiry", async () => {
    const [revoked, client] = [await newClient({ plan: "free" }), await newClient({ plan: "free" })];
    const limit = async () => (await client.get("/v1/nowhere")).headers.get(HEADER.rateLimitLimit);
    expect([await statusOf(revoked), await limit()]).toEqual([404, "60"]);
    await revokeKey(env.KEYS_DB, revoked.id, operator());
    await changePlan(env.KEYS_DB, client.id, "pro", undefined, operator());
    await setExpiry(env.KEYS_DB, client.id, Date.now() + 20_000, operator());
    pass(10_000);
    expect([await statusOf(revoked), await limit()]).toEqual([404, "300"]);
    // The call of that request has brought the revocation.
    expect(await statusOf(revoked)).toBe(401);
    pass(10_000);
    expect(await statusOf(client)).toBe(401);
  });

  it("keeps what was counted before: a smaller plan", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 9, day: 99 } });
    for (let request = 0; request < 3; request += 1) await client.get("/v1/nowhere");
    const { used } = (await usageAt(client.id)).status.windows.day;
    await changePlan(env.KEYS_DB, client.id, "enterprise", { minute: 9, day: 2 }, operator());
    pass(30_000);
    expect(await statusOf(client)).toBe(429);
    expect((await usageAt(client.id)).status.windows.day).toMatchObject({ used, limit: 2 });
  });
});

it("while the primary is away, a record stays in use for 5 minutes and 10 s; then a revocation takes effect", async () => {
  const [brief, long] = [await newClient(), await newClient()];
  const statuses = async () =>
    [await brief.get("/v1/nowhere"), await long.get("/v1/nowhere")].map(({ status }) => status);
  expect(await statuses()).toEqual([404, 404]);
  for (const { id } of [brief, long]) await revokeKey(env.KEYS_DB, id, operator());
  const outage = { isOver: false };
  interceptStatements("KEYS_DB", (run) =>
    outage.isOver ? run() : Promise.reject(new Error("out of order")),
  );
  pass(100_000);
  expect(await statuses()).toEqual([404, 404]);
  outage.isOver = true;
  // The object reads again 5 s after a failure, and isolates use what it gave them in an outage for 5 s.
  pass(10_000);
  expect((await brief.get("/v1/nowhere")).status).toBe(401);
  outage.isOver = false;
  pass(310_000 - 110_000 - 1);
  expect((await long.get("/v1/nowhere")).status).toBe(404);
  pass(1);
  expect((await long.get("/v1/nowhere")).status).toBe(503);
  outage.isOver = true;
  expect(await statuses()).toEqual([401, 401]);
});

it("a record of 5 to 10 s is read again without making the call wait, and once for all isolates", async () => {
  const client = await newClient();
  await client.get("/v1/nowhere");
  pass(4_999);
  const fresh = watchReads(client.id);
  await client.get("/v1/nowhere");
  expect(fresh).toEqual([]);

  pass(2);
  let reads = 0;
  let isHeld = true;
  interceptStatements("KEYS_DB", async (run, _place, _method, parameters) => {
    if (!parameters.includes(client.id)) return run();
    reads += 1;
    while (isHeld) await scheduler.wait(1);
    return run();
  });
  expect((await client.get("/v1/nowhere")).status).toBe(404);
  await usageAt(client.id);
  expect(reads).toBe(1);

  // A record of 10 s is too old: the call waits for the read that is under way. If the call arrives after the read, the new record is
  // younger than 5 s.
  pass(4_999);
  const usage = usageAt(client.id);
  expect(await hasSettled(usage)).toBe(false);
  isHeld = false;
  await usage;
  expect(reads).toBe(1);
});
