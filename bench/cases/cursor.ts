// The paths of pages, with the service's cursors.

import { encodeCursor } from "../../src/pets/cursor.ts";

/** The path of the page that begins with the pet `firstId`. */
export function pagePath(firstId: number, limit: number): string {
  return `/v1/pets?limit=${limit}&cursor=${encodeCursor(BigInt(firstId))}`;
}
