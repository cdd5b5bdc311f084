// The pets that the service must have, in the order of the list. Every page is compared with them, with exact numbers.

import { isDeepStrictEqual } from "node:util";
import type { Operation } from "./document.ts";
import type { Answer } from "./http.ts";
import { exactJson, parseResponse } from "./json.ts";

/** A pet with integers as bigint. */
export type ExactPet = Record<string, unknown> & { id: bigint };

export class Pets {
  readonly #all: ExactPet[] = [];
  /** The id of the first pet of each page, by cursor. */
  readonly #starts = new Map([["", -(2n ** 63n)]]);
  /** Only the end of the list is read again. */
  #lastPage = "/v1/pets?limit=20";

  get ids(): string[] {
    return this.#all.map(({ id }) => `${id}`);
  }

  get cursors(): string[] {
    return [...this.#starts.keys()].filter((cursor) => cursor !== "");
  }

  /** The pet with this id. */
  find(id: string | undefined): ExactPet | undefined {
    return this.#all.find((pet) => `${pet.id}` === id);
  }

  /** Adds a pet that the service has acknowledged. Returns what is wrong with its id. */
  add(pet: ExactPet): string[] {
    const latest = this.#all.at(-1);
    this.#all.push(pet);
    return latest && pet.id <= latest.id ? [`the id ${pet.id} was assigned before`] : [];
  }

  /** Reads the end of the list. Returns what is wrong with it, once: then these are the pets. */
  async checkEnd(read: (path: string) => Promise<Answer>): Promise<string[]> {
    const { length: expected } = this.#from(this.#lastPage);
    const problems: string[] = [];
    const listed: ExactPet[] = [];
    for (let path: string | undefined = this.#lastPage; path !== undefined; ) {
      const answer = await read(path);
      problems.push(...this.checkPages(path, [answer]));
      const page = petsIn(answer);
      if (page[0] !== undefined) this.#starts.set(cursorOf(path), page[0].id);
      listed.push(...page);
      this.#lastPage = path;
      path = nextPath(answer);
    }
    this.#all.splice(this.#all.length - expected, expected, ...listed);
    return problems;
  }

  /** Returns what is wrong with a page and those after it. `parameters` are those of the list. */
  checkPages(path: string, pages: Answer[], parameters: Operation["parameters"] = []): string[] {
    const query = queryOf(path);
    const defaults = parameters.find(({ name }) => name === "limit")?.schema.default;
    const limit = Number(query.get("limit") ?? defaults);
    const filters = parameters.filter(({ name }) => query.has(name) && name !== "limit" && name !== "cursor");
    const rest = this.#from(path).filter((pet) =>
      filters.every(({ name }) => `${pet[name]}` === query.get(name)),
    );
    return pages.flatMap((page, index) => {
      const [listed, next] = [petsIn(page), nextPath(page)];
      const expected = rest.slice(index * limit, (index + 1) * limit);
      const following = rest[(index + 1) * limit];
      if (next !== undefined && following !== undefined) this.#starts.set(cursorOf(next), following.id);
      const at = [...listed, ...expected].findIndex(
        (_, each) => !isDeepStrictEqual(listed[each], expected[each]),
      );
      const wrong = `${exactJson(listed[at])} instead of ${exactJson(expected[at])}`;
      return [
        ...(at === -1 ? [] : [`page ${index + 1} from ${path} on has ${wrong}`]),
        ...((next === undefined) === (following === undefined) ? [] : [`its next page is ${next}`]),
      ];
    });
  }

  /** The pets from the first one of a page on. */
  #from(path: string): ExactPet[] {
    const start = this.#starts.get(cursorOf(path)) ?? -(2n ** 63n);
    return this.#all.slice(this.#all.findLastIndex(({ id }) => id < start) + 1);
  }
}

function queryOf(path: string): URLSearchParams {
  return new URL(path, "http://localhost").searchParams;
}

function cursorOf(path: string): string {
  return queryOf(path).get("cursor") ?? "";
}

function petsIn({ status, body }: Answer): ExactPet[] {
  if (status !== 200) throw new Error(`a page has the status ${status}`);
  return parseResponse(body) as ExactPet[];
}

/** The path of the next page. */
export function nextPath({ headers }: Answer): string | undefined {
  return headers.link?.match(/^<https?:\/\/[^/]+([^>]+)>; rel="next"$/)?.[1];
}
