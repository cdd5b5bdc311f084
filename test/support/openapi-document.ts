// The published document, and its responses and examples with all references resolved.

import type { OperationId } from "../../src/http/operations.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { DESCRIPTIONS } from "../../src/openapi/operations.ts";

export const DOCUMENT = openApiDocument("");

/** The operations, and the responses to requests that match none. */
export const DOCUMENTED = { ...DESCRIPTIONS, otherRequests: DOCUMENT["x-other-requests"] };

export type DocumentedId = OperationId | "otherRequests";

interface DocumentedResponse {
  headers: Record<string, { required: boolean; example: unknown }>;
  /** Absent if the response has no body. */
  content?: {
    "application/json": {
      schema: { allOf?: { properties: object; required?: string[] }[] };
      examples: Record<string, { value: unknown }>;
    };
  };
}

/** Every response of every operation. */
export const RESPONSES = Object.entries(DOCUMENTED).flatMap(([id, { responses }]) =>
  Object.entries(responses).map(([status, response]) => ({
    name: `${id} ${status}`,
    id: id as DocumentedId,
    status: Number(status),
    ...(dereferenced(response, DOCUMENT) as DocumentedResponse),
  })),
);

/** Every example of a response, named like "listPets 400 limit". */
export const EXAMPLES = RESPONSES.flatMap(({ content, ...response }) =>
  Object.entries(content?.["application/json"].examples ?? {}).map(([example, { value }]) => ({
    ...response,
    name: `${response.name} ${example}`,
    value,
  })),
);

/** Replaces each reference in a value by its target in `root`. */
export function dereferenced(value: unknown, root: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => dereferenced(each, root));
  const { $ref, ...rest } = value as { $ref?: string };
  const own = Object.entries(rest).map(([name, each]) => [name, dereferenced(each, root)]);
  const target = $ref
    ?.slice(2)
    .split("/")
    .reduce((parent, name) => (parent as Record<string, unknown>)[name], root);
  return { ...(dereferenced(target, root) as object | undefined), ...Object.fromEntries(own) };
}
