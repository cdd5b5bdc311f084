// A database with a lagging replica: two real databases. The second has the rows that the first had at the last catchUp().

import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { stubDatabase } from "./database-stub.ts";
import type { Place } from "./stub-bindings.ts";

const TABLES = ["pets", "keys", "replaced_secrets", "creations", "key_changes"];

/**
 * A database with an empty replica. `asked` has the place of every completed statement. While `primary.isAway`, only the
 * replica answers.
 */
export async function laggingDatabase({ nearest = env.REPLICA } = {}) {
  await applyD1Migrations(env.REPLICA, env.TEST_MIGRATIONS);
  await env.REPLICA.batch(TABLES.toReversed().map((table) => env.REPLICA.prepare(`DELETE FROM ${table}`)));
  const asked: Place[] = [];
  const primary = { isAway: false };
  const isPrimary = (place: Place) => place === "primary" || nearest === env.DB;
  const DB = stubDatabase(
    async (run, place) => {
      if (primary.isAway && isPrimary(place)) throw new Error("D1_ERROR: the primary is away");
      const result = await run();
      for (const each of [result].flat() as (Partial<D1Result> | null)[]) {
        if (each?.meta !== undefined) each.meta.served_by_primary = isPrimary(place);
      }
      asked.push(place);
      return result;
    },
    env.DB,
    nearest,
  );
  return { DB, asked, primary, catchUp };
}

/** Copies all rows to the replica. */
async function catchUp(): Promise<void> {
  for (const table of TABLES) {
    const rows = await env.DB.prepare(`SELECT * FROM ${table}`).raw();
    const statements = rows.map((row) => {
      // D1 returns a BLOB as an array of numbers.
      const values = row.map((value) => (Array.isArray(value) ? new Uint8Array(value) : value));
      const places = values.map(() => "?").join(", ");
      return env.REPLICA.prepare(`INSERT OR REPLACE INTO ${table} VALUES (${places})`).bind(...values);
    });
    if (statements.length > 0) await env.REPLICA.batch(statements);
  }
}
