// ./petstore restore against a fake of Cloudflare's API: wherever a restore of the pets is interrupted, any machine can finish it, no id
// is assigned twice, and keys stay as they are. Cloudflare's own Time Travel is not tested.

import { readdirSync } from "node:fs";
import { beforeAll, beforeEach, expect, it } from "vitest";
import { migrate } from "../../scripts/cloudflare/database.ts";
import { createKey, revokeKey } from "../../src/operators/admin.ts";
import { insertPetOnce } from "../../src/pets/idempotency.ts";
import { insertPet } from "../../src/pets/store.ts";
import { apiError, DATABASES, memoryAccount } from "../support/e2e/cloudflare-api.ts";
import { failure, runPetstore } from "../support/e2e/in-process.ts";
import type { Outcome } from "../support/e2e/petstore.ts";
import { useAccount } from "../support/e2e/use-account.ts";

const OPERATOR = { by: "jo", nowMs: Date.UTC(2026, 10, 19, 12) };

const { api, databaseOf, timeTravelOf } = await useAccount(DATABASES, memoryAccount());
const [keys, pets] = [databaseOf("petstore-keys"), databaseOf("petstore-pets")];
const timeTravel = timeTravelOf("petstore-pets");
const takeBookmark = () => timeTravel.bookmark();
/** Bookmarks: before the first migration; of three pets; and two pets later, with one of the three damaged. */
let [empty, bookmark, start] = ["", "", ""];
let petsAtBookmark: Row[];
/** At the start. Since the bookmark, the key was revoked. */
let keysAtStart: Row[];

beforeAll(async () => {
  empty = await takeBookmark();
  await migrate(pets, "pets");
  await migrate(keys, "keys");
  for (const name of ["Kit", "Rex"]) await addPet(name);
  await addPetOnce("before");
  const { key } = await createKey(keys, { name: "a shop", plan: "free", expiresAtMs: null }, OPERATOR);
  bookmark = await takeBookmark();
  petsAtBookmark = await rowsOf(pets, PETS);
  await addPet("since");
  await addPetOnce("since");
  await rowsOf(pets, "UPDATE pets SET name = 'damaged' WHERE name = 'Kit'");
  await revokeKey(keys, key.id, OPERATOR);
  start = await takeBookmark();
  keysAtStart = await rowsOf(keys, KEYS);
});

beforeEach(startAgain);

async function startAgain(): Promise<void> {
  await timeTravel.restore(start);
  await rowsOf(keys, "DELETE FROM pet_restores");
}

/** A call of Cloudflare's API. `number` counts the calls of a command, from 1. */
type Call = { number: number; isRestore: boolean; body: string; send(): Promise<void> };
type Answer = (call: Call) => Promise<void>;

/** Fails one call: a lost request has no effect, a lost response does not tell of it. */
const lose = (part: "request" | "response", isChosen: (call: Call) => boolean): Answer => {
  return async (call) => {
    if (!isChosen(call)) return call.send();
    if (part === "response") await call.send();
    throw apiError(502, 502, "Bad gateway");
  };
};
const atRestore = ({ isRestore }: Call) => isRestore;

/** Runs the command, whose calls get the answers of `answer`. */
async function restore(line: string, answer: Answer = ({ send }) => send()) {
  let calls = 0;
  api.intercept((request, body, send) => {
    calls += 1;
    return answer({ number: calls, isRestore: request.endsWith("/restore"), body, send });
  });
  return { ...(await runPetstore(`restore ${line}`)), calls };
}

const restoreTo = (to: string, answer?: Answer) => restore(`--bookmark ${to} --remote --yes`, answer);
const resume = (answer?: Answer) => restore("--resume --remote --yes", answer);

async function addPet(name: string): Promise<string> {
  return (await insertPet(pets, { name, categoryId: 9_007_199_254_740_993n, status: "available" })).id;
}

async function addPetOnce(idempotencyKey: string): Promise<string> {
  const pet = { name: idempotencyKey, categoryId: 1n };
  return (await insertPetOnce(pets, pet, { keyId: "key_a", idempotencyKey }, OPERATOR.nowMs)).id;
}

type Row = Record<string, unknown>;

async function rowsOf(database: D1Database, sql: string): Promise<Row[]> {
  return (await database.prepare(sql).all<Row>()).results;
}

const PETS = "SELECT quote(id) AS id, name FROM pets ORDER BY pets.id";
const TABLES = "SELECT name FROM sqlite_schema ORDER BY name";
const UNFINISHED = "SELECT began_at_ms FROM pet_restores WHERE finished_at_ms IS NULL";
const KEYS = "SELECT * FROM keys JOIN key_changes ON key_id = keys.id";

const RESTORED = "Restored the database petstore-pets of the account an-account.\n";

/** `added` are pets that were added after the restore. The next id is above `highestId`. */
async function expectRestored(added: Row[] = [], when?: string, highestId = 1_000_005): Promise<void> {
  expect(await rowsOf(pets, PETS), when).toEqual([...petsAtBookmark, ...added]);
  expect(await rowsOf(keys, KEYS), when).toEqual(keysAtStart);
  expect(await rowsOf(keys, UNFINISHED), when).toEqual([]);
  expect(await rowsOf(pets, TABLES), when).not.toContainEqual({ name: "restoring" });
  expect(Number(await addPet("next")), when).toBeGreaterThan(highestId);
}

it("restores, and can be undone, with new ids from the call after the restore on", async () => {
  const before = await rowsOf(pets, PETS);
  const { exitCode, stdout, stderr } = await restoreTo(bookmark);
  expect([exitCode, stdout]).toEqual([0, RESTORED]);
  expect([await addPetOnce("before"), await addPetOnce("since")]).toEqual(["3", "1000006"]);
  const [, undo = ""] = stderr.match(/^To undo: \.\/petstore restore --bookmark (\d+) --remote$/m) ?? [];
  let [late, later] = ["", ""];
  const undone = await restoreTo(undo, async ({ isRestore, send }) => {
    const isAfter = late !== "";
    if (isRestore) late = await addPet("late");
    const response = await send();
    if (isAfter && later === "") later = await addPet("later");
    return response;
  });
  expect([undone.exitCode, late, later]).toEqual([0, "1000007", "2000007"]);
  expect(await rowsOf(pets, PETS)).toEqual([...before, { id: later, name: "later" }]);
  expect(await rowsOf(keys, KEYS)).toEqual(keysAtStart);
});

const isRestored = async () => !(await rowsOf(pets, PETS)).some(({ name }) => name === "since");

/** Does what is left to do after a command. */
async function goOn({ stderr }: Outcome, answer?: Answer): Promise<Outcome> {
  const unfinished = await rowsOf(keys, UNFINISHED);
  if (unfinished.length > 0) expect(stderr).not.toContain("nothing was changed");
  if (unfinished.length > 0) return resume(answer);
  return (await isRestored()) ? { exitCode: 0, stdout: "", stderr: "" } : restoreTo(bookmark, answer);
}

it.each<[string, Parameters<typeof lose>[0], (number: number, lost: number) => boolean]>([
  ["a response", "response", (number, lost) => number === lost],
  ["the machine", "request", (number, lost) => number >= lost],
])("can be finished after %s is lost at any call, and then a response", async (_, part, isLost) => {
  let resumed = 0;
  for (let lost = 1, isInterrupted = true; isInterrupted; lost += 1) {
    await startAgain();
    const interrupt = lose(part, ({ number }) => isLost(number, lost));
    const { calls, ...outcome } = await restoreTo(bookmark, interrupt);
    isInterrupted = calls >= lost;
    const isKept = await isRestored();
    const id = await addPet("meanwhile");
    const isHalf = ({ number }: Call) => number === Math.ceil(lost / 2);
    const again = await goOn(outcome, lose("response", isHalf));
    if (again.exitCode !== 0) resumed += 1;
    const when = `at call ${lost}`;
    expect((await goOn(again)).exitCode, when).toBe(0);
    await expectRestored(isKept ? [{ id, name: "meanwhile" }] : [], when);
  }
  expect(resumed).toBeGreaterThan(4);
});

it("does not begin while another restore is unfinished, which --resume finishes once", async () => {
  const lost = await restoreTo(bookmark, lose("response", atRestore));
  expect(lost.stderr).toMatch(
    /; until you finish it, ids may be assigned twice: \.\/petstore restore --resume --remote\n$/,
  );
  const refused = await restoreTo(start);
  const advice =
    /error: a restore is unfinished, to \d+, begun by \w+ at .*Z: .* finish it with \.\/petstore restore --resume --remote\n$/;
  expect(refused).toMatchObject(failure(2, advice));
  const finished = await resume();
  expect(finished).toMatchObject({ exitCode: 0, stdout: RESTORED });
  expect(finished.stderr).toContain(lost.stderr.match(/^To undo: .*\n/m)?.[0]);
  await expectRestored();
  const none = expect.stringContaining("there is no unfinished restore");
  expect(await resume()).toMatchObject({ exitCode: 2, stderr: none });
});

// Just before --resume reads the highest id, and just before it restores; a pet added in between is lost.
it.each([
  ["sqlite_sequence", 0],
  ["UPDATE pet_restores", 1],
  ["nothing", 1],
])("--resume keeps ids if the machine that began goes on before its call with %s", async (text, expected) => {
  await restoreTo(bookmark, lose("request", atRestore));
  let [id, restores] = ["", 0];
  const { stdout } = await resume(async ({ isRestore, body, send }) => {
    if (body.includes(text) && id === "") {
      await timeTravel.restore(bookmark);
      await rowsOf(pets, "UPDATE sqlite_sequence SET seq = 1000005 WHERE name = 'pets'");
      id = await addPet("meanwhile");
    }
    if (isRestore) restores += 1;
    return send();
  });
  expect([stdout, restores]).toEqual([RESTORED, expected]);
  await expectRestored(expected === 0 ? [{ id, name: "meanwhile" }] : [], text, Number(id) || undefined);
});

it("--resume does not restore twice, also if the restored state is from the middle of another restore", async () => {
  let middle = "";
  await restoreTo(bookmark, async ({ isRestore, send }) => {
    if (isRestore) middle = await takeBookmark();
    return send();
  });
  await restoreTo(middle, lose("response", atRestore));
  expect(await rowsOf(pets, TABLES)).toContainEqual({ name: "restoring" });
  const id = await addPet("meanwhile");
  await resume();
  expect(await rowsOf(pets, PETS)).toContainEqual({ id, name: "meanwhile" });
  expect(await rowsOf(pets, TABLES)).not.toContainEqual({ name: "restoring" });
});

it("does not begin while another one begins", async () => {
  const { stderr } = await restoreTo(bookmark, async ({ body, send }) => {
    if (body.includes("INSERT INTO pet_restores")) {
      await rowsOf(keys, "INSERT INTO pet_restores (began_at_ms, begun_by, bookmark) VALUES (1, 'jo', '0')");
      await rowsOf(pets, "CREATE TABLE restoring (began_at_1 INTEGER)");
    }
    return send();
  });
  expect(stderr).toMatch(/error: another restore has begun; nothing was changed\n$/);
  expect(await rowsOf(keys, UNFINISHED)).toEqual([{ began_at_ms: 1 }]);
  expect(await rowsOf(pets, TABLES)).toContainEqual({ name: "restoring" });
});

it("to a state before the first migration applies all migrations again, also if it is interrupted", async () => {
  let isRestored = false;
  await restoreTo(empty, async ({ isRestore, body, send }) => {
    isRestored ||= isRestore;
    if (isRestored && body.includes("d1_migrations")) throw apiError(502, 502, "Bad gateway");
    return send();
  });
  const { stdout } = await resume();
  const files = readdirSync("migrations/pets").map((name) => `pets/${name}`);
  expect(stdout).toBe(`Applied migrations again: ${files.sort().join(", ")}.\n${RESTORED}`);
  expect(await addPet("later")).toBe("1000006");
});

it("changes nothing with --dry-run, if nobody can answer, or if Cloudflare refuses the bookmark", async () => {
  const content = () => Promise.all([TABLES, PETS].map((sql) => rowsOf(pets, sql)));
  const before = await content();
  const asked = api.requests.length;
  const planned = await restore(`--timestamp ${new Date().toISOString()} --remote --dry-run`);
  expect(planned.stdout).toMatch(
    /to bookmark (\d+) \(.*Z\)\.\nIds up to 5 .* Keys stay as they are\.\nNothing was changed\. To restore: \.\/petstore restore --bookmark \1 --remote\n$/,
  );
  const unattended = await restore(`--bookmark ${bookmark} --remote`);
  const advice = expect.stringContaining("add --yes to do it\n");
  expect(unattended).toMatchObject({ exitCode: 2, stderr: advice });
  expect(api.requests.slice(asked).join()).not.toContain("/time_travel/restore");

  const { stderr } = await restoreTo("ffffffff");
  const problem = "Cloudflare's API refused: There is no such bookmark (7500); nothing was changed";
  expect(stderr).toContain(`\nerror: ${problem}\n`);
  expect(await content()).toEqual(before);
  expect(await rowsOf(keys, UNFINISHED)).toEqual([]);
});

it("keeps ids above 2^53", async () => {
  await rowsOf(pets, "INSERT INTO pets (id, name, category_id) VALUES (9007199254740993, 'Kit', 1)");
  expect((await restoreTo(bookmark)).exitCode).toBe(0);
  expect(await addPet("later")).toBe("9007199255740994");
});

it("with --preview, needs the databases of the previews to be migrated", async () => {
  const { stderr } = await restore("--bookmark 0 --preview staging --yes");
  expect(stderr).toMatch(/\nerror: .* has pending migrations: run \.\/petstore migrate --preview staging, /);
});
