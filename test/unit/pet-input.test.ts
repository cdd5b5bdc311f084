// Bodies and queries of pets: what the service accepts, and the message of what it refuses.

import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import { jsonBody, parseBody } from "../../src/http/body.ts";
import type { ApiError } from "../../src/http/errors.ts";
import { FIELD_PROBLEMS, MESSAGES } from "../../src/http/messages.ts";
import { invalidRequest } from "../../src/http/query.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { NewPet, PageQuery, PET_STATUSES } from "../../src/pets/schema.ts";

const { field, json } = MESSAGES.invalid_request;
const NAME = field("name", FIELD_PROBLEMS.required);
const NAME_TYPE = field("name", FIELD_PROBLEMS.string);
const NAME_LENGTH = field("name", FIELD_PROBLEMS.length(255));
const NAME_UNICODE = field("name", FIELD_PROBLEMS.unicode);
const CATEGORY = field("categoryId", FIELD_PROBLEMS.required);
const INTEGER = field("categoryId", FIELD_PROBLEMS.int64);
const STATUS = field("status", FIELD_PROBLEMS.oneOf(PET_STATUSES));
const OBJECT = field("body", FIELD_PROBLEMS.object);

const EMOJI = "😀";

/** Table rows of inputs that all get the same message. */
const rows = <Input>(inputs: Input[], message: string) =>
  inputs.map((input): [Input, string] => [input, message]);

/** The bytes of a text, or of a pet whose name has these bytes. */
function bytesOf(body: string | number[]): Uint8Array {
  if (typeof body === "string") return new TextEncoder().encode(body);
  return new Uint8Array([...bytesOf(`{"name":"`), ...body, ...bytesOf(`","categoryId":1}`)]);
}
const petNamed = (name: string) => `{"name":${name},"categoryId":1}`;
const petCalled = (text: string) => petNamed(`"${text}"`);
const petOf = (categoryId: string) => `{"name":"Rex","categoryId":${categoryId}}`;
const petWith = (member: string) => petOf(`1,${member}`);

describe("a body", () => {
  it.each([
    ...rows(["{}", `{"__proto__":{"name":"Rex","categoryId":1}}`], `${NAME}; ${CATEGORY}`),
    [`{"name":"","categoryId":"x","status":"x"}`, `${NAME_LENGTH}; ${INTEGER}; ${STATUS}`],
    ...rows(["null", "5", `["Rex"]`].map(petNamed), NAME_TYPE),
    ...rows(["null", `"1"`, "1.5", "true", "[1]", "{}"].map(petOf), INTEGER),
    ...rows(["9223372036854775808", "1e400", "1e19"].map(petOf), INTEGER),
    // The doubles of these are integers.
    ...rows(["0.99999999999999999999", "9007199254740992.5", "1e-400"].map(petOf), INTEGER),
    ...rows([`"status":null`, `"status":"Sold"`, `"status":["sold"]`].map(petWith), STATUS),
    ...rows(["[]", "null", "1", `"Rex"`], OBJECT),
    ...rows(["x".repeat(256), EMOJI.repeat(256)].map(petCalled), NAME_LENGTH),
    ...rows(["\\u0000", "Re\\u0000x", "\\ud83d", "a\\ude00b", "\\ude00\\ud83d"].map(petCalled), NAME_UNICODE),
    ...rows(["", petWith(""), `${petNamed("1")} {}`], json.syntax),
    // An invalid first byte, a truncated character, an overlong encoding, a surrogate: a lenient decoder would store U+FFFD.
    ...rows([[0xff], [0xf0, 0x9f, 0x98], [0xc0, 0xaf], [0xed, 0xa0, 0x80]], json.encoding),
  ])("is refused: $0", (body, message) => {
    const error = { code: "invalid_request", message };
    expect(() => parseBody(NewPet, bytesOf(body))).toThrow(expect.objectContaining(error));
  });

  it.each([
    ["8,000 levels", petWith(`"x":${"[".repeat(8_000)}${"]".repeat(8_000)}`)],
    ["a member that JSON.parse rounds", petWith(`"x":{"a":[{"b":0.99999999999999999999}]}`)],
    [
      "names of a prototype",
      petWith(`"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}`),
    ],
    ["a byte order mark", `\ufeff${petOf("1.0")}`],
  ])("is accepted with %s, and unknown fields are dropped", (_, body) => {
    expect(parseBody(NewPet, bytesOf(body))).toEqual({ name: "Rex", categoryId: 1n });
    expect({}).not.toHaveProperty("isAdmin");
  });

  it.each(["x", EMOJI])("is accepted with a name of 255 times %s, and any int64", (character) => {
    const pet = { name: character.repeat(255), categoryId: 2n ** 53n + 1n, status: "sold" };
    const body = `{"name":"${pet.name}","categoryId":9007199254740993,"status":"sold"}`;
    expect(parseBody(NewPet, bytesOf(body))).toEqual(pet);
  });
});

describe("the media type", () => {
  const app = new Hono();
  app.post("/", jsonBody(NewPet) as never);
  app.onError((error) => new Response((error as ApiError).code));

  it.each([
    ...rows([undefined, "", "text/json", "application/json-seq"], "unsupported_media_type"),
    ...rows(["application/xml+jsonx", "application/+json", "application/x y+json"], "unsupported_media_type"),
    ["text/html, application/json", "unsupported_media_type"],
    // The missing body is the next fault.
    ...rows(["application/json;charset=UTF-8", "Application/JSON"], "invalid_request"),
    ...rows(["application/vnd.pets.v1+json", "application/a+b+json"], "invalid_request"),
  ])("%j gets %s", async (type, code) => {
    const headers = { "Content-Encoding": "Identity", ...(type !== undefined && { "Content-Type": type }) };
    const response = await app.request("/", { method: "POST", headers });
    expect(await response.text()).toBe(code);
  });
});

describe("the query of a list", () => {
  const LIMIT = field("limit", FIELD_PROBLEMS.pageSize(100));
  const CURSOR = field("cursor", FIELD_PROBLEMS.cursor);
  const LIMITS = ["", "0", "101", "9".repeat(309), "1e1", " 10", "+10", "10.0", "１", "10\n"];

  it.each<[query: object, message: string]>([
    ...LIMITS.map((limit): [object, string] => [{ limit }, LIMIT]),
    [{ status: "Available" }, STATUS],
    [{ status: "available,sold" }, STATUS],
    [{ status: "sold' OR '1'='1" }, STATUS],
    [{ cursor: "1; DROP TABLE pets" }, CURSOR],
    [{ cursor: "" }, CURSOR],
    [{ cursor: "AQAAAAAAAAAB" }, CURSOR],
    [{ cursor: ["a", "b"] }, field("cursor", FIELD_PROBLEMS.repeated)],
  ])("is refused: $0", async (query, message) => {
    const { error } = await PageQuery.safeParseAsync(query);
    expect(invalidRequest(error?.issues ?? [])).toMatchObject({ code: "invalid_request", message });
  });

  it.each([
    [{}, { limit: 20 }],
    [{ limit: "1" }, { limit: 1 }],
    [{ limit: "0100", "limit[]": "0" }, { limit: 100 }],
    [
      { status: "sold", cursor: encodeCursor(-5n) },
      { limit: 20, status: "sold", cursor: -5n },
    ],
  ])("is accepted: %j", (query, expected) => {
    expect(PageQuery.parse(query)).toEqual(expected);
  });
});
