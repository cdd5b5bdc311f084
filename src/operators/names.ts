// The form in which names and reasons are compared. They are stored as given.

import { read, writeIdempotent } from "../d1/statements.ts";

/** Names that are completed in one statement, whose parameter has at most 2 MB. */
const COMPLETED_AT_ONCE = 1_000;

const SELECT_INCOMPLETE = `SELECT id, name FROM keys WHERE folded_name IS NULL LIMIT ${COMPLETED_AT_ONCE}`;
/** Unless the key was renamed meanwhile. */
const COMPLETE = `
  UPDATE keys SET folded_name = value ->> 'folded' FROM json_each(?1)
  WHERE keys.id = value ->> 'id' AND name = value ->> 'name'`;

/** Without blanks around it, in one normal form, and in lower case. Greek has two lower cases of one letter. */
export function foldName(name: string): string {
  return name.trim().normalize("NFC").toLowerCase().replaceAll("ς", "σ").normalize("NFC");
}

/** A text as it is recorded already, if only the form differs: SQL compares exactly. */
export function asRecorded(text: string, recorded: string | null): string {
  return recorded !== null && foldName(recorded) === foldName(text) ? recorded : text;
}

/** Runs a statement that reads `folded_name`. Gives it to the keys that lack it before. */
export async function readByName<Row>(
  database: D1Database,
  statement: D1PreparedStatement,
): Promise<D1Result<Row>> {
  const select = database.prepare(SELECT_INCOMPLETE);
  for (;;) {
    const [found, result] = await read(() => database.batch([select, statement]));
    const incomplete = (found?.results ?? []) as { id: string; name: string }[];
    if (incomplete.length === 0) return result as D1Result<Row>;
    const rows = incomplete.map((key) => ({ ...key, folded: foldName(key.name) }));
    const complete = database.prepare(COMPLETE).bind(JSON.stringify(rows));
    await writeIdempotent(() => complete.run());
  }
}
