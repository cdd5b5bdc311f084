// The cursor of a page: base64url of 13 bytes, which are the version, the id of the page's first pet, and the CRC32 of both. The
// checksum detects mistyped cursors. There is no signature: a forged cursor gives a page that the client may read anyway.

import { crc32 } from "node:zlib";

const VERSION = 1;
const ID_OFFSET = 1;
const CHECKSUM_OFFSET = 9;
const CURSOR_BYTES = 13;

export function encodeCursor(firstId: bigint): string {
  const bytes = new Uint8Array(CURSOR_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, VERSION);
  view.setBigInt64(ID_OFFSET, firstId);
  view.setUint32(CHECKSUM_OFFSET, crc32(bytes.subarray(0, CHECKSUM_OFFSET)));
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

/** The id that a cursor holds; undefined if `encodeCursor` did not make it. */
export function decodeCursor(text: string): bigint | undefined {
  // Each id has one cursor, so comparing the texts checks the version, the checksum and the encoding.
  const bytes = fromBase64url(text);
  if (bytes?.length !== CURSOR_BYTES) return undefined;
  const firstId = new DataView(bytes.buffer).getBigInt64(ID_OFFSET);
  return encodeCursor(firstId) === text ? firstId : undefined;
}

function fromBase64url(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.fromBase64(text, { alphabet: "base64url" });
  } catch {
    return undefined;
  }
}
