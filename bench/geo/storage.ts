// Counts what an object reads and writes. Its storage stays the real one: it hands itself to the runtime, which takes no
// other, so it is the methods that are exchanged, for all objects of the isolate.

import { counts } from "./distance.ts";

let isCounted = false;

/** Has the storage of all objects counted, from the first that is constructed on. Returns what it is given. */
export function countedStorage(ctx: DurableObjectState): DurableObjectState {
  if (isCounted) return ctx;
  isCounted = true;
  const { storage } = ctx;
  after(storage.sql, "exec", (cursor) => {
    const { rowsRead, rowsWritten } = cursor as SqlStorageCursor<Record<string, SqlStorageValue>>;
    counts.rowsRead += rowsRead;
    counts.rowsWritten += rowsWritten;
  });
  // A value by its key is a row of a hidden table, and so is the alarm.
  const oneRow = () => {
    counts.rowsWritten += 1;
  };
  for (const name of ["put", "delete", "setAlarm"]) after(storage, name, oneRow);
  after(storage.kv, "put", oneRow);
  for (const [owner, name] of [
    [storage, "get"],
    [storage.kv, "get"],
  ] as const) {
    after(owner, name, () => {
      counts.rowsRead += 1;
    });
  }
  return ctx;
}

/** Has `count` told what a method returned, as soon as its caller has read the rows of it. */
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
