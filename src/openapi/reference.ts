// What the guide and the reference page say of each operation and schema, read from the published document. markdown.ts and html.ts only
// write it. Texts are Markdown.

import type { OpenApiDocument } from "./document.ts";
import { COMMON } from "./headers.ts";
import type { Response } from "./responses.ts";
import { componentSchemas, type JsonSchema } from "./schemas.ts";

/** A parameter, a body, or a field of a schema. `facts`: where it is, whether it is required, and its type with its bounds. */
export interface Field {
  name: string;
  facts: string;
  description: string;
}

/** `content` is the schema of a success, and the codes of an error. `headers`: without those that all responses can have. */
export interface DescribedResponse {
  status: string;
  content: string;
  description: string;
  headers: string[];
  example: { summary: string; json: string };
}

export type DescribedOperation = ReturnType<typeof describeOperations>[number];

/** The operations, in the order of the document. */
export function describeOperations({ paths, components }: OpenApiDocument) {
  const { schemas } = components;
  const shared: Record<string, Response> = components.responses;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const { operationId: id, tags, summary, description, parameters = [], requestBody } = operation;
      const inputs = parameters.map((each) =>
        fieldOf(each.name, [each.in, needed(each.required)], each.schema, each.description),
      );
      const body = requestBody?.content["application/json"].schema;
      if (requestBody !== undefined && body !== undefined)
        inputs.push(fieldOf("body", [needed(requestBody.required)], body, requestBody.description));
      return {
        ...{ id, summary, description, method: method.toUpperCase(), path: `/v1${path}`, inputs },
        /** As a fragment. */
        anchor: `/${tags[0]}/${id}`,
        isDeprecated: operation.deprecated === true,
        bodyFields: body === undefined ? [] : fieldsOf(schemas[nameIn(body.$ref)] ?? {}, ["body"]),
        responses: Object.entries(operation.responses).map(([status, each]) =>
          describeResponse(status, "$ref" in each ? (shared[nameIn(each.$ref)] as Response) : each),
        ),
        samples: operation["x-codeSamples"],
      };
    }),
  );
}

function describeResponse(status: string, { description, headers, content }: Response): DescribedResponse {
  const { schema, examples } = content["application/json"];
  const [{ summary, value }] = Object.values(examples) as [
    Response["content"]["application/json"]["examples"][string],
  ];
  const codes = Object.values(examples).map((each) => code((each.value as { code: string }).code));
  return {
    ...{ status, description, example: { summary, json: jsonText(value) } },
    content: schema.$ref === undefined ? [...new Set(codes)].join(" or ") : inWords(schema),
    headers: Object.keys(headers).filter((name) => !COMMON.some((each) => each === name)),
  };
}

/** The schemas, with their fields, or with themselves in words if they have none. */
export function describeSchemas({ components }: OpenApiDocument) {
  return Object.entries(components.schemas).map(([name, schema]) => {
    const { description, ...rest } = schema;
    const fields = fieldsOf(schema);
    return { name, description: `${description}`, fields, words: fields.length > 0 ? "" : inWords(rest) };
  });
}

/** `place`: where the fields are, if that has to be said. */
function fieldsOf({ properties = {}, required = [] }: JsonSchema, place: string[] = []): Field[] {
  return Object.entries(properties).map(([name, { description, ...field }]) =>
    fieldOf(name, [...place, needed((required as string[]).includes(name))], field, description),
  );
}

function fieldOf(name: string, facts: string[], schema: JsonSchema, description: unknown): Field {
  return { name, facts: [...facts, inWords(schema)].join(", "), description: `${description ?? ""}` };
}

/** A day of the usage fits into a line. */
const MAX_LINE = 112;

/** JSON in which a value that fits into a line has one. */
export function jsonText(value: unknown, indent = ""): string {
  const line = JSON.stringify(value, null, 1).replace(/\n */g, " ");
  if (typeof value !== "object" || value === null || line.length <= MAX_LINE) return line;
  const inner = `${indent}  `;
  const isList = Array.isArray(value);
  const parts = Object.entries(value).map(
    ([name, each]) => `${inner}${isList ? "" : `${JSON.stringify(name)}: `}${jsonText(each, inner)}`,
  );
  return `${isList ? "[" : "{"}\n${parts.join(",\n")}\n${indent}${isList ? "]" : "}"}`;
}

export const code = (value: unknown) => `\`${value}\``;
const needed = (required: boolean) => (required ? "required" : "optional");
const nameIn = (reference: unknown) => `${reference}`.replace(/.*\//, "");

/** The keywords of the schemas, in the order of their words. */
const WORDS: Record<string, (value: unknown, schema: JsonSchema) => string> = {
  $ref: (value) =>
    `[${nameIn(value)}](#${nameIn(value).toLowerCase()})${valuesOf(componentSchemas()[nameIn(value)])}`,
  type: (value) => `${value}`,
  items: (value) => ` of ${inWords(value as JsonSchema)}`,
  format: (value) => `, ${value}`,
  minItems: (value, { maxItems }) => `, ${bounds(value, maxItems)} items`,
  maxItems: (value, { minItems }) => (minItems === undefined ? `, at most ${value} items` : ""),
  minLength: (value, { maxLength }) =>
    value === 1 && maxLength === undefined ? ", not empty" : `, ${bounds(value, maxLength)} code points`,
  maxLength: (value, { minLength }) => (minLength === undefined ? `, at most ${value} code points` : ""),
  // The description says it in words.
  pattern: () => "",
  minimum: (value, { maximum }) => `, ${bounds(value, maximum)}`,
  maximum: (value, { minimum }) => (minimum === undefined ? `, at most ${value}` : ""),
  enum: (_, schema) => valuesOf(schema),
  anyOf: (value) => (value as JsonSchema[]).map(inWords).join(", or "),
  default: (value) => `, default ${value}`,
};

function bounds(least: unknown, most: unknown): string {
  const [first, last] = [least, most].map((each) => (each as number | undefined)?.toLocaleString("en"));
  if (first === last) return `${first}`;
  return last === undefined ? `at least ${first}` : `${first} to ${last}`;
}

function valuesOf(schema: JsonSchema | undefined): string {
  return schema?.enum === undefined ? "" : `, one of ${(schema.enum as unknown[]).map(code).join(", ")}`;
}

/** A schema in words. Throws if a keyword has none, so that no bound is missing. */
function inWords(schema: JsonSchema): string {
  const unknown = Object.keys(schema).find((keyword) => !(keyword in WORDS));
  if (unknown !== undefined) throw new Error(`no words for ${unknown}, a keyword of a schema`);
  const present = Object.entries(WORDS).filter(([keyword]) => keyword in schema);
  return present.map(([keyword, words]) => words(schema[keyword], schema)).join("");
}
