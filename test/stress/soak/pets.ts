// Records of acknowledged pets. At the end each must be in the list once, with exact numbers.

import type { Answer } from "./connections.ts";
import type { Problems } from "./problems.ts";

export class Pets {
  readonly #problems: Problems;
  /** By the decimal id, because JavaScript numbers would round. */
  readonly #created = new Map<string, string>();
  readonly #ids: string[] = [];

  constructor(problems: Problems) {
    this.#problems = problems;
  }

  get size(): number {
    return this.#created.size;
  }

  /** Records the response to a POST: it must have the sent fields, an id, and its path in Location. */
  add(sent: string, { body: petJson, headers }: Answer): void {
    const { id = "", ...pet } = parseExact(petJson);
    const isAsSent = JSON.stringify(pet) === JSON.stringify(parseExact(sent));
    const isThere = headers.location === `/v1/pets/${id}`;
    this.#problems.expect(
      isAsSent && isThere,
      "a created pet differs from the request",
      `${petJson}, not ${sent}`,
    );
    const known = this.#created.get(id);
    this.#problems.expect(
      known === undefined || known === petJson,
      "an id was assigned twice",
      `${known} ${petJson}`,
    );
    if (known === undefined) this.#ids.push(id);
    this.#created.set(id, petJson);
  }

  /** A pet, a different one for each `turn`. */
  any(turn: number): { id: string; petJson: string } | undefined {
    const id = this.#ids[(turn * 7919) % this.#ids.length];
    return id === undefined ? undefined : { id, petJson: this.#created.get(id) ?? "" };
  }

  /** Checks all pages of the list, which has `others` more pets, against the records. */
  check(pages: string[], others: number): void {
    const listed = pages.flatMap((page) => parseExact(page) as unknown as Record<string, string>[]);
    const ids = new Map(listed.map((pet) => [pet.id ?? "", pet]));
    this.#problems.expect(
      ids.size === listed.length,
      "a pet is listed twice",
      `${listed.length - ids.size} pets`,
    );
    const all = others + this.#created.size;
    this.#problems.expect(
      listed.length === all,
      "the list has a wrong number of pets",
      `${listed.length}, not ${all}`,
    );
    for (const [id, petJson] of this.#created) {
      const found = JSON.stringify(ids.get(id));
      const isSame = found === JSON.stringify(parseExact(petJson));
      this.#problems.expect(isSame, "a created pet is not in the list", `${petJson}; found ${found}`);
    }
  }
}

/** Parses JSON, with numbers as their source text. */
function parseExact(json: string): Record<string, string> {
  return JSON.parse(json, (_key, value, { source }) =>
    typeof value === "number" ? (source ?? "") : value,
  ) as Record<string, string>;
}
