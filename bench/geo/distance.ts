// The distance between a Worker and its bindings: the same database and the same objects, but each statement and each call
// takes the time of a round trip, half of it before and half after it. On the way everything is counted that is paid for.
//
// What reads in a session that takes any replica goes to the region's own; everything else goes to the primary. Real
// sessions may find a replica for more than that, so contestants get no less than their due only if they ask for it so.

import { AsyncLocalStorage } from "node:async_hooks";
import { type Counts, NOTHING } from "./counts.ts";

/** How far a Worker is from its replica and from home, in milliseconds for the round trip. */
export interface Place {
  toReplicaMs: number;
  toHomeMs: number;
}

/** How many hops a request has made one after the other, until now. */
export interface Trail {
  hops: number;
}

export const trails = new AsyncLocalStorage<Trail>();

/** Of this isolate, since it started. */
export const counts: Counts = { ...NOTHING };

/** Does `work` at the far end of a round trip. */
async function travel<Result>(roundTripMs: number, work: () => Promise<Result>): Promise<Result> {
  const trail = trails.getStore();
  // Two that are begun at the same time are one hop, not two.
  const hops = (trail?.hops ?? 0) + 1;
  const thereMs = Math.floor(roundTripMs / 2);
  await scheduler.wait(thereMs);
  try {
    return await work();
  } finally {
    await scheduler.wait(roundTripMs - thereMs);
    if (trail !== undefined) trail.hops = Math.max(trail.hops, hops);
  }
}

const READS = /^\s*SELECT\b/i;

type Row = Record<string, unknown>;

/** A statement that travels when it is run. */
class FarStatement {
  readonly #session: FarSession;
  readonly sql: string;
  readonly values: readonly unknown[];

  constructor(session: FarSession, sql: string, values: readonly unknown[] = []) {
    this.#session = session;
    this.sql = sql;
    this.values = values;
  }

  bind(...values: unknown[]): FarStatement {
    return new FarStatement(this.#session, this.sql, values);
  }

  all(): Promise<D1Result<Row>> {
    return this.#session.run(this);
  }

  run(): Promise<D1Result<Row>> {
    return this.#session.run(this);
  }

  /** Of all rows, because only with them it is said how many were read. */
  async first(column?: string): Promise<unknown> {
    const { results } = await this.all();
    const [row] = results;
    if (row === undefined) return null;
    return column === undefined ? row : row[column];
  }

  raw(): never {
    throw new Error("raw() does not say what it has read, so it can't be counted");
  }
}

/** A session of the database, or the database itself, which is always the primary. */
class FarSession {
  readonly #primary: D1Database;
  readonly #replica: D1Database;
  readonly #place: Place;
  readonly #takesReplicas: boolean;

  constructor(primary: D1Database, replica: D1Database, place: Place, takesReplicas: boolean) {
    this.#primary = primary;
    this.#replica = replica;
    this.#place = place;
    this.#takesReplicas = takesReplicas;
  }

  prepare(sql: string): FarStatement {
    return new FarStatement(this, sql);
  }

  withSession(constraint?: string): FarSession {
    const takesReplicas = constraint === "first-unconstrained";
    return new FarSession(this.#primary, this.#replica, this.#place, takesReplicas);
  }

  async run(statement: FarStatement): Promise<D1Result<Row>> {
    const isNear = this.#takesReplicas && READS.test(statement.sql);
    const database = isNear ? this.#replica : this.#primary;
    const { toReplicaMs, toHomeMs } = this.#place;
    const result = await travel(isNear ? toReplicaMs : toHomeMs, () => on(database, statement).all<Row>());
    return counted(result, !isNear);
  }

  async batch(statements: FarStatement[]): Promise<D1Result<Row>[]> {
    const results = await travel(this.#place.toHomeMs, () =>
      this.#primary.batch<Row>(statements.map((each) => on(this.#primary, each))),
    );
    return results.map((result) => counted(result, true));
  }
}

function on(database: D1Database, { sql, values }: FarStatement): D1PreparedStatement {
  return database.prepare(sql).bind(...values);
}

/** Counts what a statement has read and written, and says who has answered, which the local database does not. */
function counted(result: D1Result<Row>, isPrimary: boolean): D1Result<Row> {
  counts.rowsRead += result.meta.rows_read;
  counts.rowsWritten += result.meta.rows_written;
  return { ...result, meta: { ...result.meta, served_by_primary: isPrimary } };
}

/** The database as it is from a place. */
export function farDatabase(primary: D1Database, replica: D1Database, place: Place): D1Database {
  return new FarSession(primary, replica, place, false) as unknown as D1Database;
}

/** The objects as they are from a place: all of them are at home. */
export function farObjects(objects: DurableObjectNamespace, { toHomeMs }: Place): DurableObjectNamespace {
  const far = (stub: DurableObjectStub) =>
    new Proxy(stub, {
      get(_stub, name) {
        const member: unknown = Reflect.get(stub, name);
        if (typeof member !== "function") return member;
        return (...words: unknown[]) => {
          counts.objectRequests += 1;
          return travel(toHomeMs, async () => Reflect.apply(member, stub, words));
        };
      },
    });
  return {
    idFromName: (name: string) => objects.idFromName(name),
    get: (id: DurableObjectId) => far(objects.get(id)),
    getByName: (name: string) => far(objects.getByName(name)),
  } as DurableObjectNamespace;
}
