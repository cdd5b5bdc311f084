// What clients know of the pets that they sent. Each name is sent in one POST, or in several with the same Idempotency-Key, so the
// list has each name at most once.

import type { Answer } from "./ledger.ts";
import type { Problems } from "./problems.ts";

/** The beginning of the names of pets from clients. Other pets have other names. */
export const NAME_PREFIX = "Zoë 🐈 ";

type Pet = Record<string, unknown>;

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
  acknowledge(sent: string, { body, headers }: Answer): void {
    const { id, ...pet } = parseExact(body);
    const isAsSent = same(pet, parseExact(sent)) && headers.get("Location") === `/v1/pets/${id}`;
    this.#problems.expect(isAsSent, "a created pet differs from the request", `${body}, not ${sent}`);
    const name = `${parseExact(sent).name}`;
    const bodies = this.#acknowledged.get(name) ?? new Set();
    if (bodies.size === 0 && this.#interrupted.has(name)) this.retried += 1;
    this.#acknowledged.set(name, bodies.add(body));
  }

  /** Records a POST without a response: the pet may be stored. */
  interrupt(sent: string): void {
    this.#interrupted.add(`${parseExact(sent).name}`);
  }

  get acknowledged(): number {
    return this.#acknowledged.size;
  }

  get interrupted(): number {
    return this.#interrupted.size;
  }

  /** Checks all pages of the list, which has `others` more pets. */
  check(pages: readonly string[], others: number): void {
    const problems = this.#problems;
    const listed = pages.flatMap((page) => parseExact(page) as unknown as Pet[]);
    const ids = new Map(listed.map((pet) => [pet.id, pet]));
    problems.expect(ids.size === listed.length, "an id is listed twice", `${listed.length - ids.size} pets`);
    for (const body of [...this.#acknowledged.values()].flatMap((bodies) => [...bodies])) {
      const found = ids.get(parseExact(body).id);
      const isSame = same(found, parseExact(body));
      problems.expect(isSame, "an acknowledged pet is lost", `${body}; found ${JSON.stringify(found)}`);
    }
    const ours = listed.map(({ name }) => `${name}`).filter((name) => name.startsWith(NAME_PREFIX));
    for (const [name, { length }] of Map.groupBy(ours, (each) => each)) {
      problems.expect(length === 1, "a pet is stored twice", name);
      const isKnown = this.#acknowledged.has(name) || this.#interrupted.has(name);
      problems.expect(isKnown, "a pet is stored whose POST was refused", name);
    }
    const found = listed.length - ours.length;
    problems.expect(found === others, "other pets are lost", `${found} of ${others}`);
  }
}

/** Parses JSON, with numbers as their source text, because JavaScript would round them. */
function parseExact(json: string): Pet {
  return JSON.parse(json, (_key, value, { source }) => (typeof value === "number" ? source : value)) as Pet;
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
