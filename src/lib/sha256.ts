// Hashes, as texts, for the Worker and for the command line. Of the two ways that Node and workerd have in common this is the
// one for which nothing has to wait.

import { hash } from "node:crypto";

/** The SHA-256 of a text's UTF-8, in hexadecimal. */
export function sha256(text: string): string {
  return hash("sha256", text, "hex");
}
