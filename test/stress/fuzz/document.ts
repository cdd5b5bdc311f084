// Reads operations from the OpenAPI document, with their parameters, bodies and statuses. The fuzzer has no fields or bounds of
// its own, so it covers every addition to the document.

import { dereferenced } from "../../support/openapi-validator.ts";

/** A schema of the document, without references. values.ts has the supported keywords. */
export interface Schema {
  type?: string;
  enum?: unknown[];
  const?: unknown;
  format?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean;
  items?: Schema;
  minItems?: number;
  maxItems?: number;
  anyOf?: Schema[];
  default?: unknown;
}

export interface Parameter {
  name: string;
  in: "query" | "header" | "path";
  required: boolean;
  schema: Schema;
}

export interface Operation {
  operationId: string;
  method: string;
  /** From the root, with `{name}` for each path parameter. */
  path: string;
  parameters: Parameter[];
  body: { mediaType: string; schema: Schema; maxBytes: number } | undefined;
  /** The documented statuses. */
  statuses: number[];
  /** The schema of the success response. */
  answer: Schema;
  /** Whether an exhausted or banned key is admitted. */
  isFree: boolean;
}

interface ResponseObject {
  content?: Record<string, { schema: Schema; examples?: Record<string, { value: { message?: string } }> }>;
}

interface OperationObject {
  operationId: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, ResponseObject>;
}

/** The operations of a document. */
export function operationsOf(document: object): Operation[] {
  const { paths, servers } = dereferenced(document, document) as {
    paths: Record<string, Record<string, OperationObject>>;
    servers: { url: string }[];
  };
  const root = servers[0]?.url ?? "";
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => operationOf(method, root + path, operation)),
  );
}

function operationOf(
  method: string,
  path: string,
  { operationId, parameters = [], requestBody, responses }: OperationObject,
): Operation {
  const statuses = Object.keys(responses).map(Number);
  const success = statuses.find((status) => status < 300);
  const [answer] = Object.values(responses[`${success}`]?.content ?? {});
  if (answer === undefined) throw new Error(`${operationId} has no success response in the document`);
  const [content] = Object.entries(requestBody?.content ?? {});
  return {
    operationId,
    method: method.toUpperCase(),
    path,
    parameters,
    body: content && {
      mediaType: content[0],
      schema: content[1].schema,
      maxBytes: maxBytesOf(operationId, responses),
    },
    statuses,
    answer: answer.schema,
    isFree: !JSON.stringify(responses[429]).includes('"code":"key_banned"'),
  };
}

/** The largest body. JSON Schema has no keyword for it, so it is read from the example of the 413. */
function maxBytesOf(operationId: string, responses: Record<string, ResponseObject>): number {
  const examples = Object.values(responses[413]?.content ?? {}).flatMap((each) =>
    Object.values(each.examples ?? {}),
  );
  const bytes = examples.map(({ value }) => value.message?.match(/at most (\d+) bytes/)?.[1]).find(Boolean);
  if (bytes === undefined)
    throw new Error(`${operationId} has no 413 example with the largest body in the document`);
  return Number(bytes);
}
