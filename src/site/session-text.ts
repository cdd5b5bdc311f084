// A text that the user has entered or chosen, in the sessionStorage of the tab. Without storage, it lasts as long as the page.

export class SessionText {
  readonly #name: string;
  #ofPage = "";

  constructor(name: string) {
    this.#name = name;
  }

  /** The text, or an empty string. */
  read(): string {
    try {
      return sessionStorage.getItem(this.#name) ?? "";
    } catch {
      return this.#ofPage;
    }
  }

  /** Stores a trimmed text. An empty string deletes it. */
  write(text: string): void {
    this.#ofPage = text.trim();
    try {
      if (this.#ofPage === "") sessionStorage.removeItem(this.#name);
      else sessionStorage.setItem(this.#name, this.#ofPage);
    } catch {
      // #ofPage has it.
    }
  }
}
