// Invalid keys.

import fc from "fast-check";
import { type Header, headerText } from "./http.ts";
import { type InvalidPart, NO_PART, type Part } from "./requests.ts";
import type { Service } from "./service.ts";

/** Addresses that hardly ever repeat, even while a failing request is shrunk. */
function addresses(): fc.Arbitrary<string> {
  const numbers = (max: number, count: number) =>
    fc.noShrink(fc.array(fc.noBias(fc.nat(max)), { minLength: count, maxLength: count }));
  const hex = (group: number) => group.toString(16);
  return fc.oneof(
    numbers(255, 4).map((bytes) => bytes.join(".")),
    numbers(0xffff, 8).map((groups) => groups.map(hex).join(":")),
    numbers(0xffff, 5).map((groups) => `${groups.map(hex).join(":")}::`),
  );
}

/** Requests without a valid key. Each has another address, so that the limit per address is not reached. */
export function invalidKeys({ secret, unknown }: Service): InvalidPart[] {
  const slot = "key";
  const withAddress = (headers: fc.Arbitrary<Part>) =>
    fc.tuple(headers, addresses()).map(([part, address]) => ({
      ...part,
      headers: [...(part.headers ?? []), ["CF-Connecting-IP", address] as Header],
    }));
  const way = (what: string, credentials: fc.Arbitrary<string>): InvalidPart => ({
    slot,
    what: `key: ${what}`,
    statuses: [401],
    part: withAddress(credentials.map((value) => ({ headers: [["Authorization", value]] }))),
  });
  const near = fc
    .tuple(fc.nat(secret.length - 1), fc.constantFrom(..."abcXYZ019_-.é"))
    .map(([at, character]) => `Bearer ${headerText(secret.slice(0, at) + character + secret.slice(at + 1))}`);
  return [
    { slot, what: "key: none", statuses: [401], part: withAddress(fc.constant(NO_PART)) },
    {
      slot,
      what: "key: elsewhere",
      statuses: [401],
      part: withAddress(
        fc.constantFrom<Part>(
          { query: [`api_key=${secret}`, `access_token=${secret}`, `key=${secret}`] },
          {
            headers: [
              ["X-API-Key", secret],
              ["Cookie", `key=${secret}`],
            ],
          },
          { headers: [["Proxy-Authorization", `Bearer ${secret}`]] },
        ),
      ),
    },
    way(
      "unknown",
      fc.constantFrom(...unknown).map((each) => `Bearer ${each}`),
    ),
    way(
      "changed in one character",
      near.filter((value) => value !== `Bearer ${secret}`),
    ),
    way(
      "malformed",
      fc.oneof(
        fc.constantFrom("", "Bearer", "Bearer ", "Bearer null", "Bearer pet_", `Bearer ${"a".repeat(5000)}`),
        fc.string({ unit: "grapheme-ascii", maxLength: 60 }).map((text) => `Bearer ${text}`),
      ),
    ),
    way(
      "longer or shorter",
      fc.constantFrom(
        `Bearer ${secret}0`,
        `Bearer ${secret.slice(0, -1)}`,
        `Bearer ${secret} ${secret}`,
        `Bearer ${secret},`,
        `Bearer "${secret}"`,
        `Bearer ${secret.toLowerCase()}`,
      ),
    ),
    way(
      "another scheme",
      fc.constantFrom(
        `Basic ${secret}`,
        secret,
        `Token ${secret}`,
        `Bearer:${secret}`,
        `Bearer=${secret}`,
        `Bearer${secret}`,
        `Basic ${Buffer.from(`key:${secret}`).toString("base64")}`,
      ),
    ),
    {
      slot,
      what: "key: repeated",
      statuses: [401],
      part: withAddress(
        fc.constant({
          headers: [
            ["Authorization", `Bearer ${secret}`],
            ["Authorization", `Bearer ${secret}`],
          ],
        }),
      ),
    },
  ];
}
