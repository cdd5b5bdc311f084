// The format of an API key: its random part, its checksum, and how it is redacted.

import fc from "fast-check";
import { expect, it } from "vitest";
import { isWellFormedSecret, newSecret, withChecksum, withoutSecrets } from "../../src/keys/secret.ts";
import { BASE62, randomBase62 } from "../../src/lib/base62.ts";

it("a key is pet_, 32 characters and a valid checksum", () => {
  for (let times = 0; times < 100; times += 1) {
    const secret = newSecret();
    expect(secret).toMatch(/^pet_[0-9A-Za-z]{38}$/);
    expect(isWellFormedSecret(secret)).toBe(true);
  }
});

it("the checksum is stable, so that issued keys stay valid", () => {
  // The CRC32 of the first 36 characters, by another implementation, is 0x5684f9b4: in base62, 1aEZpU.
  expect(isWellFormedSecret("pet_0123456789ABCDEFGHIJKLMNOPQRSTUV1aEZpU")).toBe(true);
});

it("the checksum detects every change of one character", () => {
  fc.assert(
    fc.property(fc.nat({ max: 41 }), fc.constantFrom(...BASE62, "_"), (index, replacement) => {
      const secret = newSecret();
      fc.pre(secret[index] !== replacement);
      const changed = secret.slice(0, index) + replacement + secret.slice(index + 1);
      expect(isWellFormedSecret(changed)).toBe(false);
    }),
  );
});

it.each([
  ["a character less", `pet_${randomBase62(31)}`],
  ["a character more", `pet_${randomBase62(33)}`],
  ["a character before it", `xpet_${randomBase62(32)}`],
  ["another prefix", `pat_${randomBase62(32)}`],
  ["another character", `pet_${randomBase62(31)}-`],
  ["nothing but a checksum", ""],
])("a key with %s is malformed, despite a valid checksum", (_, body) => {
  expect(isWellFormedSecret(withChecksum(body))).toBe(false);
});

it("keys are redacted from text, also if they are incomplete", () => {
  const text = `${newSecret()} and ${newSecret().slice(0, 24)}, but not ${newSecret().slice(0, 23)}.`;
  expect(withoutSecrets(text)).toMatch(/^pet_… and pet_…, but not pet_[0-9A-Za-z]{19}\.$/);
});

it("random characters are uniformly distributed", () => {
  const counts = new Map<string, number>();
  for (let times = 0; times < 2_000; times += 1) {
    for (const character of randomBase62(62)) counts.set(character, (counts.get(character) ?? 0) + 1);
  }
  expect(counts.size).toBe(62);
  // Six standard deviations; a remainder of bytes by 62 would put eight characters 24 % above the others.
  for (const count of counts.values()) expect(Math.abs(count - 2_000)).toBeLessThan(270);
});
