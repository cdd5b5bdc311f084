// What went wrong: how often, and the first case of each kind.

export class Problems {
  readonly #found = new Map<string, { times: number; first: string }>();

  /** `kind` is a sentence, `detail` tells this case from others. */
  add(kind: string, detail: string): void {
    const known = this.#found.get(kind);
    this.#found.set(kind, { times: (known?.times ?? 0) + 1, first: known?.first ?? detail });
  }

  /** Adds it unless all is well. */
  expect(isWell: boolean, kind: string, detail: string): void {
    if (!isWell) this.add(kind, detail);
  }

  /** One sentence for each kind. */
  get sentences(): string[] {
    return Array.from(this.#found, ([kind, { times, first }]) => `${kind}: ${times} ×, first ${first}`);
  }
}
