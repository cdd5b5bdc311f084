// What the dashboard has read of the databases, and when. A reading is kept until somebody asks to read again, so that looking around
// costs no calls. One that failed has its problem, and the next page tries again.

import { type ListedKey, listKeys } from "../../src/operators/records.ts";
import { type KeyUsage, listDaysOf, listTotals, listUsage, unusedKey } from "../../src/operators/usage.ts";
import {
  type Contents,
  type OpenDatabases,
  openDatabases,
  type Target,
  targetOptions,
} from "../cloudflare/database.ts";
import { readDetails } from "../keys/details.ts";
import { messageOf } from "../lib/io.ts";
import { readStatus, requireOne } from "../status/read.ts";

/** `atMs`: when it began (Unix time). */
export type Reading<Value> = { atMs: number } & ({ value: Value } | { problem: string });

/** A key with its requests on some days; `key` is undefined for one that was deleted. */
export interface Row {
  key: ListedKey | undefined;
  used: KeyUsage;
}

type KeyQuery = Pick<NonNullable<Parameters<typeof listKeys>[2]>, "search" | "plan" | "state">;

/** More: more memory; fewer: more calls when somebody goes back and forth. */
const MAX_KEPT = 50;

export class Readings {
  readonly target: Target;
  /** The options that choose the databases, for a command line. */
  readonly where: string[];
  /** That of the service, for its build. */
  readonly url: string | undefined;
  readonly #kept = new Map<string, Promise<Reading<unknown>>>();
  readonly #opened = new Map<Contents, Promise<OpenDatabases>>();

  constructor(target: Target, url: string | undefined) {
    [this.target, this.where, this.url] = [target, targetOptions(target), url];
  }

  /** Throws if no database can be opened. */
  async requireOne(): Promise<void> {
    await requireOne([this.#open("keys"), this.#open("pets")]);
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#opened.values()].map(async (each) => (await each).close()));
  }

  /** The next page reads again, also a file that has replaced a local database. */
  forget(): void {
    this.#kept.clear();
    if (this.target.kind === "local") this.#opened.clear();
  }

  /** The keys that match, with their requests on the last days. Without a query also those that were deleted. */
  async rows(query: KeyQuery, days: number): Promise<Reading<Row[]>> {
    const all = { days, sort: "admitted", limit: -1 } as const;
    const [listed, usage] = await Promise.all([
      this.#ofKeys(["keys", query], (keys, nowMs) => listKeys(keys, nowMs, query)),
      this.#ofKeys(["usage", days], (keys, nowMs) => listUsage(keys, nowMs, all)),
    ]);
    // One can have been kept for longer.
    const atMs = Math.min(listed.atMs, usage.atMs);
    if ("problem" in listed) return listed;
    if ("problem" in usage) return usage;
    const used = new Map(usage.value.keys.map((each) => [each.id, each]));
    const rows = listed.value.keys.map((key) => ({ key, used: used.get(key.id) ?? unusedKey(key) }));
    const isOfAll = Object.values(query).every((each) => each === undefined);
    const deleted = usage.value.keys.filter(({ name }) => isOfAll && name === null);
    return { atMs, value: [...rows, ...deleted.map((each) => ({ key: undefined, used: each }))] };
  }

  /** Each of the last days of some keys, by their ids. */
  days(ids: string[], days: number) {
    return this.#ofKeys(["days", ids, days], (keys, nowMs) => listDaysOf(keys, ids, nowMs, days));
  }

  /** Each of the last days, of all keys together. */
  totals(days: number) {
    return this.#ofKeys(["totals", days], (keys, nowMs) => listTotals(keys, nowMs, days));
  }

  key(id: string, maxChanges: number) {
    return this.#ofKeys(["key", id], (database, nowMs) =>
      readDetails({ database, operator: { by: "", nowMs }, where: this.where }, id, maxChanges),
    );
  }

  /** Each part has its own problem. */
  status(measuresTables: boolean) {
    return this.#keep(["status", measuresTables], (nowMs) => {
      const opened = { keys: this.#open("keys"), pets: this.#open("pets") };
      return readStatus(this.target, opened, this.url, measuresTables, nowMs);
    });
  }

  #ofKeys<Value>(what: unknown[], read: (keys: D1Database, nowMs: number) => Promise<Value>) {
    return this.#keep(what, async (nowMs) => read((await this.#open("keys")).keys, nowMs));
  }

  #keep<Value>(what: unknown[], read: (nowMs: number) => Promise<Value>): Promise<Reading<Value>> {
    const name = JSON.stringify(what);
    const kept = this.#kept.get(name) as Promise<Reading<Value>> | undefined;
    if (kept !== undefined) return kept;
    const atMs = Date.now();
    const failed = (error: unknown) => {
      this.#kept.delete(name);
      return { atMs, problem: messageOf(error) };
    };
    const reading = read(atMs).then((value) => ({ atMs, value }), failed);
    this.#kept.set(name, reading);
    const [oldest = ""] = this.#kept.keys();
    if (this.#kept.size > MAX_KEPT) this.#kept.delete(oldest);
    return reading;
  }

  /** One that could not be opened is tried again. */
  #open(contents: Contents): Promise<OpenDatabases> {
    const opened = this.#opened.get(contents) ?? openDatabases<Contents>(this.target, contents);
    this.#opened.set(contents, opened);
    opened.catch(() => this.#opened.delete(contents));
    return opened;
  }
}
