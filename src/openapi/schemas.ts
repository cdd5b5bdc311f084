// What the published document says about values: the zod schemas that validate, in JSON Schema 2020-12, which is what
// OpenAPI 3.1 speaks. Responses are not validated when they are made, so their schemas are only here; the types hold them
// to what the code gives, and the tests hold every answer to them.

import * as z from "zod/mini";
import { ERROR_STATUS, type ErrorCode } from "../http/errors.ts";
import { MAX_PAGE_SIZE, NewPet, PET_STATUSES, Pet } from "../pets/schema.ts";
import { MAX_LIMIT, PLAN_LIMITS, type Plan } from "../rate-limit/plans.ts";
import { DAYS_KEPT } from "../rate-limit/protocol.ts";
import type { UsageBody } from "../rate-limit/usage/usage-body.ts";

/** JSON Schema, as far as this service needs it. */
export interface JsonSchema {
  type?: string | string[];
  properties?: Record<string, JsonSchema>;
  [keyword: string]: unknown;
}

const CODES = Object.keys(ERROR_STATUS) as ErrorCode[];
const PLANS = Object.keys(PLAN_LIMITS) as Plan[];

const count = (description: string) => z.int().check(z.gte(0), z.meta({ description }));

const ApiErrorBody = z.strictObject({
  code: z.enum(CODES).check(z.meta({ description: "What went wrong, for programs." })),
  message: z.string().check(z.minLength(1), z.meta({ description: "What went wrong, for people." })),
  status: z
    .literal([...new Set(Object.values(ERROR_STATUS))])
    .check(z.meta({ type: "integer", description: "The HTTP status of the response." })),
});

const UsageWindow = z.strictObject({
  limit: z
    .int()
    .check(z.gte(1), z.lte(MAX_LIMIT), z.meta({ description: "Requests that the window admits." })),
  used: count("Requests that it has admitted."),
  remaining: count("Requests that it has left. During a ban none of them is admitted: see `bannedUntil`."),
  reset: count("When the next window begins, in Unix time."),
});

const UsageDay = z.strictObject({
  date: z.string().check(z.meta({ format: "date", description: "The UTC day." })),
  admitted: count("Requests that were admitted."),
  refused: count("Requests that were refused because a window was used up."),
});

const Usage = z.strictObject({
  plan: z.enum(PLANS).check(z.meta({ description: "The plan that the key is on." })),
  minute: UsageWindow,
  day: UsageWindow,
  bannedUntil: z
    .nullable(z.int().check(z.gte(0)))
    .check(z.meta({ description: "When the ban of the key ends, in Unix time; null if there is none." })),
  days: z
    .array(UsageDay)
    .check(
      z.minLength(DAYS_KEPT),
      z.maxLength(DAYS_KEPT),
      z.meta({ description: `The last ${DAYS_KEPT} UTC days, the oldest first; the last one is today.` }),
    ),
}) satisfies z.ZodMiniType<UsageBody>;

/** The schemas that the document names, each under its name in the contract, section 2, if it has one there. */
const NAMED = {
  NewPet: [NewPet, "What a pet is made of when it is added. Fields that are not listed here are ignored."],
  Pet: [Pet, "A pet for sale. `status` is left out if it was not given."],
  PetStatus: [z.enum(PET_STATUSES), "How far the sale of a pet has got."],
  Error: [ApiErrorBody, "The body of every error: exactly these three fields."],
  UsageWindow: [UsageWindow, "One window: the current UTC minute, or the current UTC day."],
  UsageDay: [UsageDay, "What became of a key's requests on one UTC day."],
  Usage: [Usage, "How a key stands."],
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
 * A schema in JSON Schema: with `input` what it accepts, else what it gives when it has read its text. Parts that have a
 * name are references, unless they are the `root`.
 */
export function toJsonSchema(
  schema: z.ZodMiniType,
  { root, io = "output" }: { root?: z.ZodMiniType; io?: "input" | "output" } = {},
): JsonSchema {
  const { $schema: _, ...jsonSchema } = z.toJSONSchema(schema, {
    io,
    // Integers of 64 bits are bigint here, for which zod knows no JSON.
    unrepresentable: "any",
    override({ zodSchema, jsonSchema: part }) {
      if (zodSchema._zod.def.type === "bigint") Object.assign(part, { type: "integer", format: "int64" });
      // That no number is larger than JavaScript can count says nothing about the service.
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

/** Enumerations of statuses differ in their error messages only, so they go by what they enumerate. */
function nameOf(schema: z.core.$ZodType): keyof typeof NAMED | undefined {
  const names = Object.keys(NAMED) as (keyof typeof NAMED)[];
  const isStatus =
    schema instanceof z.ZodMiniEnum && PET_STATUSES.every((each) => schema.options.includes(each));
  return isStatus ? "PetStatus" : names.find((name) => NAMED[name][0] === schema);
}
