// Counts the rows that objects read and write. The runtime accepts only its own storage object, so this patches the methods of
// the storage, for all objects of the isolate.

import { counts } from "./latency.ts";

let isCounted = false;

/** Makes the storage of all objects count from now on. Returns its argument. */
export function countedStorage(ctx: DurableObjectState): DurableObjectState {
  if (isCounted) return ctx;
  isCounted = true;
  const { storage } = ctx;
  after(storage.sql, "exec", (cursor) => {
    const { rowsRead, rowsWritten } = cursor as SqlStorageCursor<Record<string, SqlStorageValue>>;
    counts.rowsRead += rowsRead;
    counts.rowsWritten += rowsWritten;
  });
  // A key-value pair is a row of a hidden table, and so is the alarm.
  for (const name of ["put", "delete", "setAlarm"]) after(storage, name, () => (counts.rowsWritten += 1));
  after(storage.kv, "put", () => (counts.rowsWritten += 1));
  for (const owner of [storage, storage.kv]) after(owner, "get", () => (counts.rowsRead += 1));
  return ctx;
}

/** Passes what a method returns to `count`, once the caller has read its rows. */
function after(owner: object, name: string, count: (returned: unknown) => void): void {
  const prototype: object = Object.getPrototypeOf(owner);
  const method: unknown = Reflect.get(prototype, name);
  if (typeof method !== "function") throw new Error(`the storage of an object has no method ${name}`);
  const counting = function (this: object, ...words: unknown[]): unknown {
    const returned: unknown = Reflect.apply(method, this, words);
    queueMicrotask(() => count(returned));
    return returned;
  };
  Reflect.defineProperty(prototype, name, { value: counting, configurable: true, writable: true });
}
