// The creation of many pets: some at once, with results in their order.

import type { Pet } from "./schema.ts";

/** What became of a pet. `index` counts from 0. */
export type CreateResult<Input> = { index: number; input: Input } & (
  | { pet: Pet; error?: undefined }
  | { pet?: undefined; error: unknown }
);

/**
 * Yields each result once those before it are yielded. At most `limit` pets are being created, or wait to be yielded. If the program ends
 * the iteration, `create` is aborted. An error of the iterable is thrown after the results of the pets before it.
 */
export async function* createAll<Input>(
  inputs: Iterable<Input> | AsyncIterable<Input>,
  limit: number,
  signal: AbortSignal | undefined,
  create: (input: Input, index: number, signal: AbortSignal) => PromiseLike<Pet>,
): AsyncGenerator<CreateResult<Input>, void, undefined> {
  const source = Symbol.asyncIterator in inputs ? inputs[Symbol.asyncIterator]() : inputs[Symbol.iterator]();
  // A source that is not asynchronous may throw.
  const readNext = async () => ({ item: await source.next() });
  const ended = new AbortController();
  const abort = () => ended.abort(signal?.reason);
  signal?.addEventListener("abort", abort);
  const results: Promise<CreateResult<Input>>[] = [];
  let reading: Promise<{ item: IteratorResult<Input> } | { failed: unknown }> | undefined;
  let hasMore = true;
  let failed: { failed: unknown } | undefined;
  try {
    for (let index = 0; ; ) {
      signal?.throwIfAborted();
      if (hasMore && results.length < limit) reading ??= readNext().catch((error) => ({ failed: error }));
      const waiting = [results[0], reading].filter((each) => each !== undefined);
      if (waiting.length === 0) break;
      const first = await Promise.race(waiting);
      if ("index" in first) {
        results.shift();
        yield first;
        continue;
      }
      reading = undefined;
      if ("failed" in first) failed = first;
      hasMore = "item" in first && !first.item.done;
      if ("item" in first && !first.item.done) results.push(settle(first.item.value, index++));
    }
    if (failed) throw failed.failed;
  } finally {
    signal?.removeEventListener("abort", abort);
    ended.abort(signal?.reason);
    if (hasMore) await source.return?.();
  }

  async function settle(input: Input, index: number): Promise<CreateResult<Input>> {
    try {
      return { index, input, pet: await create(input, index, ended.signal) };
    } catch (error) {
      return { index, input, error };
    }
  }
}
