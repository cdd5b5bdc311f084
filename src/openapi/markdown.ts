// The guide, the operations and the changes as one text, GET /guide.md, for programs, language models and readers without a browser.
// All of it comes from the published document and the changelog.

import { PLACEHOLDERS } from "../samples/samples.ts";
import type { Release } from "./changes.ts";
import type { OpenApiDocument } from "./document.ts";
import {
  code,
  type DescribedOperation,
  type DescribedResponse,
  describeOperations,
  describeSchemas,
  type Field,
} from "./reference.ts";

export function guideAsMarkdown(document: OpenApiDocument, releases: Release[]): string {
  const { info } = document;
  const schemas = describeSchemas(document).flatMap(({ name, description, fields, words }) => [
    `### ${name}`,
    description,
    fields.map(item).join("\n") || `It is a JSON ${words}.`,
  ]);
  const parts = [
    `# ${info.title} ${info.version}: guide and operations`,
    `> ${info.summary} JSON over HTTP, with API keys and rate limits.`,
    `The origin of the service is the origin of this file; examples have \`${PLACEHOLDERS.origin}\` in its place. [The reference page](/) shows the same with a console. [openapi.json](/openapi.json) describes the operations for tools, and [llms.txt](/llms.txt) is a summary.`,
    info.description.trim(),
    "## Operations",
    "Every request needs an API key. The body of an error is an [Error](#error); [Errors](#errors) has the cause and the remedy of each code. Each response has an example of its body; only headers that not every response has are named.",
    ...describeOperations(document).flatMap(operationAsMarkdown),
    "## Schemas",
    "The bodies of requests and responses.",
    ...schemas,
    "## Changes",
    ...releases.flatMap(({ name, text }) => [`### ${name}`, text]),
  ];
  return `${parts.join("\n\n")}\n`;
}

function operationAsMarkdown(operation: DescribedOperation): string[] {
  const { summary, method, path, description, inputs, responses, samples } = operation;
  const curl = samples.find(({ label }) => label === "curl");
  return [
    `### ${summary}`,
    code(`${method} ${path}`),
    description,
    ...(inputs.length === 0 ? [] : ["Request:", inputs.map(item).join("\n")]),
    `\`\`\`sh\n${curl?.source}\n\`\`\``,
    "Responses:",
    responses.map(responseAsMarkdown).join("\n"),
  ];
}

function responseAsMarkdown(response: DescribedResponse): string {
  const { status, content, headers, description, example } = response;
  const withHeaders = headers.length === 0 ? "" : ` with ${headers.map(code).join(", ")}`;
  // The guide has the causes of errors.
  const text = status.startsWith("2") ? `. ${description}` : "";
  const json = example.json.replaceAll("\n", "\n  ");
  return `- ${status}: ${content}${withHeaders}${text}\n\n  \`\`\`json\n  ${json}\n  \`\`\``;
}

function item({ name, facts, description }: Field): string {
  const shown = name === "body" ? name : code(name);
  return `- ${shown} (${facts})${description === "" ? "" : `: ${description}`}`;
}
