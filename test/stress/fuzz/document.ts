// Reads operations from the OpenAPI document, with their parameters, bodies and statuses. The fuzzer has no fields or bounds of
// its own, so it covers every addition to the document.

import { dereferenced } from "../../support/openapi-document.ts";

type Bound = "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems";

/** A schema of the document, without references. values.ts has the supported keywords. */
export interface Schema extends Partial<Record<Bound, number>> {
  type?: string;
  enum?: unknown[];
  format?: string;
  pattern?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean;
  items?: Schema;
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
  /** The documented statuses of success. */
  successes: number[];
  /** The schema of the success response, if it has a body. */
  answer: Schema | undefined;
  /** Whether an exhausted key is admitted. */
  isFree: boolean;
}

type Content = Record<string, { schema: Schema }>;

interface OperationObject {
  operationId: string;
  parameters?: Parameter[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
}

/** The operations of a document. */
export function operationsOf(document: object): Operation[] {
  const { paths, servers } = dereferenced(document, document) as {
    paths: Record<string, Record<string, OperationObject>>;
    servers: { url: string }[];
  };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) =>
      operationOf(method.toUpperCase(), `${servers[0]?.url}${path}`, operation),
    ),
  );
}

function operationOf(method: string, path: string, operation: OperationObject): Operation {
  const { operationId, parameters = [], requestBody, responses } = operation;
  const successes = Object.keys(responses).filter((status) => status.startsWith("2"));
  const [content] = Object.entries(requestBody?.content ?? {});
  const [answer] = Object.values(responses[successes[0] ?? ""]?.content ?? {});
  return {
    operationId,
    method,
    path,
    parameters,
    body: content && { mediaType: content[0], schema: content[1].schema, maxBytes: maxBytesOf(operation) },
    successes: successes.map(Number),
    answer: answer?.schema,
    isFree: !JSON.stringify(responses[429]).includes('"code":"key_banned"'),
  };
}

/** The largest body. JSON Schema has no keyword for it, so it is read from the example of the 413. */
function maxBytesOf({ operationId, responses }: OperationObject): number {
  const [, bytes] = JSON.stringify(responses[413]).match(/at most (\d+) bytes/) ?? [];
  if (bytes === undefined) throw new Error(`the 413 of ${operationId} has no example with the largest body`);
  return Number(bytes);
}
