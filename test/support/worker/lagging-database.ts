// A database with a lagging replica: two real databases. The second has the rows that the first had at the last catchUp().

import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { stubDatabase } from "./database-stub.ts";
import type { Place } from "./stub-bindings.ts";

/** The tables of which the service reads rows at replicas, or must not. */
const TABLES = ["pets", "keys", "replaced_secrets"] as const;

/** The rows that exist, and for each table the condition of newer ones. */
const SELECT_KNOWN = `
  SELECT json_object('lastPet', coalesce(max(id), 0), 'keys', (SELECT json_group_array(id) FROM keys)) AS known FROM pets`;
const IS_NEW = {
  pets: "id > ?1 ->> 'lastPet'",
  keys: "id NOT IN (SELECT value FROM json_each(?1, '$.keys'))",
  replaced_secrets: "key_id NOT IN (SELECT value FROM json_each(?1, '$.keys'))",
};

/**
 * A database with an empty replica. `asked` has the place of every completed statement. While `primary.isAway`, only the
 * replica answers. `catchUp` copies the rows that are new since this call.
 */
export async function laggingDatabase({ nearest = env.REPLICA } = {}) {
  await applyD1Migrations(env.REPLICA, env.TEST_MIGRATIONS);
  await env.REPLICA.batch(TABLES.toReversed().map((table) => env.REPLICA.prepare(`DELETE FROM ${table}`)));
  const known = await env.DB.prepare(SELECT_KNOWN).first("known");
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
  return { DB, asked, primary, catchUp: () => catchUp(known) };
}

/** Copies the rows that are not among the known ones. */
async function catchUp(known: unknown): Promise<void> {
  for (const table of TABLES) {
    const rows = await env.DB.prepare(`SELECT * FROM ${table} WHERE ${IS_NEW[table]}`).bind(known).raw();
    const statements = rows.map((row) => {
      // D1 returns a BLOB as an array of numbers.
      const values = row.map((value) => (Array.isArray(value) ? new Uint8Array(value) : value));
      const places = values.map(() => "?").join(", ");
      return env.REPLICA.prepare(`INSERT OR REPLACE INTO ${table} VALUES (${places})`).bind(...values);
    });
    if (statements.length > 0) await env.REPLICA.batch(statements);
  }
}
