// The operations of the document as the console and the code samples need them. An input that they can't show fails the build.

import { HEADER } from "../http/header-names.ts";
import { FIELD_PROBLEMS, MESSAGES } from "../http/messages.ts";
import { OPERATIONS, type OperationId } from "../http/operations.ts";
import { INT64_MAX, INT64_MIN } from "../lib/int64.ts";
import { REMOVED_AT } from "../pets/deprecation.ts";
import { MAX_KEY_LENGTH } from "../pets/idempotency.ts";
import { PET_STATUSES } from "../pets/schema.ts";
import type { Input, Operation, Values } from "../samples/operation.ts";
import { LANGUAGES, PLACEHOLDERS, sampleOf } from "../samples/samples.ts";
import { isoDate } from "./examples.ts";
import type { Description } from "./operations.ts";
import { componentSchemas, type JsonSchema } from "./schemas.ts";

/** What programs call, and what they should know. */
interface Program extends Pick<Operation, "call" | "result" | "note"> {
  /** What the published samples have besides the required inputs. */
  values?: Values;
}

const PROGRAMS: Record<OperationId, Program> = {
  listPets: { call: "pets.list", result: "page", note: "The response links the next page, if there is one." },
  createPet: {
    call: "pets.create",
    result: "pet",
    note: `A retry with the same ${HEADER.idempotencyKey} adds no second pet.`,
    values: { [HEADER.idempotencyKey]: "order-4711", status: PET_STATUSES[0] },
  },
  getPet: {
    call: "pets.get",
    result: "pet",
    note: `Deprecated: it answers 410 from ${isoDate(REMOVED_AT)} on. List pets instead.`,
  },
  getUsage: { call: "usage", result: "usage" },
};

/** What is wrong with a text that does not match the pattern, if the words for integers and names don't say it. */
const PROBLEMS: Record<string, string> = {
  [HEADER.idempotencyKey]: MESSAGES.invalid_request.idempotencyKey(MAX_KEY_LENGTH).replace(/^.*?: /, ""),
  [HEADER.prefer]: "must be ASCII, without blanks around it",
};

export interface Sample {
  lang: string;
  label: string;
  source: string;
}

export function consoleOperation(id: OperationId, description: Description): Operation {
  const { method, path } = OPERATIONS[id];
  const { call, result, note } = PROGRAMS[id];
  const parameters = (description.parameters ?? []).map(({ name, in: place, required, schema, example }) =>
    inputOf(name, place, required, schema, example),
  );
  const inputs = [...parameters, ...bodyInputs(description)];
  const [, success] = Object.entries(description.responses).find(([status]) => status.startsWith("2")) ?? [];
  if (success === undefined || "$ref" in success) throw new Error(`${id} has no success of its own`);
  return {
    id,
    method,
    path: `/v1${path}`,
    inputs,
    call,
    result,
    success: success.description,
    ...(note === undefined ? {} : { note }),
  };
}

/** The samples of the document. */
export function codeSamples(id: OperationId, description: Description): Sample[] {
  const operation = consoleOperation(id, description);
  return LANGUAGES.map((label) => ({
    lang: label === "curl" ? "Shell" : label,
    label,
    source: sampleOf(operation, label, PLACEHOLDERS, PROGRAMS[id].values ?? {}),
  }));
}

/** The fields of the body, with the values of its first example. */
function bodyInputs({ requestBody }: Description): Input[] {
  if (requestBody === undefined) return [];
  const { schema, examples } = requestBody.content["application/json"];
  const { properties = {}, required = [] } = resolved(schema);
  const [example] = Object.values(examples);
  return Object.entries(properties).map(([name, each]) =>
    inputOf(name, "body", (required as string[]).includes(name), each, example?.value[name]),
  );
}

function inputOf(
  name: string,
  place: Input["place"],
  isRequired: boolean,
  schema: JsonSchema,
  example: unknown,
): Input {
  const { type, minimum, maximum, maxLength, pattern, enum: choices, format } = resolved(schema);
  const base = { name, place, isRequired, example: `${example}` };
  const problem = PROBLEMS[name];
  if (type === "integer") {
    const range = [minimum ?? INT64_MIN, maximum ?? INT64_MAX].map(String) as [string, string];
    return { ...base, type, range, ...(format === "int64" ? { problem: FIELD_PROBLEMS.int64 } : {}) };
  }
  if (type !== "string") throw new Error(`no field for ${name}, an input of type ${type}`);
  // fetch rejects other characters in a header like a failure of the network.
  const fit = pattern ?? (place === "header" ? "^[!-~]([ -~]*[!-~])?$" : undefined);
  return {
    ...base,
    type,
    ...(choices === undefined ? {} : { choices: choices as string[] }),
    ...(maxLength === undefined ? {} : { maxLength: maxLength as number }),
    ...(fit === undefined ? {} : { pattern: fit as string }),
    ...(problem === undefined ? {} : { problem }),
  };
}

function resolved(schema: JsonSchema): JsonSchema {
  const { $ref } = schema as { $ref?: string };
  return $ref === undefined ? schema : (componentSchemas()[$ref.replace(/.*\//, "")] ?? schema);
}
