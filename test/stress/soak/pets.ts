// The pets that were created, as they were acknowledged; in the end each has to be in the list once, digit for digit.

import type { Answer } from "./connections.ts";
import type { Problems } from "./problems.ts";

export class Pets {
  readonly #problems: Problems;
  /** By the id in decimal: JavaScript numbers would round. */
  readonly #created = new Map<string, string>();
  readonly #ids: string[] = [];

  constructor(problems: Problems) {
    this.#problems = problems;
  }

  get size(): number {
    return this.#created.size;
  }

  /** Enters the answer to a creation: what was sent, with an id, and the address of that. */
  add(sent: string, { body: petJson, headers }: Answer): void {
    const { id = "", ...pet } = exactly(petJson);
    const isAsSent = JSON.stringify(pet) === JSON.stringify(exactly(sent));
    const isThere = headers.location === `/v1/pets/${id}`;
    this.#problems.expect(isAsSent && isThere, "a pet is not as it was sent", `${petJson}, not ${sent}`);
    const known = this.#created.get(id);
    this.#problems.expect(
      known === undefined || known === petJson,
      "an id was given twice",
      `${known} ${petJson}`,
    );
    if (known === undefined) this.#ids.push(id);
    this.#created.set(id, petJson);
  }

  /** One of the pets, another one each `turn`. */
  any(turn: number): { id: string; petJson: string } | undefined {
    const id = this.#ids[(turn * 7919) % this.#ids.length];
    return id === undefined ? undefined : { id, petJson: this.#created.get(id) ?? "" };
  }

  /** Holds all pages of the list, in which there are so many other pets, to what was created. */
  check(pages: string[], others: number): void {
    const listed = pages.flatMap((page) => exactly(page) as unknown as Record<string, string>[]);
    const ids = new Map(listed.map((pet) => [pet.id ?? "", pet]));
    this.#problems.expect(
      ids.size === listed.length,
      "a pet is listed twice",
      `${listed.length - ids.size} of them`,
    );
    const all = others + this.#created.size;
    this.#problems.expect(
      listed.length === all,
      "the list has more or fewer pets",
      `${listed.length}, not ${all}`,
    );
    for (const [id, petJson] of this.#created) {
      const found = JSON.stringify(ids.get(id));
      const isSame = found === JSON.stringify(exactly(petJson));
      this.#problems.expect(isSame, "a created pet is not in the list", `${petJson}; there is ${found}`);
    }
  }
}

/** A value in which numbers are the text that they are written as. */
function exactly(json: string): Record<string, string> {
  return JSON.parse(json, (_key, value, { source }) =>
    typeof value === "number" ? (source ?? "") : value,
  ) as Record<string, string>;
}
