// Records of acknowledged pets, compared with the list: it must have every acknowledged pet, with exact numbers, and no other.
// Only the end of the list is read, so that the time does not grow with the number of pets.

import { isDeepStrictEqual } from "node:util";
import { type Answer, textOf } from "./http.ts";

/** Small pages, so that most reads are short. */
const PAGE = "/v1/pets?limit=20";

/** A pet with integers as bigint. */
export type ExactPet = Record<string, unknown>;

/** Reads a path of the service with a valid key. */
export type Read = (path: string) => Promise<Answer>;

export class PetRecords {
  /** The page with the latest pets. */
  #lastPage = PAGE;
  /** Acknowledged pets that were not seen in the list yet, or are on the last page. */
  readonly #recent = new Map<string, ExactPet>();
  readonly #ids = new Set<string>();
  readonly #seen = new Set<string>();
  readonly #inFlight = new Set<Promise<unknown>>();

  /** Records the initial pets. */
  async start(read: Read): Promise<ExactPet[]> {
    const all: ExactPet[] = [];
    for (let path: string | undefined = "/v1/pets?limit=100"; path !== undefined; ) {
      const page = await read(path);
      all.push(...(parseExact(page) as ExactPet[]));
      path = nextPath(page);
    }
    for (const pet of all) {
      this.#ids.add(`${pet.id}`);
      this.#recent.set(`${pet.id}`, pet);
    }
    await this.problems(read);
    return all;
  }

  /** Runs a request that may store pets. Until it ends, the list may have pets that are not acknowledged yet. */
  async storing<Result>(run: () => Promise<Result>): Promise<Result> {
    const running = run();
    const settled = running.catch(() => {});
    this.#inFlight.add(settled);
    try {
      return await running;
    } finally {
      this.#inFlight.delete(settled);
    }
  }

  /** Records an acknowledged pet. Returns problems with its id. */
  acknowledge(pet: ExactPet): string[] {
    const id = `${pet.id}`;
    if (this.#ids.has(id)) return [`the id ${id} was assigned before`];
    this.#ids.add(id);
    this.#recent.set(id, pet);
    return [];
  }

  /** Reads the end of the list. Returns unexpected pets, and that `expected` is missing. */
  async problems(read: Read, expected?: ExactPet): Promise<string[]> {
    const shown: ExactPet[] = [];
    for (let path: string | undefined = this.#lastPage; path !== undefined; ) {
      const answer = await read(path);
      if (answer.status !== 200) return [`GET ${path} got ${answer.status}`];
      const pets = parseExact(answer) as ExactPet[];
      shown.push(...pets);
      for (const { id } of pets) this.#seen.add(`${id}`);
      path = nextPath(answer);
      if (path !== undefined) this.#lastPage = path;
    }
    await Promise.all(this.#inFlight);
    const problems: string[] = [];
    // Reports each problem once, not again after the next request.
    for (const pet of shown) {
      const id = `${pet.id}`;
      const recorded = this.#recent.get(id);
      if (recorded !== undefined && !isDeepStrictEqual(pet, recorded)) {
        problems.push(`the list has ${preview(pet)} instead of ${preview(recorded)}`);
        this.#recent.set(id, pet);
      }
      if (!this.#ids.has(id)) {
        problems.push(`the list has a pet that was never acknowledged: ${preview(pet)}`);
        this.#ids.add(id);
      }
    }
    if (expected !== undefined && !this.#seen.has(`${expected.id}`))
      problems.push(`the list does not have ${preview(expected)}`);
    this.#forget(shown);
    return problems;
  }

  /** Removes pets that were seen and are before the last page, because they are not read again. */
  #forget(shown: ExactPet[]): void {
    const last = new Set(shown.slice(-20).map(({ id }) => `${id}`));
    for (const id of this.#recent.keys()) {
      if (!this.#seen.has(id) || last.has(id)) continue;
      this.#recent.delete(id);
    }
  }
}

/** Parses JSON with integers as bigint. Any other number becomes a text that equals no expected value. */
export function parseExact(source: Answer | string): unknown {
  const text = typeof source === "string" ? source : textOf(source.body);
  return JSON.parse(text, (_key, value, { source: number = "" }) =>
    typeof value !== "number"
      ? value
      : /^(0|-?[1-9]\d*)$/.test(number)
        ? BigInt(number)
        : `the number ${number}`,
  );
}

/** The path of the next page. */
export function nextPath({ headers }: Answer): string | undefined {
  const url = headers.link?.match(/^<([^>]+)>; rel="next"$/)?.[1];
  if (url === undefined) return undefined;
  const { pathname, search } = new URL(url);
  return pathname + search;
}

function preview(pet: ExactPet): string {
  return JSON.stringify(pet, (_key, value) => (typeof value === "bigint" ? `${value}` : value)).slice(0, 400);
}
