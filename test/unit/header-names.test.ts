// The names of headers in the documents are those that the service defines. So a header on which clients rely can't get another name.

import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";

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

it("documents mention headers by their names", () => {
  const mentioned = DOCUMENTS.flatMap((file) => readFileSync(file, "utf8").match(NAMES) ?? []);
  const known: string[] = [...Object.values(HEADER), ...OTHERS];
  expect(mentioned.filter((name) => !known.includes(name))).toEqual([]);
  // So the comparison compares something.
  const { rateLimitLimit, rateLimitRemaining, rateLimitReset, requestId, retryAfter, idempotencyKey } =
    HEADER;
  const relied = [rateLimitLimit, rateLimitRemaining, rateLimitReset, requestId, retryAfter, idempotencyKey];
  expect(mentioned).toEqual(expect.arrayContaining(relied));
});
