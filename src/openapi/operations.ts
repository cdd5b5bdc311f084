// How the published document describes the operations (contract, section 4, and GET /v1/usage).

import { MAX_BODY_BYTES } from "../http/body.ts";
import { FIELD_PROBLEMS, MESSAGES } from "../http/messages.ts";
import { MAX_LEVELS, MAX_VALUES } from "../lib/json-scanner.ts";
import { DEPRECATED_AT, REMOVED_AT, SUNSET } from "../pets/deprecation.ts";
import { REMEMBERED_MS } from "../pets/idempotency.ts";
import { IDEMPOTENCY_KEY } from "../pets/idempotency-key.ts";
import { MAX_PAGE_SIZE, PageQuery, PET_STATUSES } from "../pets/schema.ts";
import { DAYS_KEPT } from "../rate-limit/protocol.ts";
import { HEADERS, REAL_NAMES } from "./headers.ts";
import {
  ALWAYS_POSSIBLE,
  errorExample,
  failure,
  headerRefs,
  OVER_PLAIN_HTTP,
  type Response,
  responseRef,
  SHARED_RESPONSES,
  success,
} from "./responses.ts";
import { type JsonSchema, schemaRef, toJsonSchema } from "./schemas.ts";

/** The pets of the examples: the first three are there, the others are added. */
export const EXAMPLE_PETS = {
  rex: { id: 1, name: "Rex", categoryId: 1, status: "available" },
  mimi: { id: 2, name: "Mimi", categoryId: 2, status: "pending" },
  goldie: { id: 3, name: "Goldie", categoryId: 3 },
  zoe: { id: 4, name: "Zoë", categoryId: 2, status: "available" },
  bello: { id: 5, name: "Bello", categoryId: 1 },
} as const;

const { field, json, idempotencyKey } = MESSAGES.invalid_request;
const { rex, mimi, goldie, zoe, bello } = EXAMPLE_PETS;

const ANNOUNCEMENT = ["Deprecation", "Sunset", "DeprecationLink"] as const;

interface Parameter {
  name: string;
  in: "query" | "header" | "path";
  required: boolean;
  description: unknown;
  schema: JsonSchema;
  /** Beside the schema, where most tools look for it. */
  example: unknown;
}

export const listPets = {
  operationId: "listPets",
  tags: ["Pets"],
  summary: "List pets",
  description:
    "A page of pets, ordered by `id`. As long as there are more, `Link` says where the next page is. A parameter may be given once; one that is not listed here is ignored.",
  parameters: queryParameters({ limit: 2, status: "sold", cursor: "AQAAAAAAAAADaHtRVw" }),
  responses: {
    ...ALWAYS_POSSIBLE,
    200: success("A page of pets.", schemaRef("Pets"), ["Link"], {
      firstPage: { summary: "The first two pets of three, with limit=2.", value: [rex, mimi] },
    }),
    400: failure({
      limit: errorExample(
        "invalid_request",
        "limit=0.",
        field("limit", FIELD_PROBLEMS.pageSize(MAX_PAGE_SIZE)),
      ),
      status: errorExample(
        "invalid_request",
        "status=lost.",
        field("status", FIELD_PROBLEMS.oneOf(PET_STATUSES)),
      ),
      cursor: errorExample(
        "invalid_request",
        "A cursor that was made up.",
        field("cursor", FIELD_PROBLEMS.cursor),
      ),
      ...OVER_PLAIN_HTTP,
    }),
  },
};

export const createPet = {
  operationId: "createPet",
  tags: ["Pets"],
  summary: "Add a pet",
  description:
    "Adds a pet and gives it an `id`. Whoever may have to send it again, because no answer came, names the creation by `Idempotency-Key`.",
  parameters: [
    {
      name: "Idempotency-Key",
      in: "header",
      required: false,
      description: `A name that you invent for this creation: 1 to 255 visible ASCII characters, bare or quoted. Whoever sends the same pet under the same name within ${REMEMBERED_MS / 3_600_000} hours gets the same answer, and no second pet.`,
      schema: { type: "string", pattern: IDEMPOTENCY_KEY.source },
      example: "order-4711",
    },
  ] satisfies Parameter[],
  requestBody: {
    required: true,
    description: `At most ${MAX_BODY_BYTES / 1024} KiB, ${MAX_VALUES.toLocaleString("en")} values and ${MAX_LEVELS} levels of objects and arrays. Names of fields are not values.`,
    content: {
      "application/json": {
        schema: schemaRef("NewPet"),
        examples: {
          complete: { summary: "With a status.", value: without(zoe, "id") },
          withoutStatus: { summary: "Without a status.", value: without(bello, "id") },
        },
      },
    },
  },
  responses: {
    ...ALWAYS_POSSIBLE,
    201: success("The pet that was added.", schemaRef("Pet"), ["Location"], {
      complete: { summary: "With a status.", value: zoe },
      withoutStatus: { summary: "Without a status.", value: bello },
    }),
    400: failure({
      missing: errorExample(
        "invalid_request",
        "No categoryId.",
        field("categoryId", FIELD_PROBLEMS.required),
      ),
      json: errorExample("invalid_request", "A body that is no JSON.", json.syntax),
      name: errorExample("invalid_request", "An Idempotency-Key with a space in it.", idempotencyKey),
      ...OVER_PLAIN_HTTP,
    }),
    413: failure({
      large: errorExample(
        "payload_too_large",
        "A body of 70,000 bytes.",
        MESSAGES.payload_too_large.body(MAX_BODY_BYTES),
      ),
    }),
    415: failure(
      {
        text: errorExample(
          "unsupported_media_type",
          "A body of text/plain.",
          MESSAGES.unsupported_media_type.contentType,
        ),
        compressed: errorExample(
          "unsupported_media_type",
          "A compressed body.",
          MESSAGES.unsupported_media_type.contentEncoding,
        ),
      },
      ["Accept-Encoding"],
    ),
    422: failure({
      reused: errorExample(
        "idempotency_key_reused",
        "Another pet under the name of an earlier one.",
        MESSAGES.idempotency_key_reused.otherPet(REMEMBERED_MS / 3_600_000),
      ),
    }),
  },
};

export const getPet = {
  operationId: "getPet",
  tags: ["Pets"],
  summary: "Get a pet",
  description: `Deprecated since ${day(DEPRECATED_AT)}. On ${day(REMOVED_AT)} it is removed, and answers 410 from then on. Use the list instead, with \`status\` if it helps.`,
  deprecated: true,
  "x-sunset": day(REMOVED_AT),
  parameters: [
    {
      name: "petId",
      in: "path",
      required: true,
      description: "The id of the pet. What is no integer of 64 bits is the id of no pet, so it is a 404.",
      schema: { type: "integer", format: "int64" },
      example: rex.id,
    },
  ] satisfies Parameter[],
  responses: {
    200: announced(
      success("The pet.", schemaRef("Pet"), [], {
        complete: { summary: "With a status.", value: rex },
        withoutStatus: { summary: "Without a status.", value: goldie },
      }),
    ),
    404: announced(
      failure({ pet: errorExample("not_found", "An id that no pet has.", MESSAGES.not_found.pet) }),
    ),
    410: announced(
      failure({
        removed: errorExample(
          "operation_removed",
          "Any id, from 5 December 2030 on.",
          MESSAGES.operation_removed.getPet(SUNSET),
        ),
      }),
    ),
    ...ALWAYS_POSSIBLE,
    // What fails before the operation is reached does not announce its end.
    500: perhapsAnnounced(SHARED_RESPONSES.InternalError),
    503: perhapsAnnounced(SHARED_RESPONSES.ServiceUnavailable),
  },
};

export const getUsage = {
  operationId: "getUsage",
  tags: ["Usage"],
  summary: "See how the key stands",
  description: `The plan of the key, both windows, a ban if there is one, and what became of its requests on the last ${DAYS_KEPT} UTC days. It costs nothing, and works while the key is limited or banned. It may be as old as a second.`,
  responses: {
    200: success("How the key stands.", schemaRef("Usage"), ["Cache-Control"], {
      unused: {
        summary: "A Free key after its first request.",
        value: {
          plan: "free",
          minute: { limit: 60, used: 1, remaining: 59, reset: 1795178100 },
          day: { limit: 1000, used: 1, remaining: 999, reset: 1795219200 },
          bannedUntil: null,
          days: lastDays("2026-11-20", { admitted: 1, refused: 0 }),
        },
      },
    }),
    ...ALWAYS_POSSIBLE,
    // A valid key is not refused here.
    429: responseRef("TooManyRequestsWithoutKey"),
  },
};

/** The parameters of a list, each with its example. */
function queryParameters(examples: Record<keyof typeof PageQuery.shape, unknown>): Parameter[] {
  const { properties = {} } = toJsonSchema(PageQuery);
  return Object.entries(examples).map(([name, example]) => {
    const { description, ...schema } = properties[name] ?? {};
    return { name, in: "query", required: false, description, schema, example };
  });
}

/** A response that says when the operation goes. */
function announced(response: Response): Response {
  return { ...response, headers: { ...response.headers, ...headerRefs(ANNOUNCEMENT) } };
}

/** A response that says so if the operation was reached. */
function perhapsAnnounced(response: Response): Response {
  const perhaps = ANNOUNCEMENT.map((name) => [
    REAL_NAMES[name] ?? name,
    { ...HEADERS[name], required: false },
  ]);
  return { ...response, headers: { ...response.headers, ...Object.fromEntries(perhaps) } };
}

/** The last days of a key that nobody has used before `today`. */
function lastDays(today: string, total: { admitted: number; refused: number }) {
  const days = Array.from({ length: DAYS_KEPT }, (_, index) => {
    const date = new Date(Date.parse(today) - (DAYS_KEPT - 1 - index) * 86_400_000);
    return { date: day(date), admitted: 0, refused: 0 };
  });
  return [...days.slice(0, -1), { date: today, ...total }];
}

function without<Value extends object, Name extends keyof Value>(
  value: Value,
  name: Name,
): Omit<Value, Name> {
  const { [name]: _, ...rest } = value;
  return rest;
}

/** A date as ISO 8601 writes it. */
function day(date: Date): string {
  return date.toISOString().slice(0, 10);
}
