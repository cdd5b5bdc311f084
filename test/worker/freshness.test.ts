// How old what a client sees may be: pets with a lagging replica, and changes of keys, which are read at the primary. test/unit/
// known-keys.test.ts has new secrets, bans.test.ts lifted bans, test/unit/record-reader.test.ts and the simulation how long a record is used.

import { env } from "cloudflare:workers";
import { assert, expect, it } from "vitest";
import { resumeKey, revokeKey, rotateKey, suspendKey } from "../../src/operators/admin.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { interceptStatements, REAL } from "../support/worker/bindings.ts";
import { fetchWithoutKey, newClient, nextPath, operator } from "../support/worker/client.ts";
import type { Place } from "../support/worker/stub-bindings.ts";
import { pass } from "../support/worker/time.ts";

/**
 * A client of a service with a replica, which has the pets that `catchUp` has copied. Its lists begin after all earlier pets. `asked` has the
 * place of every completed statement.
 */
async function newService(nearby = env.REPLICA) {
  const schema = env.PETS_DB.prepare("SELECT sql FROM sqlite_schema WHERE name = 'pets'");
  await env.REPLICA.exec("DROP TABLE IF EXISTS pets");
  await env.REPLICA.prepare(`${await schema.first("sql")}`).run();
  const { create, get } = await newClient();
  const { id: last } = await create();
  const asked: Place[] = [];
  const note = async (run: () => Promise<unknown>, place: Place) => {
    const result = (await run()) as Partial<D1Result> | null;
    if (result?.meta) result.meta.served_by_primary = place === "primary" || nearby === REAL.PETS_DB;
    asked.push(place);
    return result;
  };
  interceptStatements("PETS_DB", note, nearby);
  const catchUp = async () => {
    const rows = await REAL.PETS_DB.prepare("SELECT * FROM pets WHERE id > ?1").bind(last).raw();
    for (const row of rows)
      await env.REPLICA.prepare(`INSERT INTO pets VALUES (${row.map(() => "?")})`)
        .bind(...row)
        .run();
  };
  /** Returns the id. */
  const add = async () => (await create()).id;
  const list = async (limit: number) => {
    const response = await get(`/v1/pets?limit=${limit}&cursor=${encodeCursor(BigInt(last + 1))}`);
    const pets = await response.json<{ id: number }[]>();
    return { ids: pets.map(({ id }) => id), hasNext: nextPath(response) !== undefined };
  };
  const statusOf = async (id: number) => (await get(`/v1/pets/${id}`)).status;
  return { asked, catchUp, add, list, statusOf };
}

it("with a lagging replica, a key sees a created pet in its next list, also at the end of a page", async () => {
  const { add, list } = await newService();
  const created: number[] = [];
  for (let count = 1; count <= 5; count += 1) {
    created.push(await add());
    expect(await list(3)).toEqual({ ids: created.slice(0, 3), hasNext: count > 3 });
    expect(await list(100)).toEqual({ ids: created, hasNext: false });
  }
});

it("with a lagging replica, a page that has a next page is read from the replica again, or else from the primary", async () => {
  const { add, catchUp, list, asked } = await newService();
  const page = { ids: [await add(), await add(), await add()], hasNext: true };
  await add();
  const expectPage = async () => {
    pass(30_000);
    asked.length = 0;
    // The page cache serves the second request.
    for (let request = 0; request < 2; request += 1) expect(await list(3)).toEqual(page);
  };
  await expectPage();
  await expectPage();
  expect(asked).toEqual(["nearest", "primary"]);
  await catchUp();
  await expectPage();
  expect(asked).toEqual(["nearest"]);
});

it("with a lagging replica, a pet that only the primary has is found, an unknown one is not", async () => {
  const { add, catchUp, statusOf, asked } = await newService();
  const old = await add();
  await catchUp();
  const young = await add();
  asked.length = 0;
  expect([await statusOf(old), asked]).toEqual([200, ["nearest"]]);
  expect([await statusOf(young), await statusOf(young + 1_000)]).toEqual([200, 404]);
  expect(asked).toEqual(["nearest", "nearest", "primary", "nearest", "primary"]);
});

it("pets and lists are found while the replica fails, for instance because it lags behind a migration", async () => {
  const { add, list, statusOf } = await newService();
  const id = await add();
  await add();
  await env.REPLICA.exec("DROP TABLE pets");
  expect(await statusOf(id)).toBe(200);
  // A page that has a next page is read from the replica when it is no longer fresh.
  for (const ms of [0, 30_000]) {
    pass(ms);
    expect(await list(1)).toEqual({ ids: [id], hasNext: true });
  }
});

it("one read suffices for a 404 if the nearest instance is the primary", async () => {
  const { statusOf, asked } = await newService(REAL.PETS_DB);
  expect([await statusOf(999_999_999), asked]).toEqual([404, ["nearest"]]);
});

it.each([
  ["revocation", revokeKey],
  ["suspension", (...[database, id, by]: Parameters<typeof revokeKey>) => suspendKey(database, id, "-", by)],
])(
  "a change of a key takes effect after 30 s, also in an isolate that asks nobody: a %s while it has a lease",
  async (_, end) => {
    const { id, status } = await newClient();
    // The third request is admitted from the lease that the second has brought.
    for (let request = 0; request < 3; request += 1) expect(await status()).toBe(404);
    await end(env.KEYS_DB, id, operator());
    expect(await status()).toBe(404);
    pass(30_000);
    expect(await status()).toBe(401);
  },
);

it("a key that was resumed works again after 30 s, also the secret that it got while it was suspended", async () => {
  const { id, status } = await newClient();
  await suspendKey(env.KEYS_DB, id, "a test", operator());
  expect(await status()).toBe(401);
  const rotated = await rotateKey(env.KEYS_DB, id, 0, operator());
  assert(rotated.ok);
  const headers = { Authorization: `Bearer ${rotated.secret}` };
  const send = async () => (await fetchWithoutKey("/v1/nowhere", { headers })).status;
  expect(await send()).toBe(401);
  await resumeKey(env.KEYS_DB, id, null, operator());
  pass(30_000);
  expect([await send(), await status()]).toEqual([404, 401]);
});
