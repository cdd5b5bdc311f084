// The format of a secret: the prefix, the key's id, random base62 characters (190 bits), and a CRC32 of all that in base62. So it names
// its key's object. The checksum is not for security: it rejects mistyped secrets without a call, and
// secret scanners recognise leaked ones by it. Only the SHA-256 of a secret is stored; with 190 bits of entropy, a slow hash or a
// salt would add nothing.

import { crc32 } from "node:zlib";
import { BASE62, randomBase62 } from "../lib/base62.ts";
import { sha256 } from "../lib/sha256.ts";
import {
  CHECKSUM_LENGTH,
  ID_LENGTH,
  RANDOM_LENGTH,
  SECRET_FORMAT,
  SECRET_LENGTH,
  SECRET_PREFIX,
} from "./secret-format.ts";

export const ID_PREFIX = "key_";

/** A secret, or most of one. */
const LOOKS_LIKE_SECRET = new RegExp(`${SECRET_PREFIX}[0-9A-Za-z]{20,}`, "g");

/** As long as a secret without its prefix, which may get lost where "_" separates words. */
const LONG_AS_SECRET = new RegExp(`(?<![0-9A-Za-z])[0-9A-Za-z]{${SECRET_LENGTH}}(?![0-9A-Za-z])`, "g");

export function newKeyId(): string {
  return ID_PREFIX + randomBase62(ID_LENGTH);
}

export function newSecret(keyId: string): string {
  return withChecksum(SECRET_PREFIX + keyId.slice(ID_PREFIX.length) + randomBase62(RANDOM_LENGTH));
}

/** The id of the key that a secret names; undefined if the text is not a secret. */
export function keyIdOf(text: string): string | undefined {
  if (!SECRET_FORMAT.test(text) || withChecksum(text.slice(0, -CHECKSUM_LENGTH)) !== text) return undefined;
  return ID_PREFIX + text.slice(SECRET_PREFIX.length, SECRET_PREFIX.length + ID_LENGTH);
}

/** What stands for a secret: the id of its key, and its SHA-256. Undefined if the text is not a secret. */
export function credentialOf(text: string): { id: string; hash: string } | undefined {
  const id = keyIdOf(text);
  return id === undefined ? undefined : { id, hash: sha256(text) };
}

/** The id of the key whose secret is in the text; undefined if there is none. */
export function keyIdIn(text: string): string | undefined {
  const found = text.match(LOOKS_LIKE_SECRET) ?? [];
  return found.map((each) => keyIdOf(each.slice(0, SECRET_PREFIX.length + SECRET_LENGTH))).find(Boolean);
}

/** Redacts everything that looks like a secret, and what is one without its prefix, for output and logs. */
export function withoutSecrets(text: string): string {
  const isSecret = (word: string) => keyIdOf(SECRET_PREFIX + word) !== undefined;
  return text
    .replace(LOOKS_LIKE_SECRET, `${SECRET_PREFIX}…`)
    .replace(LONG_AS_SECRET, (word) => (isSecret(word) ? "…" : word));
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
