// GET /guide.md: nothing that the reference page or the document has is missing. test/e2e/pages.test.ts follows the links of the file.

import { readFileSync } from "node:fs";
import { lexer, walkTokens } from "marked";
import { expect, it } from "vitest";
import { changesForClients } from "../../src/openapi/changes.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { fillGuide } from "../../src/openapi/guide.ts";
import { changesAsMarkdown, guideAsHtml } from "../../src/openapi/html.ts";
import { guideAsMarkdown } from "../../src/openapi/markdown.ts";
import { MAX_NAME_CODE_POINTS, MAX_PAGE_SIZE, PET_STATUSES } from "../../src/pets/schema.ts";
import { RESPONSES } from "../support/openapi-document.ts";

const guide = fillGuide(readFileSync("src/openapi/guide.md", "utf8"));
const releases = changesForClients(readFileSync("CHANGELOG.md", "utf8"));
const document = openApiDocument(guide);
const text = guideAsMarkdown(document, releases);

/** The part of the text that describes an operation. */
function partOf(summary: string): string {
  const [, part = ""] = text.split(`\n### ${summary}\n`);
  return part.split(/\n##/, 1)[0] ?? "";
}

const OPERATIONS = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method, path, ...operation })),
);

it("guide.md has the headings of the reference page and each change, without HTML outside of code", () => {
  const headings = (markdown: string) => guideAsHtml(markdown).contents.match(/href="[^"]+"/g) ?? [];
  const ofPage = headings(`${guide}\n\n${changesAsMarkdown(releases)}`);
  expect(ofPage).toContain('href="#changes"');
  expect(headings(text)).toEqual(expect.arrayContaining(ofPage));
  for (const release of releases) expect(text).toContain(`\n### ${release.name}\n\n${release.text}\n`);
  const html: string[] = [];
  void walkTokens(lexer(text), ({ type, raw }) => void (type === "html" && html.push(raw)));
  expect(html).toEqual([]);
});

/** Headers of all responses: the guide has them. */
const COMMON = Object.keys(RESPONSES[0]?.headers ?? {}).filter((name) =>
  RESPONSES.every(({ headers }) => name in headers),
);

it.each(OPERATIONS)(
  "guide.md has $operationId: parameters, responses with codes and headers, curl",
  (operation) => {
    const { operationId, method, path, summary, description, parameters = [] } = operation;
    const part = partOf(summary);
    expect(part).toContain(`\n\`${method.toUpperCase()} /v1${path}\`\n\n${description}\n`);
    for (const { name, in: place, required } of parameters)
      expect(part).toContain(`\n- \`${name}\` (${place}, ${required ? "required" : "optional"}, `);
    const [curl] = operation["x-codeSamples"];
    expect(part).toContain(`\n\`\`\`sh\n${curl?.source}\n\`\`\`\n`);
    const responses = RESPONSES.filter(({ id }) => id === operationId);
    expect(part.match(/^- \d+: /gm)).toHaveLength(responses.length);
    for (const { status, headers, content } of responses) {
      const [line = ""] = part.match(new RegExp(`^- ${status}: .*`, "m")) ?? [];
      const examples = Object.values(content?.["application/json"].examples ?? {});
      expect(part).toContain(`\n- ${status}: `);
      const codes = examples.flatMap(({ value }) => (value as { code?: string }).code ?? []);
      const own = Object.keys(headers).filter((name) => !COMMON.includes(name));
      const names = line.match(/(?<=`)[\w-]+(?=`)/g) ?? [];
      expect(new Set(names)).toEqual(new Set([...codes, ...own]));
    }
  },
);

it("guide.md has each schema with its fields and bounds", () => {
  for (const [name, { description, properties = {} }] of Object.entries(document.components.schemas)) {
    const part = partOf(name);
    expect(part).toContain(description);
    for (const field of Object.keys(properties)) expect(part).toMatch(new RegExp(`\n- \`${field}\` \\(`));
  }
  const status = "[PetStatus](#petstatus)";
  const statuses = `one of ${PET_STATUSES.map((each) => `\`${each}\``).join(", ")}`;
  const lines = [
    "`limit` (query, optional, integer, {{minLimit}} to {{maxLimit}}, default {{defaultLimit}}): P",
    `\`status\` (query, optional, ${status}, ${statuses}): Only`,
    "body (required, [NewPet](#newpet)): At most",
    `\`name\` (required, string, 1 to ${MAX_NAME_CODE_POINTS} code points): N`,
    "`id` (required, integer, int64): ID",
    `\`status\` (optional, ${status}, ${statuses}): S`,
    "`bannedUntil` (required, integer, at least 0, or null): End",
    "`days` (required, array of [UsageDay](#usageday), {{daysKept}} items): The",
  ];
  for (const line of lines) expect(text).toContain(`\n- ${fillGuide(line)}`);
  expect(partOf("PetStatus")).toContain(`string, ${statuses}`);
  expect(partOf("Pets")).toContain(`array of [Pet](#pet), at most ${MAX_PAGE_SIZE} items`);
});

it("a keyword of a schema without words is an error, so that guide.md lacks no bound", () => {
  const components = { ...document.components, schemas: { Even: { type: "integer", multipleOf: 2 } } };
  expect(() => guideAsMarkdown({ ...document, components }, [])).toThrow("no words for multipleOf");
});
