// Records of POSTs and their results. A pet's name has the kind of its POST.

/** With an Idempotency-Key, without one, and with one and sent twice at the same time. */
export const KINDS = ["idempotent", "plain", "twice at once"] as const;

export type Kind = (typeof KINDS)[number];

export interface ListedPet {
  id: number;
  name: string;
}

const PREFIX = "crash-";

/** Whether the POST of this pet has an Idempotency-Key. */
export function isIdempotent(name: string): boolean {
  return !name.startsWith(`${PREFIX}plain`);
}

export class Writes {
  /** The ids in the responses, by name. */
  readonly #ids = new Map<string, Set<number>>();
  readonly #interrupted = new Set<string>();
  /** Pets that were acknowledged at a retry. */
  readonly #retried = new Set<string>();
  #names = 0;

  /** A unique name. */
  newName(kind: Kind): string {
    this.#names += 1;
    return `${PREFIX}${kind} ${this.#names}`.replaceAll(" ", "-");
  }

  /** Records a response with the pet's id. */
  acknowledge(name: string, id: number): void {
    if (this.#interrupted.has(name)) this.#retried.add(name);
    this.#ids.set(name, (this.#ids.get(name) ?? new Set()).add(id));
  }

  /** Records a POST without a response. */
  interrupted(name: string): void {
    this.#interrupted.add(name);
  }

  /** The number of pets acknowledged without a retry. */
  get acknowledged(): number {
    return this.#ids.size - this.#retried.size;
  }

  /** Interrupted POSTs that are safe to retry. */
  get toRetry(): string[] {
    return [...this.#interrupted].filter(isIdempotent);
  }

  /** The results of all POSTs, given the pets in the list. */
  figures(pets: ListedPet[]) {
    const ours = pets.filter(({ name }) => name.startsWith(PREFIX));
    const listed = Map.groupBy(ours, ({ name }) => name);
    const isListed = (name: string, id: number) => listed.get(name)?.some((pet) => pet.id === id) ?? false;
    const acknowledgedIds = [...this.#ids.values()].flatMap((ids) => [...ids]);
    const plain = [...this.#interrupted].filter((name) => !isIdempotent(name));
    return {
      acknowledged: this.acknowledged,
      lost: [...this.#ids].filter(([name, ids]) => ![...ids].some((id) => isListed(name, id))).length,
      interrupted: this.#interrupted.size,
      retried: this.#retried.size,
      /** POSTs without an Idempotency-Key are not retried. They may be stored. */
      plainInterrupted: plain.length,
      plainStored: plain.filter((name) => listed.has(name)).length,
      pets: ours.length,
      /** Names that are in the list more than once, or got different ids. */
      duplicated: [
        ...[...listed.values()].filter((each) => each.length > 1),
        ...[...this.#ids.values()].filter((ids) => ids.size > 1),
      ].length,
      repeatedIds:
        acknowledgedIds.length -
        new Set(acknowledgedIds).size +
        pets.length -
        new Set(pets.map(({ id }) => id)).size,
      unexpected: [...listed.keys()].filter((name) => !this.#ids.has(name) && !this.#interrupted.has(name))
        .length,
    };
  }
}
