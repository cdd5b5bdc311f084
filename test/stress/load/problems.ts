// Failed checks: the count and the first case of each kind.

export class Problems {
  /** By kind. */
  readonly found = new Map<string, { times: number; first: string }>();

  /** `kind` is a sentence, `detail` describes the case. */
  expect(holds: boolean, kind: string, detail: string): void {
    if (holds) return;
    const { times, first } = this.found.get(kind) ?? { times: 0, first: detail };
    this.found.set(kind, { times: times + 1, first });
  }

  /** One line for each kind. */
  get lines(): string[] {
    return Array.from(this.found, ([kind, { times, first }]) => `${kind} (${times} times, first: ${first})`);
  }
}
