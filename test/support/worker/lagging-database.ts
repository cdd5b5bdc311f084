// A database of pets with a lagging replica: two real databases. The second has the rows that the first had at the last catchUp().

import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { stubDatabase } from "./database-stub.ts";
import type { Place } from "./stub-bindings.ts";

/**
 * A database with an empty replica. `asked` has the place of every completed statement. `catchUp` copies the pets that are new since
 * this call.
 */
export async function laggingDatabase({ nearest = env.REPLICA } = {}) {
  await applyD1Migrations(env.REPLICA, env.PETS_MIGRATIONS);
  await env.REPLICA.exec("DELETE FROM pets");
  const last = await env.PETS_DB.prepare("SELECT coalesce(max(id), 0) AS id FROM pets").first("id");
  const asked: Place[] = [];
  const isNearestPrimary = nearest === env.PETS_DB;
  const intercept = async (run: () => Promise<unknown>, place: Place) => {
    const result = await run();
    for (const each of [result].flat() as (Partial<D1Result> | null)[]) {
      if (each?.meta !== undefined) each.meta.served_by_primary = place === "primary" || isNearestPrimary;
    }
    asked.push(place);
    return result;
  };
  const PETS_DB = stubDatabase("PETS_DB", intercept, nearest);
  return { PETS_DB, asked, catchUp: () => catchUp(last) };
}

async function catchUp(last: unknown): Promise<void> {
  const rows = await env.PETS_DB.prepare("SELECT * FROM pets WHERE id > ?1").bind(last).raw();
  const insert = (row: unknown[]) =>
    env.REPLICA.prepare(`INSERT OR REPLACE INTO pets VALUES (${row.map(() => "?").join(", ")})`).bind(...row);
  if (rows.length > 0) await env.REPLICA.batch(rows.map(insert));
}
