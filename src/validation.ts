// How input that breaks a schema is refused: with `invalid_request` and a sentence for each field.
// The one file that knows `@hono/zod-validator`.

import { zValidator } from "@hono/zod-validator";
import type * as z from "zod/mini";
import { ApiError } from "./errors.ts";

/** Makes the query available as `c.req.valid("query")`, fitting `schema`. Throws `invalid_request`. */
export function validQuery<Schema extends z.ZodMiniType>(schema: Schema) {
  return zValidator("query", schema, (result) => {
    if (!result.success) throw invalidRequest(result.error.issues);
  });
}

/** The error for what a schema found wrong: `name: is required; status: must be one of …`. */
export function invalidRequest(issues: readonly z.core.$ZodIssue[]): ApiError {
  const sentences = issues.map(({ path, message }) => `${path.join(".") || "body"}: ${message}`);
  return new ApiError("invalid_request", sentences.join("; "));
}
