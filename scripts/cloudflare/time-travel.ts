// A restore of the database of pets with D1 Time Travel, which restores the whole database in place. No id may be assigned twice, so
// the command saves the highest id before, and raises the ids of the restored database above it. The state of the restore is a row in
// the database of keys, so that any machine can finish it. While the database of pets has the table `restoring`, the restore has not
// happened, because that removes the table.
//
// The service keeps running. A POST between the restore and the first statement after it gets an id that was assigned before.

import { read, writeIdempotent } from "../../src/d1/statements.ts";
import { type Io, messageOf } from "../lib/io.ts";
import { petstoreLine } from "../lib/line.ts";
import { formatTime } from "../lib/time.ts";
import { apiErrorOf } from "./account.ts";
import { CONTENTS, type DeployedDatabase, MARKER, migrate, type Target, targetOptions } from "./database.ts";

/**
 * A row of pet_restores; `beganAtMs` (Unix time) identifies it. The first attempt to restore sets what is null. A restore from a file
 * (scripts/backup/restore.ts) has no undo bookmark, and its bookmark names the file.
 */
export interface Restore {
  beganAtMs: number;
  begunBy: string;
  bookmark: string;
  undoBookmark: string | null;
  idsAbove: string | null;
}

/** With this, the SHA-256 of a backup follows, and what is restored from it. */
export const FROM_FILE = "file:";

/** Whether a restore is one from a file. */
export function isFromFile({ bookmark }: Restore): boolean {
  return bookmark.startsWith(FROM_FILE);
}

/** Whose restore is not finished, and what to do: a clause of a message. `where` are the options that choose its databases. */
export function unfinishedText(restore: Restore, where: string[]): string {
  const { bookmark } = restore;
  return `a restore is unfinished, to ${bookmark}, ${begunText(restore)}: unless it still runs, finish it with ${finishLine(restore, where)}`;
}

export function begunText({ begunBy, beganAtMs }: Restore): string {
  return `begun by ${begunBy} at ${formatTime(beganAtMs)}`;
}

/** The command that finishes a restore. `where` are the options that choose its databases. */
export function finishLine(restore: Restore, where: string[]): string {
  if (!isFromFile(restore)) return petstoreLine("restore", "--resume", ...where);
  const only = CONTENTS.find((contents) => restore.bookmark.endsWith(`:${contents}`));
  return petstoreLine("restore --from FILE", ...(only ? ["--only", only] : []), ...where);
}

/** Where a restore works. */
export type Place = { target: Target; pets: DeployedDatabase; keys: D1Database };

/** Clients get ids between the reading of the highest one and the restore. D1 runs about a thousand statements a second. */
export const SPARE_IDS = 1_000_000;

const BEGIN = `
  INSERT INTO pet_restores (began_at_ms, begun_by, bookmark, ids_above)
  SELECT ?1, ?2, ?3, CAST(?4 AS INTEGER) WHERE NOT EXISTS (SELECT 1 FROM pet_restores WHERE finished_at_ms IS NULL)
  ON CONFLICT (began_at_ms) DO NOTHING`;
const COLUMNS = `
  began_at_ms AS beganAtMs, begun_by AS begunBy, bookmark, undo_bookmark AS undoBookmark, CAST(ids_above AS TEXT) AS idsAbove`;
const SELECT_UNFINISHED = `SELECT ${COLUMNS} FROM pet_restores WHERE finished_at_ms IS NULL`;
// Each attempt has ids of its own: an earlier one, of which the response was lost, may happen at any time.
const SAVE = `
  UPDATE pet_restores SET undo_bookmark = ?2, ids_above = max(ifnull(ids_above, 0), CAST(?3 AS INTEGER)) + ${SPARE_IDS}
  WHERE began_at_ms = ?1 AND finished_at_ms IS NULL RETURNING ${COLUMNS}`;
const FORGET = "DELETE FROM pet_restores WHERE began_at_ms = ?1 RETURNING began_at_ms";
const FINISH = "UPDATE pet_restores SET finished_at_ms = ?2 WHERE began_at_ms = ?1";

const SELECT_HIGHEST_ID =
  "SELECT CAST(coalesce(max(seq), 0) AS TEXT) AS highestId FROM sqlite_sequence WHERE name = 'pets'";
// sqlite_sequence has a row for pets only after the first insert. Its columns have no type, so a text would stay a text.
const RAISE_IDS = [
  `INSERT INTO sqlite_sequence (name, seq)
  SELECT 'pets', CAST(?1 AS INTEGER) WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'pets')`,
  "UPDATE sqlite_sequence SET seq = max(seq, CAST(?1 AS INTEGER)) WHERE name = 'pets'",
];

const SELECT_MARKER = `SELECT 1 FROM pragma_table_info('${MARKER}') WHERE name = ?1`;
const DROP_MARKER = `DROP TABLE IF EXISTS ${MARKER}`;
/** The marker's column: the restored state may be from the middle of another restore, and have that one's marker. */
const markerOf = (beganAtMs: number) => `began_at_${beganAtMs}`;

export function findUnfinished(keys: D1Database): Promise<Restore | null> {
  return read(() => keys.prepare(SELECT_UNFINISHED).first<Restore>());
}

/** Throws if a restore from a file is unfinished: the record of a new key could get the number of one that is still to be written. */
export async function requireNoRestore(keys: D1Database, where: string[]): Promise<void> {
  const unfinished = await findUnfinished(keys);
  if (unfinished === null || !isFromFile(unfinished)) return;
  throw new Error(`nothing was created, because ${unfinishedText(unfinished, where)}`);
}

/** The highest id that was assigned to a pet. */
export async function findHighestId(pets: D1Database): Promise<string> {
  const row = await read(() => pets.prepare(SELECT_HIGHEST_ID).first<{ highestId: string }>());
  return `${row?.highestId}`;
}

/**
 * Restores the pets, or finishes the unfinished restore. Prints how to undo it before it changes anything. Returns the migrations
 * that were applied again. Throws an error that says what has happened.
 */
export async function restorePets(place: Place, restore: Restore, io: Io): Promise<string[]> {
  const { target, pets } = place;
  let mayHaveHappened = restore.idsAbove !== null;
  try {
    if (!mayHaveHappened) await begin(place, restore);
    const attempt = await io.step("Saving the highest id", () => save(place, restore));
    const { undoBookmark, idsAbove } = attempt ?? restore;
    if (idsAbove === null) throw new Error("another restore runs at the same time");
    const where = targetOptions(target);
    io.note(`To undo: ${petstoreLine("restore", "--bookmark", `${undoBookmark}`, ...where)}`);
    if (attempt !== undefined) {
      mayHaveHappened = true;
      const restoring = io.step("Restoring", () => pets.timeTravel.restore(attempt.bookmark));
      await restoring.catch((error) => {
        // After a failure without an answer, the restore may have happened too, or may still.
        mayHaveHappened = apiErrorOf(error)?.mayHaveHappened ?? true;
        throw error;
      });
    }
    return await io.step("Raising ids", () => finish(place, restore, idsAbove));
  } catch (error) {
    const isForgotten = !mayHaveHappened && (await forget(place, restore).catch(() => false));
    const warning = `until you finish it, ids may be assigned twice: ${petstoreLine("restore", "--resume", ...targetOptions(target))}`;
    throw new Error(`${messageOf(error)}; ${isForgotten ? "nothing was changed" : warning}`);
  }
}

/** Makes this the unfinished restore, which it may be already. Throws if there is another one, or if this one has been finished. */
export async function beginRestore(keys: D1Database, restore: Restore): Promise<void> {
  const { beganAtMs, begunBy, bookmark, idsAbove } = restore;
  await run(keys, [BEGIN], beganAtMs, begunBy, bookmark, idsAbove);
  const unfinished = await findUnfinished(keys);
  if (unfinished === null) throw new Error("another machine has finished this restore");
  if (unfinished.beganAtMs !== beganAtMs) throw new Error("another restore has begun");
}

export async function finishRestore(keys: D1Database, { beganAtMs }: Restore): Promise<void> {
  await run(keys, [FINISH], beganAtMs, Date.now());
}

/** Makes the next id larger than `idsAbove`. */
export async function raiseIds(pets: D1Database, idsAbove: string): Promise<void> {
  await run(pets, RAISE_IDS, idsAbove);
}

/** Makes this the unfinished restore, and marks the database. */
async function begin({ pets, keys }: Place, restore: Restore): Promise<void> {
  await beginRestore(keys, restore);
  const marker = `CREATE TABLE ${MARKER} (${markerOf(restore.beganAtMs)} INTEGER) STRICT`;
  await run(pets.database, [DROP_MARKER, marker]);
}

/** Saves what the restore must not lose; undefined if the restore has happened. */
async function save({ pets, keys }: Place, { beganAtMs }: Restore): Promise<Restore | undefined> {
  const marker = pets.database.prepare(SELECT_MARKER).bind(markerOf(beganAtMs));
  const hasHappened = async () => (await read(() => marker.first())) === null;
  if (await hasHappened()) return undefined;
  const undoBookmark = await pets.timeTravel.bookmark();
  const highestId = await findHighestId(pets.database);
  // Cloudflare may have finished an earlier attempt meanwhile: then both values are those of the restored state.
  if (await hasHappened()) return undefined;
  const statement = keys.prepare(SAVE).bind(beganAtMs, undoBookmark, highestId);
  const saved = await writeIdempotent(() => statement.first<Restore>());
  if (saved === null) throw new Error("another machine has ended this restore");
  return saved;
}

/** Makes the restored database fit for use. Each step is idempotent. */
async function finish({ pets, keys }: Place, restore: Restore, idsAbove: string) {
  // First of all, because until then old ids are assigned again. It fails if the table does not exist yet.
  await raiseIds(pets.database, idsAbove).catch(() => {});
  const migrations = await migrate(pets.database, "pets");
  await raiseIds(pets.database, idsAbove);
  await run(pets.database, [DROP_MARKER]);
  await finishRestore(keys, restore);
  return migrations;
}

/** Removes the traces of a restore that has not happened. */
async function forget({ pets, keys }: Place, { beganAtMs }: Restore): Promise<boolean> {
  // The row comes first: without the marker, it says that the restore has happened.
  const [forgotten] = await run(keys, [FORGET], beganAtMs);
  // Without a row, the marker is another restore's. A marker that stays is harmless.
  if (forgotten?.results.length === 1) await run(pets.database, [DROP_MARKER]).catch(() => {});
  return true;
}

/** Runs statements that have no effect when repeated, all with the same parameters. */
function run(database: D1Database, statements: string[], ...parameters: (string | number | null)[]) {
  const bound = statements.map((sql) => database.prepare(sql).bind(...parameters));
  return writeIdempotent(() => database.batch(bound));
}
