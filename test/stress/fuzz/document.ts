// The operations of the OpenAPI document. The fuzzer has no fields or bounds of its own, so it covers every addition to the document.

import { methodsOf, OPERATION_IDS, OPERATIONS as ROUTES } from "../../../src/http/operations.ts";
import { DOCUMENT, DOCUMENTED, dereferenced } from "../../support/openapi-document.ts";

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

interface Description {
  parameters?: { name: string; in: "query" | "header" | "path"; required: boolean; schema: Schema }[];
  requestBody?: { content: { "application/json": { schema: Schema } } };
  responses: Record<number, object>;
}

export type Operation = (typeof OPERATIONS)[number];
export type Parameter = Operation["parameters"][number];

/** `path` has `{name}` for a path parameter, `methods` are all of the path, and `success` is the status of success. */
export const OPERATIONS = OPERATION_IDS.map((id) => {
  const { parameters = [], requestBody, responses } = dereferenced(DOCUMENTED[id], DOCUMENT) as Description;
  const { method, path } = ROUTES[id];
  return {
    id,
    method: method.toUpperCase(),
    methods: methodsOf(path),
    path: `/v1${path}`,
    parameters,
    body: requestBody?.content["application/json"].schema,
    success: Number(Object.keys(responses).find((status) => status < "300")),
  };
});
