// The guide, the operations and the changes as one text, GET /guide.md, for programs, language models and readers without a browser.
// All of it comes from the published document and the changelog.

import { PLACEHOLDERS } from "../site/reference/sample.ts";
import type { Release } from "./changes.ts";
import type { OpenApiDocument } from "./document.ts";
import { COMMON } from "./headers.ts";
import type { Response } from "./responses.ts";
import type { JsonSchema } from "./schemas.ts";

export function guideAsMarkdown({ info, paths, components }: OpenApiDocument, releases: Release[]): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => [
      `### ${operation.summary}`,
      `\`${method.toUpperCase()} /v1${path}\``,
      ...operationAsMarkdown(operation, components.responses),
    ]),
  );
  const schemas = Object.entries(components.schemas).flatMap(([name, { description, ...schema }]) => [
    `### ${name}`,
    `${description}`,
    schemaAsMarkdown(schema),
  ]);
  const parts = [
    `# ${info.title} ${info.version}: guide and operations`,
    `> ${info.summary} JSON over HTTP, with API keys and rate limits.`,
    `The origin of the service is the origin of this file; examples have \`${PLACEHOLDERS.origin}\` in its place. [The reference page](/) shows the same with a console. [openapi.json](/openapi.json) describes the operations for tools, and [llms.txt](/llms.txt) is a summary.`,
    info.description.trim(),
    "## Operations",
    "Every request needs an API key. The body of an error is an [Error](#error); [Errors](#errors) has the cause and the remedy of each code. Each response is listed with its headers, except those that all responses can have.",
    ...operations,
    "## Schemas",
    "The bodies of requests and responses.",
    ...schemas,
    "## Changes",
    ...releases.flatMap(({ name, text }) => [`### ${name}`, text]),
  ];
  return `${parts.join("\n\n")}\n`;
}

type Operation = OpenApiDocument["paths"][string][string];

function operationAsMarkdown(operation: Operation, shared: Record<string, Response>): string[] {
  const { description, parameters = [], requestBody, responses } = operation;
  const curl = operation["x-codeSamples"].find(({ label }) => label === "curl");
  const inputs = parameters.map((each) =>
    item(code(each.name), [each.in, needed(each.required), inWords(each.schema)], each.description),
  );
  if (requestBody !== undefined)
    inputs.push(
      item(
        "body",
        [needed(requestBody.required), inWords(requestBody.content["application/json"].schema)],
        requestBody.description,
      ),
    );
  const outputs = Object.entries(responses).map(([status, each]) => {
    const response = "$ref" in each ? shared[nameIn(each.$ref)] : each;
    return `- ${status}: ${response && responseAsMarkdown(response)}`;
  });
  return [
    description,
    ...(inputs.length === 0 ? [] : ["Request:", inputs.join("\n")]),
    "Responses:",
    outputs.join("\n"),
    `\`\`\`sh\n${curl?.source}\n\`\`\``,
  ];
}

function responseAsMarkdown({ description, headers, content }: Response): string {
  const { schema, examples } = content["application/json"];
  const names = Object.keys(headers).filter((name) => !COMMON.some((each) => each === name));
  const withHeaders = names.length === 0 ? "" : ` with ${names.map(code).join(", ")}`;
  if (schema.$ref !== undefined) return `${inWords(schema)}${withHeaders}. ${description}`;
  const codes = Object.values(examples).map(({ value }) => code((value as { code: string }).code));
  return `${[...new Set(codes)].join(" or ")}${withHeaders}`;
}

function schemaAsMarkdown({ properties, required, additionalProperties: _, ...schema }: JsonSchema): string {
  if (properties === undefined) return `It is a JSON ${inWords(schema)}.`;
  const fields = Object.entries(properties).map(([name, { description, ...field }]) =>
    item(code(name), [needed((required as string[]).includes(name)), inWords(field)], description),
  );
  return fields.join("\n");
}

const item = (name: string, facts: string[], description: unknown) =>
  `- ${name} (${facts.join(", ")})${description === undefined ? "" : `: ${description}`}`;

const needed = (required: boolean) => (required ? "required" : "optional");
const code = (value: unknown) => `\`${value}\``;
const nameIn = (reference: unknown) => `${reference}`.replace(/.*\//, "");

/** The keywords of the schemas, in the order of their words. */
const WORDS: Record<string, (value: unknown) => string> = {
  $ref: (value) => `[${nameIn(value)}](#${nameIn(value).toLowerCase()})`,
  type: (value) => `${value}`,
  items: (value) => ` of ${inWords(value as JsonSchema)}`,
  format: (value) => `, ${value}`,
  minItems: (value) => `, at least ${value} items`,
  maxItems: (value) => `, at most ${value} items`,
  minLength: (value) => `, length at least ${value}`,
  maxLength: (value) => `, length at most ${value}`,
  pattern: (value) => `, matches ${code(value)}`,
  minimum: (value) => `, at least ${value}`,
  maximum: (value) => `, at most ${value}`,
  enum: (value) => `, one of ${(value as unknown[]).map(code).join(", ")}`,
  anyOf: (value) => (value as JsonSchema[]).map(inWords).join(", or "),
  default: (value) => `, default ${value}`,
};

/** A schema in words. Throws if a keyword has none, so that no bound is missing. */
function inWords(schema: JsonSchema): string {
  const unknown = Object.keys(schema).find((keyword) => !(keyword in WORDS));
  if (unknown !== undefined) throw new Error(`no words for ${unknown}, a keyword of a schema`);
  const present = Object.entries(WORDS).filter(([keyword]) => keyword in schema);
  return present.map(([keyword, words]) => words(schema[keyword])).join("");
}
