// The form of an API key: `pet_`, 32 random base62 characters (190 bits), and the CRC32 of all that as 6 more.
// The checksum is no protection: it tells a mistyped or invented key from a real one without asking anybody,
// and lets scanners of source code recognise a leaked one. Only the SHA-256 of a key is ever stored; with
// 190 bits to guess, a slow hash or a salt would add nothing.

import { crc32 } from "node:zlib";
import { BASE62, randomBase62 } from "../lib/base62.ts";

const PREFIX = "pet_";
const RANDOM_LENGTH = 32;
/** 62^6 is more than 2^32. */
const CHECKSUM_LENGTH = 6;
const FORM = new RegExp(`^${PREFIX}[0-9A-Za-z]{${RANDOM_LENGTH + CHECKSUM_LENGTH}}$`);

/** Anything that could be a key or most of one. */
const LOOKS_LIKE_KEY = new RegExp(`${PREFIX}[0-9A-Za-z]{20,}`, "g");

/** A new API key. It exists nowhere else: whoever calls this shows it once and keeps its hash. */
export function newSecret(): string {
  return withChecksum(PREFIX + randomBase62(RANDOM_LENGTH));
}

/** The text with the checksum that makes it well-formed, if all else is. */
export function withChecksum(body: string): string {
  return body + checksum(body);
}

/** Whether a text has the form of a key and the right checksum. */
export function isWellFormedSecret(text: string): boolean {
  return FORM.test(text) && withChecksum(text.slice(0, -CHECKSUM_LENGTH)) === text;
}

/** A text without what looks like a key, mistyped or not: for all that is printed or logged. */
export function withoutSecrets(text: string): string {
  return text.replace(LOOKS_LIKE_KEY, `${PREFIX}…`);
}

/** CRC32 in base62, the most significant digit first, padded with zeros. */
function checksum(body: string): string {
  let rest = crc32(body);
  let digits = "";
  for (let digit = 0; digit < CHECKSUM_LENGTH; digit += 1) {
    digits = BASE62[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}
