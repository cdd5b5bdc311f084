// The pets that the service has acknowledged. The list must have each of them once, with exact numbers, and no other.

import { isDeepStrictEqual } from "node:util";
import { exactJson, parseResponse } from "./exact.ts";
import { type Answer, BadAnswer } from "./http.ts";

export const LIST = "/v1/pets";

/** A pet with integers as bigint. */
export type ExactPet = Record<string, unknown> & { id: bigint };

/** Reads a path of the service with a valid key. */
export type Read = (path: string) => Promise<Answer>;

export class PetRecords {
  /** The page with the latest pets. Only the end of the list is read again. */
  #lastPage = `${LIST}?limit=20`;
  #lastId = -(2n ** 63n);
  /** Acknowledged pets that were not in the list yet. */
  readonly #unseen = new Map<bigint, ExactPet>();

  /** Records an acknowledged pet. Returns what is wrong with its id. */
  acknowledge(pet: ExactPet): string[] {
    if (pet.id <= this.#lastId || this.#unseen.has(pet.id)) return [`the id ${pet.id} was assigned before`];
    this.#unseen.set(pet.id, pet);
    return [];
  }

  /** Reads the new pets of the list. Returns what is wrong with them, and reports it once. */
  async problems(read: Read): Promise<string[]> {
    const problems: string[] = [];
    for await (const { path, pets } of pagesFrom(read, this.#lastPage)) {
      this.#lastPage = path;
      for (const pet of pets) problems.push(...this.#problemsOf(pet));
    }
    const missing = [...this.#unseen.values()].map((pet) => `the list does not have ${exactJson(pet)}`);
    this.#unseen.clear();
    return [...problems, ...missing];
  }

  #problemsOf(pet: ExactPet): string[] {
    if (pet.id <= this.#lastId) return [];
    this.#lastId = pet.id;
    const expected = this.#unseen.get(pet.id);
    this.#unseen.delete(pet.id);
    if (expected === undefined) return [`the list has a pet that was never acknowledged: ${exactJson(pet)}`];
    const isSame = isDeepStrictEqual(pet, expected);
    return isSame ? [] : [`the list has ${exactJson(pet)} instead of ${exactJson(expected)}`];
  }
}

export interface Page {
  path: string;
  pets: ExactPet[];
}

/** The pages of a list, from one on. */
export async function* pagesFrom(read: Read, first: string, most = Infinity): AsyncGenerator<Page> {
  for (let path: string | undefined = first, count = 0; path !== undefined && count < most; count += 1) {
    const answer = await read(path);
    if (answer.status !== 200) throw new BadAnswer(`GET ${path} got ${answer.status}`);
    yield { path, pets: parseResponse(answer.body) as ExactPet[] };
    path = nextPath(answer);
  }
}

/** The path of the next page. */
export function nextPath({ headers }: Answer): string | undefined {
  const [, url] = headers.link?.match(/^<([^>]+)>; rel="next"$/) ?? [];
  if (url === undefined) return undefined;
  const { pathname, search } = new URL(url);
  return pathname + search;
}
