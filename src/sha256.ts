// Hashes, as texts. Of the two that Node and workerd have in common this is the one that nothing has to wait for.

import { hash } from "node:crypto";

/** The SHA-256 of a text's UTF-8, in hexadecimal. */
export function sha256(text: string): string {
  return hash("sha256", text, "hex");
}
