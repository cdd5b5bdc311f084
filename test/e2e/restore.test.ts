// npm run restore against a fake of Cloudflare's API: a restored database keeps the guarantees about ids and keys, wherever the
// restore is interrupted. Cloudflare's own Time Travel is not tested. The expected keys are those of the same database after the
// same changes without a restore.

import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import restoreCommand from "../../scripts/restore.ts";
import {
  changePlan,
  createKey,
  type Operator,
  renameKey,
  revokeKey,
  rotateKey,
  setExpiry,
  unbanKey,
} from "../../src/keys/admin.ts";
import { insertPetOnce } from "../../src/pets/idempotency.ts";
import { insertPet } from "../../src/pets/store.ts";
import { startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { apiError } from "../support/e2e/cloudflare-workers.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { migrateEmpty } from "../support/e2e/migrations.ts";

vi.setConfig({ testTimeout: 240_000 });

const NOW_MS = Date.UTC(2026, 10, 19, 12);
const HOUR_MS = 3_600_000;
const FILE = "restoring.json";

let api: Awaited<ReturnType<typeof startCloudflareApi>>;
let database: D1Database;
let timeTravel: ReturnType<typeof api.timeTravel>;
/** A bookmark from before the first migration. */
let emptyBookmark: string;
/** A bookmark of empty tables. */
let migratedBookmark: string;

beforeAll(async () => {
  api = await startCloudflareApi(["petstore", "petstore-previews"]);
  for (const [name, value] of Object.entries(api.environment)) vi.stubEnv(name, value);
  database = api.database("petstore");
  timeTravel = api.timeTravel("petstore");
  emptyBookmark = await timeTravel.bookmark();
  await migrateEmpty(database);
  migratedBookmark = await timeTravel.bookmark();
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await api?.stop();
});

afterEach(() => rm(FILE, { force: true }));

/** A call of Cloudflare's API that reads or changes the database. */
interface Call {
  /** Counts the calls of a command, from 1. */
  number: number;
  isRestore: boolean;
  body: string;
  send(): Promise<unknown>;
}

type Answer = (call: Call) => Promise<unknown>;

/** Fails one call: a lost request has no effect, a lost response does not tell of it. */
const lose = (part: "request" | "response", isChosen: (call: Call) => boolean): Answer => {
  return async (call) => {
    if (!isChosen(call)) return call.send();
    if (part === "response") await call.send();
    throw apiError(502, 502, "Bad gateway");
  };
};

/** Runs the command, whose calls get the answers of `answer`. */
async function restore(words: string[], answer: Answer = ({ send }) => send()) {
  let calls = 0;
  api.intercept((request, body, send) => {
    if (!/id-of-petstore\/(query|time_travel\/restore)$/.test(request)) return send();
    calls += 1;
    return answer({ number: calls, isRestore: request.endsWith("/restore"), body, send });
  });
  const outcome = await runCommandInProcess(restoreCommand, words);
  return { ...outcome, calls };
}

const AT_RESTORE = ({ isRestore }: Call) => isRestore;

/** The number of the call that restores the database, without --resume. */
const RESTORE_CALL = 5;

/** Restores the production database to a bookmark. */
function restoreTo(bookmark: string, withKeys = false, answer?: Answer) {
  const words = ["--bookmark", bookmark, "--remote", "--yes", ...(withKeys ? ["--with-keys"] : [])];
  return restore(words, answer);
}

function addPet(name: string) {
  return insertPet(database, { name, categoryId: 9_007_199_254_740_993n, status: "available" });
}

function addPetOnce(idempotencyKey: string) {
  const pet = { name: idempotencyKey, categoryId: 1n };
  return insertPetOnce(database, pet, { keyId: "key_a", idempotencyKey }, NOW_MS);
}

type Row = Record<string, unknown>;

async function rowsOf(sql: string): Promise<Row[]> {
  return (await database.prepare(sql).all<Row>()).results;
}

const PETS = "SELECT quote(id) AS id, name FROM pets ORDER BY pets.id";
const TABLES = "SELECT name FROM sqlite_schema ORDER BY name";
const KEYS = `
  SELECT *, hex(hash) AS hash,
    (SELECT group_concat(hex(hash) || ' until ' || good_until_ms, ', ' ORDER BY hash)
      FROM replaced_secrets WHERE key_id = keys.id) AS replaced,
    (SELECT group_concat(change || ' at ' || at_ms, ', ' ORDER BY at_ms, change)
      FROM key_changes WHERE key_id = keys.id) AS changes
  FROM keys ORDER BY id`;

const settingsOf = ({ name, plan, per_minute, per_day, expires_at_ms }: Row) => {
  return { name, plan, per_minute, per_day, expires_at_ms };
};

const START = { name: "a shop", plan: "free", expiresAtMs: null } as const;
const PAST_MS = NOW_MS + 15;

/** Changes a key, on behalf of an operator. */
type Change = (id: string, by: Operator) => Promise<unknown>;

const none: Change = async () => {};
const revoke: Change = (id, by) => revokeKey(database, id, by);

/** Changes that affect each other. Those of different kinds don't. */
const KINDS: Change[][] = [
  [
    none,
    (id, by) => renameKey(database, id, "another shop", by),
    (id, by) => renameKey(database, id, START.name, by),
  ],
  [
    none,
    (id, by) => changePlan(database, id, "enterprise", { minute: 9, day: 9 }, by),
    (id, by) => changePlan(database, id, START.plan, undefined, by),
  ],
  [
    none,
    (id, by) => setExpiry(database, id, Date.UTC(2100, 0), by),
    (id, by) => setExpiry(database, id, START.expiresAtMs, by),
    (id, by) => setExpiry(database, id, PAST_MS, by),
  ],
  [none, (id, by) => unbanKey(database, id, by)],
  [
    none,
    (id, by) => rotateKey(database, id, 0, by),
    (id, by) => rotateKey(database, id, HOUR_MS, by),
    async (id, by) => {
      await rotateKey(database, id, HOUR_MS, by);
      await rotateKey(database, id, 2 * HOUR_MS, { ...by, nowMs: by.nowMs + 1 });
    },
    revoke,
  ],
];

/** Every pair of changes of a kind: the first comes before the restore. Nothing can follow a revocation. */
const PAIRS = KINDS.flatMap((kind) =>
  kind.flatMap((first) => kind.map((second) => ({ kind, first, second }))),
).filter(({ first, second }) => first !== revoke || second === none);

/** Who makes a change, and when. */
const operatorAt = (ms: number) => ({ by: "jo", nowMs: NOW_MS + ms });

describe("with a history", () => {
  /** Three pets, and a key for each pair. */
  let bookmark: string;
  let petsAtBookmark: unknown;
  /** Two pets later: a pet is damaged, each key had its first change, and there is one more key. */
  let start: string;
  /** The second change of each key, and the creation of a key. They can be made at any time. */
  let second: D1PreparedStatement[];
  /** All keys after that, if there is no restore. */
  let states: Row[];
  let keys: ((typeof PAIRS)[number] & { id: string })[];

  beforeAll(async () => {
    await timeTravel.restore(migratedBookmark);
    for (const name of ["Kit", "Rex"]) await addPet(name);
    await addPetOnce("before");
    const createForPair = async (pair: (typeof PAIRS)[number]) => {
      const { key } = await createKey(database, START, operatorAt(-HOUR_MS));
      await rotateKey(database, key.id, 3 * HOUR_MS, operatorAt(-1));
      return { ...pair, id: key.id };
    };
    keys = await Promise.all(PAIRS.map(createForPair));
    bookmark = await timeTravel.bookmark();
    petsAtBookmark = await rowsOf(PETS);

    await addPet("since");
    await addPetOnce("since");
    await rowsOf("UPDATE pets SET name = 'damaged' WHERE name = 'Kit'");
    await Promise.all(keys.map(({ id, first }) => first(id, operatorAt(10))));
    await createKey(database, START, operatorAt(10));
    start = await timeTravel.bookmark();

    const batch = vi.spyOn(database, "batch");
    await Promise.all(keys.map((key) => key.second(key.id, operatorAt(20))));
    await createKey(database, START, operatorAt(20));
    second = batch.mock.calls.flatMap(([statements]) => statements);
    batch.mockRestore();
    states = await rowsOf(KEYS);
  });

  beforeEach(() => timeTravel.restore(start));

  /** All keys after a restore with --with-keys, which undoes earlier changes of settings, but leaves expired keys expired. */
  function statesWithKeys(isSecondLater: boolean): Row[] {
    return states.map((state) => {
      const key = keys.find(({ id }) => id === state.id);
      if (key === undefined || state.expires_at_ms === PAST_MS) return state;
      const undone = keys.find(
        ({ kind, first, second }) =>
          kind === key.kind && first === none && second === (isSecondLater ? key.second : none),
      );
      return { ...state, ...settingsOf(states.find(({ id }) => id === undone?.id) ?? {}) };
    });
  }

  async function expectRestored(expected: Row[], when?: string): Promise<void> {
    expect(await rowsOf(KEYS), when).toEqual(expected);
    expect(await rowsOf(PETS), when).toEqual(petsAtBookmark);
    const ids = await rowsOf("SELECT seq FROM sqlite_sequence WHERE name = 'pets'");
    expect(ids, when).toEqual([{ seq: 1_000_005 }]);
    expect(await rowsOf(TABLES), when).not.toContainEqual({ name: "restoring" });
    expect(existsSync(FILE), when).toBe(false);
  }

  it("restores, and can be undone, with new ids from the call after the restore on", async () => {
    const pets = await rowsOf(PETS);
    const { exitCode, stdout, stderr } = await restoreTo(bookmark, true);
    expect([exitCode, stdout]).toEqual([0, "Restored the database petstore of the account an-account.\n"]);
    await database.batch(second);
    await expectRestored(statesWithKeys(true));
    expect((await addPetOnce("before")).id).toBe("3");
    expect((await addPetOnce("since")).id).toBe("1000006");

    const [, undo = ""] = stderr.match(/^To undo: npm run restore -- (.* --with-keys --remote)$/m) ?? [];
    const { key: between } = await createKey(database, START, operatorAt(30));
    let [late, later] = ["", ""];
    const undone = await restore([...undo.split(" "), "--yes"], async ({ number, isRestore, send }) => {
      if (isRestore) late = (await addPet("late")).id;
      const response = await send();
      if (number > RESTORE_CALL && later === "") later = (await addPet("later")).id;
      return response;
    });
    expect([undone.exitCode, late, later]).toEqual([0, "1000007", "2000007"]);
    expect(await rowsOf(PETS)).toEqual([...pets, { id: later, name: "later" }]);
    expect(await rowsOf("SELECT id FROM keys")).toContainEqual({ id: between.id });
  });

  // A request that is lost is as the response of the call before, but for the restore call: see the test of --resume.
  it("keeps changes of keys after any interruption of it and of --resume", async () => {
    let resumed = 0;
    // From the first call that changes something. Every second restore is one with keys.
    for (let number = 3, isInterrupted = true; isInterrupted; number += 1) {
      await timeTravel.restore(start);
      const [withKeys, when] = [number % 2 === 1, `after call ${number}`];
      const answer = lose("response", (call) => call.number === number);
      const { exitCode, stderr, calls } = await restoreTo(bookmark, withKeys, answer);
      isInterrupted = calls >= number;
      await database.batch(second);
      if (existsSync(FILE)) {
        expect(stderr, when).toMatch(/; until you finish it, .*: npm run restore -- --resume\n$/);
        // It merges in its calls from 5 on.
        await restore(
          ["--resume"],
          lose("response", (call) => call.number === Math.ceil(number / 2) + 2),
        );
        if (existsSync(FILE)) expect((await restore(["--resume"])).exitCode, when).toBe(0);
        resumed += 1;
      } else if (exitCode !== 0) {
        expect(stderr, when).toMatch(/; nothing was changed\n$/);
        expect((await restoreTo(bookmark, withKeys)).exitCode, when).toBe(0);
      }
      await expectRestored(withKeys ? statesWithKeys(number >= RESTORE_CALL) : states, when);
    }
    expect(resumed).toBeGreaterThan(4);
  });

  // A change between the saving of the keys and the restore call is lost without a trace.
  it("keeps changes of keys before any call after the restore", async () => {
    for (let number = RESTORE_CALL + 1, calls = number; number <= calls; number += 1) {
      await timeTravel.restore(start);
      const outcome = await restoreTo(bookmark, false, async (call) => {
        if (call.number === number) await database.batch(second);
        return call.send();
      });
      calls = outcome.calls;
      await expectRestored(states, `at call ${number}`);
    }
  });

  // Just before --resume saves the state, just before it restores, and not at all.
  it.each([2, 4, undefined])(
    "--resume keeps the saved state if Cloudflare restores before its call %s",
    async (number) => {
      await restoreTo(bookmark, false, lose("request", AT_RESTORE));
      // Before call 2, the state of the first attempt is the only one.
      if (number !== 2) await database.batch(second);
      const { stdout, stderr } = await restore(["--resume"], async (call) => {
        if (call.number === number) await timeTravel.restore(bookmark);
        return call.send();
      });
      if (number === 2) await database.batch(second);
      else expect(stderr).toMatch(/^To undo: npm run restore -- --bookmark \d+ --remote$/m);
      expect(stdout).toBe("Restored the database petstore of the account an-account.\n");
      await expectRestored(states);
    },
  );

  it("--resume does not restore a second time, also if the restored state is from the middle of another restore", async () => {
    let middle = "";
    await restoreTo(bookmark, false, async ({ isRestore, send }) => {
      if (isRestore) middle = await timeTravel.bookmark();
      return send();
    });
    await restoreTo(middle, false, lose("response", AT_RESTORE));
    expect(await rowsOf(TABLES)).toContainEqual({ name: "restoring" });
    const { id } = await addPet("meanwhile");
    await restore(["--resume"]);
    expect(await rowsOf(PETS)).toContainEqual({ id, name: "meanwhile" });
    expect(await rowsOf(TABLES)).not.toContainEqual({ name: "restoring" });
  });

  it("to a state before the first migration applies all migrations again", async () => {
    // D1 has no sqlite_sequence in that state. The fake can't drop that table.
    const { stdout } = await restoreTo(emptyBookmark, false, async ({ body, send }) => {
      const isRefused = body.includes("sqlite_sequence") && (await rowsOf(TABLES)).length < 5;
      if (!isRefused) return send();
      throw apiError(400, 7500, "no such table: sqlite_sequence: SQLITE_ERROR");
    });
    expect(stdout).toMatch(/^Applied migrations again: 0001_pets\.sql, .*\.sql\.\nRestored /);
    await database.batch(second);
    expect(await rowsOf(KEYS)).toEqual(states);
    expect((await addPet("later")).id).toBe("1000006");
  });

  it("changes nothing with --dry-run, if nobody can answer, or if Cloudflare refuses the bookmark", async () => {
    const content = () => Promise.all([TABLES, PETS, KEYS].map((sql) => rowsOf(sql)));
    const before = await content();
    const asked = api.requests.length;
    const planned = await restore(["--timestamp", new Date().toISOString(), "--remote", "--dry-run"]);
    expect(planned.stdout).toMatch(
      /to bookmark (\d+) \(.*Z\)\.\nIt has \d+ keys now\. Ids up to 5 .*\nKeys stay as they are\.\nNothing was changed\. To restore: npm run restore -- --bookmark \1 --remote\n$/,
    );
    const unattended = await restore(["--bookmark", bookmark, "--remote"]);
    expect(unattended).toMatchObject({
      exitCode: 2,
      stderr: expect.stringMatching(/: add --yes to do it\n$/),
    });
    expect(api.requests.slice(asked).join()).not.toContain("/time_travel/restore");

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
  await rowsOf("INSERT INTO pets (id, name, category_id) VALUES (9007199254740993, 'Kit', 1)");
  await rowsOf(`
    INSERT INTO keys (id, name, plan, hash, last_four, created_at_ms)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 701)
    SELECT 'key_' || i, 'a key', 'free', randomblob(32), 'abcd', 1 FROM n`);
  // The longest names, as long as they can be in JSON: together they exceed the 2 MB that D1 takes in a parameter.
  const longestName = `'"\u{1F63A}\u0001${"\u0001".repeat(251)}`;
  const renamed = `
    INSERT INTO key_changes (key_id, at_ms, change, from_value, to_value, changed_by)
    SELECT id, 1, 'renamed', ?1, ?1, 'jo' FROM keys`;
  await database.prepare(renamed).bind(longestName).run();
  const content = () =>
    Promise.all([rowsOf(KEYS), rowsOf("SELECT *, NULL AS id FROM key_changes ORDER BY key_id")]);
  const before = await content();
  let longest = 0;
  const { exitCode } = await restoreTo(migratedBookmark, false, async ({ body, isRestore, send }) => {
    const queries: { params: string[] }[] = isRestore ? [] : (JSON.parse(body).batch ?? []);
    longest = Math.max(longest, ...queries.map(({ params: [first = ""] }) => Buffer.byteLength(first)));
    return send();
  });
  expect(exitCode).toBe(0);
  expect(longest).toBeLessThan(2_000_000);
  expect(before.map(({ length }) => length)).toEqual([701, 701]);
  expect(await content()).toEqual(before);
  expect((await addPet("later")).id).toBe("9007199255740994");
});

it("with --preview works on the database of the previews", async () => {
  const { stderr } = await restore(["--bookmark", "0", "--preview", "staging", "--yes"]);
  expect(stderr).toMatch(
    /\nerror: the database petstore-previews .* has pending migrations: run npm run migrate -- --preview staging, /,
  );
});

const REFUSED = "restoring.json is not the file of an unfinished restore";
const SAVED = { marker: "restoring_1", saved: { keys: [{ id: "key_1" }] } };

it.each([
  ["--bookmark 1 --remote --yes", "an earlier restore is unfinished: run npm run restore -- --resume", SAVED],
  ["--resume", REFUSED, "no object"],
  ["--resume", REFUSED, { marker: SAVED.marker }],
  ["--resume", REFUSED, { ...SAVED, marker: "a INTEGER); DROP TABLE keys; --" }],
  ["--resume", REFUSED, { ...SAVED, saved: { keys: [{ "id) SELECT 1; --": 1 }] } }],
])("makes no call with %s: %s %j", async (line, problem, unfinished) => {
  await writeFile(FILE, JSON.stringify(unfinished));
  const asked = api.requests.length;
  expect(await restore(line.split(" "))).toMatchObject({ exitCode: 2, stderr: `error: ${problem}\n` });
  expect(api.requests).toHaveLength(asked);
});
