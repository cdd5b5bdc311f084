// Cloudflare on virtual time: databases and objects as far away from each isolate as regions.ts says, and a count of what is charged for.
// An unchanged Worker runs here, in this process. Its isolates are instances of its program, and share the bindings: where a call comes
// from, the asynchronous context says.
//
// A call is half of its round trip under way before the work, and half after it. Nothing else takes time. A replica never lags: pages that
// may be read there are the same everywhere, and the tests of freshness have replicas that lag.

import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { Random } from "../../test/simulation/random.ts";
import { Timeline } from "../../test/simulation/timeline.ts";
import { NO_COUNTS } from "./counts.ts";
import { START_MS } from "./limiter.ts";
import { IDLE_MS } from "./network.ts";
import { REGIONS } from "./regions.ts";

/** Where code runs: an index of a region. `calls`: those of a request so far, or of an object. */
interface Place {
  region: number;
  calls: number;
}

type Method = (...words: unknown[]) => unknown;
type Instance = Record<string, Method>;
/** A class of objects. */
export type ObjectClass = new (ctx: object, env: object) => object;

interface Living {
  instance: Instance;
  calledMs: number;
}

const READS = /^\s*SELECT\b/i;
const READS_KEYS = /^\s*SELECT\b.*\bFROM keys\b/is;
const ADDS_PET = /^\s*INSERT INTO pets\b/i;
/** D1 writes one for the pet, one for its index, and one for the last id (`npm run bench -- bytes` has the index). */
const ROWS_OF_CREATION = 3;

export class Cloudflare {
  readonly time = new Timeline(START_MS);
  /** What is charged, except the requests of clients. */
  readonly counts = { ...NO_COUNTS };
  /** Reads of keys at the primary. */
  keyReads = 0;
  /** By the name of the object. */
  readonly #calls = new Map<string, number>();
  readonly #here = new AsyncLocalStorage<Place>();

  /** The calls of all objects whose name ends so. */
  callsOf(id: string): number {
    return [...this.#calls].reduce((sum, [name, calls]) => sum + (name.endsWith(id) ? calls : 0), 0);
  }

  /** Runs what a place does. */
  at<Result>(place: Place, work: () => Result): Result {
    return this.#here.run(place, work);
  }

  async #call<Result>(roundTripMs: number, work: () => Promise<Result>): Promise<Result> {
    this.#place.calls += 1;
    const thereMs = Math.floor(roundTripMs / 2);
    await this.time.wait(thereMs);
    const result = await work();
    await this.time.wait(roundTripMs - thereMs);
    return result;
  }

  get #place(): Place {
    const place = this.#here.getStore();
    if (place === undefined) throw new Error("a call comes from nowhere");
    return place;
  }

  /** A database with these contents. Its primary is in Eastern North America, and each region has a replica. */
  database(filled: D1Database, usesReplica = false): D1Database {
    const run = async (sql: string, values: unknown[]) => {
      const { toReplicaMs, toPrimaryMs } = REGIONS[this.#place.region] as (typeof REGIONS)[number];
      const isNear = usesReplica && READS.test(sql);
      const statement = filled.prepare(sql).bind(...values);
      const result = await this.#call(isNear ? toReplicaMs : toPrimaryMs, () => statement.all<object>());
      if (READS_KEYS.test(sql)) this.keyReads += 1;
      if (READS.test(sql)) this.counts.rowsRead += READS_KEYS.test(sql) ? 1 : Number(values[1]) + 1;
      else this.counts.rowsWritten += ADDS_PET.test(sql) ? ROWS_OF_CREATION : 1;
      return { ...result, meta: { ...result.meta, served_by_primary: !isNear } };
    };
    const prepare = (sql: string, values: unknown[] = []): object => {
      const all = () => run(sql, values);
      const first = async () => (await all()).results[0] ?? null;
      return { bind: (...bound: unknown[]) => prepare(sql, bound), all, run: all, first };
    };
    const withSession = (constraint: string) => this.database(filled, constraint === "first-unconstrained");
    return { prepare, withSession } as unknown as D1Database;
  }

  /** Objects of a class, each in the region of its first caller. One without a call for a while loses its memory. */
  objects(Class: ObjectClass, env: object): DurableObjectNamespace {
    const objects = new Map<string, (method: string, words: unknown[]) => Promise<unknown>>();
    const create = (name: string) => {
      const { region } = this.#place;
      const storage = this.#storage(() => inObject("alarm", []));
      let living: Living | undefined;
      const inObject = (method: string, words: unknown[]) =>
        this.at({ region, calls: 0 }, async () => {
          this.counts.objectRequests += 1;
          this.#calls.set(name, (this.#calls.get(name) ?? 0) + 1);
          const { nowMs } = this.time;
          if (living === undefined || nowMs - living.calledMs >= IDLE_MS)
            living = { instance: new Class({ id: { name }, storage }, env) as Instance, calledMs: nowMs };
          living.calledMs = nowMs;
          return structuredClone(await living.instance[method]?.(...structuredClone(words)));
        });
      return (method: string, words: unknown[]) => {
        const roundTripMs = REGIONS[this.#place.region]?.toObjectsMs[region] ?? Number.NaN;
        return this.#call(roundTripMs, () => inObject(method, words));
      };
    };
    const get = (name: string) => {
      const call = objects.get(name) ?? create(name);
      objects.set(name, call);
      const handler = {
        get:
          (_: object, method: string) =>
          (...words: unknown[]) =>
            call(method, words),
      };
      return new Proxy({}, handler);
    };
    return { get, getByName: get, idFromName: (name: string) => name } as unknown as DurableObjectNamespace;
  }

  /** Values are rows of a hidden table, and so is the alarm. */
  #storage(onAlarm: () => Promise<unknown>) {
    const { time, counts } = this;
    const values = new Map<string, unknown>();
    let alarmMs: number | null = null;
    const get = (name: string) => {
      counts.rowsRead += 1;
      return structuredClone(values.get(name));
    };
    const put = (name: string, value: unknown) => {
      counts.rowsWritten += 1;
      values.set(name, structuredClone(value));
    };
    const ring = async (atMs: number) => {
      if (alarmMs !== atMs) return;
      alarmMs = null;
      await onAlarm();
    };
    const setAlarm = async (atMs: number) => {
      counts.rowsWritten += 1;
      alarmMs = atMs;
      time.after(atMs - time.nowMs, () => ring(atMs), true);
    };
    const getAlarm = async () => alarmMs;
    return { kv: { get, put }, get: async (name: string) => get(name), put, getAlarm, setAlarm };
  }

  /** Runs all that happens in this time, with virtual clocks and timers, always the same random numbers, and no log. */
  async run(forMs: number): Promise<void> {
    const { time } = this;
    const random = new Random(1);
    const cleared = new WeakSet<object>();
    const setTimer = (run: () => void, ms: number) => {
      const timer = {};
      time.after(ms, () => cleared.has(timer) || run());
      return timer;
    };
    // That of Node ends at a time of its own.
    const digest = async (_: string, data: Uint8Array) => createHash("sha256").update(data).digest();
    // Only workerd has it. Bodies come in one piece here.
    const readAtLeast = function (this: ReadableStreamBYOBReader, _: number, buffer: Uint8Array) {
      return this.read(buffer);
    };
    const restore = replaced(
      [Date, "now", () => time.nowMs],
      [Math, "random", () => random.next()],
      [console, "log", () => {}],
      [globalThis, "scheduler", { wait: (ms: number) => time.wait(ms) }],
      [globalThis, "setTimeout", setTimer],
      [globalThis, "clearTimeout", (timer: object) => cleared.add(timer)],
      [crypto.subtle, "digest", digest],
      [ReadableStreamBYOBReader.prototype, "readAtLeast", readAtLeast],
    );
    // Bodies of requests need turns of the event loop.
    const settle = () => new Promise(setImmediate);
    await time.run(time.nowMs + forMs, settle).finally(restore);
  }
}

/** Replaces members of objects. Returns a function that restores them. */
function replaced(...changes: [owner: object, name: string, value: unknown][]): () => void {
  const before = changes.map(([owner, name]) => Reflect.getOwnPropertyDescriptor(owner, name));
  for (const [owner, name, value] of changes)
    Reflect.defineProperty(owner, name, { value, configurable: true, writable: true });
  return () => {
    for (const [index, [owner, name]] of changes.entries()) {
      const own = before[index];
      if (own === undefined) Reflect.deleteProperty(owner, name);
      else Reflect.defineProperty(owner, name, own);
    }
  };
}
