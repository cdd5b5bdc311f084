// npm run restore against a fake of Cloudflare's API: a restored database keeps the guarantees about ids and keys, wherever the
// restore is interrupted. Cloudflare's own Time Travel is not tested.

import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { d1OverApi } from "../../scripts/cloudflare/d1-api.ts";
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
import { sha256 } from "../../src/lib/sha256.ts";
import { insertPetOnce } from "../../src/pets/idempotency.ts";
import { insertPet } from "../../src/pets/store.ts";
import { banEndMs } from "../../src/rate-limit/object/quota.ts";
import type { Plan } from "../../src/rate-limit/plans.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { migrateEmpty } from "../support/e2e/migrations.ts";
import type { fakeTimeTravel } from "../support/e2e/time-travel.ts";

vi.setConfig({ testTimeout: 240_000 });

const NOW_MS = Date.UTC(2026, 10, 19, 12);
const HOUR_MS = 3_600_000;
const FILE = "restoring.json";

let api: Awaited<ReturnType<typeof startCloudflareApi>>;
let database: D1Database;
let timeTravel: ReturnType<typeof fakeTimeTravel>;
/** A bookmark from before the first migration. */
let emptyBookmark: string;
/** A bookmark of empty tables. */
let migratedBookmark: string;

beforeAll(async () => {
  api = await startCloudflareApi(["petstore", "petstore-previews"]);
  for (const [name, value] of Object.entries(api.environment)) vi.stubEnv(name, value);
  database = api.database("petstore") as D1Database;
  timeTravel = api.timeTravel("petstore") as typeof timeTravel;
  emptyBookmark = await bookmarkNow();
  await migrateEmpty(database);
  migratedBookmark = await bookmarkNow();
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await api?.stop();
});

afterEach(() => rm(FILE, { force: true }));

const bookmarkNow = async () => (await timeTravel.bookmark()) ?? "";

interface ApiCall {
  /** Counts the calls that read or change the database, from 1. */
  number: number;
  isRestore: boolean;
  /** Whether an earlier call has restored the database. */
  isRestored: boolean;
  body: string;
  send(): Promise<Response>;
}

type Answer = (call: ApiCall) => Promise<Response>;

/** Fails one call: a lost request has no effect, a lost response does not tell of it. */
const lose = (part: "request" | "response", isChosen: (call: ApiCall) => boolean): Answer => {
  return async (call) => {
    if (!isChosen(call)) return call.send();
    if (part === "request") throw new TypeError("the connection is lost");
    await call.send();
    return new Response("Bad gateway", { status: 502 });
  };
};

/** Runs the command, whose calls of Cloudflare's API get the answers of `answer`. */
async function restore(words: string[], answer: Answer = ({ send }) => send()) {
  const seen = { calls: 0, isRestored: false };
  const { fetch } = globalThis;
  vi.stubGlobal("fetch", (url: string, init?: RequestInit) => {
    const isRestore = `${url}`.includes("/restore?");
    if (!isRestore && !`${url}`.endsWith("id-of-petstore/query")) return fetch(url, init);
    const { isRestored } = seen;
    const send = async () => {
      const response = await fetch(url, init);
      seen.isRestored ||= isRestore;
      return response;
    };
    seen.calls += 1;
    return answer({ number: seen.calls, isRestore, isRestored, body: `${init?.body}`, send });
  });
  const outcome = await runCommandInProcess(restoreCommand, words);
  vi.unstubAllGlobals();
  return { ...outcome, ...seen };
}

/** Restores the production database to a bookmark. */
function restoreTo(bookmark: string, withKeys = false, answer?: Answer) {
  const words = ["--bookmark", bookmark, "--remote", "--yes", ...(withKeys ? ["--with-keys"] : [])];
  return restore(words, answer);
}

/** Starts a restore that is interrupted at the restore call. */
async function interruptRestore(bookmark: string, lost: "request" | "response"): Promise<void> {
  const answer = lose(lost, ({ isRestore }) => isRestore);
  expect((await restoreTo(bookmark, false, answer)).stderr).toMatch(UNFINISHED);
}

const UNFINISHED = /; until you finish it, .*: npm run restore -- --resume\n$/;

function addPet(name: string) {
  return insertPet(database, { name, categoryId: 9_007_199_254_740_993n, status: "available" });
}

function addPetOnce(idempotencyKey: string) {
  const pet = { name: idempotencyKey, categoryId: 1n };
  return insertPetOnce(database, pet, { keyId: "key_a", idempotencyKey }, NOW_MS);
}

async function rowsOf<Row = Record<string, unknown>>(sql: string): Promise<Row[]> {
  return (await database.prepare(sql).all<Row>()).results;
}

const PETS = "SELECT quote(id) AS id, name FROM pets ORDER BY pets.id";
const TABLES = "SELECT name FROM sqlite_schema ORDER BY name";

/** The database, for many changes: statements that are sent at the same time run as one batch, in one request. */
function gathering(): D1Database {
  let statements: D1PreparedStatement[] = [];
  let batch: Promise<D1Result[]> | undefined;
  const runGathered = async () => {
    await nextTurn();
    const gathered = statements;
    [statements, batch] = [[], undefined];
    return database.batch(gathered);
  };
  type Query = { sql: string; params: unknown[] };
  const send = async (_path: string, body: unknown) => {
    const queries = (body as { batch?: Query[] }).batch ?? [body as Query];
    const start = statements.length;
    statements.push(...queries.map(({ sql, params }) => database.prepare(sql).bind(...params)));
    batch ??= runGathered();
    return (await batch).slice(start, start + queries.length);
  };
  return d1OverApi(send as Parameters<typeof d1OverApi>[0], "gathered");
}

/** A change of a key: its name in the record, what the command does, and the settings that it sets. */
interface Change {
  name: string;
  run: (...args: Parameters<typeof revokeKey>) => Promise<{ ok: boolean; secret?: string }>;
  settings?: Record<string, unknown>;
  /** Of a rotation. */
  graceMs?: number;
}

/** A key, with the state that it must have in the end: as if there had been no restore. */
interface ChangedKey {
  id: string;
  isAtBookmark: boolean;
  /** Which pair of changes it gets: none without a number, early ones below PAIRS, late ones from there. */
  pair: number | undefined;
  /** The hash of each with its end; null for the current one. */
  secrets: Record<string, number | null>;
  settings: Record<string, unknown>;
  /** The settings with --with-keys: each is the one at the bookmark, unless it was changed after the restore. */
  restoredSettings: Record<string, unknown>;
  lastFour: string;
  bansLiftedUntilMs: number | null;
  isRevoked: boolean;
  /** The rows of the record. */
  changes: string[];
}

const START = { name: "a shop", plan: "free", expiresAtMs: null } as const;

const setPlan = (plan: Plan, limits?: Limits): Change => ({
  name: "plan",
  run: (database, id, operator) => changePlan(database, id, plan, limits, operator),
  settings: { plan, perMinute: limits?.minute ?? null },
});
const rename = (name: string): Change => ({
  name: "renamed",
  run: (database, id, operator) => renameKey(database, id, name, operator),
  settings: { name },
});
const expire = (expiresAtMs: number | null): Change => ({
  name: "expiry",
  run: (database, id, operator) => setExpiry(database, id, expiresAtMs, operator),
  settings: { expiresAtMs },
});
const rotate = (graceMs: number): Change => ({
  name: "rotated",
  run: (database, id, operator) => rotateKey(database, id, graceMs, operator),
  graceMs,
});
const unban: Change = { name: "unbanned", run: unbanKey };
const revoke: Change = { name: "revoked", run: revokeKey };

// The kinds are independent, so each key gets a change of each. A key that has expired can't be rotated, so expiry comes last.
const KINDS: Change[][][] = [
  [[], [setPlan("enterprise", { minute: 9, day: 9 })], [setPlan(START.plan)]],
  [[], [rename("another shop")], [rename(START.name)]],
  [[], [unban]],
  [[], [rotate(0)], [rotate(HOUR_MS)], [rotate(HOUR_MS), rotate(2 * HOUR_MS)], [revoke]],
  [[], [expire(Date.UTC(2100, 0))], [expire(START.expiresAtMs)], [expire(NOW_MS + 15)]],
];
const PAIRS = 25;

/** Changes a key, before or after the restore call, unless its state does not permit it. */
async function make(
  { name, run, settings, graceMs = 0 }: Change,
  database: D1Database,
  key: ChangedKey,
  nowMs: number,
  isRestored: boolean,
): Promise<void> {
  const { ok, secret } = await run(database, key.id, { by: "jo", nowMs });
  if (!ok) return;
  key.changes.push(`${nowMs} ${name}`);
  Object.assign(key.settings, settings);
  if (isRestored || !key.isAtBookmark) Object.assign(key.restoredSettings, settings);
  if (name === "unbanned") key.bansLiftedUntilMs = banEndMs(nowMs);
  key.isRevoked ||= name === "revoked";
  if (secret === undefined) return;
  for (const [hash, endMs] of Object.entries(key.secrets))
    key.secrets[hash] = Math.min(endMs ?? Number.POSITIVE_INFINITY, nowMs + graceMs);
  key.secrets[sha256(secret)] = null;
  key.lastFour = secret.slice(-4);
}

/** Changes all early keys, or all late ones. The two rounds together cover every pair of changes of each kind. */
async function changeAll(keys: ChangedKey[], when: "early" | "late", round: 1 | 2, isRestored: boolean) {
  const database = gathering();
  const changeKey = async (key: ChangedKey) => {
    const { pair } = key;
    if (pair === undefined || pair < PAIRS !== (when === "early")) return;
    for (const kind of KINDS) {
      const index = round === 1 ? pair : Math.floor(pair / kind.length);
      for (const [later, change] of (kind[index % kind.length] ?? []).entries())
        await make(change, database, key, NOW_MS + 10 * round + later, isRestored);
    }
  };
  await Promise.all(keys.map(changeKey));
}

/** Changes the early keys a second time, and creates a key. */
async function changeEarly(keys: ChangedKey[], isRestored: boolean): Promise<void> {
  await changeAll(keys, "early", 2, isRestored);
  keys.push(...(await createKeys([undefined], NOW_MS + 20, false)));
}

/** Creates a key for each pair. */
function createKeys(pairs: (number | undefined)[], nowMs: number, isAtBookmark: boolean) {
  const database = gathering();
  const create = async (pair?: number): Promise<ChangedKey> => {
    const { key, secret } = await createKey(database, START, { by: "jo", nowMs });
    return {
      id: key.id,
      isAtBookmark,
      pair,
      secrets: { [sha256(secret)]: null },
      settings: { ...START, perMinute: null },
      restoredSettings: { ...START, perMinute: null },
      lastFour: key.lastFour,
      bansLiftedUntilMs: null,
      isRevoked: false,
      changes: [`${nowMs} created`],
    };
  };
  return Promise.all(pairs.map(create));
}

/** An object of all keys' states. */
const SELECT_STATES = `
  SELECT json_group_object(id, json_object(
    'isRevoked', revoked_at_ms IS NOT NULL, 'lastFour', last_four, 'bansLiftedUntilMs', bans_lifted_until_ms,
    'settings', json_object('plan', plan, 'perMinute', per_minute, 'name', name, 'expiresAtMs', expires_at_ms),
    'secrets', json((SELECT json_group_object(lower(hex(hash)), endMs) FROM (
      SELECT hash, good_until_ms AS endMs FROM replaced_secrets WHERE key_id = keys.id UNION ALL SELECT keys.hash, NULL
    ))),
    'changes', json((SELECT json_group_array(change) FROM (
      SELECT at_ms || ' ' || change AS change FROM key_changes WHERE key_id = keys.id ORDER BY 1
    )))
  )) AS states FROM keys`;

async function expectStates(keys: ChangedKey[], withKeys: boolean, when?: string): Promise<void> {
  const [{ states } = { states: "{}" }] = await rowsOf<{ states: string }>(SELECT_STATES);
  const expected = keys.map(({ id, isRevoked, settings, restoredSettings, ...key }) => {
    const changes = key.changes.toSorted();
    // Of a revoked key, only the revocation and the record matter.
    if (isRevoked) return [id, { isRevoked: 1, changes }];
    const { expiresAtMs } = settings;
    const hasExpired = expiresAtMs !== null && Number(expiresAtMs) < Date.now();
    const restored = { ...restoredSettings, ...(hasExpired && { expiresAtMs }) };
    const { secrets, lastFour, bansLiftedUntilMs } = key;
    const state = { secrets, lastFour, bansLiftedUntilMs, changes };
    return [id, { isRevoked: 0, settings: withKeys ? restored : settings, ...state }];
  });
  expect(JSON.parse(states), when).toMatchObject(Object.fromEntries(expected));
}

describe("with a history", () => {
  /** Three pets and keys. */
  let bookmark: string;
  let petsAtBookmark: unknown;
  /** Two pets later: a pet is damaged, a key deleted, a key damaged, the early ones changed once, and more keys created. */
  let start: string;
  let keysAtStart: ChangedKey[];

  beforeAll(async () => {
    await timeTravel.restore(migratedBookmark);
    for (const name of ["Kit", "Rex"]) await addPet(name);
    await addPetOnce("before");
    const pairs = Array.from({ length: 2 * PAIRS }, (_, pair) => pair);
    keysAtStart = await createKeys([undefined, undefined, ...pairs], NOW_MS - HOUR_MS, true);
    const [deleted, damaged, ...paired] = keysAtStart;
    const batching = gathering();
    await Promise.all(paired.map((key) => make(rotate(3 * HOUR_MS), batching, key, NOW_MS - 1, false)));
    bookmark = await bookmarkNow();
    petsAtBookmark = await rowsOf(PETS);

    await addPet("since");
    await addPetOnce("since");
    await rowsOf("UPDATE pets SET name = 'damaged' WHERE name = 'Kit'");
    await rowsOf(`DELETE FROM keys WHERE id = '${deleted?.id}'`);
    await rowsOf(`UPDATE keys SET name = 'damaged', hash = randomblob(32) WHERE id = '${damaged?.id}'`);
    if (damaged) damaged.settings.name = "damaged";
    await changeAll(keysAtStart, "early", 1, false);
    keysAtStart.push(...(await createKeys([0, 5, 10, 15, 20], NOW_MS + 10, false)));
    start = await bookmarkNow();
  });

  /** Goes back to the start. Returns its keys. */
  async function begin(): Promise<ChangedKey[]> {
    await timeTravel.restore(start);
    return structuredClone(keysAtStart);
  }

  async function expectRestored(keys: ChangedKey[], withKeys: boolean, when?: string): Promise<void> {
    await expectStates(keys, withKeys, when);
    expect(await rowsOf("SELECT id FROM keys"), when).toHaveLength(keys.length);
    expect(await rowsOf(PETS), when).toEqual(petsAtBookmark);
    const ids = await rowsOf("SELECT seq FROM sqlite_sequence WHERE name = 'pets'");
    expect(ids, when).toEqual([{ seq: 1_000_005 }]);
    expect(await rowsOf(TABLES), when).not.toContainEqual({ name: "restoring" });
    expect(existsSync(FILE), when).toBe(false);
  }

  it("prints its plan, restores, and can be undone, with new ids from the call after the restore on", async () => {
    const keys = await begin();
    const pets = await rowsOf(PETS);
    const { exitCode, stdout, stderr } = await restoreTo(bookmark, true);
    expect([exitCode, stdout]).toEqual([0, "Restored the database petstore of the account an-account.\n"]);
    expect(stderr.split("\n")).toEqual([
      "Reading the database",
      `Restores the database petstore of the account an-account to bookmark ${bookmark}.`,
      "It has 56 keys now. Ids up to 5 will not be assigned again.",
      "Keys are restored too; ended keys and secrets stay ended.",
      "Saving ids and keys",
      expect.stringMatching(/^To undo: npm run restore -- --bookmark \d+ --with-keys --remote$/),
      "Restoring",
      "Merging ids and keys",
      "For 30 s the service may accept keys and secrets that have ended.",
      "It may return old pages until 30 s after the read replicas have caught up.",
      "An Idempotency-Key of a pet that is gone creates a new pet, with a new id.",
      "Next, look at the keys: npm run keys -- list --remote",
      "",
    ]);
    await expectRestored(keys, true);
    expect((await addPetOnce("before")).id).toBe("3");
    expect((await addPetOnce("since")).id).toBe("1000006");

    const [, undo = ""] = stderr.match(/^To undo: npm run restore -- (.*)$/m) ?? [];
    const [between] = await createKeys([undefined], NOW_MS, false);
    let [late, later] = ["", ""];
    const undone = await restore([...undo.split(" "), "--yes"], async ({ isRestore, isRestored, send }) => {
      if (isRestore) late = (await addPet("late")).id;
      const response = await send();
      if (isRestored && later === "") later = (await addPet("later")).id;
      return response;
    });
    expect([undone.exitCode, late, later]).toEqual([0, "1000007", "2000007"]);
    expect(await rowsOf(PETS)).toEqual([...pets, { id: later, name: "later" }]);
    expect(await rowsOf("SELECT id FROM keys")).toContainEqual({ id: between?.id });
  });

  // A request that is lost is as the response of the call before, but for the restore call: see the test of --resume.
  it("keeps two changes of each key, before, between and after interruptions of it and of --resume", async () => {
    let resumed = 0;
    // From the first call that changes something. Every second restore is one with keys.
    for (let number = 3, isInterrupted = true; isInterrupted; number += 1) {
      const keys = await begin();
      const [withKeys, when] = [number % 2 === 1, `after call ${number}`];
      const answer = lose("response", (call) => call.number === number);
      const { exitCode, stderr, calls, isRestored } = await restoreTo(bookmark, withKeys, answer);
      isInterrupted = calls >= number;
      await changeEarly(keys, isRestored);
      await changeAll(keys, "late", 1, isRestored);
      if (existsSync(FILE)) {
        expect(stderr, when).toMatch(UNFINISHED);
        // It merges in its calls from 5 on.
        await restore(
          ["--resume"],
          lose("response", (call) => call.number === Math.ceil(number / 2) + 2),
        );
        await changeAll(keys, "late", 2, true);
        if (existsSync(FILE)) expect((await restore(["--resume"])).exitCode, when).toBe(0);
        resumed += 1;
      } else if (exitCode !== 0) {
        expect(stderr, when).toMatch(/; nothing was changed\n$/);
        expect((await restoreTo(bookmark, withKeys)).exitCode, when).toBe(0);
      }
      await expectRestored(keys, withKeys, when);
    }
    expect(resumed).toBeGreaterThan(4);
  });

  // A change between the saving of the keys and the restore call is lost without a trace.
  it("keeps changes of keys during any call that merges", async () => {
    for (let number = 9, calls = number; number <= calls; number += 1) {
      const keys = await begin();
      const outcome = await restoreTo(bookmark, false, async (call) => {
        if (call.number === number) await changeEarly(keys, call.isRestored);
        return call.send();
      });
      calls = outcome.calls;
      await expectRestored(keys, false, `at call ${number}`);
    }
  });

  // Just before --resume saves the state, just before it restores, and not at all.
  it.each([2, 4, undefined])(
    "--resume keeps the saved state if Cloudflare restores before its call %s",
    async (number) => {
      const keys = await begin();
      await interruptRestore(bookmark, "request");
      // Before call 2, the state of the first attempt is the only one.
      if (number !== 2) await changeEarly(keys, false);
      const { stdout, stderr } = await restore(["--resume"], async (call) => {
        if (call.number === number) await timeTravel.restore(bookmark);
        return call.send();
      });
      const place = "the database petstore of the account an-account";
      expect(stderr).toMatch(`Finishes the restore of ${place} to bookmark ${bookmark}.\n`);
      if (number !== 2) expect(stderr).toMatch(/^To undo: npm run restore -- --bookmark \d+ --remote$/m);
      expect(stdout).toBe(`Restored ${place}.\n`);
      await expectRestored(keys, false);
    },
  );

  it("--resume does not restore a second time, also if the restored state is from the middle of another restore", async () => {
    await begin();
    let middle = "";
    await restoreTo(bookmark, false, async ({ isRestore, send }) => {
      if (isRestore) middle = await bookmarkNow();
      return send();
    });
    await interruptRestore(middle, "response");
    expect(await rowsOf(TABLES)).toContainEqual({ name: "restoring" });
    const { id } = await addPet("meanwhile");
    await restore(["--resume"]);
    expect(await rowsOf(PETS)).toContainEqual({ id, name: "meanwhile" });
    expect(await rowsOf(TABLES)).not.toContainEqual({ name: "restoring" });
  });

  it("to a state before the first migration applies all migrations again", async () => {
    const keys = await begin();
    // D1 has no sqlite_sequence in that state. The fake can't drop that table.
    const { stdout } = await restoreTo(emptyBookmark, false, async ({ body, send }) => {
      const isRefused = body.includes("sqlite_sequence") && (await rowsOf(TABLES)).length < 5;
      if (!isRefused) return send();
      const message = "no such table: sqlite_sequence: SQLITE_ERROR";
      return Response.json({ success: false, errors: [{ code: 7500, message }] }, { status: 400 });
    });
    expect(stdout).toMatch(/^Applied migrations again: 0001_pets\.sql, .*\.sql\.\nRestored /);
    // Without the deleted key, and the damaged one's secret.
    await expectStates(keys.slice(2), false);
    expect((await addPet("later")).id).toBe("1000006");
  });

  it("changes nothing with --dry-run, if nobody can answer, or if Cloudflare refuses the bookmark", async () => {
    await begin();
    const content = () => Promise.all([TABLES, PETS, SELECT_STATES].map((sql) => rowsOf(sql)));
    const before = await content();
    const asked = api.requests.length;
    const time = new Date().toISOString();
    const planned = await restore(["--timestamp", time, "--remote", "--dry-run"]);
    expect(planned.stdout).toMatch(
      /^Restores the database petstore .* to bookmark (\d+) \(.*Z\)\.\nIt has .*\nKeys stay as they are\.\nNothing was changed\. To restore: npm run restore -- --bookmark \1 --remote\n$/,
    );
    const unattended = await restore(["--bookmark", bookmark, "--remote"]);
    expect([unattended.exitCode, unattended.stderr]).toEqual([
      2,
      expect.stringMatching(/: add --yes to do it\n$/),
    ]);
    expect(api.requests.slice(asked).filter((request) => request.endsWith("/time_travel/restore"))).toEqual(
      [],
    );

    const { exitCode, stderr } = await restoreTo("ffffffff");
    expect([exitCode, stderr.split("\n").at(-2)]).toEqual([
      1,
      "error: Cloudflare's API refused: There is no such bookmark (7500); nothing was changed",
    ]);
    expect(await content()).toEqual(before);
    expect(existsSync(FILE)).toBe(false);
  });
});

it("restores more keys and changes than fit into one statement, and ids above 2^53", async () => {
  await timeTravel.restore(migratedBookmark);
  const select = [
    "SELECT *, hex(hash) AS hash FROM keys",
    "SELECT key_id, at_ms, change, from_value, to_value, changed_by FROM key_changes ORDER BY key_id",
  ];
  await rowsOf("INSERT INTO pets (id, name, category_id) VALUES (9007199254740993, 'Kit', 1)");
  await rowsOf(`
    INSERT INTO keys (id, name, plan, hash, last_four, created_at_ms)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 701)
    SELECT 'key_' || i, 'a key', 'free', randomblob(32), 'abcd', 1 FROM n`);
  // The longest names, as long as they can be in JSON: together they exceed the 2 MB that D1 takes in a parameter.
  const renamed = `
    INSERT INTO key_changes (key_id, at_ms, change, from_value, to_value, changed_by)
    SELECT id, 1, 'renamed', ?1, ?1, 'jo' FROM keys`;
  await database
    .prepare(renamed)
    .bind(`'"\u{1F63A}\u0001${"\u0001".repeat(251)}`)
    .run();
  const before = await Promise.all(select.map((sql) => rowsOf(sql)));
  let longest = 0;
  await restoreTo(migratedBookmark, false, async ({ body, send }) => {
    const queries: { params: string[] }[] = JSON.parse(body)?.batch ?? [];
    longest = Math.max(longest, ...queries.map(({ params: [first = ""] }) => Buffer.byteLength(first)));
    return send();
  });
  expect(longest).toBeLessThan(2_000_000);
  const after = await Promise.all(select.map((sql) => rowsOf(sql)));
  expect(after).toEqual(before);
  expect(after.map(({ length }) => length)).toEqual([701, 701]);
  expect((await addPet("later")).id).toBe("9007199255740994");
});

it("with --preview works on the database of the previews", async () => {
  const { stderr } = await restore(["--bookmark", "0", "--preview", "staging", "--yes"]);
  expect(stderr).toBe(
    "Reading the database\nerror: the database petstore-previews of the account an-account has pending migrations: run npm run migrate -- --preview staging, or remove a migration that fails\n",
  );
});

const TIME = "It must be a time in the past, such as 2026-11-19T12:00:00Z";
const NO_STATE = "restoring.json is not the file of an unfinished restore";
const KEYS = { marker: "restoring_1", saved: { keys: [{ id: "key_1" }] } };

it.each([
  ["--remote --yes", "add --timestamp TIME or --bookmark B"],
  ["--bookmark 0 --timestamp 2026-11-19", "cannot be used with"],
  ["--timestamp yesterday", TIME],
  ["--timestamp 2999-01-01", TIME],
  ["--bookmark 0 --yes", "add --remote or --preview NAME"],
  ["--bookmark 0 --dry-run --yes", "'--yes' cannot be used with"],
  ["--resume", "restoring.json does not exist"],
  ["--resume --dry-run", "'--resume' cannot be used"],
  ["--bookmark 1 --remote --yes", "an earlier restore is unfinished: run npm run restore -- --resume", {}],
  ["--resume", NO_STATE, "no object"],
  ["--resume", NO_STATE, { marker: KEYS.marker }],
  ["--resume", NO_STATE, { ...KEYS, marker: "a INTEGER); DROP TABLE keys; --" }],
  ["--resume", NO_STATE, { ...KEYS, saved: { keys: [{ "id) SELECT 1; --": 1 }] } }],
])("refuses in one line, without a call: %s: %s %j", async (line, problem, unfinished?: unknown) => {
  if (unfinished !== undefined) await writeFile(FILE, JSON.stringify(unfinished));
  const asked = api.requests.length;
  const { exitCode, stdout, stderr } = await restore(line.split(" "));
  expect([exitCode, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/^error: [^\n]+\n$/);
  expect(stderr).toContain(problem);
  expect(api.requests).toHaveLength(asked);
});
