// The descriptions of the operations in the published document: parameters, bodies, responses, and examples of each.

import { MAX_BODY_BYTES } from "../http/body.ts";
import { HEADER } from "../http/header-names.ts";
import type { OperationId } from "../http/operations.ts";
import { PREFERENCE } from "../http/server-timing.ts";
import { DAYS_KEPT, MAX_USAGE_AGE_MS } from "../limits/index.ts";
import { DEPRECATED_AT, REMOVED_AT } from "../pets/deprecation.ts";
import { IDEMPOTENCY_KEY, MAX_KEY_LENGTH, RETENTION_MS } from "../pets/idempotency.ts";
import { PageQuery } from "../pets/schema.ts";
import { ERROR_MESSAGES } from "./error-examples.ts";
import { EXAMPLE_PETS, EXAMPLE_USAGE, isoDate, newPet } from "./examples.ts";
import {
  ALWAYS_POSSIBLE,
  announced,
  errorExample,
  failure,
  maybeAnnounced,
  OVER_PLAIN_HTTP,
  type Response,
  responseRef,
  SHARED_RESPONSES,
  success,
} from "./responses.ts";
import { type JsonSchema, schemaRef, toJsonSchema } from "./schemas.ts";

/** What the document says of an operation. */
export interface Description {
  tags: string[];
  summary: string;
  description: string;
  parameters?: Parameter[];
  requestBody?: {
    required: boolean;
    description: string;
    content: { "application/json": { schema: JsonSchema; examples: Record<string, BodyExample> } };
  };
  responses: Record<number, Response | { $ref: string }>;
  deprecated?: boolean;
}

/** The example of a body, as an object. */
interface BodyExample {
  summary: string;
  value: Record<string, unknown>;
}

interface Parameter {
  name: string;
  in: "query" | "header" | "path";
  required: boolean;
  description: unknown;
  schema: JsonSchema;
  /** Outside the schema, where most tools look for it. */
  example: unknown;
}

const { field, json, idempotencyKey } = ERROR_MESSAGES.invalid_request;
const { rex, mimi, goldie, zoe, bello } = EXAMPLE_PETS;

/** Of every operation. */
const PREFER: Parameter = {
  name: HEADER.prefer,
  in: "header",
  required: false,
  description: `\`${PREFERENCE}\` asks for the response header \`${HEADER.serverTiming}\`. Other preferences are ignored (RFC 7240).`,
  schema: { type: "string" },
  example: PREFERENCE,
};

const listPets = {
  tags: ["Pets"],
  summary: "List pets",
  description:
    "A page of pets, ordered by `id`. `Link` has the URL of the next page, if there is one. Each parameter may be given once; unknown parameters are ignored.",
  parameters: [...queryParameters({ limit: 2, status: "sold", cursor: "AQAAAAAAAAADaHtRVw" }), PREFER],
  responses: {
    ...ALWAYS_POSSIBLE,
    200: success("A page of pets.", schemaRef("Pets"), ["Link"], {
      firstPage: { summary: "The first two of three pets, with limit=2.", value: [rex, mimi] },
    }),
    400: failure({
      limit: errorExample("invalid_request", field.pageSize),
      status: errorExample("invalid_request", field.oneOf),
      cursor: errorExample("invalid_request", field.cursor),
      ...OVER_PLAIN_HTTP,
    }),
  },
};

const createPet = {
  tags: ["Pets"],
  summary: "Add a pet",
  description: `Adds a pet and assigns its \`id\`. Send an \`${HEADER.idempotencyKey}\`; then retrying is safe.`,
  parameters: [
    {
      name: HEADER.idempotencyKey,
      in: "header",
      required: false,
      description: `Identifies the request, so that retrying it is safe: 1 to ${MAX_KEY_LENGTH} visible ASCII characters, bare or quoted. Requests with the same key and the same pet within ${RETENTION_MS / 3_600_000} hours add one pet and get the same response.`,
      schema: { type: "string", pattern: IDEMPOTENCY_KEY.source },
      example: "order-4711",
    },
    PREFER,
  ] satisfies Parameter[],
  requestBody: {
    required: true,
    description: `At most ${MAX_BODY_BYTES / 1024} KiB.`,
    content: {
      "application/json": {
        schema: schemaRef("NewPet"),
        examples: {
          complete: { summary: "A pet with all fields.", value: newPet(zoe) },
          minimal: { summary: "A pet with the required fields.", value: newPet(bello) },
        },
      },
    },
  },
  responses: {
    ...ALWAYS_POSSIBLE,
    201: success("The new pet.", schemaRef("Pet"), ["Location", HEADER.idempotentReplayed], {
      complete: { summary: "A pet with all fields.", value: zoe },
      minimal: { summary: "A pet with the required fields.", value: bello },
      repeated: { summary: `Repeated with the same ${HEADER.idempotencyKey}.`, value: zoe },
    }),
    400: failure({
      missing: errorExample("invalid_request", field.required),
      json: errorExample("invalid_request", json.syntax),
      name: errorExample("invalid_request", idempotencyKey),
      ...OVER_PLAIN_HTTP,
    }),
    403: responseRef("Forbidden"),
    413: failure({ large: errorExample("payload_too_large", ERROR_MESSAGES.payload_too_large.body) }),
    415: failure(
      {
        text: errorExample("unsupported_media_type", ERROR_MESSAGES.unsupported_media_type.contentType),
        compressed: errorExample(
          "unsupported_media_type",
          ERROR_MESSAGES.unsupported_media_type.contentEncoding,
        ),
      },
      ["Accept-Encoding"],
    ),
    422: failure({
      reused: errorExample("idempotency_key_reused", ERROR_MESSAGES.idempotency_key_reused.otherPet),
    }),
  },
};

const getPet = {
  tags: ["Pets"],
  summary: "Get a pet",
  description: `Deprecated since ${isoDate(DEPRECATED_AT)}. Answers 410 from ${isoDate(REMOVED_AT)} on. Use the list instead, optionally with \`status\`.`,
  deprecated: true,
  "x-sunset": isoDate(REMOVED_AT),
  parameters: [
    {
      name: "petId",
      in: "path",
      required: true,
      description:
        "ID of the pet, in decimal without `+` and leading zeros. A value that is not such a 64-bit integer gets a 404.",
      schema: { type: "integer", format: "int64" },
      example: rex.id,
    },
    PREFER,
  ] satisfies Parameter[],
  responses: {
    200: announced(
      success("The pet.", schemaRef("Pet"), [], {
        complete: { summary: "A pet with all fields.", value: rex },
        minimal: { summary: "A pet with the required fields.", value: goldie },
      }),
    ),
    404: announced(failure({ pet: errorExample("not_found", ERROR_MESSAGES.not_found.pet) })),
    410: announced(
      failure({ removed: errorExample("operation_removed", ERROR_MESSAGES.operation_removed.getPet) }),
    ),
    ...ALWAYS_POSSIBLE,
    // Requests that fail before they reach the operation do not announce its removal.
    500: maybeAnnounced(SHARED_RESPONSES.InternalError),
    503: maybeAnnounced(SHARED_RESPONSES.ServiceUnavailable),
  },
};

const getUsage = {
  tags: ["Usage"],
  summary: "Get the usage of the key",
  description: `The plan of the key, all windows, the ban if there is one, and the requests on each of the last ${DAYS_KEPT} UTC days. This request consumes nothing, and works while the key is limited or banned. The windows are those of now; the days may be up to ${MAX_USAGE_AGE_MS / 1000} s old.`,
  parameters: [PREFER],
  responses: {
    200: success("The usage of the key.", schemaRef("Usage"), ["Cache-Control"], {
      unused: {
        summary: "A Free key after its first request.",
        value: EXAMPLE_USAGE,
      },
    }),
    ...ALWAYS_POSSIBLE,
    // Requests with a valid key are never refused here.
    429: responseRef("TooManyRequestsWithoutKey"),
  },
};

/** By operation id. src/openapi/document.ts adds id, method, path and code samples. */
export const DESCRIPTIONS = { listPets, createPet, getPet, getUsage } satisfies Record<
  OperationId,
  Description
>;

/** The parameters of the list operation. */
function queryParameters(examples: Record<keyof typeof PageQuery.shape, unknown>): Parameter[] {
  const { properties = {} } = toJsonSchema(PageQuery);
  return Object.entries(examples).map(([name, example]) => {
    const { description, ...schema } = properties[name] ?? {};
    return { name, in: "query", required: false, description, schema, example };
  });
}
