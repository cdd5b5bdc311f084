// How old what a client sees may be: pets with a lagging replica, and changes of keys, which are read at the primary. test/unit/
// known-keys.test.ts has new secrets, bans.test.ts lifted bans, test/unit/key-reader.test.ts and the simulation how long a record is used.

import { env } from "cloudflare:workers";
import { assert, expect, it } from "vitest";
import { resumeKey, revokeKey, rotateKey, suspendKey } from "../../src/operators/admin.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { emptyReplica, interceptStatements, REAL } from "../support/worker/bindings.ts";
import { fetchWithoutKey, newClient, nextPath, operator } from "../support/worker/client.ts";
import type { Place } from "../support/worker/stub-bindings.ts";
import { beginMinute, pass } from "../support/worker/time.ts";

/**
 * A client of a service with a replica, which has the pets that `catchUp` has copied. Its lists begin after all earlier pets. `asked` has the
 * place of every completed statement.
 */
async function newService(nearby = env.REPLICA) {
  await emptyReplica();
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
  const list = async (limit: number, by = get) => {
    const response = await by(`/v1/pets?limit=${limit}&cursor=${encodeCursor(BigInt(last + 1))}`);
    const pets = await response.json<{ id: number }[]>();
    return { ids: pets.map(({ id }) => id), hasNext: nextPath(response) !== undefined };
  };
  const statusOf = async (id: number) => (await get(`/v1/pets/${id}`)).status;
  return { asked, catchUp, add, list, statusOf };
}

it("with a lagging replica, a created pet is in the next list, also at the end of a page and of a key that is new to the isolate", async () => {
  beginMinute();
  const { add, catchUp, list } = await newService();
  const created: number[] = [];
  for (let count = 1; count <= 5; count += 1) {
    created.push(await add());
    for (const limit of [3, 100]) {
      const expected = { ids: created.slice(0, limit), hasNext: count > limit };
      expect(await list(limit, (await newClient()).get)).toEqual(expected);
      expect(await list(limit)).toEqual(expected);
    }
    if (count === 2) await catchUp();
  }
});

it("a page that a replica has read ahead for a new key is cached", async () => {
  const { add, catchUp, list, asked } = await newService();
  for (let count = 0; count < 4; count += 1) await add();
  await catchUp();
  beginMinute();
  asked.length = 0;
  const { get } = await newClient();
  for (let request = 0; request < 2; request += 1)
    expect(await list(3, get)).toMatchObject({ hasNext: true });
  expect(asked).toEqual(["nearest"]);
});

it("with a lagging replica, a pet is read from the primary too only if the nearest instance is another one and lacks it", async () => {
  const service = await newService();
  const placesOf = async ({ asked, statusOf }: typeof service, id: number, status: number) => {
    asked.length = 0;
    expect(await statusOf(id)).toBe(status);
    return [...asked];
  };
  const old = await service.add();
  await service.catchUp();
  const young = await service.add();
  expect(await placesOf(service, old, 200)).toEqual(["nearest"]);
  expect(await placesOf(service, young, 200)).toEqual(["nearest", "primary"]);
  expect(await placesOf(service, young + 1_000, 404)).toEqual(["nearest", "primary"]);
  expect(await placesOf(await newService(REAL.PETS_DB), 999_999_999, 404)).toEqual(["nearest"]);
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

it("a change of a key takes effect after 30 s, also in an isolate that asks nobody because it has a lease", async () => {
  const { id, status } = await newClient();
  // The third request is admitted from the lease that the second has brought.
  for (let request = 0; request < 3; request += 1) expect(await status()).toBe(404);
  await revokeKey(env.KEYS_DB, id, operator());
  expect(await status()).toBe(404);
  pass(30_000);
  expect(await status()).toBe(401);
});

it("a key that was resumed works again after 30 s, also the secret that it got while it was suspended", async () => {
  const { id, status } = await newClient();
  await suspendKey(env.KEYS_DB, id, "a test", false, operator());
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
