// Cursors: each id has exactly one.

import { Buffer } from "node:buffer";
import { expect, it } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../src/lib/int64.ts";
import { decodeCursor, encodeCursor } from "../../src/pets/cursor.ts";
import fc from "../support/fast-check.ts";

it("a cursor round-trips every int64", () => {
  const anyInt64 = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });
  fc.assert(fc.property(anyInt64, (id) => decodeCursor(encodeCursor(id)) === id));
  for (const id of [0n, -1n, INT64_MIN, INT64_MAX]) expect(decodeCursor(encodeCursor(id))).toBe(id);
});

it("the encoding is stable, so that cursors from before a deployment stay valid", () => {
  // The CRC32 of the first nine bytes, by another implementation, is 0x8118f462.
  expect(encodeCursor(5n)).toBe("AQAAAAAAAAAFgRj0Yg");
});

const CURSOR = encodeCursor(5n);
const bytes = new Uint8Array(Buffer.from(CURSOR, "base64url"));
const withBit = (index: number) => bytes.map((byte, at) => (at === index ? byte ^ 1 : byte));
const textOf = (of: Uint8Array) => Buffer.from(of).toString("base64url");

it.each([
  ["another version", textOf(withBit(0))],
  ["another checksum", textOf(withBit(12))],
  ["a missing byte", textOf(bytes.subarray(0, 12))],
  ["padding", `${CURSOR}==`],
  ["the alphabet of base64", encodeCursor(-1n).replaceAll("_", "/")],
  ["unused bits that are set", `${CURSOR.slice(0, -1)}${String.fromCharCode(CURSOR.charCodeAt(17) + 1)}`],
  ["nothing", ""],
])("a forged cursor is rejected: %s", (_, forged) => {
  expect(decodeCursor(forged)).toBeUndefined();
});
