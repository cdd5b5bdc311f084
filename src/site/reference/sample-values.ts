// The reader's address and key, in the form in which samples take them.

import { problemWithKey } from "../key.ts";

/** The origin that an address is, with HTTP or HTTPS. Other characters could end a string in a sample. */
export function originOf(address: string): string | undefined {
  if (!URL.canParse(address)) return undefined;
  const { origin, href } = new URL(address);
  return /^https?:\/\/[\w.:[\]-]+$/.test(origin) && href === `${origin}/` ? origin : undefined;
}

/** A key as it may be shown, or an empty string for what is not a key. */
export function maskedKey(key: string): string {
  return problemWithKey(key) === undefined ? `pet_…${key.slice(-4)}` : "";
}
