// The API key that a user has entered.

import { SECRET_FORMAT, SECRET_LENGTH, SECRET_PREFIX } from "../keys/secret-format.ts";
import { SessionText } from "./session-text.ts";

const key = new SessionText("petstore-api-key");

/** The key of this tab, or an empty string. */
export function storedKey(): string {
  return key.read();
}

/** Stores a trimmed key for this tab. An empty string deletes it. */
export function storeKey(text: string): void {
  key.write(text);
}

export const MALFORMED_KEY = `This is not an API key: keys are ${SECRET_PREFIX} followed by ${SECRET_LENGTH} letters and digits.`;

/** What is wrong with the form of a key. */
export function problemWithKey(key: string): string | undefined {
  if (key === "") return "Enter an API key.";
  return SECRET_FORMAT.test(key) ? undefined : MALFORMED_KEY;
}
