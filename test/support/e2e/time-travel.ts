// A fake of D1 Time Travel on a real database: a bookmark is a copy of the schema and all rows. Unlike D1, it knows only the
// moments at which a bookmark was taken.

interface Copy {
  bookmark: string;
  atMs: number;
  /** These create the copy. */
  statements: string[];
}

/** A statement has at most 100 kB. */
const ROWS_PER_STATEMENT = 50;

const INTERNAL = "name GLOB 'sqlite_*' OR name GLOB '_cf_*'";

export function fakeTimeTravel(database: D1Database) {
  const copies: Copy[] = [];

  async function column<Value>(sql: string): Promise<Value[]> {
    const { results } = await database.prepare(sql).all<{ value: Value }>();
    return results.map(({ value }) => value);
  }

  /** The tables in the order of their creation, in which later ones can refer to earlier ones. */
  function tables(): Promise<string[]> {
    return column<string>(
      `SELECT name AS value FROM sqlite_schema WHERE type = 'table' AND NOT (${INTERNAL}) ORDER BY rowid`,
    );
  }

  async function inserts(table: string): Promise<string[]> {
    const names = await column<string>(`SELECT name AS value FROM pragma_table_info('${table}')`);
    const values = names.map((name) => `quote("${name}")`).join(` || ', ' || `);
    const rows = await column<string>(`SELECT '(' || ${values} || ')' AS value FROM "${table}"`);
    const chunks = Array.from({ length: Math.ceil(rows.length / ROWS_PER_STATEMENT) }, (_, chunk) =>
      rows.slice(chunk * ROWS_PER_STATEMENT, (chunk + 1) * ROWS_PER_STATEMENT),
    );
    return chunks.map((chunk) => `INSERT INTO "${table}" (${names.join(", ")}) VALUES ${chunk.join(", ")}`);
  }

  return {
    /** Takes a bookmark, or finds the latest one at or before `timestamp` (ISO 8601). */
    async bookmark(timestamp?: string): Promise<string | undefined> {
      if (timestamp !== undefined) {
        return copies.findLast(({ atMs }) => atMs <= Date.parse(timestamp))?.bookmark;
      }
      const schema = `SELECT sql AS value FROM sqlite_schema WHERE sql IS NOT NULL AND NOT (${INTERNAL})`;
      const statements = await column<string>(`${schema} ORDER BY rowid`);
      for (const table of await tables()) statements.push(...(await inserts(table)));
      if (statements.length > 0)
        statements.push("DELETE FROM sqlite_sequence", ...(await inserts("sqlite_sequence")));
      const bookmark = `${copies.length}`.padStart(8, "0");
      copies.push({ bookmark, atMs: Date.now(), statements });
      return bookmark;
    },
    /** Restores the database. Returns false if there is no such bookmark. */
    async restore(bookmark: string | null): Promise<boolean> {
      const copy = copies.find((each) => each.bookmark === bookmark);
      if (copy === undefined) return false;
      const drops = (await tables()).reverse().map((name) => `DROP TABLE "${name}"`);
      const statements = [...drops, ...copy.statements];
      await database.batch(statements.map((sql) => database.prepare(sql)));
      return true;
    },
  };
}
