// The creation of many pets: some at once, with results in their order.

import type { Pet } from "./schema.ts";
import { within } from "./waits.ts";

/** What became of a pet. `index` counts from 0. */
export type CreateResult<Input> = { index: number; input: Input } & (
  | { pet: Pet; error?: undefined }
  | { pet?: undefined; error: unknown }
);

/**
 * Yields the results in order, of at most `limit` pets at once. If the program ends the iteration, `create` is aborted. An error of the
 * iterable is thrown after the results of the pets before it.
 */
export async function* createAll<Input>(
  inputs: Iterable<Input> | AsyncIterable<Input>,
  limit: number,
  signal: AbortSignal | undefined,
  create: (input: Input, index: number, signal: AbortSignal) => Promise<Pet>,
): AsyncGenerator<CreateResult<Input>, void, undefined> {
  signal?.throwIfAborted();
  const ended = new AbortController();
  const abort = () => ended.abort(signal?.reason);
  signal?.addEventListener("abort", abort);
  const source = (async function* () {
    yield* inputs;
  })();
  const results: Promise<CreateResult<Input>>[] = [];
  let inputsRead = 0;
  let reading: Promise<void> | undefined;
  let isRead = false;
  let failed: { error: unknown } | undefined;
  const start = async (input: Input, index: number) => {
    try {
      return { index, input, pet: await create(input, index, ended.signal) };
    } catch (error) {
      return { index, input, error };
    }
  };
  const read = async () => {
    try {
      const { done, value } = await source.next();
      if (done) isRead = true;
      else results.push(start(value, inputsRead++));
    } catch (error) {
      isRead = true;
      failed = { error };
    }
  };
  try {
    while (!isRead || results.length > 0) {
      if (!isRead && results.length < limit) reading ??= read();
      const first = [results[0], reading].filter((each) => each !== undefined);
      // Undefined if reading was first.
      const result = await within(Infinity, signal, () => Promise.race(first));
      signal?.throwIfAborted();
      if (result === undefined) reading = undefined;
      else {
        void results.shift();
        yield result;
      }
    }
    if (failed) throw failed.error;
  } finally {
    signal?.removeEventListener("abort", abort);
    abort();
    if (!isRead) source.return(undefined).catch(() => {});
  }
}
