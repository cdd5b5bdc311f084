// Counts the rows that objects read and write. The runtime accepts only its own storage object, so this patches the methods of
// the storage, for all objects of the isolate.

import type { Counts } from "../simulation/counts.ts";
import { countsOf, keyIdOf } from "./latency.ts";

/** The key of each object, by the objects that its storage consists of. */
const keyIds = new WeakMap<object, string>();
let isCounted = false;

/** Makes the storage of an object count from now on. Returns its argument. */
export function countedStorage(ctx: DurableObjectState): DurableObjectState {
  const { storage } = ctx;
  for (const owner of [storage, storage.sql, storage.kv]) keyIds.set(owner, keyIdOf(ctx.id));
  if (isCounted) return ctx;
  isCounted = true;
  after(storage.sql, "exec", (counts, cursor) => {
    const { rowsRead, rowsWritten } = cursor as SqlStorageCursor<Record<string, SqlStorageValue>>;
    counts.rowsRead += rowsRead;
    counts.rowsWritten += rowsWritten;
  });
  // A key-value pair is a row of a hidden table, and so is the alarm.
  for (const name of ["put", "delete", "setAlarm"])
    after(storage, name, (counts) => (counts.rowsWritten += 1));
  after(storage.kv, "put", (counts) => (counts.rowsWritten += 1));
  for (const owner of [storage, storage.kv]) after(owner, "get", (counts) => (counts.rowsRead += 1));
  return ctx;
}

/** Passes the object's counts and what a method returns to `count`, once the caller has read its rows. */
function after(owner: object, name: string, count: (counts: Counts, returned: unknown) => void): void {
  const prototype: object = Object.getPrototypeOf(owner);
  const method: unknown = Reflect.get(prototype, name);
  if (typeof method !== "function") throw new Error(`the storage of an object has no method ${name}`);
  const counting = function (this: object, ...words: unknown[]): unknown {
    const returned: unknown = Reflect.apply(method, this, words);
    queueMicrotask(() => count(countsOf(keyIds.get(this)), returned));
    return returned;
  };
  Reflect.defineProperty(prototype, name, { value: counting, configurable: true, writable: true });
}
