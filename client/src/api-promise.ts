// What a call returns: a promise of its data, from which a program can also get the response.

import type { ApiResponse } from "./call.ts";

/** `await` it for the data, or `await call.withResponse()` for the data with the response. */
export class ApiPromise<Data> implements Promise<Data> {
  readonly #start: () => Promise<ApiResponse<Data>>;
  #response: Promise<ApiResponse<Data>> | undefined;

  constructor(start: () => Promise<ApiResponse<Data>>) {
    this.#start = start;
  }

  get [Symbol.toStringTag](): string {
    return "ApiPromise";
  }

  /** The data, the response that it is from, and the id of the request in the log of the service. */
  withResponse(): Promise<ApiResponse<Data>> {
    this.#response ??= this.#start();
    return this.#response;
  }

  // biome-ignore lint/suspicious/noThenProperty: it is a promise.
  then<A = Data, B = never>(
    onData?: ((data: Data) => A | PromiseLike<A>) | null,
    // biome-ignore lint/suspicious/noExplicitAny: as of all promises.
    onError?: ((error: any) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.withResponse()
      .then(({ data }) => data)
      .then(onData, onError);
  }

  // biome-ignore lint/suspicious/noExplicitAny: as of all promises.
  catch<B = never>(onError?: ((error: any) => B | PromiseLike<B>) | null): Promise<Data | B> {
    return this.then(null, onError);
  }

  finally(onEnd?: (() => void) | null): Promise<Data> {
    return this.then().finally(onEnd);
  }
}
