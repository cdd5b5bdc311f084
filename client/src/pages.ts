// A list that a program awaits for one page, or iterates for all pets.

import { ApiPromise } from "./api-promise.ts";
import type { ApiResponse } from "./call.ts";
import type { ListParameters, Pet } from "./schema.ts";

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
  readonly #parameters: ListParameters;
  readonly #load: (parameters: ListParameters) => Promise<ApiResponse<Page>>;

  constructor(parameters: ListParameters, load: (parameters: ListParameters) => Promise<ApiResponse<Page>>) {
    super(() => load(parameters));
    this.#parameters = parameters;
    this.#load = load;
  }

  async *pages(): AsyncGenerator<Page, void, undefined> {
    let next: ListParameters | undefined = { limit: MAX_LIMIT, ...this.#parameters };
    while (next !== undefined) {
      const { data }: ApiResponse<Page> = await this.#load(next);
      yield data;
      next = data.next;
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Pet, void, undefined> {
    for await (const { pets } of this.pages()) yield* pets;
  }
}
