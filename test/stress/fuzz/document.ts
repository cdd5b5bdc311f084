// What the fuzzer takes from the published document: operations, with their parameters, bodies and statuses. Nothing about
// a field or a bound is written down here, so that whatever the document gains is tried from then on.

import { dereferenced } from "../../support/openapi-validator.ts";

/** A schema of the document, without references. Which keywords are understood, values.ts says. */
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
  /** From the root on, with `{name}` for each path parameter. */
  path: string;
  parameters: Parameter[];
  body: { mediaType: string; schema: Schema; maxBytes: number } | undefined;
  /** The documented statuses. */
  statuses: number[];
  /** The schema of what is answered on success. */
  answer: Schema;
  /** Whether a valid key that is limited or banned is let in all the same. */
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
  if (answer === undefined) throw new Error(`the document does not say what ${operationId} answers`);
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

/** The largest body. JSON Schema has no word for it, so it is in the message of the error that is answered. */
function maxBytesOf(operationId: string, responses: Record<string, ResponseObject>): number {
  const examples = Object.values(responses[413]?.content ?? {}).flatMap((each) =>
    Object.values(each.examples ?? {}),
  );
  const bytes = examples.map(({ value }) => value.message?.match(/at most (\d+) bytes/)?.[1]).find(Boolean);
  if (bytes === undefined)
    throw new Error(`the document does not say how large a body of ${operationId} may be`);
  return Number(bytes);
}
