// SHA-256 as text, for the Worker and the command line.

import { hash } from "node:crypto";

/** The SHA-256 of a text's UTF-8, in hexadecimal. Unlike Web Crypto, node:crypto is synchronous. */
export function sha256(text: string): string {
  return hash("sha256", text, "hex");
}
