// The schemas of pets and of their queries: validation, error texts and descriptions for the OpenAPI document.

import * as z from "zod/mini";
import { FIELD_PROBLEMS } from "../http/messages.ts";
import { decodeCursor } from "./cursor.ts";

export const MAX_NAME_CODE_POINTS = 255;
export const MAX_PAGE_SIZE = 100;
const DEFAULT_PAGE_SIZE = 20;

export const PET_STATUSES = ["available", "pending", "sold"] as const;
const STATUS_PROBLEM = FIELD_PROBLEMS.oneOf(PET_STATUSES);

/** The body of a creation. Unknown fields are dropped. How each field is stored: columns.ts. */
export const NewPet = z.object(
  {
    name: z.string(orMissing(FIELD_PROBLEMS.string)).check(
      z.refine((name) => hasLength(name, MAX_NAME_CODE_POINTS), FIELD_PROBLEMS.length(MAX_NAME_CODE_POINTS)),
      z.refine((name) => name.isWellFormed() && !name.includes("\0"), FIELD_PROBLEMS.unicode),
      // JSON Schema counts code points; zod's length checks count UTF-16 code units.
      z.meta({
        description:
          "Name of the pet: well-formed Unicode without U+0000. It is stored as sent, neither trimmed nor normalised.",
        minLength: 1,
        maxLength: MAX_NAME_CODE_POINTS,
        pattern: "^[^\\u0000]*$",
      }),
    ),
    categoryId: int64(
      z
        .int64(orMissing(FIELD_PROBLEMS.int64))
        .check(z.meta({ description: "Category of the pet: any 64-bit integer." })),
    ),
    status: z
      .optional(z.enum(PET_STATUSES, STATUS_PROBLEM))
      .check(z.meta({ description: "Sales status. It stays absent if it is not given; null is refused." })),
  },
  FIELD_PROBLEMS.object,
);
export type NewPet = z.output<typeof NewPet>;

export const Pet = z.object({
  id: z.int64().check(z.meta({ description: "ID of the pet. IDs are never reused." })),
  ...NewPet.shape,
});
export type Pet = z.output<typeof Pet>;

const PAGE_SIZE_PROBLEM = FIELD_PROBLEMS.pageSize(MAX_PAGE_SIZE);

/** The query of a list ("Pagination" in the guide). */
export const PageQuery = z.object({
  limit: z
    ._default(
      z.pipe(
        z.pipe(
          z.string(orRepeated(PAGE_SIZE_PROBLEM)).check(z.regex(/^[0-9]+$/, PAGE_SIZE_PROBLEM)),
          z.transform(Number),
        ),
        z
          .number(PAGE_SIZE_PROBLEM)
          .check(z.gte(1, PAGE_SIZE_PROBLEM), z.lte(MAX_PAGE_SIZE, PAGE_SIZE_PROBLEM)),
      ),
      DEFAULT_PAGE_SIZE,
    )
    .check(z.meta({ type: "integer", description: "Page size." })),
  status: z
    .optional(z.enum(PET_STATUSES, orRepeated(STATUS_PROBLEM)))
    .check(
      z.meta({ description: "Only pets with this status. Pets without one are in none of these lists." }),
    ),
  cursor: z
    .optional(
      z.pipe(
        z.string(orRepeated(FIELD_PROBLEMS.cursor)),
        z.transform((text, context): bigint => {
          const cursor = decodeCursor(text);
          if (cursor !== undefined) return cursor;
          context.issues.push({ code: "custom", input: text, message: FIELD_PROBLEMS.cursor });
          return z.NEVER;
        }),
      ),
    )
    .check(
      z.meta({
        type: "string",
        description: "Start of the page, from the `Link` header of the previous page. Cursors are opaque.",
      }),
    ),
});
export type PageQuery = z.output<typeof PageQuery>;

const PARAMETERS = Object.keys(PageQuery.shape) as (keyof PageQuery)[];

/** All parameters that a query has, as the text of a URL: for the next page, with its cursor. Equal queries have equal texts. */
export function pageQueryText(query: Partial<Record<keyof PageQuery, unknown>>): string {
  // A parsed query can have another order.
  const given = PARAMETERS.filter((name) => query[name] !== undefined);
  return given.map((name) => `${name}=${encodeURIComponent(`${query[name]}`)}`).join("&");
}

/** An int64 in a body, where a safe integer is a number and any other int64 a `bigint` (`parseJson`). */
function int64<Schema extends z.ZodMiniType<bigint, bigint>>(schema: Schema) {
  const toBigInt = (value: unknown) => (Number.isSafeInteger(value) ? BigInt(value as number) : value);
  return z.pipe(z.transform(toBigInt), schema);
}

/** The error for a value of the wrong type: it is missing, or `problem`. */
function orMissing(problem: string) {
  return {
    error: ({ input }: { input?: unknown }) => (input === undefined ? FIELD_PROBLEMS.required : problem),
  };
}

/** The same for a query parameter, which is an array if it is repeated. */
function orRepeated(problem: string) {
  return {
    error: ({ input }: { input?: unknown }) => (Array.isArray(input) ? FIELD_PROBLEMS.repeated : problem),
  };
}

function hasLength(text: string, maxCodePoints: number): boolean {
  // A code point takes at most two UTF-16 code units. Counting is slow, and a body may have a long text.
  if (text.length > 2 * maxCodePoints) return false;
  const length = [...text].length;
  return length >= 1 && length <= maxCodePoints;
}
