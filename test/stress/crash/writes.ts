// The pets that were asked for, what came of it, and what should have. A pet's name says of what kind its creation was.

/** With an Idempotency-Key, without one, and with one, sent twice at the same time. */
export const KINDS = ["named", "bare", "twice at once"] as const;

export type Kind = (typeof KINDS)[number];

export interface ListedPet {
  id: number;
  name: string;
}

const PREFIX = "crash-";

/** Whether the pet of this name is asked for with an Idempotency-Key. */
export function isNamed(name: string): boolean {
  return !name.startsWith(`${PREFIX}bare`);
}

export class Writes {
  /** The ids that the answers gave each name. */
  readonly #ids = new Map<string, Set<number>>();
  readonly #cutOff = new Set<string>();
  /** Pets that were acknowledged when they were asked for once more. */
  readonly #sentAgain = new Set<string>();
  #names = 0;

  /** A name that no other pet has. */
  newName(kind: Kind): string {
    this.#names += 1;
    return `${PREFIX}${kind} ${this.#names}`.replaceAll(" ", "-");
  }

  /** The service has answered that the pet is there. */
  acknowledge(name: string, id: number): void {
    if (this.#cutOff.has(name)) this.#sentAgain.add(name);
    this.#ids.set(name, (this.#ids.get(name) ?? new Set()).add(id));
  }

  /** The service has not answered. */
  cutOff(name: string): void {
    this.#cutOff.add(name);
  }

  /** How many were acknowledged at once. */
  get acknowledged(): number {
    return this.#ids.size - this.#sentAgain.size;
  }

  /** What was not answered, and may be asked for again without harm. */
  get toBeSentAgain(): string[] {
    return [...this.#cutOff].filter(isNamed);
  }

  /** What became of all writes, if these are the pets that there are. */
  figures(pets: ListedPet[]) {
    const ours = pets.filter(({ name }) => name.startsWith(PREFIX));
    const listed = Map.groupBy(ours, ({ name }) => name);
    const isListed = (name: string, id: number) => listed.get(name)?.some((pet) => pet.id === id) ?? false;
    const acknowledgedIds = [...this.#ids.values()].flatMap((ids) => [...ids]);
    const bare = [...this.#cutOff].filter((name) => !isNamed(name));
    return {
      acknowledged: this.acknowledged,
      lost: [...this.#ids].filter(([name, ids]) => ![...ids].some((id) => isListed(name, id))).length,
      cutOff: this.#cutOff.size,
      sentAgain: this.#sentAgain.size,
      /** Without an Idempotency-Key nothing is asked for again; a pet may be there all the same. */
      bareCutOff: bare.length,
      bareThere: bare.filter((name) => listed.has(name)).length,
      pets: ours.length,
      /** Pets that are there more than once, or that two answers gave different ids. */
      madeTwice: [
        ...[...listed.values()].filter((each) => each.length > 1),
        ...[...this.#ids.values()].filter((ids) => ids.size > 1),
      ].length,
      idsGivenTwice:
        acknowledgedIds.length -
        new Set(acknowledgedIds).size +
        pets.length -
        new Set(pets.map(({ id }) => id)).size,
      unknown: [...listed.keys()].filter((name) => !this.#ids.has(name) && !this.#cutOff.has(name)).length,
    };
  }
}
