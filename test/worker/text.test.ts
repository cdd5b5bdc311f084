// Names of pets: stored unchanged, or rejected with a reason.

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { FIELD_PROBLEMS, MESSAGES } from "../../src/http/messages.ts";
import { countPets, type ErrorBody, newClient } from "../support/worker/client.ts";

const EMOJI = "😀";
const FAMILY = "👨‍👩‍👧‍👦";

describe("a valid name", () => {
  it.each([
    ["one letter", "a"],
    ["emoji", `${EMOJI}${FAMILY}🏳️‍🌈`],
    ["right-to-left", "كلب שלום"],
    ["direction controls", "a\u202Eb\u2066c"],
    ["quotes and backslashes", `"'\`\\/"'; DROP TABLE pets; --`],
    ["control characters", "\u0001\b\f\n\r\t\u001F\u007F\u0085"],
    ["line separators", "a\u2028b\u2029c"],
    ["leading and trailing spaces", "  Rex  "],
    ["a single space", " "],
    ["composed", "\u00E9"],
    ["decomposed, not normalised", "e\u0301"],
    ["a byte order mark", "\uFEFFRex"],
    ["noncharacters", "\uFFFE\uFFFF\u{1FFFE}"],
    ["the replacement character", "\uFFFD"],
    ["markup", "<script>alert(1)</script>"],
    ["a property of Object.prototype", "__proto__"],
    ["255 letters", "x".repeat(255)],
    ["255 characters of four bytes", EMOJI.repeat(255)],
  ])("is stored unchanged: %s", async (_, name) => {
    const client = await newClient();
    const created = await client.post(JSON.stringify({ name, categoryId: 1 }));
    expect(created.status).toBe(201);
    const pet = await created.clone().json<{ id: number; name: string }>();
    expect(pet.name).toBe(name);
    const read = await client.get(`/v1/pets/${pet.id}`);
    expect(await read.text()).toBe(await created.text());
  });
});

describe("an invalid name", () => {
  const tooLong = MESSAGES.invalid_request.field("name", FIELD_PROBLEMS.length(255));
  const illFormed = MESSAGES.invalid_request.field("name", FIELD_PROBLEMS.unicode);
  it.each([
    ["empty", `""`, tooLong],
    ["256 letters", `"${"x".repeat(256)}"`, tooLong],
    ["256 characters of four bytes", `"${EMOJI.repeat(256)}"`, tooLong],
    ["U+0000 alone", `"\\u0000"`, illFormed],
    ["U+0000 within", `"Re\\u0000x"`, illFormed],
    ["a lone high surrogate", `"\\ud83d"`, illFormed],
    ["a lone low surrogate", `"a\\ude00b"`, illFormed],
    ["surrogates the wrong way round", `"\\ude00\\ud83d"`, illFormed],
  ])("gets 400 and stores nothing: %s", async (_, name, message) => {
    const client = await newClient();
    const before = await countPets();
    const response = await client.post(`{"name":${name},"categoryId":1}`);
    expect(await response.json<ErrorBody>()).toEqual({ code: "invalid_request", message, status: 400 });
    expect(await countPets()).toBe(before);
  });

  it.each([
    ["an invalid first byte", [0xff]],
    ["a truncated character", [0xf0, 0x9f, 0x98]],
    ["an overlong encoding", [0xc0, 0xaf]],
    ["a surrogate in UTF-8", [0xed, 0xa0, 0x80]],
  ])("gets 400 if it is not UTF-8: %s", async (_, bytes) => {
    const client = await newClient();
    const before = await countPets();
    const encode = (text: string) => [...new TextEncoder().encode(text)];
    const body = new Uint8Array([...encode(`{"name":"`), ...bytes, ...encode(`","categoryId":1}`)]);
    const response = await client.post(body);
    // A lenient decoder would store U+FFFD.
    expect(await response.json<ErrorBody>()).toEqual({
      code: "invalid_request",
      message: MESSAGES.invalid_request.json.encoding,
      status: 400,
    });
    expect(await countPets()).toBe(before);
  });
});

describe("the table of pets", () => {
  it.each([
    ["an empty name", "'', 1, NULL"],
    ["256 characters", `'${"x".repeat(256)}', 1, NULL`],
    ["U+0000 in a name", "'a' || char(0) || 'b', 1, NULL"],
    ["a missing name", "NULL, 1, NULL"],
    ["a missing category", "'a', NULL, NULL"],
    ["a category that is not an integer", "'a', 1.5, NULL"],
    ["a status that does not exist", "'a', 1, 'gone'"],
  ])("rejects %s", async (_, values) => {
    const insert = env.DB.prepare(`INSERT INTO pets (name, category_id, status) VALUES (${values})`);
    await expect(insert.run()).rejects.toThrow(/constraint|datatype/i);
  });
});
