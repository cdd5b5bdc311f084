// What clients know of the pets that they sent. Each name is sent in one POST, or in several with the same Idempotency-Key, so the
// list has each name at most once.

import { isDeepStrictEqual } from "node:util";
import { type NewPet, type Pet, parse, stringify } from "../../../client/src/index.ts";
import type { Answer } from "./ledger.ts";
import type { Problems } from "./problems.ts";

/** The beginning of the names of pets from clients. Other pets have other names. */
export const NAME_PREFIX = "Zoë 🐈 ";

export class Pets {
  readonly #problems: Problems;
  /** By name: the different bodies of 201 responses. */
  readonly #acknowledged = new Map<string, Set<string>>();
  readonly #interrupted = new Set<string>();
  /** Interrupted POSTs that were acknowledged after a retry. */
  retried = 0;

  constructor(problems: Problems) {
    this.#problems = problems;
  }

  /** Records the 201 response to a POST: it must have the sent fields, an id, and its path in Location. */
  acknowledge(sent: NewPet, { body, headers }: Answer): void {
    const { id, ...pet } = parse(body) as Pet;
    const isAsSent = isDeepStrictEqual(pet, sent) && headers.get("Location") === `/v1/pets/${id}`;
    const detail = `${body}, not ${stringify(sent)}`;
    this.#problems.expect(isAsSent, "a created pet differs from the request", detail);
    const { name } = sent;
    const bodies = this.#acknowledged.get(name) ?? new Set();
    if (bodies.size === 0 && this.#interrupted.has(name)) this.retried += 1;
    this.#acknowledged.set(name, bodies.add(body));
  }

  /** Records a POST without a response: the pet may be stored. */
  interrupt({ name }: NewPet): void {
    this.#interrupted.add(name);
  }

  get acknowledged(): number {
    return this.#acknowledged.size;
  }

  get interrupted(): number {
    return this.#interrupted.size;
  }

  /** Checks the whole list, which has `others` more pets. */
  check(listed: readonly Pet[], others: number): void {
    const problems = this.#problems;
    const ids = new Map(listed.map((pet) => [pet.id, pet]));
    problems.expect(ids.size === listed.length, "an id is listed twice", `${listed.length - ids.size} pets`);
    for (const body of [...this.#acknowledged.values()].flatMap((bodies) => [...bodies])) {
      const pet = parse(body) as Pet;
      const found = ids.get(pet.id);
      const isSame = isDeepStrictEqual(found, pet);
      problems.expect(isSame, "an acknowledged pet is lost", `${body}; found ${found && stringify(found)}`);
    }
    const ours = listed.map(({ name }) => name).filter((name) => name.startsWith(NAME_PREFIX));
    for (const [name, { length }] of Map.groupBy(ours, (each) => each)) {
      problems.expect(length === 1, "a pet is stored twice", name);
      const isKnown = this.#acknowledged.has(name) || this.#interrupted.has(name);
      problems.expect(isKnown, "a pet is stored whose POST was refused", name);
    }
    const found = listed.length - ours.length;
    problems.expect(found === others, "other pets are lost", `${found} of ${others}`);
  }
}
