// How input that breaks a schema is refused: with `invalid_request` and a sentence for each field.
// The one file that knows `@hono/zod-validator`.

import { zValidator } from "@hono/zod-validator";
import type * as z from "zod/mini";
import { BoundedMap } from "./bounded-map.ts";
import { ApiError } from "./errors.ts";

/** Queries that were found valid are remembered: together about 1 MB of the 128 that an isolate has. */
const MAX_REMEMBERED = 1_000;
const MAX_REMEMBERED_CHARACTERS = 300;

/** Makes the query available as `c.req.valid("query")`, fitting `schema`. Throws `invalid_request`. */
export function validQuery<Schema extends z.ZodMiniType>(schema: Schema) {
  const remembered = new BoundedMap<string, object>(MAX_REMEMBERED);
  const validate = zValidator("query", schema, (result) => {
    if (!result.success) throw invalidRequest(result.error.issues);
  });
  const validQuery: typeof validate = async (c, next) => {
    const { url } = c.req;
    const search = url.includes("?") ? url.slice(url.indexOf("?")) : "";
    const known = remembered.get(search);
    if (known === undefined) {
      return validate(c, async () => {
        if (search.length <= MAX_REMEMBERED_CHARACTERS) {
          remembered.set(search, c.req.valid("query" as never) as object);
        }
        await next();
      });
    }
    c.req.addValidatedData("query", known);
    await next();
  };
  return validQuery;
}

/** The error for what a schema found wrong: `name: is required; status: must be one of …`. */
export function invalidRequest(issues: readonly z.core.$ZodIssue[]): ApiError {
  const sentences = issues.map(({ path, message }) => `${path.join(".") || "body"}: ${message}`);
  return new ApiError("invalid_request", sentences.join("; "));
}
