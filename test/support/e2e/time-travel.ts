// A stand-in for the past of a D1 database: a bookmark is a copy of its schema and of all its rows, and a restore puts that
// back. It knows only moments that somebody asked it for, where D1 knows all of them. The database is a real one.

/** A copy, as the statements that make it. */
interface Copy {
  bookmark: string;
  atMs: number;
  statements: string[];
}

const OF_SQLITE = "name GLOB 'sqlite_*' OR name GLOB '_cf_*'";

/** The past of one database, which begins empty. */
export function timeTravelOf(database: D1Database) {
  const copies: Copy[] = [];

  async function column<Value>(sql: string): Promise<Value[]> {
    const { results } = await database.prepare(sql).all<{ value: Value }>();
    return results.map(({ value }) => value);
  }

  /** Nothing stays, not even what a later migration made. */
  async function dropAll(): Promise<string[]> {
    const tables = `SELECT name AS value FROM sqlite_schema WHERE type = 'table' AND NOT (${OF_SQLITE})`;
    // What refers to a table goes before it: the later ones refer to earlier ones.
    return (await column<string>(`${tables} ORDER BY rowid DESC`)).map((name) => `DROP TABLE "${name}"`);
  }

  async function rowsOf(table: string): Promise<string[]> {
    const names = await column<string>(`SELECT name AS value FROM pragma_table_info('${table}')`);
    const values = names.map((name) => `quote("${name}")`).join(` || ', ' || `);
    const rows = await column<string>(`SELECT ${values} AS value FROM "${table}"`);
    return rows.map((row) => `INSERT INTO "${table}" (${names.join(", ")}) VALUES (${row})`);
  }

  return {
    /** The bookmark of now, or of the latest copy at or before a time (ISO 8601). Undefined if there is none. */
    async bookmark(timestamp?: string): Promise<string | undefined> {
      if (timestamp !== undefined) {
        return copies.findLast(({ atMs }) => atMs <= Date.parse(timestamp))?.bookmark;
      }
      const schema = `SELECT sql AS value FROM sqlite_schema WHERE sql IS NOT NULL AND NOT (${OF_SQLITE})`;
      const statements = await column<string>(`${schema} ORDER BY rowid`);
      const tables = await column<string>(
        `SELECT name AS value FROM sqlite_schema WHERE type = 'table' AND NOT (${OF_SQLITE}) ORDER BY rowid`,
      );
      for (const table of tables) statements.push(...(await rowsOf(table)));
      if (statements.length > 0)
        statements.push("DELETE FROM sqlite_sequence", ...(await rowsOf("sqlite_sequence")));
      const bookmark = `${copies.length}`.padStart(8, "0");
      copies.push({ bookmark, atMs: Date.now(), statements });
      return bookmark;
    },
    /** Whether there is such a bookmark; if so, the database is as it was then. */
    async restore(bookmark: string | null): Promise<boolean> {
      const copy = copies.find((one) => one.bookmark === bookmark);
      if (copy === undefined) return false;
      const statements = [...(await dropAll()), ...copy.statements];
      await database.batch(statements.map((sql) => database.prepare(sql)));
      return true;
    },
  };
}
