// What clients know of the pets that they sent. Each name is sent in one POST, or in several with the same Idempotency-Key, so the
// list has each name at most once.

import { isDeepStrictEqual } from "node:util";
import { type NewPet, type Pet, parse, stringify } from "../../../client/src/index.ts";
import type { Answer, Expect } from "./ledger.ts";

/** The beginning of the names of pets from clients. Other pets have other names. */
export const NAME_PREFIX = "Zoë 🐈 ";

export class Pets {
  readonly #expect: Expect;
  /** By name: the different bodies of 201 responses. */
  readonly acknowledged = new Map<string, Set<string>>();
  /** The names of POSTs without a response: these pets may be stored. */
  readonly interrupted = new Set<string>();

  constructor(expect: Expect) {
    this.#expect = expect;
  }

  /** Records the 201 response to a POST: it must have the sent fields, an id, and its path in Location. */
  acknowledge(sent: NewPet, { body, headers }: Answer): void {
    const { id, ...pet } = parse(body) as Pet;
    const isAsSent = isDeepStrictEqual(pet, sent) && headers.get("Location") === `/v1/pets/${id}`;
    this.#expect(isAsSent, "a created pet differs from the request", `${body}, not ${stringify(sent)}`);
    const bodies = this.acknowledged.get(sent.name) ?? new Set();
    this.acknowledged.set(sent.name, bodies.add(body));
  }

  /** Checks the whole list, which has `others` more pets. */
  check(listed: readonly Pet[], others: number): void {
    const ids = new Map(listed.map((pet) => [pet.id, pet]));
    this.#expect(ids.size === listed.length, "an id is listed twice", `${listed.length - ids.size} pets`);
    for (const body of [...this.acknowledged.values()].flatMap((bodies) => [...bodies])) {
      const pet = parse(body) as Pet;
      this.#expect(isDeepStrictEqual(ids.get(pet.id), pet), "an acknowledged pet is lost", body);
    }
    const ours = listed.map(({ name }) => name).filter((name) => name.startsWith(NAME_PREFIX));
    for (const [name, { length }] of Map.groupBy(ours, (each) => each)) {
      this.#expect(length === 1, "a pet is stored twice", name);
      const isKnown = this.acknowledged.has(name) || this.interrupted.has(name);
      this.#expect(isKnown, "a pet is stored whose POST was refused", name);
    }
    const found = listed.length - ours.length;
    this.#expect(found === others, "other pets are lost", `${found} of ${others}`);
  }
}
