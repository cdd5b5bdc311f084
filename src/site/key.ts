// The API key that somebody has typed in, kept for as long as its tab is open: in sessionStorage, which another tab gets a
// copy of only if it is made from this one. Where a browser allows no storage, the key lasts as long as the page.

const NAME = "petstore-api-key";

let keyOfPage = "";

/** The key of this tab, or an empty string. */
export function storedKey(): string {
  try {
    return sessionStorage.getItem(NAME) ?? "";
  } catch {
    return keyOfPage;
  }
}

/** Keeps a key for this tab; an empty one is forgotten. Keys are pasted, so space around one is no part of it. */
export function storeKey(key: string): void {
  keyOfPage = key.trim();
  try {
    if (keyOfPage === "") sessionStorage.removeItem(NAME);
    else sessionStorage.setItem(NAME, keyOfPage);
  } catch {
    // It is kept all the same.
  }
}

/** Whether a header can carry this text: fetch refuses characters of more than one byte as if there were no network. */
export function canBeSent(key: string): boolean {
  return /^[\x20-\x7e\x80-\xff]*$/.test(key);
}

export const NO_KEY = "This can't be a key: a key is pet_ and 38 letters and digits.";

/** What is plainly wrong with a key, before anybody is asked; undefined if nothing is. */
export function problemWithKey(key: string): string | undefined {
  if (key === "") return "There is no key yet: paste one.";
  return /^pet_[0-9A-Za-z]{38}$/.test(key) ? undefined : NO_KEY;
}
