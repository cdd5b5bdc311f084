// The creation of many pets: some at once, with results in their order or as they come.

import type { ApiResponse } from "./api-promise.ts";
import { PetstoreError } from "./errors.ts";
import type { Pet } from "./schema.ts";
import { within } from "./waits.ts";

/** What became of a pet: `pet` or `error` is undefined. */
export type CreateResult<Input> = {
  /** Counts from 0, in the order of the iterable. */
  index: number;
  input: Input;
  /** Identifies the request in the log of the service. */
  requestId: string | undefined;
  /** Whether an earlier request with the same idempotency key has added the pet. */
  isReplayed: boolean;
} & ({ pet: Pet; error: undefined } | { pet: undefined; error: NonNullable<unknown> });

/**
 * Yields the results of at most `limit` pets at once. If the program ends the iteration, `create` is aborted. An error of the iterable is
 * thrown after the results of the pets before it.
 */
export async function* createAll<Input>(
  inputs: Iterable<Input> | AsyncIterable<Input>,
  { limit, isOrdered, signal }: { limit: number; isOrdered: boolean; signal: AbortSignal | undefined },
  create: (input: Input, index: number, signal: AbortSignal) => Promise<ApiResponse<Pet>>,
): AsyncGenerator<CreateResult<Input>, void, undefined> {
  signal?.throwIfAborted();
  const ended = new AbortController();
  const abort = () => ended.abort(signal?.reason);
  signal?.addEventListener("abort", abort);
  const source = (async function* () {
    yield* inputs;
  })();
  const results: Promise<CreateResult<Input>>[] = [];
  /** Unless they are ordered, the first result is of the first creation to end. */
  const ends: ((result: CreateResult<Input>) => void)[] = [];
  let inputsRead = 0;
  let reading: Promise<void> | undefined;
  let isRead = false;
  let failed: { error: unknown } | undefined;
  const start = async (input: Input, index: number): Promise<CreateResult<Input>> => {
    try {
      const { data: pet, response, requestId } = await create(input, index, ended.signal);
      const isReplayed = response.headers.get("Idempotent-Replayed") === "true";
      return { index, input, requestId, isReplayed, pet, error: undefined };
    } catch (thrown) {
      const requestId = thrown instanceof PetstoreError ? thrown.requestId : undefined;
      const error = thrown ?? new Error(`${thrown}`);
      return { index, input, requestId, isReplayed: false, pet: undefined, error };
    }
  };
  const read = async () => {
    try {
      const { done, value } = await source.next();
      if (done) isRead = true;
      else {
        const result = start(value, inputsRead++);
        results.push(isOrdered ? result : new Promise((resolve) => ends.push(resolve)));
        if (!isOrdered) void result.then((it) => ends.shift()?.(it));
      }
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
