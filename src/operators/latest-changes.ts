// The latest change of each kind of a key: what limits it, and since when.

import { read } from "../d1/statements.ts";
import type { ChangeRecord } from "./records.ts";

/** `id` is that of the row: a later change has a larger one. */
export type LatestChange = Pick<ChangeRecord, "atMs" | "to" | "by"> & { id: number };

const SELECT_LATEST = `
  SELECT change, max(id) AS id, at_ms AS atMs, to_value AS "to", changed_by AS "by" FROM key_changes WHERE key_id = ?1 GROUP BY change`;

/** By the name of the change. */
export async function latestChanges(
  database: D1Database,
  keyId: string,
): Promise<Partial<Record<string, LatestChange>>> {
  const statement = database.prepare(SELECT_LATEST).bind(keyId);
  const { results } = await read(() => statement.all<LatestChange & { change: string }>());
  return Object.fromEntries(results.map(({ change, ...latest }) => [change, latest]));
}
