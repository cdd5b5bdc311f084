// What the service has said it stored, held to what it shows: every pet that was acknowledged is in the list, digit for
// digit, and nothing else is. It reads the end of the list only, so that it takes no longer when there are many pets.

import { isDeepStrictEqual } from "node:util";
import { type Answer, textOf } from "./http.ts";

/** Few, so that most readings are short. */
const PAGE = "/v1/pets?limit=20";

/** A pet as its JSON says, integers as bigint. */
export type ExactPet = Record<string, unknown>;

/** Reads a path of the service, with a key that may. */
export type Read = (path: string) => Promise<Answer>;

export class PetsLedger {
  /** The page that the latest pets are on. */
  #lastPage = PAGE;
  /** What was acknowledged and was not seen in the list yet, or is on the last page. */
  readonly #recent = new Map<string, ExactPet>();
  readonly #ids = new Set<string>();
  readonly #seen = new Set<string>();
  readonly #inFlight = new Set<Promise<unknown>>();

  /** Notes the pets that are there at the beginning. */
  async start(read: Read): Promise<ExactPet[]> {
    const all: ExactPet[] = [];
    for (let path: string | undefined = "/v1/pets?limit=100"; path !== undefined; ) {
      const page = await read(path);
      all.push(...(exactly(page) as ExactPet[]));
      path = nextPath(page);
    }
    for (const pet of all) {
      this.#ids.add(`${pet.id}`);
      this.#recent.set(`${pet.id}`, pet);
    }
    await this.problems(read);
    return all;
  }

  /** Runs what may store pets: until it is over, pets may be there that nobody has been told of. */
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

  /** Notes a pet that the service says it has stored. Returns what is wrong with its id. */
  acknowledge(pet: ExactPet): string[] {
    const id = `${pet.id}`;
    if (this.#ids.has(id)) return [`the id ${id} was given before`];
    this.#ids.add(id);
    this.#recent.set(id, pet);
    return [];
  }

  /** Reads the end of the list. Returns what is there and should not be; and, if it is not, that `expected` should. */
  async problems(read: Read, expected?: ExactPet): Promise<string[]> {
    const shown: ExactPet[] = [];
    for (let path: string | undefined = this.#lastPage; path !== undefined; ) {
      const answer = await read(path);
      if (answer.status !== 200) return [`GET ${path} was answered with ${answer.status}`];
      const pets = exactly(answer) as ExactPet[];
      shown.push(...pets);
      for (const { id } of pets) this.#seen.add(`${id}`);
      path = nextPath(answer);
      if (path !== undefined) this.#lastPage = path;
    }
    await Promise.all(this.#inFlight);
    const problems: string[] = [];
    // Each is reported once: the next request is not to blame for it.
    for (const pet of shown) {
      const id = `${pet.id}`;
      const told = this.#recent.get(id);
      if (told !== undefined && !isDeepStrictEqual(pet, told)) {
        problems.push(`the list has ${written(pet)}, and not ${written(told)}`);
        this.#recent.set(id, pet);
      }
      if (!this.#ids.has(id)) {
        problems.push(`the list has a pet that was never acknowledged: ${written(pet)}`);
        this.#ids.add(id);
      }
    }
    if (expected !== undefined && !this.#seen.has(`${expected.id}`))
      problems.push(`the list does not have ${written(expected)}`);
    this.#forget(shown);
    return problems;
  }

  /** What was seen, and is not on the last page, does not come again. */
  #forget(shown: ExactPet[]): void {
    const last = new Set(shown.slice(-20).map(({ id }) => `${id}`));
    for (const id of this.#recent.keys()) {
      if (!this.#seen.has(id) || last.has(id)) continue;
      this.#recent.delete(id);
    }
  }
}

/** A JSON text, or the body of an answer, with integers as bigint. Any other number stays text, which equals nothing. */
export function exactly(source: Answer | string): unknown {
  const text = typeof source === "string" ? source : textOf(source.body);
  return JSON.parse(text, (_key, value, { source: number = "" }) =>
    typeof value !== "number"
      ? value
      : /^(0|-?[1-9]\d*)$/.test(number)
        ? BigInt(number)
        : `the number ${number}`,
  );
}

/** Where the next page of a list is. */
export function nextPath({ headers }: Answer): string | undefined {
  const url = headers.link?.match(/^<([^>]+)>; rel="next"$/)?.[1];
  if (url === undefined) return undefined;
  const { pathname, search } = new URL(url);
  return pathname + search;
}

function written(pet: ExactPet): string {
  return JSON.stringify(pet, (_key, value) => (typeof value === "bigint" ? `${value}` : value)).slice(0, 400);
}
