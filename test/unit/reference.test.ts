// What the reference page makes of the document, of what is filled in, and of a response. test/e2e/reference.test.ts draws it in a browser.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { FIELD_PROBLEMS, MESSAGES } from "../../src/http/messages.ts";
import { changesForClients } from "../../src/openapi/changes.ts";
import { REMEDIES } from "../../src/openapi/errors.ts";
import { changesAsMarkdown } from "../../src/openapi/html.ts";
import { consoleOperation } from "../../src/openapi/inputs.ts";
import { DESCRIPTIONS, type Description } from "../../src/openapi/operations.ts";
import { jsonText } from "../../src/openapi/reference.ts";
import { MAX_KEY_LENGTH } from "../../src/pets/idempotency.ts";
import { NewPet } from "../../src/pets/schema.ts";
import { problemWith, requestOf } from "../../src/samples/operation.ts";
import { explain, explainFailure } from "../../src/site/reference/explanation.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: Date.parse("2026-11-20T12:34:20Z") });
  vi.stubEnv("TZ", "UTC");
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

const create = consoleOperation("createPet", DESCRIPTIONS.createPet);
const list = consoleOperation("listPets", DESCRIPTIONS.listPets);
const get = consoleOperation("getPet", DESCRIPTIONS.getPet);

describe("a field", () => {
  const inputs = new Map([...create.inputs, ...list.inputs, ...get.inputs].map((each) => [each.name, each]));
  const KEY = MESSAGES.invalid_request.idempotencyKey(MAX_KEY_LENGTH).replace("Idempotency-Key: ", "");

  it.each<string[]>([
    ["name", "", FIELD_PROBLEMS.required],
    ["name", "😀".repeat(255), ""],
    ["name", "😀".repeat(256), FIELD_PROBLEMS.length(255)],
    ["name", " ", ""],
    ["name", "a\0", FIELD_PROBLEMS.unicode],
    ["name", "\ud800", FIELD_PROBLEMS.unicode],
    ["categoryId", "", FIELD_PROBLEMS.required],
    ["categoryId", "-9223372036854775808", ""],
    ["categoryId", "9223372036854775808", FIELD_PROBLEMS.int64],
    ...["1e3", "01", "-0", " 1"].map((text) => ["categoryId", text, FIELD_PROBLEMS.int64]),
    ["limit", "", ""],
    ["limit", "100", ""],
    ["limit", "0", "must be an integer from 1 to 100"],
    ["limit", "101", "must be an integer from 1 to 100"],
    ["Idempotency-Key", "order-4711", ""],
    ["Idempotency-Key", '"quoted"', ""],
    ["Idempotency-Key", "a b", KEY],
    ["Idempotency-Key", "é", KEY],
    ["Prefer", "server-timing, a=1", ""],
    ["Prefer", "ü", "must be ASCII, without blanks around it"],
    ["Prefer", "a ", "must be ASCII, without blanks around it"],
    ["cursor", "anything", ""],
  ])("%s with %j: %s", (name = "", text = "", problem) => {
    const input = inputs.get(name);
    expect(input && problemWith(input, text)).toBe(problem);
    // What the form lets pass, the service must not refuse.
    if (name === "name" && text !== "")
      expect(NewPet.shape.name.safeParse(text).success).toBe(problem === "");
  });

  it("has the values and the example of the document", () => {
    expect(inputs.get("status")).toMatchObject({ type: "string", choices: ["available", "pending", "sold"] });
    expect(inputs.get("categoryId")).toMatchObject({ isRequired: true, place: "body", example: "2" });
  });

  it("of a type that the console can't show fails the build", () => {
    const texts = { name: "tags", description: "", example: "" };
    const tags = { ...texts, in: "query", required: false, schema: { type: "array" } } as const;
    const description: Description = { ...DESCRIPTIONS.getUsage, parameters: [tags] };
    const problem = "no field for tags, an input of type array";
    expect(() => consoleOperation("getUsage", description)).toThrow(problem);
  });
});

describe("a request", () => {
  const origin = "https://pets.example";

  it("has what is filled in, and nothing else", () => {
    const values = { limit: "", status: "sold", cursor: "a&b=c", Prefer: "" };
    expect(requestOf(list, origin, values)).toEqual({
      ...{ method: "GET", url: "https://pets.example/v1/pets?status=sold&cursor=a%26b%3Dc", headers: {} },
    });
    expect(requestOf(get, origin, { petId: "-5" }).url).toBe("https://pets.example/v1/pets/-5");
  });

  it("has each digit of an integer in its body, and no field without a value", () => {
    const values = { "Idempotency-Key": "k", name: 'a"\\', categoryId: "9223372036854775807", status: "" };
    expect(requestOf(create, origin, values)).toEqual({
      method: "POST",
      url: "https://pets.example/v1/pets",
      headers: { "Idempotency-Key": "k", "Content-Type": "application/json" },
      body: '{"name": "a\\"\\\\", "categoryId": 9223372036854775807}',
    });
  });
});

describe("the explanation", () => {
  const left = {
    [HEADER.rateLimitLimit]: "1000",
    [HEADER.rateLimitRemaining]: "999",
    [HEADER.rateLimitReset]: `${Date.parse("2026-11-20T12:35:00Z") / 1000}`,
  };

  const LEFT = "999 of 1,000 requests left until 12:35:00 UTC.";
  const ERROR = '{"code":"rate_limit_exceeded","message":"too many"}';
  const wait = REMEDIES.rate_limit_exceeded;
  it.each([
    ["a success", 200, {}, "", `200: The new pet. ${LEFT}`],
    [
      "a repeated creation",
      200,
      { [HEADER.idempotentReplayed]: "true" },
      "",
      `200: The new pet. An earlier request with this key has added it. ${LEFT}`,
    ],
    [
      "an error",
      429,
      { [HEADER.retryAfter]: "37" },
      ERROR,
      `429: too many. ${LEFT}`,
      "Wait 37 seconds before the next request.",
    ],
    ["an error without Retry-After", 429, {}, ERROR, `429: too many. ${LEFT}`, wait],
  ])("of %s says what is left, and what to do", (_, status, headers, body, outcome, hint?: string) => {
    const response = new Response("", { status, headers: { ...left, ...headers } });
    expect(explain(response, body, "The new pet.", REMEDIES)).toEqual({ outcome, ...(hint && { hint }) });
  });

  it.each([
    ["with another code", 400, '{"code":"toString"}', left],
    ["of something else", 502, "Bad gateway", {}],
    ["that is a success of something else", 200, "<!doctype html>", {}],
    ["whose headers are no numbers", 200, "[]", { ...left, [HEADER.rateLimitReset]: "soon" }],
  ])("of a response %s says that the service did not send it", (_, status, body, headers) => {
    const explanation = explain(new Response("", { status, headers }), body, "A page of pets.", REMEDIES);
    expect(explanation.outcome).toContain(`${status}: unexpected response.`);
    expect(explanation.hint).toContain("did not send");
  });

  it("of no response says what was the matter, and whether to send it again", () => {
    const of = { isLate: false, isStopped: false, isOnline: true, writes: false, isRepeatable: false };
    const outcomes = [{ isLate: true }, { isStopped: true }, { isOnline: false }, {}].map(
      (each) => explainFailure({ ...of, ...each }).outcome,
    );
    expect(outcomes).toEqual([
      "No response in time.",
      "Stopped.",
      "No response: this device is offline.",
      expect.stringContaining("the browser blocks"),
    ]);
    const hintOf = (isRepeatable: boolean) => explainFailure({ ...of, writes: true, isRepeatable }).hint;
    expect([hintOf(true), hintOf(false)]).toEqual([
      expect.stringContaining("is safe"),
      expect.not.stringContaining("is safe"),
    ]);
  });
});

it.each([
  [[], "[]"],
  [{ a: 1, b: [true, null] }, '{ "a": 1, "b": [ true, null ] }'],
  [
    [{ a: "a".repeat(60) }, { b: "b".repeat(60) }],
    `[\n  { "a": "${"a".repeat(60)}" },\n  { "b": "${"b".repeat(60)}" }\n]`,
  ],
])("an example in as few lines as it needs: %j", (value, text) => {
  expect(jsonText(value)).toBe(text);
});

it("lists the changes for clients by release, without links to files", () => {
  const text = "### For clients\n\n- See [a file](docs/a.md), [here](#b), [RFC](https://c.example).\n";
  const changelog = `# Changelog\n\n## 3\n\n${text}\n### For operators\n\n- No.\n\n## 2\n\n### For developers\n\n- No.\n\n## 1\n\n${text}`;
  const list = "- See a file, here, [RFC](https://c.example).";
  expect(changesAsMarkdown(changesForClients(changelog)).split(/\n+/)).toEqual([
    ...['<section class="changes">', "## Changes"],
    ...["<details open>", "<summary>3</summary>", list, "</details>"],
    ...["<details>", "<summary>1</summary>", list, "</details>", "</section>"],
  ]);
});
