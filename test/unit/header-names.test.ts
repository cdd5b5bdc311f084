// The names of headers: those that clients rely on, and those that the documents mention.

import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";

it("the headers that clients rely on keep their names", () => {
  expect(HEADER).toMatchObject({
    rateLimitLimit: "X-RateLimit-Limit",
    rateLimitRemaining: "X-RateLimit-Remaining",
    rateLimitReset: "X-RateLimit-Reset",
    retryAfter: "Retry-After",
  });
});

const DOCUMENTS = [
  ...["README.md", "DESIGN.md", "SECURITY.md", "client/README.md"],
  ...readdirSync("docs")
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

/** Headers that a document mentions although the service does not define them. */
const OTHERS = ["X-Content-Type-Options"];

/** What looks like the name of a header that the service defines. "Deprecation" and "Sunset" are words too, so only as code. */
const OWN = Object.values(HEADER)
  .filter((name) => name.includes("-"))
  .join("|");
const NAMES = new RegExp(
  `(?<![\\w-])(?:X(?:-[A-Z][A-Za-z]+)+|RateLimit-[A-Z]\\w+|Idempotency-[A-Z]\\w+|Retry-[A-Z]\\w+|(?:${OWN})(?![\\w-]))|(?<=\`)(?:RateLimit|Deprecation|Sunset)(?=\`)`,
  "g",
);

it.each(DOCUMENTS)("%s mentions headers by their names", (file) => {
  const known: string[] = [...Object.values(HEADER), ...OTHERS];
  const mentioned = readFileSync(file, "utf8").match(NAMES) ?? [];
  expect(mentioned.filter((name) => !known.includes(name))).toEqual([]);
});

it("the documents mention most headers, so the comparison compares something", () => {
  const texts = DOCUMENTS.map((file) => readFileSync(file, "utf8")).join("\n");
  const mentioned = new Set(texts.match(NAMES));
  for (const name of [HEADER.requestId, HEADER.rateLimitLimit, HEADER.retryAfter, HEADER.idempotencyKey])
    expect(mentioned).toContain(name);
});
