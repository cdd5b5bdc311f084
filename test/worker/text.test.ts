// Names of pets are stored and returned unchanged. test/unit/pet-input.test.ts has the invalid ones.

import { expect, it } from "vitest";
import { newClient } from "../support/worker/client.ts";

const EMOJI = "😀";

it.each([
  ["emoji", `${EMOJI}👨‍👩‍👧‍👦🏳️‍🌈`],
  ["right-to-left", "كلب שלום"],
  ["direction controls", "a\u202Eb\u2066c"],
  ["quotes and backslashes", `"'\`\\/"'; DROP TABLE pets; --`],
  ["control characters", "\u0001\b\f\n\r\t\u001F\u007F\u0085"],
  ["line separators", "a\u2028b\u2029c"],
  ["leading and trailing spaces", "  Rex  "],
  ["composed, decomposed, and not normalised", "\u00E9e\u0301"],
  ["a byte order mark", "\uFEFFRex"],
  ["noncharacters and the replacement character", "\uFFFE\uFFFF\u{1FFFE}\uFFFD"],
  ["markup", "<script>alert(1)</script>"],
  ["255 characters of four bytes", EMOJI.repeat(255)],
])("a name is stored unchanged: %s", async (_, name) => {
  const client = await newClient();
  const created = await client.post(JSON.stringify({ name, categoryId: 1 }));
  const text = await created.text();
  expect(JSON.parse(text).name).toBe(name);
  const read = await client.get(created.headers.get("Location") ?? "");
  expect(await read.text()).toBe(text);
});
