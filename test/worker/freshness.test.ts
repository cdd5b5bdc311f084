// Reads with a lagging replica: clients see every commit once, and changes of keys take effect in time.

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { changePlan, revokeKey, setExpiry } from "../../src/keys/admin.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { linkTo, newAddress, newClient, newKey, operator, pass } from "../support/worker/client.ts";
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
  const { DB, asked, primary, catchUp } = await laggingDatabase(...lagging);
  const { secret } = await newKey();
  const address = newAddress();
  const call = (path: string, init: RequestInit = {}, bearer = secret) => {
    const headers = { ...init.headers, Authorization: `Bearer ${bearer}`, "CF-Connecting-IP": address };
    return requestApp(path, { ...init, headers }, { DB });
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
  return { asked, primary, catchUp, call, create, status, ids, list };
}

/** A replica whose statements fail, for instance because it has no tables yet. */
function failingReplica(): D1Database {
  const fail = () => Promise.reject(new Error("D1_ERROR: no such table: pets: SQLITE_ERROR"));
  const failing = { prepare: () => failing, bind: () => failing, all: fail, first: fail };
  return { withSession: () => failing } as unknown as D1Database;
}

describe("with a lagging replica", () => {
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
    // One statement for the key, two for the page.
    expect(asked).toEqual(["primary", "nearest", "primary"]);
    await catchUp();
    await expectPage();
    expect(asked).toEqual(["primary", "nearest"]);
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
    const { create, status, asked } = await newService({ nearest: env.DB });
    const [id = 0] = await create(1);
    asked.length = 0;
    expect(await status(`/v1/pets/${id}`)).toBe(200);
    expect(await status(`/v1/pets/${id + 1_000}`)).toBe(404);
    expect(asked).toEqual(["nearest", "nearest"]);
  });
});

it("a revocation takes effect after 30 s, with a stale replica and while the primary is away", async () => {
  const { primary, create, catchUp, call, list } = await newService();
  await create(2);
  const statusesOf = async (secret: string) => {
    const responses = [await call(list(1), POST, secret), await call(list(1), {}, secret)];
    return responses.map(({ status }) => status);
  };
  const [used, cold] = [await newKey(), await newKey()];
  await catchUp();
  expect(await statusesOf(used.secret)).toEqual([201, 200]);
  for (const { id } of [used, cold]) await revokeKey(env.DB, id, operator());
  pass(30_000);
  expect(await statusesOf(used.secret)).toEqual([401, 401]);
  primary.isAway = true;
  pass(60_000);
  expect(await statusesOf(used.secret)).toEqual([401, 401]);
  // Only the stale replica could answer for this key.
  expect(await statusesOf(cold.secret)).toEqual([503, 503]);
  primary.isAway = false;
  expect(await statusesOf(cold.secret)).toEqual([401, 401]);
});

it("a new plan and a new expiry take effect after 30 s", async () => {
  const client = await newClient({ plan: "free" });
  const limit = async () => (await client.get("/v1/nowhere")).headers.get("X-RateLimit-Limit");
  expect(await limit()).toBe("60");
  await changePlan(env.DB, client.id, "pro", undefined, operator());
  await setExpiry(env.DB, client.id, Date.now() + 40_000, operator());
  pass(30_000);
  expect(await limit()).toBe("300");
  pass(10_000);
  expect((await client.get("/v1/nowhere")).status).toBe(401);
});
