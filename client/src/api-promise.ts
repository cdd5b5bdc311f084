// What calls return: promises of data, from which a program can also get the response, and lists of pets.

import type { ListParameters, Pet } from "./schema.ts";

/** The result of a call, and its response, whose body has been read. */
export interface ApiResponse<Data> {
  data: Data;
  response: Response;
  /** Identifies the request in the log of the service. */
  requestId: string | undefined;
}

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
    const data = this.withResponse().then((result) => result.data);
    return data.then(onData, onError);
  }

  // biome-ignore lint/suspicious/noExplicitAny: as of all promises.
  catch<B = never>(onError?: ((error: any) => B | PromiseLike<B>) | null): Promise<Data | B> {
    return this.then(null, onError);
  }

  finally(onEnd?: (() => void) | null): Promise<Data> {
    return this.then().finally(onEnd);
  }
}

export interface Page {
  pets: Pet[];
  /** The parameters of the next page, which can be stored; undefined on the last one. */
  next?: ListParameters;
}

/** With `for await`, a list asks for as many pets at once as possible, because requests are limited. */
const MAX_LIMIT = 100;

/**
 * `await list` is a page, `for await (const pet of list)` every pet from there on, `list.pages()` every page. Nothing is requested
 * before that. Each iteration requests its pages anew, one at a time, and meets every pet that existed at its start exactly once.
 */
export class PetList extends ApiPromise<Page> implements AsyncIterable<Pet> {
  readonly #load: (parameters?: ListParameters) => Promise<ApiResponse<Page>>;

  /** `load` has the parameters of the first page as a default. */
  constructor(parameters: ListParameters, load: (parameters: ListParameters) => Promise<ApiResponse<Page>>) {
    super(() => load(parameters));
    this.#load = (next = { limit: MAX_LIMIT, ...parameters }) => load(next);
  }

  async *pages(): AsyncGenerator<Page, void, undefined> {
    let next: ListParameters | undefined;
    do {
      const { data }: ApiResponse<Page> = await this.#load(next);
      yield data;
      next = data.next;
    } while (next !== undefined);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Pet, void, undefined> {
    for await (const { pets } of this.pages()) yield* pets;
  }
}
