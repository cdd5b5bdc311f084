// The service's cursors, for Node before version 25, which has no Uint8Array.toBase64.

import { encodeCursor } from "../../src/pets/cursor.ts";

Uint8Array.prototype.toBase64 ??= function toBase64(this: Uint8Array): string {
  return Buffer.from(this).toString("base64url");
};

/** The path of the page that begins with the pet `firstId`. */
export function pagePath(firstId: number, limit: number): string {
  return `/v1/pets?limit=${limit}&cursor=${encodeCursor(BigInt(firstId))}`;
}
