// Restoring a deployed database: that it is as it was, and that no promise goes back with it, wherever the restore
// breaks off. What is not proven here is what Cloudflare's own Time Travel does, which a stand-in plays.

import { existsSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type CallApi, CloudflareApiError, openAccount } from "../../scripts/cloudflare/account.ts";
import { d1OverApi, timeTravelOverApi } from "../../scripts/cloudflare/d1-api.ts";
import {
  applyMigrations,
  type DeployedDatabase,
  openDatabase,
  type Target,
} from "../../scripts/cloudflare/database.ts";
import { type Restore, restoreDatabase } from "../../scripts/cloudflare/time-travel.ts";
import { restore as restoreCommand } from "../../scripts/restore.ts";
import { changePlan, createKey, revokeKey, rotateKey } from "../../src/keys/admin.ts";
import { findKeyByHash, findKeyById } from "../../src/keys/store.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import { insertPetOnce } from "../../src/pets/idempotency.ts";
import { findPage, insertPet } from "../../src/pets/store.ts";
import type { Plan } from "../../src/rate-limit/plans.ts";
import { startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { runInProcess } from "../support/e2e/in-process.ts";
import { emptyState, runScript } from "../support/e2e/petstore.ts";

vi.setConfig({ testTimeout: 240_000 });

const PRODUCTION: Target = { kind: "production" };
const NOW_MS = Date.UTC(2026, 10, 19, 12);

let api: Awaited<ReturnType<typeof startCloudflareApi>>;
let folder: string;
let ask: CallApi;
/** A bookmark of the database as it was made. */
let nothing: string;

beforeAll(async () => {
  api = await startCloudflareApi(["petstore", "petstore-previews"]);
  for (const [name, value] of Object.entries(api.environment)) vi.stubEnv(name, value);
  ask = await openAccount();
  folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  nothing = await bookmarkNow();
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await api?.stop();
  await rm(folder, { recursive: true, force: true });
});

let file: string;
let files = 0;

beforeEach(() => {
  files += 1;
  file = join(folder, `${files}.json`);
});

function database(): D1Database {
  const found = api.database("petstore");
  if (found === undefined) throw new Error("the stand-in has no database");
  return found;
}

function past() {
  const found = api.past("petstore");
  if (found === undefined) throw new Error("the stand-in has no past");
  return found;
}

async function bookmarkNow(): Promise<string> {
  return (await past().bookmark()) ?? "";
}

/** The database as the command has it, with another way to the API if need be. */
function deployed(through: CallApi = ask): DeployedDatabase {
  const id = "id-of-petstore";
  const close = async () => {};
  return {
    name: "petstore",
    database: d1OverApi(through, id),
    timeTravel: timeTravelOverApi(through, id),
    close,
  };
}

function restoreTo(bookmark: string, withKeys = false): Restore {
  return { target: PRODUCTION, bookmark, withKeys, mark: "restoring_1" };
}

function newPet(name: string) {
  return { name, categoryId: 9_007_199_254_740_993n, status: "available" } as const;
}

function creation(idempotencyKey: string) {
  return insertPetOnce(database(), newPet(idempotencyKey), { keyId: "key_a", idempotencyKey }, NOW_MS);
}

function newKey(name: string) {
  return createKey(database(), { name, plan: "free", expiresAtMs: null }, NOW_MS);
}

async function found(secret: string) {
  return findKeyByHash(database(), sha256(secret));
}

/** All that the database is, but for its bookmarks. */
async function content() {
  const tables = {
    pets: "SELECT quote(id) || name AS row FROM pets ORDER BY id",
    keys: `SELECT json_array(id, name, plan, per_minute, per_day, hex(hash), last_four, created_at_ms, expires_at_ms,
      revoked_at_ms) AS row FROM keys ORDER BY id`,
    replaced: "SELECT hex(hash) || key_id || good_until_ms AS row FROM replaced_secrets ORDER BY hash",
    creations: "SELECT idempotency_key || pet_json AS row FROM creations ORDER BY idempotency_key",
    sequence: "SELECT name || CAST(seq AS TEXT) AS row FROM sqlite_sequence WHERE name = 'pets'",
    schema: "SELECT name AS row FROM sqlite_schema ORDER BY name",
  };
  const rows = async ([name, sql]: [string, string]) => {
    const { results } = await database().prepare(sql).all<{ row: string }>();
    return [name, results.map(({ row }) => row)];
  };
  return Object.fromEntries(await Promise.all(Object.entries(tables).map(rows)));
}

/** Empties the database, and brings it up to date. The wranglers that do it take some seconds, so that is done once. */
let upToDate: string | undefined;
async function startAfresh(): Promise<void> {
  if (upToDate === undefined) {
    await applyMigrations(PRODUCTION);
    upToDate = await bookmarkNow();
  }
  await past().restore(upToDate);
}

/**
 * A database with a past: three pets and some keys at `bookmark`, and since then two more pets, one pet damaged, keys
 * revoked, rotated, changed and made. `expectPromisesKept` is what has to hold after a restore, whatever it does to keys.
 */
async function story() {
  await startAfresh();
  const [untouched, revoked, rotated, shortened, changed] = [
    await newKey("untouched"),
    await newKey("revoked"),
    await newKey("rotated"),
    await newKey("shortened"),
    await newKey("changed"),
  ];
  const inGrace = shortened.secret;
  await rotateKey(database(), shortened.key.id, 3_600_000, NOW_MS);
  await insertPet(database(), newPet("Kit"));
  await insertPet(database(), newPet("Rex"));
  const before = await creation("before");
  const bookmark = await bookmarkNow();
  const atBookmark = await content();

  await insertPet(database(), newPet("since"));
  const since = await creation("since");
  await database().prepare("UPDATE pets SET name = 'damaged' WHERE name = 'Kit'").run();
  await revokeKey(database(), revoked.key.id, NOW_MS + 1);
  const rotation = await rotateKey(database(), rotated.key.id, 0, NOW_MS + 2);
  await rotateKey(database(), shortened.key.id, 0, NOW_MS + 3);
  await changePlan(database(), changed.key.id, "pro", undefined, NOW_MS + 4);
  const made = await newKey("made");
  const madeRotation = await rotateKey(database(), made.key.id, 0, NOW_MS + 5);
  if (!rotation.ok || !madeRotation.ok) throw new Error("a rotation was refused");

  async function expectPromisesKept() {
    const page = await findPage(database(), { limit: 100 });
    expect(JSON.parse(page.petsJson).map(({ name }: { name: string }) => name)).toEqual([
      "Kit",
      "Rex",
      "before",
    ]);
    expect((await content()).pets).toEqual(atBookmark.pets);
    expect((await creation("before")).id).toBe(before.id);
    // Ids since the bookmark were up to 5.
    const ids = [await insertPet(database(), newPet("later")), await creation("since")].map(({ id }) =>
      Number(id),
    );
    expect(Math.min(...ids)).toBeGreaterThan(Number(since.id));

    expect((await found(revoked.secret))?.revokedAtMs).toBe(NOW_MS + 1);
    expect((await found(rotated.secret))?.secretGoodUntilMs).toBe(NOW_MS + 2);
    expect(await found(rotation.ok ? rotation.secret : "")).toMatchObject({ secretGoodUntilMs: null });
    expect((await found(inGrace))?.secretGoodUntilMs).toBe(NOW_MS + 3);
    expect((await found(untouched.secret))?.secretGoodUntilMs).toBe(null);
    expect((await found(made.secret))?.secretGoodUntilMs).toBe(NOW_MS + 5);
    expect(await found(madeRotation.ok ? madeRotation.secret : "")).toMatchObject({
      id: made.key.id,
      secretGoodUntilMs: null,
      revokedAtMs: null,
    });
    expect((await content()).schema).toEqual(atBookmark.schema);
  }
  return { bookmark, expectPromisesKept, untouched, changed };
}

describe("a restore", () => {
  it("brings pets back, gives no id twice, and leaves keys as they are", async () => {
    const { bookmark, expectPromisesKept, changed } = await story();
    const keysBefore = await content();
    const { pets, nextId } = await restoreDatabase(deployed(), restoreTo(bookmark), file, () => {});
    const { keys, replaced } = await content();
    expect({ keys, replaced }).toEqual({ keys: keysBefore.keys, replaced: keysBefore.replaced });
    expect((await findKeyById(database(), changed.key.id))?.plan).toBe("pro");
    expect([pets, nextId]).toEqual([3, 1_000_006n]);
    await expectPromisesKept();
    expect(existsSync(file)).toBe(false);
  });

  it("with --with-keys brings keys back too, and what has ended stays ended", async () => {
    const { bookmark, expectPromisesKept, changed, untouched } = await story();
    const damage = database().prepare(
      "UPDATE keys SET name = 'damaged', hash = randomblob(32) WHERE id = ?1",
    );
    await damage.bind(untouched.key.id).run();
    await restoreDatabase(deployed(), restoreTo(bookmark, true), file, () => {});
    expect((await findKeyById(database(), changed.key.id))?.plan).toBe("free");
    expect((await findKeyById(database(), untouched.key.id))?.name).toBe("untouched");
    await expectPromisesKept();
  });

  it("brings back a key that was deleted", async () => {
    const { bookmark, expectPromisesKept, untouched } = await story();
    await database().prepare("DELETE FROM keys WHERE id = ?1").bind(untouched.key.id).run();
    await restoreDatabase(deployed(), restoreTo(bookmark), file, () => {});
    await expectPromisesKept();
  });

  it("passes over ids that were given between its reading and its restore", async () => {
    const { bookmark } = await story();
    const late: string[] = [];
    const through: CallApi = async (path, body) => {
      if (path.includes("/restore?")) late.push((await insertPet(database(), newPet("late"))).id);
      return ask(path, body);
    };
    await restoreDatabase(deployed(through), restoreTo(bookmark), file, () => {});
    const { id } = await insertPet(database(), newPet("later"));
    expect(Number(id)).toBeGreaterThan(Number(late[0]));
  });

  it("keeps ids beyond 2^53, and the first one of a table that was empty", async () => {
    await startAfresh();
    const bookmark = await bookmarkNow();
    await database()
      .prepare("INSERT INTO pets (id, name, category_id) VALUES (9007199254740993, 'Kit', 1)")
      .run();
    await restoreDatabase(deployed(), restoreTo(bookmark), file, () => {});
    expect((await insertPet(database(), newPet("later"))).id).toBe("9007199255740994");
  });

  it("puts back more keys than one statement takes", async () => {
    await startAfresh();
    const bookmark = await bookmarkNow();
    const many = `
      INSERT INTO keys (id, name, plan, hash, last_four, created_at_ms)
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1201)
      SELECT 'key_' || i, 'one of many', 'free', randomblob(32), 'abcd', 1 FROM n`;
    await database().prepare(many).run();
    const { keys } = await content();
    await restoreDatabase(deployed(), restoreTo(bookmark), file, () => {});
    expect((await content()).keys).toEqual(keys);
    expect(keys).toHaveLength(1201);
  });

  it("goes back to before there was any table, and makes them again", async () => {
    const { keys, pets } = await story().then(content);
    // In a database that has gone back so far this table is missing. The stand-in's can't lose it any more.
    const through: CallApi = async (path, body) => {
      const isAboutIds = JSON.stringify(body ?? "").includes("sqlite_sequence");
      const table = database().prepare("SELECT name FROM sqlite_schema WHERE name = 'pets'");
      if (!isAboutIds || (await table.first()) !== null) return ask(path, body);
      throw new CloudflareApiError(7500, 400, "no such table: sqlite_sequence: SQLITE_ERROR");
    };
    const restored = await restoreDatabase(deployed(through), restoreTo(nothing), file, () => {});
    expect(restored).toMatchObject({ pets: 0, migrations: expect.arrayContaining(["0001_pets.sql"]) });
    expect((await content()).keys).toEqual(keys);
    expect(Number((await insertPet(database(), newPet("later"))).id)).toBeGreaterThan(pets.length);
  });

  it("is undone by the bookmark it announces before it changes anything, keys made meanwhile included", async () => {
    const { bookmark } = await story();
    const { pets, creations } = await content();
    let undo = "";
    const first = deployed();
    const through: CallApi = (path, body) => {
      if (path.includes("/restore?")) expect(undo).not.toBe("");
      return ask(path, body);
    };
    await restoreDatabase(deployed(through), restoreTo(bookmark), file, (announced) => (undo = announced));
    const between = await newKey("between");
    const { id } = await insertPet(database(), newPet("between"));
    await restoreDatabase(first, { ...restoreTo(undo), mark: "restoring_2" }, file, () => {});
    const after = await content();
    expect({ pets: after.pets, creations: after.creations }).toEqual({ pets, creations });
    expect(after.schema.filter((name: string) => name.startsWith("restoring"))).toEqual([]);
    expect(await found(between.secret)).toMatchObject({ id: between.key.id });
    expect(Number((await insertPet(database(), newPet("later"))).id)).toBeGreaterThan(Number(id));
  });
});

/** A way to the API that ends at the restore, before or after it has been done, and the restore that breaks off by it. */
async function breakOff(bookmark: string, isDone: boolean, withKeys = false): Promise<Restore> {
  let isCut = false;
  const through: CallApi = async (path, body) => {
    const isRestore = path.includes("/restore?");
    if (isRestore && isDone) await ask(path, body);
    isCut ||= isRestore;
    if (isCut) throw new Error("Cloudflare's API can't be reached");
    return ask(path, body);
  };
  const begun = restoreDatabase(deployed(through), restoreTo(bookmark, withKeys), file, () => {});
  await expect(begun).rejects.toThrow(`: npm run restore -- --resume ${file}`);
  return JSON.parse(await readFile(file, "utf8"));
}

/** A key that is changed twice, and what must be true of it then: all as if the database had never gone back. */
interface Changed {
  id: string;
  secrets: { hash: string; endMs: number }[];
  isRevoked: boolean;
  plan: Plan;
  /** With --with-keys: that at the bookmark, unless it was changed since the restore. */
  restoredPlan: Plan;
  isAtBookmark: boolean;
}

/** Changes a key, after the database has gone back or before. */
type Change = (key: Changed, nowMs: number, isBack: boolean) => Promise<unknown>;

const HOUR_MS = 3_600_000;
const CURRENT = Number.POSITIVE_INFINITY;
const START = { name: "a shop", plan: "free", expiresAtMs: null } as const;

const unchanged: Change = async () => {};
const rotate = (graceMs: number): Change => {
  return async (key, nowMs) => {
    const rotated = await rotateKey(database(), key.id, graceMs, nowMs);
    if (!rotated.ok) return;
    key.secrets = key.secrets.map(({ hash, endMs }) => ({ hash, endMs: Math.min(endMs, nowMs + graceMs) }));
    key.secrets.push({ hash: sha256(rotated.secret), endMs: CURRENT });
  };
};
const rotateTwice: Change = async (key, nowMs, isBack) => {
  await rotate(HOUR_MS)(key, nowMs, isBack);
  await rotate(2 * HOUR_MS)(key, nowMs + 1, isBack);
};
const revoke: Change = async (key, nowMs) => {
  if ((await revokeKey(database(), key.id, nowMs)).ok) key.isRevoked = true;
};
const toPlan = (plan: Plan): Change => {
  return async (key, nowMs, isBack) => {
    if (!(await changePlan(database(), key.id, plan, undefined, nowMs)).ok) return;
    key.plan = plan;
    if (isBack || !key.isAtBookmark) key.restoredPlan = plan;
  };
};

// Plan and secrets are independent, so each key has one change of each.
const KINDS = [
  [unchanged, toPlan("pro"), toPlan(START.plan)],
  [unchanged, rotate(0), rotate(HOUR_MS), rotateTwice, revoke],
];
const PAIRS = 25;

/** Changes all keys, so that the first and second time together are every pair of each kind. */
async function changeAll(keys: Changed[], which: 0 | 1, nowMs: number, isBack: boolean): Promise<void> {
  const change = async (key: Changed, index: number) => {
    for (const kind of KINDS) {
      const at = which === 0 ? index : Math.floor(index / kind.length);
      await kind[at % kind.length]?.(key, nowMs, isBack);
    }
  };
  await Promise.all(keys.map(change));
}

async function make(isAtBookmark: boolean, nowMs: number): Promise<Changed> {
  const { key, secret } = await createKey(database(), START, nowMs);
  const secrets = [{ hash: sha256(secret), endMs: CURRENT }];
  return { id: key.id, secrets, isRevoked: false, plan: START.plan, restoredPlan: START.plan, isAtBookmark };
}

/** What is true of all keys. Of one that is revoked nothing else matters. */
async function statesOf(keys: Changed[]) {
  const rows = database().prepare("SELECT *, lower(hex(hash)) AS hash FROM keys");
  const current = await rows.all<Record<string, string | number | null>>();
  const replaced = await database()
    .prepare("SELECT lower(hex(hash)) AS hash, key_id, good_until_ms FROM replaced_secrets")
    .all<{ hash: string; key_id: string; good_until_ms: number }>();
  expect(current.results).toHaveLength(keys.length);
  const byId = new Map(current.results.map((row) => [row.id, row]));
  const ends = new Map(replaced.results.map((row) => [`${row.key_id} ${row.hash}`, row.good_until_ms]));
  return keys.map(({ id, secrets }) => {
    const row = byId.get(id);
    if (row?.revoked_at_ms !== null) return { id, isRevoked: true };
    const endOf = (hash: string) => (hash === row.hash ? CURRENT : ends.get(`${id} ${hash}`));
    return {
      id,
      secrets: secrets.map(({ hash }) => ({ hash, endMs: endOf(hash) })),
      plan: row.plan,
    };
  });
}

function wanted(keys: Changed[], withKeys: boolean) {
  return keys.map(({ id, secrets, isRevoked, plan, restoredPlan }) =>
    isRevoked ? { id, isRevoked } : { id, secrets, plan: withKeys ? restoredPlan : plan },
  );
}

describe("a key that is changed twice", () => {
  let bookmark: string;
  let petsAtBookmark: unknown;
  let atBookmark: Changed[];
  /** After the first change, with some keys more. */
  let start: string;
  let atStart: Changed[];

  beforeAll(async () => {
    await startAfresh();
    await insertPet(database(), newPet("Kit"));
    atBookmark = await Promise.all(Array.from({ length: PAIRS }, () => make(true, NOW_MS - HOUR_MS)));
    for (const key of atBookmark) await rotate(3 * HOUR_MS)(key, NOW_MS - 1, false);
    bookmark = await bookmarkNow();
    petsAtBookmark = (await content()).pets;
    await insertPet(database(), newPet("since"));
    atStart = structuredClone(atBookmark);
    await changeAll(atStart, 0, NOW_MS + 10, false);
    for (let more = 0; more < PAIRS; more += 1) atStart.push(await make(false, NOW_MS + 10));
    start = await bookmarkNow();
  });

  /** A way to the API where something else happens at one call. It sees how far the restore has come. */
  function meeting(at: number, happens: (request: () => Promise<unknown>) => Promise<unknown>) {
    const seen = { calls: 0, isKept: false, isBack: false };
    const through = async (path: string, body?: unknown, method?: string) => {
      seen.calls += 1;
      const request = async () => {
        const answer = await ask(path, body, method);
        seen.isKept ||= JSON.stringify(body ?? "").includes('"SELECT hex(hash)');
        seen.isBack ||= path.includes("/restore?");
        return answer;
      };
      return seen.calls === at ? happens(request) : request();
    };
    return { through: through as CallApi, seen };
  }

  async function changeAgain(keys: Changed[], isBack: boolean): Promise<void> {
    await changeAll(keys, 1, NOW_MS + 20, isBack);
    keys.push(await make(false, NOW_MS + 20));
  }

  async function expectRestored(keys: Changed[], withKeys: boolean, cell: string): Promise<void> {
    expect(await statesOf(keys), cell).toEqual(wanted(keys, withKeys));
    const { pets, sequence, schema } = await content();
    expect({ pets, sequence }, cell).toEqual({ pets: petsAtBookmark, sequence: ["pets1000002"] });
    expect(
      schema.filter((name: string) => name.startsWith("restoring")),
      cell,
    ).toEqual([]);
    expect(existsSync(file), cell).toBe(false);
  }

  const cutBefore = async () => {
    throw new Error("Cloudflare's API can't be reached");
  };
  const cutAfter = async (request: () => Promise<unknown>) => {
    await request();
    throw new CloudflareApiError(7500, 502, "Bad gateway");
  };

  // Which keys go back and how a call breaks are independent.
  it.each([
    ["before it arrives", cutBefore, true],
    ["before its answer arrives", cutAfter, false],
  ])("before a restore, and after it broke off at any call, %s", async (_, cut, withKeys) => {
    let resumed = 0;
    for (let at = 1; ; at += 1) {
      await past().restore(start);
      const keys = structuredClone(atStart);
      const { through, seen } = meeting(at, cut);
      let restore = restoreTo(bookmark, withKeys);
      const begun = restoreDatabase(deployed(through), restore, file, () => {});
      const failure = await begun.then(
        () => undefined,
        (error: Error) => error.message,
      );
      if (seen.calls < at) break;
      await changeAgain(keys, seen.isBack);
      if (failure?.endsWith("; nothing was changed")) {
        expect(existsSync(file)).toBe(false);
      } else if (failure !== undefined) {
        expect(failure).toMatch(/; until it is finished, .*: npm run restore -- --resume .*\.json$/);
        restore = JSON.parse(await readFile(file, "utf8"));
        resumed += 1;
      }
      if (failure !== undefined) await restoreDatabase(deployed(), restore, file, () => {});
      await expectRestored(keys, withKeys, `after call ${at}`);
    }
    expect(resumed).toBeGreaterThan(5);
  });

  // From reading the keys to the restore, a change is lost: nothing tells of it afterwards.
  it.each([true, false])("before a restore, and at any call of it, --with-keys: %s", async (withKeys) => {
    let changed = 0;
    for (let at = 1; ; at += 1) {
      await past().restore(start);
      const keys = structuredClone(atStart);
      const { through, seen } = meeting(at, async (request) => {
        if (seen.isKept === seen.isBack) {
          await changeAgain(keys, seen.isBack);
          changed += 1;
        }
        return request();
      });
      await restoreDatabase(deployed(through), restoreTo(bookmark, withKeys), file, () => {});
      if (seen.calls < at) break;
      if (keys.length > atStart.length) await expectRestored(keys, withKeys, `at call ${at}`);
    }
    expect(changed).toBeGreaterThan(8);
  });

  it.each([true, false])("after it broke off, and after --resume did, --with-keys: %s", async (withKeys) => {
    await past().restore(bookmark);
    await insertPet(database(), newPet("since"));
    const unfinished = await breakOff(bookmark, true, withKeys);
    const changed = structuredClone(atBookmark);
    await changeAll(changed, 0, NOW_MS + 10, true);
    const brokenOff = await bookmarkNow();
    for (let at = 1; ; at += 1) {
      await past().restore(brokenOff);
      await writeFile(file, JSON.stringify(unfinished));
      const keys = structuredClone(changed);
      const { through, seen } = meeting(at, cutAfter);
      await restoreDatabase(deployed(through), unfinished, file, () => {}).catch(() => {});
      if (seen.calls < at) break;
      await changeAgain(keys, true);
      await writeFile(file, JSON.stringify(unfinished));
      await restoreDatabase(deployed(), unfinished, file, () => {});
      await expectRestored(keys, withKeys, `after call ${at}`);
    }
  });
});

describe("a restore that broke off", () => {
  it("does not go back a second time", async () => {
    const { bookmark } = await story();
    const unfinished = await breakOff(bookmark, true);
    const { id } = await insertPet(database(), newPet("meanwhile"));
    await restoreDatabase(deployed(), unfinished, file, () => {});
    expect((await content()).pets).toContain(`${id}meanwhile`);
  });

  it.each([2, 5])(
    "keeps what it has if the restore is carried out just before call %i of --resume",
    async (at) => {
      const { bookmark, expectPromisesKept } = await story();
      const unfinished = await breakOff(bookmark, false);
      let calls = 0;
      const through: CallApi = async (path, body, method) => {
        calls += 1;
        if (calls === at) await past().restore(bookmark);
        return ask(path, body, method);
      };
      await restoreDatabase(deployed(through), unfinished, file, () => {});
      await expectPromisesKept();
    },
  );
});

describe("npm run restore", () => {
  let written: string[] = [];

  /** Runs the command in a process of its own, for what it prints and how it exits. */
  async function run(...words: string[]) {
    const outcome = await runScript("scripts/restore.ts", words, api.environment);
    forgetLater(outcome.stderr);
    return outcome;
  }

  async function restore(...words: string[]) {
    const outcome = await runInProcess("restore", restoreCommand, words);
    forgetLater(outcome.stderr);
    return outcome;
  }

  /** The file of a restore that broke off is in the project. */
  function forgetLater(stderr: string): void {
    written.push(...(stderr.match(/restoring_\d+\.json/g) ?? []));
  }

  afterEach(async () => {
    for (const name of written) await rm(name, { force: true });
    written = [];
  });

  it("says what it does, does it, and says what came of it", async () => {
    const { bookmark, expectPromisesKept } = await story();
    const { exitCode, stdout, stderr } = await run("--bookmark", bookmark, "--remote", "--yes");
    expect([exitCode, stderr]).toEqual([0, ""]);
    expect(stdout.split("\n")).toEqual([
      `petstore goes back to bookmark ${bookmark}.`,
      "It has 5 pets and 6 keys. No id up to 5 will be given again.",
      "Keys stay as they are now.",
      expect.stringMatching(/^To undo it: npm run restore -- --bookmark \d+ --remote --yes$/),
      "Restored: there are 3 pets, and the next one gets the id 1000006.",
      "For 30 s the service may accept a key or secret that has ended.",
      "Until 30 s after the read replicas have caught up, it may show pages as they were.",
      "What is gone can be created again with the same Idempotency-Key: it is a new pet, with a new id.",
      "",
    ]);
    await expectPromisesKept();
  });

  it("with --dry-run changes nothing", async () => {
    await story();
    const before = await content();
    const asked = api.requests.length;
    const time = new Date().toISOString();
    const words = ["--timestamp", time, "--remote", "--with-keys", "--dry-run"];
    const { stdout, stderr } = await restore(...words);
    expect(stderr).toBe("");
    expect(stdout).toMatch(
      /^petstore goes back to bookmark \d+, which is .*\nIt has .*\nKeys go back too, .*\nNothing was changed: this was a dry run\.\n$/,
    );
    expect(await content()).toEqual(before);
    const requests = api.requests.slice(asked);
    expect(requests.some((request) => request.endsWith("/time_travel/bookmark"))).toBe(true);
    expect(requests.filter((request) => request.endsWith("/time_travel/restore"))).toEqual([]);
  });

  it("applies the migrations that the earlier database had not seen, and then puts back what they hold", async () => {
    await startAfresh();
    const { key, secret } = await newKey("revoked");
    for (const sql of [
      "INSERT INTO pets (name, category_id) VALUES ('Kit', 1)",
      "DROP TABLE creations",
      "DROP TABLE replaced_secrets",
      "ALTER TABLE keys DROP COLUMN revoked_at_ms",
      "ALTER TABLE keys DROP COLUMN plan_set_at_ms",
      "DELETE FROM d1_migrations WHERE name >= '0003'",
    ]) {
      await database().prepare(sql).run();
    }
    const bookmark = await bookmarkNow();
    await applyMigrations(PRODUCTION);
    const { id } = await creation("since");
    await revokeKey(database(), key.id, NOW_MS + 1);
    const { stdout } = await restore("--bookmark", bookmark, "--remote", "--yes");
    const applied = "0003_revocation_and_rotation.sql, 0004_creations.sql, 0005_plan_changes.sql";
    expect(stdout).toContain(`\nApplied again: ${applied}.\nRestored: there are 1 pets,`);
    expect((await found(secret))?.revokedAtMs).toBe(NOW_MS + 1);
    expect(Number((await creation("since")).id)).toBeGreaterThan(Number(id));
  });

  it("with --resume goes on where it broke off", async () => {
    const { bookmark, expectPromisesKept } = await story();
    await breakOff(bookmark, true);
    const { stdout, stderr } = await restore("--resume", file);
    expect(stderr).toBe("");
    expect(stdout).toMatch(/^Restored: there are 3 pets, and the next one gets the id 1000006\.\n/);
    await expectPromisesKept();
    expect(existsSync(file)).toBe(false);
  });

  it("does not begin while another is unfinished, which may be the one that would be undone", async () => {
    written.push("restoring_1.json");
    await writeFile("restoring_1.json", "{}");
    const asked = api.requests.length;
    const { stderr } = await restore("--bookmark", "1", "--remote", "--yes");
    expect(stderr).toBe("a restore broke off: finish it with npm run restore -- --resume restoring_1.json\n");
    expect(api.requests).toHaveLength(asked);
  });

  it("works on the database that all previews share", async () => {
    const { stderr } = await restore("--bookmark", "0", "--preview", "staging", "--yes");
    expect(stderr).toBe(
      "petstore-previews is not up to date: run npm run migrate -- --preview staging, or take away a migration that fails\n",
    );
  });

  it("changes nothing if the bookmark is refused", async () => {
    await story();
    const before = await content();
    const { exitCode, stderr } = await run("--bookmark", "ffffffff", "--remote", "--yes");
    expect([exitCode, stderr]).toEqual([
      1,
      "restore failed: Cloudflare's API refused: There is no such bookmark (7500); nothing was changed\n",
    ]);
    expect(await content()).toEqual(before);
  });

  it.each([
    ["in the mark", { mark: "restoring_1 (id INTEGER); DROP TABLE pets; --" }],
    ["in the bookmark", { bookmark: "0/../../pets" }],
    ["in the highest id", { kept: { pets: 0, highestId: "1; --", keys: [], replacedSecrets: [] } }],
  ])("with --resume takes no file with something else %s", async (_, wrong) => {
    const kept = { pets: 0, highestId: "5", keys: [], replacedSecrets: [] };
    const unfinished = { target: PRODUCTION, bookmark: nothing, withKeys: false, mark: "restoring_1", kept };
    // The text has what a mark looks like.
    await writeFile(file, JSON.stringify({ like: { mark: "restoring_1" }, ...unfinished, ...wrong }));
    const asked = api.requests.length;
    expect((await restore("--resume", file)).stderr).toMatch(
      /^--resume must name the file of a restore that broke off/,
    );
    expect(api.requests).toHaveLength(asked);
  });

  const EITHER = "give either --timestamp TIME or --bookmark B: see npm run restore -- --help";
  const TIME = "--timestamp must be a time such as 2026-11-19T12:00:00Z, within the last 30 days";
  const LOCAL =
    "say --remote or --preview NAME: a local database has no past but copies of its folder (docs/operating.md)";
  it.each([
    ["no moment", ["--remote", "--yes"], EITHER],
    ["two moments", ["--remote", "--bookmark", "0", "--timestamp", "2026-11-19", "--yes"], EITHER],
    ["a time that is none", ["--remote", "--timestamp", "yesterday", "--yes"], TIME],
    ["a time to come", ["--remote", "--timestamp", "2999-01-01", "--yes"], TIME],
    ["a time too long ago", ["--remote", "--timestamp", "2020-01-01", "--yes"], TIME],
    [
      "a bookmark that is none",
      ["--remote", "--bookmark", "0&x=1", "--yes"],
      "--bookmark must be one that npx wrangler d1 time-travel info shows",
    ],
    ["a local database", ["--bookmark", "0", "--yes"], LOCAL],
    ["a folder", ["--bookmark", "0", "--persist-to", "here", "--yes"], LOCAL],
    [
      "neither --dry-run nor --yes",
      ["--remote", "--bookmark", "0"],
      "say --dry-run to see what would be done, or --yes to have it done",
    ],
    ["an option that is none", ["--now"], "Unknown option '--now': see npm run restore -- --help"],
    [
      "a file that is none",
      ["--resume", "package.json"],
      "--resume must name the file of a restore that broke off, which package.json is not",
    ],
    [
      "more than a file",
      ["--resume", "package.json", "--remote"],
      "--resume takes nothing beside it: all else is in its FILE",
    ],
  ])("refuses %s in one line", async (_, words, line) => {
    const asked = api.requests.length;
    const { stdout, stderr } = await restore(...words);
    expect([stdout, stderr]).toEqual(["", `${line}\n`]);
    expect(api.requests).toHaveLength(asked);
  });
});

it("a copy of the folder brings the local database back", async () => {
  const { state, remove } = await emptyState();
  const copy = `${state}-copy`;
  const target: Target = { kind: "local", state };
  await applyMigrations(target);
  const first = await openDatabase(target);
  const { id } = await insertPet(first.database, newPet("Kit"));
  await first.close();
  await cp(state, copy, { recursive: true });

  const second = await openDatabase(target);
  await second.database.prepare("DELETE FROM pets").run();
  await second.close();
  await rm(state, { recursive: true });
  await cp(copy, state, { recursive: true });

  const third = await openDatabase(target);
  const { petsJson } = await findPage(third.database, { limit: 20 });
  await third.close();
  await remove();
  expect(JSON.parse(petsJson)).toMatchObject([{ id: Number(id), name: "Kit" }]);
});
