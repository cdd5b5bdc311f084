// The operations of the OpenAPI document, with their parameters, bodies and statuses. The fuzzer has no fields or bounds of its own, so
// it covers every addition to the document.

import type { OperationId } from "../../../src/http/operations.ts";
import { DOCUMENT, dereferenced } from "../../support/openapi-document.ts";

type Bound = "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems";

/** The keywords of a schema that values are generated from. The validation knows all others too. */
export interface Schema extends Partial<Record<Bound, number>> {
  type?: string;
  enum?: string[];
  pattern?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  default?: unknown;
}

export interface Parameter {
  name: string;
  in: "query" | "header" | "path";
  required: boolean;
  schema: Schema;
}

interface OperationObject {
  operationId: OperationId;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, object>;
}

const { paths, servers } = dereferenced(DOCUMENT, DOCUMENT) as {
  paths: Record<string, Record<string, OperationObject>>;
  servers: [{ url: string }];
};

export type Operation = (typeof OPERATIONS)[number];

/** `path` is from the root, with `{name}` for each path parameter. `successes` are the documented statuses of success. */
export const OPERATIONS = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, { operationId, parameters = [], requestBody, responses }]) => ({
    operationId,
    method: method.toUpperCase(),
    path: `${servers[0].url}${path}`,
    parameters,
    body: Object.entries(requestBody?.content ?? {}).map(([mediaType, { schema }]) => ({
      mediaType,
      schema,
    }))[0],
    successes: Object.keys(responses)
      .map(Number)
      .filter((status) => status < 300),
  })),
);

/** The methods of an operation's path. */
export function methodsOf({ path }: Operation): string[] {
  const methods = OPERATIONS.filter((each) => each.path === path).map(({ method }) => method);
  // RFC 9110, section 9.3.2: HEAD is GET without the body.
  return methods.includes("GET") ? [...methods, "HEAD"] : methods;
}
