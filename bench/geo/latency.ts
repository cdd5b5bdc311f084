// Latency between a Worker or an object and its bindings: each statement and each call of the real databases and the real objects
// takes a round trip, half of it before and half after the work. Also counts what Cloudflare charges for.
//
// Reads in a "first-unconstrained" session go to the replica of the region, everything else to the primary. Real sessions may
// use a replica more often, so an implementation is disadvantaged if it uses other sessions.

import { AsyncLocalStorage } from "node:async_hooks";
import { interceptCalls } from "../measure/object-calls.ts";
import { type Counts, NO_COUNTS } from "./counts.ts";
import type { RoundTrips } from "./regions.ts";

/** The region of each key's objects, by the key's id. */
export const homes: Record<string, number> = {};

export function toObjectMs(keyId: string, { toObjectsMs }: RoundTrips): number {
  const ms = toObjectsMs[homes[keyId] ?? -1];
  if (ms === undefined) throw new Error(`the objects of ${keyId} have no distance`);
  return ms;
}

/** Counts the sequential hops of each request. */
export const hopCounters = new AsyncLocalStorage<{ hops: number }>();

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
  const counter = hopCounters.getStore();
  // Two calls that start at the same time are one hop.
  const hops = (counter?.hops ?? 0) + 1;
  const outwardMs = Math.floor(roundTripMs / 2);
  await scheduler.wait(outwardMs);
  try {
    return await work();
  } finally {
    await scheduler.wait(roundTripMs - outwardMs);
    if (counter !== undefined) counter.hops = Math.max(counter.hops, hops);
  }
}

const READS = /^\s*SELECT\b/i;
const READS_KEYS = /^\s*SELECT\b.*\bFROM keys\b/is;

type Row = Record<string, unknown>;

interface Statement {
  sql: string;
  values: readonly unknown[];
}

/** A session, or the database itself, which always uses the primary. */
class DelayedSession {
  readonly #primary: D1Database;
  readonly #replica: D1Database;
  readonly #roundTrips: RoundTrips;
  readonly #usesReplica: boolean;

  constructor(primary: D1Database, replica: D1Database, roundTrips: RoundTrips, usesReplica: boolean) {
    this.#primary = primary;
    this.#replica = replica;
    this.#roundTrips = roundTrips;
    this.#usesReplica = usesReplica;
  }

  /** A prepared statement. It has no raw(), which would not return how many rows it has read. */
  prepare(sql: string, values: readonly unknown[] = []): Statement & Record<string, unknown> {
    const all = () => this.run({ sql, values });
    const first = async (column?: string) => {
      const [row] = (await all()).results;
      return row === undefined || column === undefined ? (row ?? null) : row[column];
    };
    return { sql, values, bind: (...bound: unknown[]) => this.prepare(sql, bound), all, run: all, first };
  }

  withSession(constraint?: string): DelayedSession {
    const usesReplica = constraint === "first-unconstrained";
    return new DelayedSession(this.#primary, this.#replica, this.#roundTrips, usesReplica);
  }

  async run(statement: Statement): Promise<D1Result<Row>> {
    const { toReplicaMs, toPrimaryMs } = this.#roundTrips;
    const isNear = this.#usesReplica && READS.test(statement.sql);
    const [database, ms] = isNear ? [this.#replica, toReplicaMs] : [this.#primary, toPrimaryMs];
    if (!isNear && READS_KEYS.test(statement.sql)) isolateCounts.keyReads += 1;
    return counted(await delay(ms, () => on(database, statement).all<Row>()), !isNear);
  }

  async batch(statements: Statement[]): Promise<D1Result<Row>[]> {
    const results = await delay(this.#roundTrips.toPrimaryMs, () =>
      this.#primary.batch<Row>(statements.map((each) => on(this.#primary, each))),
    );
    return results.map((result) => counted(result, true));
  }
}

function on(database: D1Database, { sql, values }: Statement): D1PreparedStatement {
  return database.prepare(sql).bind(...values);
}

/** Counts the rows of a result, and adds `served_by_primary`, which the local database leaves out. */
function counted(result: D1Result<Row>, isPrimary: boolean): D1Result<Row> {
  const counts = countsOf();
  counts.rowsRead += result.meta.rows_read;
  counts.rowsWritten += result.meta.rows_written;
  return { ...result, meta: { ...result.meta, served_by_primary: isPrimary } };
}

export function delayedDatabase(
  primary: D1Database,
  replica: D1Database,
  roundTrips: RoundTrips,
): D1Database {
  return new DelayedSession(primary, replica, roundTrips, false) as unknown as D1Database;
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
