// A list that a program awaits for one page, or iterates for all pets.

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
export class PetList implements Promise<Page>, AsyncIterable<Pet> {
  readonly [Symbol.toStringTag] = "PetList";
  readonly #parameters: ListParameters;
  readonly #load: (parameters: ListParameters) => Promise<Page>;
  #page: Promise<Page> | undefined;

  constructor(parameters: ListParameters, load: (parameters: ListParameters) => Promise<Page>) {
    this.#parameters = parameters;
    this.#load = load;
  }

  // biome-ignore lint/suspicious/noThenProperty: it is a promise.
  then<A = Page, B = never>(
    onPage?: ((page: Page) => A | PromiseLike<A>) | null,
    onError?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#page ??= this.#load(this.#parameters);
    return this.#page.then(onPage, onError);
  }

  catch<B = never>(onError?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<Page | B> {
    return this.then(null, onError);
  }

  finally(onEnd?: (() => void) | null): Promise<Page> {
    return this.then().finally(onEnd);
  }

  async *pages(): AsyncGenerator<Page, void, undefined> {
    let next: ListParameters | undefined = { limit: MAX_LIMIT, ...this.#parameters };
    while (next !== undefined) {
      const page: Page = await this.#load(next);
      yield page;
      next = page.next;
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Pet, void, undefined> {
    for await (const { pets } of this.pages()) yield* pets;
  }
}
