// Reads with a lagging replica: clients see every commit once, and changes of keys take effect in time.

import { env } from "cloudflare:workers";
import { describe, expect, it, onTestFinished } from "vitest";
import { changePlan, revokeKey, rotateKey } from "../../src/keys/admin.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { countPets, linkTo, newAddress, newKey, operator, pass, walk } from "../support/worker/client.ts";
import { laggingDatabase } from "../support/worker/lagging-database.ts";
import { requestApp } from "../support/worker/request-app.ts";

interface Pet {
  id: number;
}

/** A client of a service with an empty replica. Its lists begin after all existing pets. */
async function newService(...lagging: Parameters<typeof laggingDatabase>) {
  const { DB, asked, primary, catchUp } = await laggingDatabase(...lagging);
  const { id: keyId, secret } = await newKey();
  const address = newAddress();
  const call = (path: string, init: RequestInit = {}, bearer = secret) => {
    const headers = { ...init.headers, Authorization: `Bearer ${bearer}`, "CF-Connecting-IP": address };
    return requestApp(path, { ...init, headers }, { DB });
  };
  const create = async () => {
    const body = JSON.stringify({ name: "Rex", categoryId: 1 });
    const headers = { "Content-Type": "application/json" };
    const response = await call("/v1/pets", { method: "POST", headers, body });
    expect(response.status).toBe(201);
    return (await response.json<Pet>()).id;
  };
  /** Returns the ids. */
  const createMany = async (count: number) => {
    const ids: number[] = [];
    while (ids.length < count) ids.push(await create());
    return ids;
  };
  const status = async (path: string, bearer?: string) => (await call(path, {}, bearer)).status;
  const ids = async (path: string) => (await (await call(path)).json<Pet[]>()).map(({ id }) => id);
  const first = await create();
  const list = (limit: number) => `/v1/pets?limit=${limit}&cursor=${encodeCursor(BigInt(first) + 1n)}`;
  asked.length = 0;
  return { keyId, secret, asked, primary, catchUp, call, create, createMany, status, ids, list };
}

describe("with a lagging replica", () => {
  it("a key sees a created pet in its next list, also at the end of a page", async () => {
    const { create, ids, list } = await newService();
    const created: number[] = [];
    for (let count = 0; count < 5; count += 1) {
      created.push(await create());
      expect(await ids(list(3))).toEqual(created.slice(0, 3));
      expect(await ids(list(100))).toEqual(created);
    }
  });

  it("keys, pets and lists are found while the replica has no tables", async () => {
    const { create, status, list } = await newService();
    const id = await create();
    for (const table of ["replaced_secrets", "keys", "pets", "key_changes"])
      await env.REPLICA.exec(`DROP TABLE ${table}`);
    onTestFinished(async () => {
      await env.REPLICA.exec("DROP TABLE d1_migrations");
      await env.REPLICA.exec("DROP TABLE creations");
    });
    const { secret } = await newKey();
    expect(await status(`/v1/pets/${id}`, secret)).toBe(200);
    expect(await status(list(3), secret)).toBe(200);
  });

  it("a page keeps its next link when it is read again", async () => {
    const { createMany, call, list, asked } = await newService();
    const created = await createMany(3);
    await call(list(2));
    pass(30_000);
    asked.length = 0;
    const response = await call(list(2));
    expect((await response.json<Pet[]>()).map(({ id }) => id)).toEqual(created.slice(0, 2));
    expect(linkTo("next", response)).toBeDefined();
    // One statement for the key, two for the page.
    expect(asked).toEqual(["primary", "nearest", "primary"]);
  });

  it("a walk returns every pet once, including those that only the primary has", async () => {
    const { createMany, call, list, catchUp, asked } = await newService();
    const created = await createMany(9);
    await catchUp();
    created.push(...(await createMany(4)));
    // Now the isolate knows of each page but the last that it has a next one.
    await walk<Pet>(call, list(2));
    pass(30_000);
    created.push(...(await createMany(4)));
    asked.length = 0;
    const pages = await walk<Pet>(call, list(2));
    expect(pages.flat().map(({ id }) => id)).toEqual(created);
    // It starts at the replica and ends at the primary.
    expect([asked[0], asked.at(-1)]).toEqual(["nearest", "primary"]);
  });

  it("a pet that only the primary has is found, an unknown one is not", async () => {
    const { create, catchUp, status, asked } = await newService();
    const old = await create();
    await catchUp();
    const young = await create();
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
});

/** Changes of a key, and the responses to a POST and a list from then on. */
const CHANGES: Record<string, [change: (keyId: string) => Promise<unknown>, answers: string[]]> = {
  revocation: [(keyId) => revokeKey(env.DB, keyId, operator()), ["401", "401"]],
  rotation: [(keyId) => rotateKey(env.DB, keyId, 0, operator()), ["401", "401"]],
  expiry: [
    (keyId) =>
      env.DB.prepare("UPDATE keys SET expires_at_ms = ?2 WHERE id = ?1").bind(keyId, Date.now()).run(),
    ["401", "401"],
  ],
  "another plan": [
    (keyId) => changePlan(env.DB, keyId, "pro", undefined, operator()),
    ["201 as pro", "200 as pro"],
  ],
};

describe("a change of a key", () => {
  it.each(Object.entries(CHANGES))(
    "takes effect after 30 s and for ten minutes, with a stale replica and three minutes without a primary: %s",
    async (_, [change, answers]) => {
      const { primary, call, create, catchUp, list } = await newService();
      await create();
      await create();
      /** The responses to a POST and a list. */
      const ask = async ({ secret }: { secret: string }) => {
        const headers = { "Content-Type": "application/json" };
        const post = { method: "POST", headers, body: JSON.stringify({ name: "Rex", categoryId: 1 }) };
        const found: string[] = [];
        for (const init of [post, {}]) {
          const { status, headers } = await call(list(1), init, secret);
          const isPro = headers.get("RateLimit-Policy")?.startsWith('"minute";q=300;');
          found.push(`${status}${isPro ? " as pro" : ""}`);
        }
        return found;
      };
      const [inUse, idle] = [await newKey(), await newKey()];
      // The isolate does not know these keys before their first request.
      const coldKeys = await Promise.all(Array.from({ length: 19 }, () => newKey()));
      await catchUp();
      for (const key of [inUse, idle]) expect(await ask(key)).toEqual(["201", "200"]);
      pass(1);
      for (const { id } of [inUse, idle, ...coldKeys]) await change(id);
      pass(30_000);
      const pets = await countPets();
      for (const [index, cold] of coldKeys.entries()) {
        primary.isAway = index >= 6 && index < 12;
        const isRefused = answers[0] === "401";
        expect(await ask(inUse)).toEqual(
          primary.isAway && !isRefused ? ["503 as pro", "200 as pro"] : answers,
        );
        // Only the stale replica could answer for this key.
        expect(await ask(cold)).toEqual(primary.isAway ? ["503", "503"] : answers);
        pass(30_000);
      }
      expect(await ask(idle)).toEqual(answers);
      if (answers[0] === "401") expect(await countPets()).toBe(pets);
    },
  );

  it("takes effect after 20 s for a key in use, by a lookup in the background", async () => {
    const { keyId, status } = await newService();
    await revokeKey(env.DB, keyId, operator());
    const startMs = Date.now();
    let lastMs = 0;
    for (; Date.now() < startMs + 60_000; pass(500)) {
      if ((await status("/v1/nowhere")) === 404) lastMs = Date.now() - startMs;
      // Lets the lookup in the background end before the clock advances.
      for (let turn = 0; turn < 5; turn += 1) await scheduler.wait(0);
    }
    // The request at 20 s starts the lookup.
    expect(lastMs).toBe(20_000);
  });

  it("takes effect after 5.5 minutes while the primary is away", async () => {
    const { primary, keyId, status, catchUp } = await newService();
    await catchUp();
    await revokeKey(env.DB, keyId, operator());
    primary.isAway = true;
    const startMs = Date.now();
    const found = new Map<number, number>();
    // The last time of each status.
    for (; Date.now() < startMs + 600_000; pass(10_000))
      found.set(await status("/v1/nowhere"), Date.now() - startMs);
    expect([...found]).toEqual([
      [404, 320_000],
      [503, 590_000],
    ]);
  });
});

describe("reads at the nearest instance", () => {
  it("are used for a page that is known to have a next page", async () => {
    const { createMany, catchUp, ids, list, asked } = await newService();
    const created = await createMany(4);
    await catchUp();
    await ids(list(3));
    pass(30_000);
    asked.length = 0;
    expect(await ids(list(3))).toEqual(created.slice(0, 3));
    // The key, then the page.
    expect(asked).toEqual(["primary", "nearest"]);
    // The page cache serves the next request.
    expect(await ids(list(3))).toEqual(created.slice(0, 3));
    expect(asked).toHaveLength(2);
  });

  it("suffice for a pet and for a 404 if the nearest is the primary", async () => {
    const { create, status, asked } = await newService({ nearest: env.DB });
    const id = await create();
    asked.length = 0;
    expect(await status(`/v1/pets/${id}`)).toBe(200);
    expect(await status(`/v1/pets/${id + 1_000}`)).toBe(404);
    expect(asked).toEqual(["nearest", "nearest"]);
  });

  it("fall back to the primary if they fail", async () => {
    const failing = { prepare: () => failing, bind: () => failing, all: failNow, first: failNow };
    const nearest = { withSession: () => failing } as unknown as D1Database;
    const { createMany, ids, list, status } = await newService({ nearest });
    const [id] = await createMany(2);
    expect(await status(`/v1/pets/${id}`)).toBe(200);
    // A page that has a next page is read from the replica when it is no longer fresh.
    expect(await ids(list(1))).toEqual([id]);
    pass(30_000);
    expect(await ids(list(1))).toEqual([id]);
  });
});

function failNow(): Promise<never> {
  return Promise.reject(new Error("D1_ERROR: the replica is out of order"));
}
