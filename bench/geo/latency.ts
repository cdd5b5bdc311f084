// Latency between a Worker or an object and its bindings: each statement and each call of the real databases and the real objects
// takes a round trip, half of it before and half after the work. Also counts what Cloudflare charges for.
//
// Reads in a "first-unconstrained" session go to the replica of the region, everything else to the primary. Real sessions may
// use a replica more often, so an implementation is disadvantaged if it uses other sessions.

import { interceptCalls } from "../measure/object-calls.ts";
import { type Counts, NO_COUNTS } from "../simulation/counts.ts";
import type { RoundTrips } from "../simulation/regions.ts";

/** The region of each key's objects, by the key's id. */
export const homes: Record<string, number> = {};

export function toObjectMs(keyId: string, { toObjectsMs }: RoundTrips): number {
  const ms = toObjectsMs[homes[keyId] ?? -1];
  if (ms === undefined) throw new Error(`the objects of ${keyId} have no distance`);
  return ms;
}

/** What this isolate has counted since it started, by the id of the key whose object it is, or ""; and reads of keys at the primary. */
export const isolateCounts = { byKey: {} as Record<string, Counts>, keyReads: 0 };
export type IsolateCounts = typeof isolateCounts;

export function countsOf(keyId = ""): Counts {
  isolateCounts.byKey[keyId] ??= { ...NO_COUNTS };
  return isolateCounts.byKey[keyId];
}

/** The id of the key whose object it is: the object's name, in the baseline after a prefix. */
export function keyIdOf({ name = "" }: DurableObjectId): string {
  return name.slice(name.lastIndexOf(":") + 1);
}

async function delay<Result>(roundTripMs: number, work: () => Promise<Result>): Promise<Result> {
  const outwardMs = Math.floor(roundTripMs / 2);
  await scheduler.wait(outwardMs);
  try {
    return await work();
  } finally {
    await scheduler.wait(roundTripMs - outwardMs);
  }
}

const READS = /^\s*SELECT\b/i;
const READS_KEYS = /^\s*SELECT\b.*\bFROM keys\b/is;

type Row = Record<string, unknown>;

interface Statement {
  sql: string;
  values: readonly unknown[];
}

/** A database, which always uses the primary, or a session of it. */
export function delayedDatabase(
  primary: D1Database,
  replica: D1Database,
  roundTrips: RoundTrips,
  usesReplica = false,
): D1Database {
  const { toReplicaMs, toPrimaryMs } = roundTrips;
  const run = async ({ sql, values }: Statement) => {
    const isNear = usesReplica && READS.test(sql);
    const [database, ms] = isNear ? [replica, toReplicaMs] : [primary, toPrimaryMs];
    if (!isNear && READS_KEYS.test(sql)) isolateCounts.keyReads += 1;
    const work = () =>
      database
        .prepare(sql)
        .bind(...values)
        .all<Row>();
    return counted(await delay(ms, work), !isNear);
  };
  // It has no raw(), which would not return how many rows it has read.
  const prepare = (sql: string, values: readonly unknown[] = []): object => {
    const all = () => run({ sql, values });
    const first = async (column?: string) => {
      const [row] = (await all()).results;
      return row === undefined || column === undefined ? (row ?? null) : row[column];
    };
    return { sql, values, bind: (...bound: unknown[]) => prepare(sql, bound), all, run: all, first };
  };
  const batch = async (statements: Statement[]) => {
    const real = statements.map(({ sql, values }) => primary.prepare(sql).bind(...values));
    const results = await delay(toPrimaryMs, () => primary.batch<Row>(real));
    return results.map((result) => counted(result, true));
  };
  const withSession = (constraint?: string) =>
    delayedDatabase(primary, replica, roundTrips, constraint === "first-unconstrained");
  return { prepare, batch, withSession } as unknown as D1Database;
}

/** Counts the rows of a result, and adds `served_by_primary`, which the local database leaves out. */
function counted(result: D1Result<Row>, isPrimary: boolean): D1Result<Row> {
  const counts = countsOf();
  counts.rowsRead += result.meta.rows_read;
  counts.rowsWritten += result.meta.rows_written;
  return { ...result, meta: { ...result.meta, served_by_primary: isPrimary } };
}

export function delayedObjects(
  objects: DurableObjectNamespace,
  roundTrips: RoundTrips,
): DurableObjectNamespace {
  return interceptCalls(objects, (id, call) => {
    const keyId = keyIdOf(id);
    countsOf(keyId).objectRequests += 1;
    return delay(toObjectMs(keyId, roundTrips), call);
  });
}
