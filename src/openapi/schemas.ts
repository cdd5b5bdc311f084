// The schemas of the published document: the zod schemas that validate, converted to JSON Schema 2020-12, as OpenAPI 3.1 requires.
// The service does not validate its responses, so their schemas are only here. Types check them against the code, and tests
// validate every response.

import * as z from "zod/mini";
import { ERROR_STATUS, type ErrorCode } from "../http/errors.ts";
import { forEachWindow, PLANS, SHORT_WINDOWS } from "../keys/plans.ts";
import type { UsageBody } from "../keys/usage/usage-body.ts";
import { DAYS_KEPT, MAX_LIMIT } from "../limits/index.ts";
import { MAX_PAGE_SIZE, NewPet, PET_STATUSES, Pet } from "../pets/schema.ts";

/** The part of JSON Schema that this service needs. */
export interface JsonSchema {
  type?: string | string[];
  properties?: Record<string, JsonSchema>;
  [keyword: string]: unknown;
}

const CODES = Object.keys(ERROR_STATUS) as ErrorCode[];

const count = (description: string) => z.int().check(z.gte(0), z.meta({ description }));

const ApiErrorBody = z.strictObject({
  code: z.enum(CODES).check(z.meta({ description: "The kind of error. Branch on it." })),
  message: z
    .string()
    .check(z.minLength(1), z.meta({ description: "What is wrong, in English. Show it to people." })),
  status: z
    .literal([...new Set(Object.values(ERROR_STATUS))])
    .check(z.meta({ type: "integer", description: "Same as the status of the response." })),
});

const UsageWindow = z.strictObject({
  limit: z
    .int()
    .check(z.gte(1), z.lte(MAX_LIMIT), z.meta({ description: "Requests that the window admits." })),
  used: count("Requests admitted so far."),
  remaining: count("Requests remaining. During a ban none of them is admitted: see `bannedUntil`."),
  reset: count("Start of the next window (Unix time in seconds)."),
});

const UsageWindows = z.strictObject(forEachWindow(() => UsageWindow));

const Refused = z.strictObject(
  forEachWindow((name) => count(`Requests refused because the ${name}'s limit was used up.`)),
);

const Busiest = z.strictObject(
  Object.fromEntries(
    SHORT_WINDOWS.map((name) => [name, count(`The most requests, admitted and refused, in one ${name}.`)]),
  ),
);

const UsageDay = z.strictObject({
  date: z.string().check(z.meta({ format: "date", description: "The UTC day." })),
  admitted: count("Admitted requests."),
  refusedBy: Refused,
  busiest: Busiest,
});

const Usage = z.strictObject({
  plan: z.enum(PLANS).check(z.meta({ description: "The plan of the key." })),
  windows: UsageWindows,
  bannedUntil: z
    .nullable(z.int().check(z.gte(0)))
    .check(z.meta({ description: "End of the ban (Unix time in seconds), or null." })),
  days: z
    .array(UsageDay)
    .check(
      z.minLength(DAYS_KEPT),
      z.maxLength(DAYS_KEPT),
      z.meta({ description: `The last ${DAYS_KEPT} UTC days, oldest first; the last entry is today.` }),
    ),
}) satisfies z.ZodMiniType<UsageBody>;

/** The schemas that the document names. Generated clients have types of these names. */
const NAMED = {
  NewPet: [NewPet, "A pet to add. Unknown fields are ignored."],
  Pet: [Pet, "A pet for sale. Optional fields that were not given are absent."],
  PetStatus: [z.enum(PET_STATUSES), "Sales status of a pet."],
  Error: [ApiErrorBody, "The body of every error: exactly these three fields."],
  UsageWindow: [UsageWindow, "One window, such as the current UTC day."],
  UsageWindows: [UsageWindows, "The windows of now, the shortest first."],
  Refused: [Refused, "Refused requests, by the window whose limit was used up."],
  Busiest: [Busiest, "The fullest windows of a day, of those that are shorter than a day."],
  UsageDay: [UsageDay, "Requests of a key on one UTC day."],
  Usage: [Usage, "Usage of a key."],
} as const satisfies Record<string, readonly [z.ZodMiniType, string]>;

/** A reference to a named schema. */
export function schemaRef(name: keyof typeof NAMED | "Pets"): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** The schemas by name. */
export function componentSchemas(): Record<string, JsonSchema> {
  const described = Object.entries(NAMED).map(([name, [schema, description]]) => [
    name,
    { description, ...toJsonSchema(schema, { root: schema, io: schema === NewPet ? "input" : "output" }) },
  ]);
  const Pets: JsonSchema = {
    description: "A page of pets, ordered by `id`.",
    type: "array",
    items: schemaRef("Pet"),
    maxItems: MAX_PAGE_SIZE,
  };
  return { ...Object.fromEntries(described), Pets };
}

/**
 * Converts a schema: its input type with `io: "input"`, otherwise its output type. Named parts become references, except the
 * `root`.
 */
export function toJsonSchema(
  schema: z.ZodMiniType,
  { root, io = "output" }: { root?: z.ZodMiniType; io?: "input" | "output" } = {},
): JsonSchema {
  const { $schema: _, ...jsonSchema } = z.toJSONSchema(schema, {
    io,
    // 64-bit integers are bigint, which zod can't convert.
    unrepresentable: "any",
    override({ zodSchema, jsonSchema: part }) {
      if (zodSchema._zod.def.type === "bigint") Object.assign(part, { type: "integer", format: "int64" });
      // The largest safe integer of JavaScript is no limit of the service.
      if (part.maximum === Number.MAX_SAFE_INTEGER) delete part.maximum;
      const name = nameOf(zodSchema);
      if (name === undefined || zodSchema === (root as z.core.$ZodType | undefined)) return;
      const { description } = part;
      for (const keyword of Object.keys(part)) delete part[keyword];
      Object.assign(part, schemaRef(name), description === undefined ? {} : { description });
    },
  });
  return jsonSchema as JsonSchema;
}

/** Enumerations of statuses differ only in their error messages, so they are recognised by their values. */
function nameOf(schema: z.core.$ZodType): keyof typeof NAMED | undefined {
  const names = Object.keys(NAMED) as (keyof typeof NAMED)[];
  const isStatus =
    schema instanceof z.ZodMiniEnum && PET_STATUSES.every((each) => schema.options.includes(each));
  return isStatus ? "PetStatus" : names.find((name) => NAMED[name][0] === schema);
}
