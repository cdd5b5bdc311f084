// npm run restore against a fake of Cloudflare's API: a restored database keeps the guarantees about ids and keys, wherever the
// restore is interrupted. Cloudflare's own Time Travel is not tested.

import { existsSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
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
import { Io } from "../../scripts/lib/command.ts";
import restoreCommand from "../../scripts/restore.ts";
import {
  changePlan,
  createKey,
  renameKey,
  revokeKey,
  rotateKey,
  setExpiry,
  unbanKey,
} from "../../src/keys/admin.ts";
import { findKeyById } from "../../src/keys/records.ts";
import { findKeyByHash } from "../../src/keys/store.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import { insertPetOnce } from "../../src/pets/idempotency.ts";
import { findPage, insertPet } from "../../src/pets/store.ts";
import { banEndMs } from "../../src/rate-limit/object/quota.ts";
import type { Plan } from "../../src/rate-limit/plans.ts";
import { startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { emptyState } from "../support/e2e/petstore.ts";

vi.setConfig({ testTimeout: 240_000 });

const PRODUCTION: Target = { kind: "production" };
const NOW_MS = Date.UTC(2026, 10, 19, 12);

let api: Awaited<ReturnType<typeof startCloudflareApi>>;
let folder: string;
let ask: CallApi;
/** A bookmark from before the first migration. */
let emptyBookmark: string;

beforeAll(async () => {
  api = await startCloudflareApi(["petstore", "petstore-previews"]);
  for (const [name, value] of Object.entries(api.environment)) vi.stubEnv(name, value);
  ask = await openAccount();
  folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  emptyBookmark = await bookmarkNow();
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
  if (found === undefined) throw new Error("the fake has no database");
  return found;
}

function timeTravel() {
  const found = api.timeTravel("petstore");
  if (found === undefined) throw new Error("the fake has no history");
  return found;
}

async function bookmarkNow(): Promise<string> {
  return (await timeTravel().bookmark()) ?? "";
}

/** The database as the command opens it, with calls of the API through `through`. */
function deployed(through: CallApi = ask): DeployedDatabase {
  const id = "id-of-petstore";
  return {
    label: "the database petstore",
    database: d1OverApi(through, id),
    timeTravel: timeTravelOverApi(through, id),
    close: async () => {},
  };
}

let restores = 0;
function restoreTo(bookmark: string, withKeys = false): Restore {
  restores += 1;
  return { target: PRODUCTION, bookmark, withKeys, marker: `restoring_${restores}` };
}

/** An Io whose notes are in `written`. */
function quietIo() {
  let written = "";
  const stderr = new PassThrough().on("data", (chunk) => (written += chunk));
  const io = new Io({ stdin: process.stdin, stdout: new PassThrough(), stderr, env: {} });
  return { io, written: () => written };
}

function runRestore(restore: Restore, through?: CallApi) {
  return restoreDatabase(deployed(through), restore, file, quietIo().io);
}

/** An operator at this time. */
function at(nowMs: number) {
  return { by: "jo", nowMs };
}

function newPet(name: string) {
  return { name, categoryId: 9_007_199_254_740_993n, status: "available" } as const;
}

function createOnce(idempotencyKey: string) {
  return insertPetOnce(database(), newPet(idempotencyKey), { keyId: "key_a", idempotencyKey }, NOW_MS);
}

function newKey(name: string) {
  return createKey(database(), { name, plan: "free", expiresAtMs: null }, at(NOW_MS));
}

async function found(secret: string) {
  return findKeyByHash(database(), sha256(secret));
}

/** The content of all tables. */
async function content() {
  const tables = {
    pets: "SELECT quote(id) || name AS row FROM pets ORDER BY id",
    keys: `SELECT json_array(id, name, plan, per_minute, per_day, hex(hash), last_four, created_at_ms, expires_at_ms,
      revoked_at_ms, bans_lifted_until_ms) AS row FROM keys ORDER BY id`,
    changes: `SELECT json_array(key_id, at_ms, change, from_value, to_value, changed_by) AS row FROM key_changes
      ORDER BY at_ms, row`,
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

/** Resets the database to empty tables. wrangler takes seconds to apply the migrations, so it does so once. */
let migrated: string | undefined;
async function reset(): Promise<void> {
  if (migrated === undefined) {
    await applyMigrations(PRODUCTION);
    migrated = await bookmarkNow();
  }
  await timeTravel().restore(migrated);
}

/**
 * A database with a history: three pets and some keys at `bookmark`; since then two more pets, a damaged pet, and keys that
 * were revoked, rotated, changed and created. `expectGuarantees` holds after a restore, with and without --with-keys.
 */
async function prepare() {
  await reset();
  const [untouched, revoked, rotated, shortened, changed, expired] = [
    await newKey("untouched"),
    await newKey("revoked"),
    await newKey("rotated"),
    await newKey("shortened"),
    await newKey("changed"),
    await newKey("expired"),
  ];
  const inGrace = shortened.secret;
  await rotateKey(database(), shortened.key.id, 3_600_000, at(NOW_MS));
  await insertPet(database(), newPet("Kit"));
  await insertPet(database(), newPet("Rex"));
  const before = await createOnce("before");
  const bookmark = await bookmarkNow();
  const atBookmark = await content();

  await insertPet(database(), newPet("since"));
  const since = await createOnce("since");
  await database().prepare("UPDATE pets SET name = 'damaged' WHERE name = 'Kit'").run();
  await revokeKey(database(), revoked.key.id, at(NOW_MS + 1));
  const rotation = await rotateKey(database(), rotated.key.id, 0, at(NOW_MS + 2));
  await rotateKey(database(), shortened.key.id, 0, at(NOW_MS + 3));
  await changePlan(database(), changed.key.id, "pro", undefined, at(NOW_MS + 4));
  await renameKey(database(), changed.key.id, "renamed", at(NOW_MS + 4));
  await setExpiry(database(), changed.key.id, Date.UTC(2100, 0), at(NOW_MS + 4));
  await setExpiry(database(), expired.key.id, NOW_MS + 5, at(NOW_MS + 4));
  const created = await newKey("created");
  const createdRotation = await rotateKey(database(), created.key.id, 0, at(NOW_MS + 5));
  if (!rotation.ok || !createdRotation.ok) throw new Error("a rotation was refused");
  const { changes } = await content();

  async function expectGuarantees() {
    const page = await findPage(database(), { limit: 100 });
    expect(JSON.parse(page.petsJson).map(({ name }: { name: string }) => name)).toEqual([
      "Kit",
      "Rex",
      "before",
    ]);
    expect((await content()).pets).toEqual(atBookmark.pets);
    expect((await createOnce("before")).id).toBe(before.id);
    // Ids since the bookmark were up to 5.
    const ids = [await insertPet(database(), newPet("later")), await createOnce("since")].map(({ id }) =>
      Number(id),
    );
    expect(Math.min(...ids)).toBeGreaterThan(Number(since.id));

    expect((await found(revoked.secret))?.revokedAtMs).toBe(NOW_MS + 1);
    expect((await found(rotated.secret))?.secretGoodUntilMs).toBe(NOW_MS + 2);
    expect(await found(rotation.ok ? rotation.secret : "")).toMatchObject({ secretGoodUntilMs: null });
    expect((await found(inGrace))?.secretGoodUntilMs).toBe(NOW_MS + 3);
    expect((await found(untouched.secret))?.secretGoodUntilMs).toBe(null);
    expect((await found(created.secret))?.secretGoodUntilMs).toBe(NOW_MS + 5);
    expect(await found(createdRotation.ok ? createdRotation.secret : "")).toMatchObject({
      id: created.key.id,
      secretGoodUntilMs: null,
      revokedAtMs: null,
    });
    expect((await found(expired.secret))?.expiresAtMs).toBe(NOW_MS + 5);
    const { schema, changes: restoredChanges } = await content();
    expect(schema).toEqual(atBookmark.schema);
    expect(restoredChanges).toEqual(changes);
  }
  return { bookmark, expectGuarantees, untouched, changed, expired };
}

describe("a restore", () => {
  it("restores pets, assigns no id twice, and keeps keys as they are", async () => {
    const { bookmark, expectGuarantees } = await prepare();
    const keysBefore = await content();
    await runRestore(restoreTo(bookmark));
    const { keys, replaced } = await content();
    expect({ keys, replaced }).toEqual({ keys: keysBefore.keys, replaced: keysBefore.replaced });
    await expectGuarantees();
    expect(existsSync(file)).toBe(false);
  });

  it("with --with-keys restores keys too, and ended keys and secrets stay ended", async () => {
    const { bookmark, expectGuarantees, changed, untouched } = await prepare();
    const damage = database().prepare(
      "UPDATE keys SET name = 'damaged', hash = randomblob(32) WHERE id = ?1",
    );
    await damage.bind(untouched.key.id).run();
    await runRestore(restoreTo(bookmark, true));
    expect(await findKeyById(database(), changed.key.id, NOW_MS)).toMatchObject({
      plan: "free",
      name: "changed",
      expiresAtMs: null,
    });
    expect((await findKeyById(database(), untouched.key.id, NOW_MS))?.name).toBe("untouched");
    await expectGuarantees();
  });

  it("with --with-keys keeps an expiry that is set after the restore, before --resume", async () => {
    const { bookmark, expired } = await prepare();
    const unfinished = await interrupt(bookmark, true, true);
    await setExpiry(database(), expired.key.id, Date.UTC(2100, 0), at(NOW_MS + 20));
    await runRestore(unfinished);
    expect((await found(expired.secret))?.expiresAtMs).toBe(Date.UTC(2100, 0));
  });

  it("restores a deleted key", async () => {
    const { bookmark, expectGuarantees, untouched } = await prepare();
    await database().prepare("DELETE FROM keys WHERE id = ?1").bind(untouched.key.id).run();
    await runRestore(restoreTo(bookmark));
    await expectGuarantees();
  });

  it("skips ids that were assigned between the reading of the highest id and the restore", async () => {
    const { bookmark } = await prepare();
    const late: string[] = [];
    const through: CallApi = async (path, body) => {
      if (path.includes("/restore?")) late.push((await insertPet(database(), newPet("late"))).id);
      return ask(path, body);
    };
    await runRestore(restoreTo(bookmark), through);
    const { id } = await insertPet(database(), newPet("later"));
    expect(Number(id)).toBeGreaterThan(Number(late[0]));
  });

  it("keeps ids above 2^53, and the sequence of a table that was empty", async () => {
    await reset();
    const bookmark = await bookmarkNow();
    await database()
      .prepare("INSERT INTO pets (id, name, category_id) VALUES (9007199254740993, 'Kit', 1)")
      .run();
    await runRestore(restoreTo(bookmark));
    expect((await insertPet(database(), newPet("later"))).id).toBe("9007199255740994");
  });

  it("restores more keys and changes than fit into one statement", async () => {
    await reset();
    const bookmark = await bookmarkNow();
    const many = `
      INSERT INTO keys (id, name, plan, hash, last_four, created_at_ms)
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1201)
      SELECT 'key_' || i, 'a key', 'free', randomblob(32), 'abcd', 1 FROM n`;
    await database().prepare(many).run();
    // The longest names, as long as they can be in JSON.
    const name = "'\"\u{1F63A}\u0001" + "\u0001".repeat(252);
    const renamed = `
      INSERT INTO key_changes (key_id, at_ms, change, from_value, to_value, changed_by)
      SELECT id, 1, 'renamed', ?1, ?1, 'jo' FROM keys`;
    await database().prepare(renamed).bind(name).run();
    const { keys, changes } = await content();
    await runRestore(restoreTo(bookmark));
    const restored = await content();
    expect({ keys: restored.keys, changes: restored.changes }).toEqual({ keys, changes });
    expect([keys.length, changes.length]).toEqual([1201, 1201]);
  });

  it("to a state before the first migration applies all migrations again", async () => {
    const { keys, pets } = await prepare().then(content);
    // D1 has no sqlite_sequence in that state. The fake can't drop that table.
    const through: CallApi = async (path, body) => {
      const isAboutIds = JSON.stringify(body ?? "").includes("sqlite_sequence");
      const table = database().prepare("SELECT name FROM sqlite_schema WHERE name = 'pets'");
      if (!isAboutIds || (await table.first()) !== null) return ask(path, body);
      throw new CloudflareApiError(7500, 400, "no such table: sqlite_sequence: SQLITE_ERROR");
    };
    expect(await runRestore(restoreTo(emptyBookmark), through)).toContain("0001_pets.sql");
    expect((await content()).keys).toEqual(keys);
    expect(Number((await insertPet(database(), newPet("later"))).id)).toBeGreaterThan(pets.length);
  });

  it("is undone by the bookmark that it prints before it changes anything, and new keys survive that", async () => {
    const { bookmark } = await prepare();
    const { pets, creations } = await content();
    const { io, written } = quietIo();
    const undoOf = () =>
      written().match(/^To undo: npm run restore -- --bookmark (\d+) --remote$/m)?.[1] ?? "";
    const through: CallApi = (path, body) => {
      if (path.includes("/restore?")) expect(undoOf()).not.toBe("");
      return ask(path, body);
    };
    await restoreDatabase(deployed(through), restoreTo(bookmark), file, io);
    const undo = undoOf();
    const between = await newKey("between");
    const { id } = await insertPet(database(), newPet("between"));
    await runRestore(restoreTo(undo));
    const after = await content();
    expect({ pets: after.pets, creations: after.creations }).toEqual({ pets, creations });
    expect(await found(between.secret)).toMatchObject({ id: between.key.id });
    expect(Number((await insertPet(database(), newPet("later"))).id)).toBeGreaterThan(Number(id));
  });
});

/** Starts a restore whose connection to the API is cut at the restore call, before or after that is carried out. */
async function interrupt(bookmark: string, isDone: boolean, withKeys = false): Promise<Restore> {
  let isCut = false;
  const through: CallApi = async (path, body) => {
    const isRestore = path.includes("/restore?");
    if (isRestore && isDone) await ask(path, body);
    isCut ||= isRestore;
    if (isCut) throw new Error("Cloudflare's API can't be reached");
    return ask(path, body);
  };
  const restore = runRestore(restoreTo(bookmark, withKeys), through);
  await expect(restore).rejects.toThrow(": npm run restore -- --resume");
  return JSON.parse(await readFile(file, "utf8"));
}

interface Settings {
  plan: Plan;
  perMinute: number | null;
  name: string;
  expiresAtMs: number | null;
}

/** A key that is changed twice, with the state that it must have in the end: as if there had been no restore. */
interface ChangedKey {
  id: string;
  secrets: { hash: string; endMs: number }[];
  isRevoked: boolean;
  settings: Settings;
  /** The settings with --with-keys: each is the one at the bookmark, unless it was changed after the restore. */
  restoredSettings: Settings;
  bansLiftedUntilMs: number | null;
  /** The rows of the record. */
  changes: string[];
  isAtBookmark: boolean;
}

/** Changes a key, before or after the restore call. */
type Change = (key: ChangedKey, nowMs: number, isRestored: boolean) => Promise<unknown>;

const HOUR_MS = 3_600_000;
const CURRENT = Number.POSITIVE_INFINITY;
const START = { name: "a shop", plan: "free", expiresAtMs: null } as const;

const unchanged: Change = async () => {};
/** Makes a change, and expects its row in the record. Returns whether it was made. */
async function make(key: ChangedKey, nowMs: number, change: string, run: typeof revokeKey): Promise<boolean> {
  const { ok } = await run(database(), key.id, at(nowMs));
  if (ok) key.changes.push(`${nowMs} ${change}`);
  return ok;
}
const rotate = (graceMs: number): Change => {
  return async (key, nowMs) => {
    let secret = "";
    const isRotated = await make(key, nowMs, "rotated", async (...args) => {
      const rotated = await rotateKey(args[0], args[1], graceMs, args[2]);
      if (rotated.ok) secret = rotated.secret;
      return rotated;
    });
    if (!isRotated) return;
    key.secrets = key.secrets.map(({ hash, endMs }) => ({ hash, endMs: Math.min(endMs, nowMs + graceMs) }));
    key.secrets.push({ hash: sha256(secret), endMs: CURRENT });
  };
};
const rotateTwice: Change = async (key, nowMs, isRestored) => {
  await rotate(HOUR_MS)(key, nowMs, isRestored);
  await rotate(2 * HOUR_MS)(key, nowMs + 1, isRestored);
};
const revoke: Change = async (key, nowMs) => {
  if (await make(key, nowMs, "revoked", revokeKey)) key.isRevoked = true;
};
const unban: Change = async (key, nowMs) => {
  if (await make(key, nowMs, "unbanned", unbanKey)) key.bansLiftedUntilMs = banEndMs(nowMs);
};
function setting(change: string, settings: Partial<Settings>, run: typeof revokeKey): Change {
  return async (key, nowMs, isRestored) => {
    if (!(await make(key, nowMs, change, run))) return;
    Object.assign(key.settings, settings);
    if (isRestored || !key.isAtBookmark) Object.assign(key.restoredSettings, settings);
  };
}
const toPlan = (plan: Plan, perMinute: number | null = null) =>
  setting("plan", { plan, perMinute }, (database, id, operator) => {
    const limits = perMinute === null ? undefined : { minute: perMinute, day: perMinute };
    return changePlan(database, id, plan, limits, operator);
  });
const rename = (name: string) =>
  setting("renamed", { name }, (database, id, operator) => renameKey(database, id, name, operator));
const expire = (expiresAtMs: number | null) =>
  setting("expiry", { expiresAtMs }, (database, id, operator) =>
    setExpiry(database, id, expiresAtMs, operator),
  );

// The kinds are independent, so each key gets a change of each.
const KINDS = [
  [unchanged, toPlan("enterprise", 9), toPlan(START.plan)],
  [unchanged, rename("another shop"), rename(START.name)],
  [unchanged, expire(Date.UTC(2100, 0)), expire(START.expiresAtMs)],
  [unchanged, unban],
  [unchanged, rotate(0), rotate(HOUR_MS), rotateTwice, revoke],
];
const PAIRS = 25;

/** Changes all keys. The two rounds together cover every pair of changes of each kind. */
async function changeAll(
  keys: ChangedKey[],
  round: 0 | 1,
  nowMs: number,
  isRestored: boolean,
): Promise<void> {
  const change = async (key: ChangedKey, index: number) => {
    for (const kind of KINDS) {
      const at = round === 0 ? index : Math.floor(index / kind.length);
      await kind[at % kind.length]?.(key, nowMs, isRestored);
    }
  };
  await Promise.all(keys.map(change));
}

async function createChangedKey(isAtBookmark: boolean, nowMs: number): Promise<ChangedKey> {
  const { key, secret } = await createKey(database(), START, at(nowMs));
  return {
    id: key.id,
    secrets: [{ hash: sha256(secret), endMs: CURRENT }],
    isRevoked: false,
    settings: { ...START, perMinute: null },
    restoredSettings: { ...START, perMinute: null },
    bansLiftedUntilMs: null,
    changes: [`${nowMs} created`],
    isAtBookmark,
  };
}

/** The state of all keys. Of a revoked key, only the revocation and the record matter. */
async function statesOf(keys: ChangedKey[]) {
  const rows = database().prepare("SELECT *, lower(hex(hash)) AS hash FROM keys");
  const current = await rows.all<Record<string, string | number | null>>();
  const replaced = await database()
    .prepare("SELECT lower(hex(hash)) AS hash, key_id, good_until_ms FROM replaced_secrets")
    .all<{ hash: string; key_id: string; good_until_ms: number }>();
  const record = await database()
    .prepare("SELECT key_id, at_ms || ' ' || change AS change FROM key_changes ORDER BY at_ms")
    .all<{ key_id: string; change: string }>();
  const changes = Map.groupBy(record.results, (row) => row.key_id);
  expect(current.results).toHaveLength(keys.length);
  const byId = new Map(current.results.map((row) => [row.id, row]));
  const ends = new Map(replaced.results.map((row) => [`${row.key_id} ${row.hash}`, row.good_until_ms]));
  return keys.map(({ id, secrets }) => {
    const row = byId.get(id);
    const made = changes.get(id)?.map(({ change }) => change);
    if (row?.revoked_at_ms !== null) return { id, isRevoked: true, changes: made?.toSorted() };
    const endOf = (hash: string) => (hash === row.hash ? CURRENT : ends.get(`${id} ${hash}`));
    return {
      id,
      secrets: secrets.map(({ hash }) => ({ hash, endMs: endOf(hash) })),
      settings: {
        plan: row.plan,
        perMinute: row.per_minute,
        name: row.name,
        expiresAtMs: row.expires_at_ms,
      },
      bansLiftedUntilMs: row.bans_lifted_until_ms,
      changes: made?.toSorted(),
    };
  });
}

function expectedStates(keys: ChangedKey[], withKeys: boolean) {
  return keys.map(({ id, isRevoked, secrets, settings, restoredSettings, bansLiftedUntilMs, ...key }) => {
    const changes = key.changes.toSorted();
    if (isRevoked) return { id, isRevoked, changes };
    return { id, secrets, settings: withKeys ? restoredSettings : settings, bansLiftedUntilMs, changes };
  });
}

describe("two changes of a key survive", () => {
  let bookmark: string;
  let petsAtBookmark: unknown;
  let atBookmark: ChangedKey[];
  /** After the first change, with more keys. */
  let start: string;
  let atStart: ChangedKey[];

  beforeAll(async () => {
    await reset();
    await insertPet(database(), newPet("Kit"));
    atBookmark = await Promise.all(
      Array.from({ length: PAIRS }, () => createChangedKey(true, NOW_MS - HOUR_MS)),
    );
    for (const key of atBookmark) await rotate(3 * HOUR_MS)(key, NOW_MS - 1, false);
    bookmark = await bookmarkNow();
    petsAtBookmark = (await content()).pets;
    await insertPet(database(), newPet("since"));
    atStart = structuredClone(atBookmark);
    await changeAll(atStart, 0, NOW_MS + 10, false);
    for (let count = 0; count < PAIRS; count += 1) atStart.push(await createChangedKey(false, NOW_MS + 10));
    start = await bookmarkNow();
  });

  /** An API client that hands call number `at` to `replace`. `seen` tells how far the restore has come. */
  function interceptCall(at: number, replace: (request: () => Promise<unknown>) => Promise<unknown>) {
    const seen = { calls: 0, isSaved: false, isRestored: false };
    const through = async (path: string, body?: unknown, method?: string) => {
      seen.calls += 1;
      const request = async () => {
        const answer = await ask(path, body, method);
        seen.isSaved ||= JSON.stringify(body ?? "").includes("hex(hash) AS hex");
        seen.isRestored ||= path.includes("/restore?");
        return answer;
      };
      return seen.calls === at ? replace(request) : request();
    };
    return { through: through as CallApi, seen };
  }

  async function changeSecondTime(keys: ChangedKey[], isRestored: boolean): Promise<void> {
    await changeAll(keys, 1, NOW_MS + 20, isRestored);
    keys.push(await createChangedKey(false, NOW_MS + 20));
  }

  async function expectRestored(keys: ChangedKey[], withKeys: boolean, when: string): Promise<void> {
    expect(await statesOf(keys), when).toEqual(expectedStates(keys, withKeys));
    const { pets, sequence, schema } = await content();
    expect({ pets, sequence }, when).toEqual({ pets: petsAtBookmark, sequence: ["pets1000002"] });
    expect(schema, when).not.toContain("restoring");
    expect(existsSync(file), when).toBe(false);
  }

  const cutBefore = async () => {
    throw new Error("Cloudflare's API can't be reached");
  };
  const cutAfter = async (request: () => Promise<unknown>) => {
    await request();
    throw new CloudflareApiError(7500, 502, "Bad gateway");
  };

  // --with-keys and the kind of failure are independent.
  it.each([
    ["the request is lost", cutBefore, true],
    ["the response is lost", cutAfter, false],
  ])("an interruption of the restore between them, at any call: %s", async (_, cut, withKeys) => {
    let resumed = 0;
    for (let at = 1; ; at += 1) {
      await timeTravel().restore(start);
      const keys = structuredClone(atStart);
      const { through, seen } = interceptCall(at, cut);
      let restore = restoreTo(bookmark, withKeys);
      const failure = await runRestore(restore, through).then(
        () => undefined,
        (error: Error) => error.message,
      );
      if (seen.calls < at) break;
      await changeSecondTime(keys, seen.isRestored);
      if (failure?.endsWith("; nothing was changed")) {
        expect(existsSync(file)).toBe(false);
      } else if (failure !== undefined) {
        expect(failure).toMatch(/; until you finish it, .*: npm run restore -- --resume$/);
        restore = JSON.parse(await readFile(file, "utf8"));
        resumed += 1;
      }
      if (failure !== undefined) await runRestore(restore);
      await expectRestored(keys, withKeys, `after call ${at}`);
    }
    expect(resumed).toBeGreaterThan(4);
  });

  // Not between the saving of the keys and the restore call: such a change is lost without a trace.
  it.each([true, false])(
    "if the second comes during any call of the restore, with --with-keys %s",
    async (withKeys) => {
      let changed = 0;
      for (let at = 1; ; at += 1) {
        await timeTravel().restore(start);
        const keys = structuredClone(atStart);
        const { through, seen } = interceptCall(at, async (request) => {
          if (seen.isSaved === seen.isRestored) {
            await changeSecondTime(keys, seen.isRestored);
            changed += 1;
          }
          return request();
        });
        await runRestore(restoreTo(bookmark, withKeys), through);
        if (seen.calls < at) break;
        if (keys.length > atStart.length) await expectRestored(keys, withKeys, `at call ${at}`);
      }
      expect(changed).toBeGreaterThan(7);
    },
  );

  it.each([true, false])(
    "interruptions of the restore and of --resume, with --with-keys %s",
    async (withKeys) => {
      await timeTravel().restore(bookmark);
      await insertPet(database(), newPet("since"));
      const unfinished = await interrupt(bookmark, true, withKeys);
      const changed = structuredClone(atBookmark);
      await changeAll(changed, 0, NOW_MS + 10, true);
      const interrupted = await bookmarkNow();
      for (let at = 1; ; at += 1) {
        await timeTravel().restore(interrupted);
        await writeFile(file, JSON.stringify(unfinished));
        const keys = structuredClone(changed);
        const { through, seen } = interceptCall(at, cutAfter);
        await runRestore(unfinished, through).catch(() => {});
        if (seen.calls < at) break;
        await changeSecondTime(keys, true);
        await writeFile(file, JSON.stringify(unfinished));
        await runRestore(unfinished);
        await expectRestored(keys, withKeys, `after call ${at}`);
      }
    },
  );
});

describe("--resume", () => {
  it("does not restore a second time, also if the restored state is from the middle of another restore", async () => {
    const { bookmark } = await prepare();
    let middle = "";
    await runRestore(restoreTo(bookmark), async (path, body, method) => {
      if (path.includes("/restore?")) middle = await bookmarkNow();
      return ask(path, body, method);
    });
    const unfinished = await interrupt(middle, true);
    expect((await content()).schema).toContain("restoring");
    const { id } = await insertPet(database(), newPet("meanwhile"));
    await runRestore(unfinished);
    const { pets, schema } = await content();
    expect(pets).toContain(`${id}meanwhile`);
    expect(schema).not.toContain("restoring");
  });

  it.each([2, 5])(
    "keeps the saved state if Cloudflare carries out the restore just before call %i",
    async (at) => {
      const { bookmark, expectGuarantees } = await prepare();
      const unfinished = await interrupt(bookmark, false);
      let calls = 0;
      const through: CallApi = async (path, body, method) => {
        calls += 1;
        if (calls === at) await timeTravel().restore(bookmark);
        return ask(path, body, method);
      };
      await runRestore(unfinished, through);
      await expectGuarantees();
    },
  );
});

describe("npm run restore", () => {
  const restore = (...words: string[]) => runCommandInProcess(restoreCommand, words);

  beforeEach(() => {
    file = "restoring.json";
  });
  afterEach(() => rm(file, { force: true }));

  it("prints its plan, restores, and prints the result", async () => {
    const { bookmark, expectGuarantees } = await prepare();
    const { exitCode, stdout, stderr } = await restore("--bookmark", bookmark, "--remote", "--yes");
    expect([exitCode, stdout]).toEqual([0, "Restored the database petstore of the account an-account.\n"]);
    expect(stderr.split("\n")).toEqual([
      "Reading the database",
      `Restores the database petstore of the account an-account to bookmark ${bookmark}.`,
      "It has 7 keys now. Ids up to 5 will not be assigned again.",
      "Keys stay as they are.",
      "Saving ids and keys",
      expect.stringMatching(/^To undo: npm run restore -- --bookmark \d+ --remote$/),
      "Restoring",
      "Merging ids and keys",
      "For 30 s the service may accept keys and secrets that have ended.",
      "It may return old pages until 30 s after the read replicas have caught up.",
      "An Idempotency-Key of a pet that is gone creates a new pet, with a new id.",
      "Next, look at the keys: npm run keys -- list --remote",
      "",
    ]);
    await expectGuarantees();
  });

  it("changes nothing with --dry-run", async () => {
    await prepare();
    const before = await content();
    const asked = api.requests.length;
    const time = new Date().toISOString();
    const words = ["--timestamp", time, "--remote", "--with-keys", "--dry-run"];
    const { stdout } = await restore(...words);
    expect(stdout).toMatch(
      /^Restores the database petstore .* to bookmark (\d+) \(.*Z\)\.\nIt has .*\nKeys are restored too; .*\nNothing was changed\. To restore: npm run restore -- --bookmark \1 --with-keys --remote\n$/,
    );
    expect(await content()).toEqual(before);
    const requests = api.requests.slice(asked);
    expect(requests.some((request) => request.endsWith("/time_travel/bookmark"))).toBe(true);
    expect(requests.filter((request) => request.endsWith("/time_travel/restore"))).toEqual([]);
  });

  it("asks before it changes anything", async () => {
    const { bookmark } = await prepare();
    const before = await content();
    const words = ["--bookmark", bookmark, "--remote"];
    const unattended = await restore(...words);
    expect([unattended.exitCode, unattended.stderr]).toEqual([
      2,
      expect.stringMatching(/: add --yes to do it\n$/),
    ]);
    expect(await content()).toEqual(before);
  });

  it("applies the migrations that the restored state lacks, then merges keys", async () => {
    await reset();
    const { key, secret } = await newKey("revoked");
    for (const sql of [
      "INSERT INTO pets (name, category_id) VALUES ('Kit', 1)",
      "DROP TABLE creations",
      "DROP TABLE replaced_secrets",
      "DROP TABLE key_changes",
      "ALTER TABLE keys DROP COLUMN revoked_at_ms",
      "ALTER TABLE keys DROP COLUMN bans_lifted_until_ms",
      "DELETE FROM d1_migrations WHERE name >= '0003'",
    ]) {
      await database().prepare(sql).run();
    }
    const bookmark = await bookmarkNow();
    await applyMigrations(PRODUCTION);
    const { id } = await createOnce("since");
    await revokeKey(database(), key.id, at(NOW_MS + 1));
    const { changes } = await content();
    const { stdout } = await restore("--bookmark", bookmark, "--remote", "--yes");
    const applied =
      "0003_revocation_and_rotation.sql, 0004_creations.sql, 0005_plan_changes.sql, 0006_key_changes.sql";
    expect(stdout).toMatch(/^Applied migrations again: (.*)\.\nRestored /);
    expect(stdout).toContain(applied);
    expect((await content()).changes).toEqual(changes);
    expect((await found(secret))?.revokedAtMs).toBe(NOW_MS + 1);
    expect(Number((await createOnce("since")).id)).toBeGreaterThan(Number(id));
  });

  it("finishes an interrupted restore with --resume", async () => {
    const { bookmark, expectGuarantees } = await prepare();
    await interrupt(bookmark, true);
    const { stdout, stderr } = await restore("--resume");
    expect(stderr).toMatch(
      /^Finishes the restore of the database petstore of the account an-account to bookmark /,
    );
    expect(stdout).toMatch(/^Restored /);
    await expectGuarantees();
    expect(existsSync(file)).toBe(false);
  });

  it("refuses to start while an earlier restore is unfinished", async () => {
    await writeFile(file, "{}");
    const asked = api.requests.length;
    const { stderr } = await restore("--bookmark", "1", "--remote", "--yes");
    expect(stderr).toBe("error: an earlier restore is unfinished: run npm run restore -- --resume\n");
    expect(api.requests).toHaveLength(asked);
  });

  const KEYS = { marker: "restoring_1", saved: { keys: [{ id: "key_1" }] } };
  it.each([
    ["no JSON", "{"],
    ["no saved state", JSON.stringify({ marker: "restoring_1" })],
    ["SQL as its marker", JSON.stringify({ ...KEYS, marker: "a INTEGER); DROP TABLE keys; --" })],
    ["SQL as a column", JSON.stringify({ ...KEYS, saved: { keys: [{ "id) SELECT 1; --": 1 }] } })],
  ])("refuses to resume from a file with %s", async (_, content) => {
    await writeFile(file, content);
    const asked = api.requests.length;
    const stderr = "error: restoring.json is not the file of an unfinished restore\n";
    expect(await restore("--resume")).toEqual({ exitCode: 2, stdout: "", stderr });
    expect(api.requests).toHaveLength(asked);
  });

  it("with --preview works on the database of the previews", async () => {
    const { stderr } = await restore("--bookmark", "0", "--preview", "staging", "--yes");
    expect(stderr).toBe(
      "Reading the database\nerror: the database petstore-previews of the account an-account has pending migrations: run npm run migrate -- --preview staging, or remove a migration that fails\n",
    );
  });

  it("changes nothing if Cloudflare refuses the bookmark", async () => {
    await prepare();
    const before = await content();
    const { exitCode, stderr } = await restore("--bookmark", "ffffffff", "--remote", "--yes");
    expect([exitCode, stderr.split("\n").at(-2)]).toEqual([
      1,
      "error: Cloudflare's API refused: There is no such bookmark (7500); nothing was changed",
    ]);
    expect(await content()).toEqual(before);
  });

  const TIME = "It must be a time in the past, such as 2026-11-19T12:00:00Z";
  it.each([
    ["neither time nor bookmark", ["--remote", "--yes"], "add --timestamp TIME or --bookmark B"],
    [
      "both time and bookmark",
      ["--bookmark", "0", "--timestamp", new Date().toISOString()],
      "cannot be used with",
    ],
    ["an invalid time", ["--timestamp", "yesterday"], TIME],
    ["a time in the future", ["--timestamp", "2999-01-01"], TIME],
    ["a local database", ["--bookmark", "0", "--yes"], "add --remote or --preview NAME"],
    ["--dry-run with --yes", ["--bookmark", "0", "--dry-run", "--yes"], "'--yes' cannot be used with"],
    ["an unknown option", ["--bookmrak", "0"], "(Did you mean --bookmark?)"],
    ["--resume without a restore", ["--resume"], "restoring.json does not exist"],
    ["--resume with another option", ["--resume", "--dry-run"], "'--resume' cannot be used"],
  ])("refuses %s in one line", async (_, words, problem) => {
    const asked = api.requests.length;
    const { exitCode, stdout, stderr } = await restore(...words);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^error: [^\n]+\n$/);
    expect(stderr).toContain(problem);
    expect(api.requests).toHaveLength(asked);
  });
});

it("a copy of the folder restores the local database", async () => {
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
