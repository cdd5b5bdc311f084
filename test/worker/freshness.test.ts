// How old what a client sees may be: pets with a lagging replica, and changes of keys, which are read at the primary. keys.test.ts has
// new secrets, bans.test.ts lifted bans, test/unit/record-reader.test.ts and the simulation how long a record is used.

import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { revokeKey } from "../../src/operators/admin.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { interceptStatements, REAL } from "../support/worker/bindings.ts";
import { newClient, nextPath, operator } from "../support/worker/client.ts";
import type { Place } from "../support/worker/stub-bindings.ts";
import { pass } from "../support/worker/time.ts";

const idsOf = async (response: Response) => (await response.json<{ id: number }[]>()).map(({ id }) => id);

/**
 * A client of a service with a replica, which has the pets that `catchUp` has copied. Its lists begin after all earlier pets. `asked` has the
 * place of every completed statement.
 */
async function newService(replica = env.REPLICA) {
  await applyD1Migrations(env.REPLICA, env.PETS_MIGRATIONS);
  await env.REPLICA.exec("DELETE FROM pets");
  const client = await newClient();
  const { id: last } = await client.create();
  const asked: Place[] = [];
  const note = async (run: () => Promise<unknown>, place: Place) => {
    const result = await run();
    for (const each of [result].flat() as (Partial<D1Result> | null)[])
      if (each?.meta !== undefined)
        each.meta.served_by_primary = place === "primary" || replica === REAL.PETS_DB;
    asked.push(place);
    return result;
  };
  interceptStatements("PETS_DB", note, replica);
  const catchUp = async () => {
    const rows = await REAL.PETS_DB.prepare("SELECT * FROM pets WHERE id > ?1").bind(last).raw();
    const values = rows[0]?.map(() => "?").join(", ");
    await env.REPLICA.batch(
      rows.map((row) => env.REPLICA.prepare(`INSERT INTO pets VALUES (${values})`).bind(...row)),
    );
  };
  /** Returns the ids. */
  const create = async (count: number) => {
    const ids: number[] = [];
    while (ids.length < count) ids.push((await client.create()).id);
    return ids;
  };
  const list = (limit: number) =>
    client.get(`/v1/pets?limit=${limit}&cursor=${encodeCursor(BigInt(last + 1))}`);
  const statusOf = async (id: number) => (await client.get(`/v1/pets/${id}`)).status;
  return { asked, catchUp, create, list, statusOf };
}

/** A replica whose statements fail, for instance because it has no tables yet. */
function failingReplica(): D1Database {
  const fail = () => Promise.reject(new Error("D1_ERROR: no such table: pets: SQLITE_ERROR"));
  const failing = { prepare: () => failing, bind: () => failing, all: fail, first: fail };
  return { withSession: () => failing } as unknown as D1Database;
}

it("with a lagging replica, a key sees a created pet in its next list, also at the end of a page", async () => {
  const { create, list } = await newService();
  const created: number[] = [];
  for (let count = 0; count < 5; count += 1) {
    created.push(...(await create(1)));
    expect(await idsOf(await list(3))).toEqual(created.slice(0, 3));
    expect(await idsOf(await list(100))).toEqual(created);
  }
});

it("with a lagging replica, a page that has a next page is read from the replica again, or else from the primary", async () => {
  const { create, catchUp, list, asked } = await newService();
  const created = await create(4);
  const expectPage = async () => {
    pass(30_000);
    asked.length = 0;
    // The page cache serves the second request.
    for (let request = 0; request < 2; request += 1) {
      const response = await list(3);
      expect(nextPath(response)).toBeDefined();
      expect(await idsOf(response)).toEqual(created.slice(0, 3));
    }
  };
  await expectPage();
  await expectPage();
  expect(asked).toEqual(["nearest", "primary"]);
  await catchUp();
  await expectPage();
  expect(asked).toEqual(["nearest"]);
});

it("with a lagging replica, a pet that only the primary has is found, an unknown one is not", async () => {
  const { create, catchUp, statusOf, asked } = await newService();
  const [old = 0] = await create(1);
  await catchUp();
  const [young = 0] = await create(1);
  for (const [id, found, places] of [
    [old, 200, ["nearest"]],
    [young, 200, ["nearest", "primary"]],
    [young + 1_000, 404, ["nearest", "primary"]],
  ] as const) {
    asked.length = 0;
    expect(await statusOf(id)).toBe(found);
    expect(asked).toEqual(places);
  }
});

it("with a lagging replica, pets and lists are found while the replica fails", async () => {
  const { create, list, statusOf } = await newService(failingReplica());
  const [id = 0] = await create(2);
  expect(await statusOf(id)).toBe(200);
  // A page that has a next page is read from the replica when it is no longer fresh.
  expect(await idsOf(await list(1))).toEqual([id]);
  pass(30_000);
  expect(await idsOf(await list(1))).toEqual([id]);
});

it("with a lagging replica, one read suffices for a 404 if the nearest is the primary", async () => {
  const { statusOf, asked } = await newService(REAL.PETS_DB);
  expect(await statusOf(999_999_999)).toBe(404);
  expect(asked).toEqual(["nearest"]);
});

it("a change of a key takes effect after 30 s, also in an isolate that asks nobody: a revocation while it has a lease", async () => {
  const { id, status } = await newClient();
  // The third request is admitted from the lease that the second has brought.
  for (let request = 0; request < 3; request += 1) expect(await status()).toBe(404);
  await revokeKey(env.KEYS_DB, id, operator());
  expect(await status()).toBe(404);
  pass(30_000);
  expect(await status()).toBe(401);
});
