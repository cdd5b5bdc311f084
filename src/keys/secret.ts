// The format of an API key: `pet_`, 32 random base62 characters (190 bits), and 6 characters for the CRC32 of all that. The
// checksum is not for security: it rejects mistyped keys without a look-up, and secret scanners recognise leaked keys by it. Only
// the SHA-256 of a key is stored; with 190 bits of entropy, a slow hash or a salt would add nothing.

import { crc32 } from "node:zlib";
import { BASE62, randomBase62 } from "../lib/base62.ts";

const PREFIX = "pet_";
const RANDOM_LENGTH = 32;
/** 62^6 is more than 2^32. */
const CHECKSUM_LENGTH = 6;
const FORMAT = new RegExp(`^${PREFIX}[0-9A-Za-z]{${RANDOM_LENGTH + CHECKSUM_LENGTH}}$`);

/** A key, or most of one. */
const LOOKS_LIKE_KEY = new RegExp(`${PREFIX}[0-9A-Za-z]{20,}`, "g");

export function newSecret(): string {
  return withChecksum(PREFIX + randomBase62(RANDOM_LENGTH));
}

export function isWellFormedSecret(text: string): boolean {
  return FORMAT.test(text) && withChecksum(text.slice(0, -CHECKSUM_LENGTH)) === text;
}

/** Redacts everything that looks like a key, for output and logs. */
export function withoutSecrets(text: string): string {
  return text.replace(LOOKS_LIKE_KEY, `${PREFIX}…`);
}

/** Appends the CRC32 in base62, most significant digit first, padded with zeros. */
export function withChecksum(body: string): string {
  let rest = crc32(body);
  let digits = "";
  for (let digit = 0; digit < CHECKSUM_LENGTH; digit += 1) {
    digits = BASE62[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return body + digits;
}
