// Failed checks: the count and the first case of each kind.

export class Problems {
  readonly #found = new Map<string, { times: number; first: string }>();

  /** `kind` is a sentence, `detail` describes the case. */
  add(kind: string, detail: string): void {
    const known = this.#found.get(kind);
    this.#found.set(kind, { times: (known?.times ?? 0) + 1, first: known?.first ?? detail });
  }

  expect(holds: boolean, kind: string, detail: string): void {
    if (!holds) this.add(kind, detail);
  }

  /** One line for each kind. */
  get sentences(): string[] {
    return Array.from(this.#found, ([kind, { times, first }]) => `${kind} (${times} times, first: ${first})`);
  }
}
