// The cursor of a page: where in the list it begins. Base64url of 13 bytes: the version, the id of the page's
// first pet, and the CRC32 of those, which tells a cursor that was made here from any other text. It is
// neither secret nor signed: whoever forges one gets a page that could be had by walking there.

import { crc32 } from "node:zlib";

const VERSION = 1;
const ID_OFFSET = 1;
const CHECKSUM_OFFSET = 9;
const CURSOR_BYTES = 13;

/** Makes the cursor of the page that begins with the pet `firstId` (int64). */
export function encodeCursor(firstId: bigint): string {
  const bytes = new Uint8Array(CURSOR_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, VERSION);
  view.setBigInt64(ID_OFFSET, firstId);
  view.setUint32(CHECKSUM_OFFSET, crc32(bytes.subarray(0, CHECKSUM_OFFSET)));
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

/** The id that a cursor holds, or undefined if `text` is not a cursor that `encodeCursor` made. */
export function decodeCursor(text: string): bigint | undefined {
  // A valid text decodes to one id, and that id encodes to one text: comparing the texts checks everything.
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
