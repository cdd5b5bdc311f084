// How input that breaks a schema is refused: with `invalid_request` and a sentence for each field.
// The one file that knows `@hono/zod-validator`.

import { zValidator } from "@hono/zod-validator";
import type { HonoRequest } from "hono";
import type * as z from "zod/mini";
import { BoundedMap } from "../lib/bounded-map.ts";
import { ApiError } from "./errors.ts";
import { MESSAGES } from "./messages.ts";

/** Queries that were found valid are remembered: together about 1 MB of the 128 that an isolate has. */
const MAX_REMEMBERED = 1_000;
const MAX_REMEMBERED_CHARACTERS = 300;

/** What reads the query of a request as `schema` does, if it fits that. */
export function queryReader<Schema extends z.ZodMiniType>(
  schema: Schema,
): (request: HonoRequest) => z.output<Schema> | undefined {
  const remembered = new BoundedMap<string, z.output<Schema>>(MAX_REMEMBERED);
  return function readQuery(request) {
    const { url } = request;
    const start = url.indexOf("?");
    const search = start === -1 ? "" : url.slice(start);
    const known = remembered.get(search);
    if (known !== undefined) return known;
    const parameters = Object.entries(request.queries());
    const query = schema.safeParse(
      Object.fromEntries(
        parameters.map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
      ),
    );
    if (query.success && search.length <= MAX_REMEMBERED_CHARACTERS) remembered.set(search, query.data);
    return query.data;
  };
}

/** Makes the query available as `c.req.valid("query")`, fitting `schema`. Throws `invalid_request`. */
export function validQuery<Schema extends z.ZodMiniType>(schema: Schema, read = queryReader(schema)) {
  const validate = zValidator("query", schema, (result) => {
    if (!result.success) throw invalidRequest(result.error.issues);
  });
  const validQuery: typeof validate = (c, next) => {
    const query = read(c.req);
    // What is wrong with it is the validator's to say.
    if (query === undefined) return validate(c, next);
    c.req.addValidatedData("query", query as object);
    return next();
  };
  return validQuery;
}

/** The error for what a schema found wrong: `name: is required; status: must be one of …`. */
export function invalidRequest(issues: readonly z.core.$ZodIssue[]): ApiError {
  const { field } = MESSAGES.invalid_request;
  const problems = issues.map(({ path, message }) => field(path.join(".") || "body", message));
  return new ApiError("invalid_request", problems.join("; "));
}
