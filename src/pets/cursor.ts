// The cursor of a page: base64url of 13 bytes, which are the version, the id of the page's first pet, and the CRC32 of both. The
// checksum detects mistyped cursors. There is no signature: a forged cursor gives a page that the client may read anyway.

import { Buffer } from "node:buffer";
import { crc32 } from "node:zlib";

const VERSION = 1;
const ID_OFFSET = 1;
const CHECKSUM_OFFSET = 9;
const CURSOR_BYTES = 13;

export function encodeCursor(firstId: bigint): string {
  const bytes = Buffer.alloc(CURSOR_BYTES);
  bytes.writeUInt8(VERSION);
  bytes.writeBigInt64BE(firstId, ID_OFFSET);
  bytes.writeUInt32BE(crc32(bytes.subarray(0, CHECKSUM_OFFSET)), CHECKSUM_OFFSET);
  return bytes.toString("base64url");
}

/** The id that a cursor holds; undefined if `encodeCursor` did not make it. */
export function decodeCursor(text: string): bigint | undefined {
  const bytes = Buffer.from(text, "base64url");
  if (bytes.length !== CURSOR_BYTES) return undefined;
  // Each id has one cursor, so comparing the texts checks the version, the checksum and the encoding, which Buffer does not.
  const firstId = bytes.readBigInt64BE(ID_OFFSET);
  return encodeCursor(firstId) === text ? firstId : undefined;
}
