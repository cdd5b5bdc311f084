// The pets that the service must have, in the order of the list. Every page is compared with them, with exact numbers.

import { isDeepStrictEqual } from "node:util";
import type { Operation } from "./document.ts";
import type { Answer } from "./http.ts";
import { exactJson, parseResponse } from "./json.ts";

/** A pet with integers as bigint. */
export type ExactPet = Record<string, unknown> & { id: bigint };

export class Pets {
  readonly all: ExactPet[] = [];
  /** The id of the first pet of each page, by cursor. */
  readonly #starts = new Map([["", -(2n ** 63n)]]);
  /** Only the end of the list is read again. */
  #lastPage = "/v1/pets?limit=20";

  get cursors(): string[] {
    return [...this.#starts.keys()].filter((cursor) => cursor !== "");
  }

  /** Adds a pet that the service has acknowledged. */
  add(pet: ExactPet): void {
    const latest = this.all.at(-1);
    this.all.push(pet);
    if (latest && pet.id <= latest.id) throw new Error(`the id ${pet.id} was assigned before`);
  }

  /** Reads the end of the list, or at first all of it. Without a check, what it has is right. */
  async readEnd(read: (path: string) => Promise<Answer>, isChecked: boolean): Promise<void> {
    const { length: known } = this.#from(this.#lastPage);
    const listed: ExactPet[] = [];
    for (let path: string | undefined = this.#lastPage; path !== undefined; ) {
      const answer = await read(path);
      if (isChecked) this.checkPages(path, [answer]);
      const page = petsIn(answer);
      if (page[0] !== undefined) this.#starts.set(cursorOf(path), page[0].id);
      listed.push(...page);
      this.#lastPage = path;
      path = nextPath(answer);
    }
    this.all.splice(this.all.length - known, known, ...listed);
  }

  /** Checks a page and those after it. `parameters` are those of the list. */
  checkPages(path: string, pages: Answer[], parameters: Operation["parameters"] = []): void {
    const query = new URL(path, "http://localhost").searchParams;
    const defaults = parameters.find(({ name }) => name === "limit")?.schema.default;
    const limit = Number(query.get("limit") ?? defaults);
    const filters = parameters.filter(({ name }) => query.has(name) && name !== "limit" && name !== "cursor");
    const rest = this.#from(path).filter((pet) =>
      filters.every(({ name }) => `${pet[name]}` === query.get(name)),
    );
    for (const [index, page] of pages.entries()) {
      const [listed, next] = [petsIn(page), nextPath(page)];
      const expected = rest.slice(index * limit, (index + 1) * limit);
      const longer = listed.length < expected.length ? expected : listed;
      const at = longer.findIndex((_, each) => !isDeepStrictEqual(listed[each], expected[each]));
      const wrong = `${exactJson(listed[at])} instead of ${exactJson(expected[at])}`;
      if (at !== -1) throw new Error(`page ${index + 1} from ${path} on has ${wrong}`);
      const following = rest[(index + 1) * limit];
      if ((next === undefined) !== (following === undefined)) throw new Error(`its next page is ${next}`);
      if (next !== undefined && following !== undefined) this.#starts.set(cursorOf(next), following.id);
    }
  }

  /** The pets from the first one of a page on. */
  #from(path: string): ExactPet[] {
    const start = this.#starts.get(cursorOf(path)) ?? -(2n ** 63n);
    return this.all.slice(this.all.findLastIndex(({ id }) => id < start) + 1);
  }
}

function cursorOf(path: string): string {
  return new URL(path, "http://localhost").searchParams.get("cursor") ?? "";
}

function petsIn({ status, body }: Answer): ExactPet[] {
  if (status !== 200) throw new Error(`a page has the status ${status}`);
  return parseResponse(body) as ExactPet[];
}

/** The path of the next page. */
export function nextPath({ headers }: Answer): string | undefined {
  return headers.link?.match(/^<https?:\/\/[^/]+([^>]+)>; rel="next"$/)?.[1];
}
