// The format of a secret: the id in it, its random part, its checksum, and how it is redacted.

import { expect, it, vi } from "vitest";
import { keyIdOf, newKeyId, newSecret, withChecksum, withoutSecrets } from "../../src/keys/secret.ts";
import { BASE62, randomBase62 } from "../../src/lib/base62.ts";
import fc from "../support/fast-check.ts";

it("a secret is pet_, the characters of its key's id, 32 more and a valid checksum, and names its key", () => {
  const id = newKeyId();
  const [secret, another] = [newSecret(id), newSecret(id)];
  expect(secret).toMatch(new RegExp(`^pet_${id.slice(4)}[0-9A-Za-z]{38}$`));
  expect([keyIdOf(secret), keyIdOf(another)]).toEqual([id, id]);
  expect(another.slice(16, 48)).not.toBe(secret.slice(16, 48));
});

it("the checksum is stable, so that issued keys stay valid", () => {
  // The CRC32 of the first 48 characters, by Python's zlib, is 0x3c5991e8: in base62, 16WMHo.
  expect(keyIdOf("pet_0123456789AB0123456789ABCDEFGHIJKLMNOPQRSTUV16WMHo")).toBe("key_0123456789AB");
});

it("the checksum detects every change of one character", () => {
  fc.assert(
    fc.property(fc.nat({ max: 53 }), fc.constantFrom(...BASE62, "_"), (index, replacement) => {
      const secret = newSecret(newKeyId());
      fc.pre(secret[index] !== replacement);
      const changed = secret.slice(0, index) + replacement + secret.slice(index + 1);
      expect(keyIdOf(changed)).toBeUndefined();
    }),
  );
});

it.each([
  ["a character less", `pet_${randomBase62(43)}`],
  ["a character more", `pet_${randomBase62(45)}`],
  ["a character before it", `xpet_${randomBase62(44)}`],
  ["another prefix", `pat_${randomBase62(44)}`],
  ["another character", `pet_${randomBase62(43)}-`],
  ["nothing but a checksum", ""],
])("a secret with %s is malformed, despite a valid checksum", (_, body) => {
  expect(keyIdOf(withChecksum(body))).toBeUndefined();
});

it("keys are redacted from text, also if they are incomplete", () => {
  const secret = newSecret(newKeyId());
  const text = `${secret} and ${secret.slice(0, 24)}, but not ${secret.slice(0, 23)}.`;
  expect(withoutSecrets(text)).toMatch(/^pet_… and pet_…, but not pet_[0-9A-Za-z]{19}\.$/);
});

it("a key without its prefix is redacted, and nothing else of its length", () => {
  const [bare, other] = [newSecret(newKeyId()).slice(4), "0".repeat(50)];
  expect(withoutSecrets(`${bare} x-${bare}_x ${other} ${bare}0`)).toBe(`… x-…_x ${other} ${bare}0`);
});

it("each character is as probable as the others", () => {
  const bytes = Uint8Array.from({ length: 512 }, (_, index) => index);
  vi.spyOn(crypto, "getRandomValues").mockReturnValueOnce(bytes);
  // The last eight of 256 bytes are left out: they would favour the first eight characters.
  const counts = Map.groupBy(randomBase62(496), (character) => character);
  expect([...counts.values()].map(({ length }) => length)).toEqual(Array(62).fill(8));
});
