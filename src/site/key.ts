// The API key that somebody has typed in, kept for as long as its tab is open and seen by no other tab: sessionStorage.

const NAME = "petstore-api-key";

/** The key of this tab, or an empty string. */
export function storedKey(): string {
  return sessionStorage.getItem(NAME) ?? "";
}

/** Keeps a key for this tab; an empty one is forgotten. Keys are pasted, so space around one is no part of it. */
export function storeKey(key: string): void {
  if (key.trim() === "") sessionStorage.removeItem(NAME);
  else sessionStorage.setItem(NAME, key.trim());
}

/** Whether a header can carry this text: browsers refuse to send what is not ASCII, and say nothing of it. */
export function canBeSent(key: string): boolean {
  return /^[\x20-\x7e]*$/.test(key);
}

export const NO_KEY = "This can't be a key: a key is pet_ and 38 letters and digits.";

/** What is plainly wrong with a key, before anybody is asked; undefined if nothing is. */
export function problemWithKey(key: string): string | undefined {
  if (key === "") return "There is no key yet: paste one.";
  return /^pet_[0-9A-Za-z]{38}$/.test(key) ? undefined : NO_KEY;
}
