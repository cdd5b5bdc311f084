// Reads operations from the OpenAPI document, with their parameters, bodies and statuses. The fuzzer has no fields or bounds of
// its own, so it covers every addition to the document.

import type { OperationId } from "../../../src/http/operations.ts";
import { dereferenced } from "../../support/openapi-document.ts";

type Bound = "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems";

/** The keywords of a schema that values are generated from. The validation knows all others too. */
export interface Schema extends Partial<Record<Bound, number>> {
  type?: string;
  enum?: string[];
  format?: string;
  pattern?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  uniqueItems?: boolean;
  default?: unknown;
}

export interface Parameter {
  name: string;
  in: "query" | "header" | "path";
  required: boolean;
  schema: Schema;
}

export interface Operation {
  operationId: OperationId;
  method: string;
  /** From the root, with `{name}` for each path parameter. */
  path: string;
  parameters: Parameter[];
  body: { mediaType: string; schema: Schema } | undefined;
  /** The documented statuses of success. */
  successes: number[];
}

interface OperationObject {
  operationId: OperationId;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, object>;
}

/** The operations of a document. */
export function operationsOf(document: object): Operation[] {
  const { paths, servers } = dereferenced(document, document) as {
    paths: Record<string, Record<string, OperationObject>>;
    servers: { url: string }[];
  };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const { operationId, parameters = [], requestBody, responses } = operation;
      const [content] = Object.entries(requestBody?.content ?? {});
      return {
        operationId,
        method: method.toUpperCase(),
        path: `${servers[0]?.url}${path}`,
        parameters,
        body: content && { mediaType: content[0], ...content[1] },
        successes: Object.keys(responses)
          .map(Number)
          .filter((status) => status < 300),
      };
    }),
  );
}
