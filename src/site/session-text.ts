// A text that the user has entered or chosen, in the sessionStorage of the tab. Where that stores nothing, it lasts as long as the page.

export class SessionText {
  readonly #name: string;
  /** What could not be stored. */
  #ofPage: string | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  /** The text, or an empty string. */
  read(): string {
    try {
      return this.#ofPage ?? sessionStorage.getItem(this.#name) ?? "";
    } catch {
      return "";
    }
  }

  /** Stores a trimmed text. */
  write(text: string): void {
    this.#ofPage = text.trim();
    try {
      sessionStorage.setItem(this.#name, this.#ofPage);
      this.#ofPage = undefined;
    } catch {
      // Denied, or full.
    }
  }
}
