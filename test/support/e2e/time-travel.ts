// A fake of D1 Time Travel on a real database: a bookmark is a copy of the schema and all rows. Unlike D1, it knows only the
// moments at which a bookmark was taken.

/** The statements create the copy. */
type Copy = { bookmark: string; atMs: number; statements: string[] };

const INTERNAL = "name GLOB 'sqlite_*' OR name GLOB '_cf_*'";

export function fakeTimeTravel(database: D1Database) {
  const copies: Copy[] = [];

  async function column(sql: string): Promise<string[]> {
    const { results } = await database.prepare(sql).all<{ value: string }>();
    return results.map(({ value }) => value);
  }

  /** The tables in the order of their creation, in which later ones can refer to earlier ones. */
  function tables(): Promise<string[]> {
    return column(
      `SELECT name AS value FROM sqlite_schema WHERE type = 'table' AND NOT (${INTERNAL}) ORDER BY rowid`,
    );
  }

  /** The statements that insert a table's rows. */
  async function inserts(table: string): Promise<string[]> {
    const names = await column(`SELECT name AS value FROM pragma_table_info('${table}')`);
    const values = names.map((name) => `quote("${name}")`).join(` || ', ' || `);
    const start = `INSERT INTO "${table}" (${names.join(", ")}) VALUES (`;
    return column(`SELECT '${start}' || ${values} || ')' AS value FROM "${table}"`);
  }

  function latest(isWanted: (copy: Copy) => boolean): Copy {
    const copy = copies.findLast(isWanted);
    if (copy === undefined) throw new Error("There is no such bookmark");
    return copy;
  }

  return {
    /** Takes a bookmark, or finds the latest one at or before `timestamp` (ISO 8601). */
    async bookmark(timestamp?: string): Promise<string> {
      if (timestamp !== undefined) return latest(({ atMs }) => atMs <= Date.parse(timestamp)).bookmark;
      const schema = `SELECT sql AS value FROM sqlite_schema WHERE sql IS NOT NULL AND NOT (${INTERNAL})`;
      const statements = await column(`${schema} ORDER BY rowid`);
      for (const table of await tables()) statements.push(...(await inserts(table)));
      if (statements.length > 0)
        statements.push("DELETE FROM sqlite_sequence", ...(await inserts("sqlite_sequence")));
      const bookmark = `${copies.length}`.padStart(8, "0");
      copies.push({ bookmark, atMs: Date.now(), statements });
      return bookmark;
    },
    async restore(bookmark = ""): Promise<void> {
      const { statements } = latest((copy) => copy.bookmark === bookmark);
      const drops = (await tables()).reverse().map((name) => `DROP TABLE "${name}"`);
      await database.batch([...drops, ...statements].map((sql) => database.prepare(sql)));
    },
  };
}
