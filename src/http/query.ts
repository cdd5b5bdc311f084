// Validates query parameters, and turns what a schema reports into `invalid_request`.

import { zValidator } from "@hono/zod-validator";
import type { HonoRequest } from "hono";
import type * as z from "zod/mini";
import { BoundedMap } from "../lib/bounded-map.ts";
import { ApiError } from "./errors.ts";
import { MESSAGES } from "./messages.ts";

/** Valid queries are cached: together about 1 MB of the 128 that an isolate has. */
const MAX_CACHED = 1_000;
const MAX_CACHED_CHARACTERS = 300;

type Result<Schema extends z.ZodMiniType> = z.core.util.SafeParseResult<z.output<Schema>>;

/** The part of Hono's context that is needed here. */
type HasUrl = { get(name: "url"): string; req: HonoRequest };

/** Parses the query of a request with `schema`. */
export function queryReader<Schema extends z.ZodMiniType>(schema: Schema): (c: HasUrl) => Result<Schema> {
  const cache = new BoundedMap<string, Result<Schema>>(MAX_CACHED);
  return function readQuery(c) {
    const url = c.get("url");
    const start = url.indexOf("?");
    const search = start === -1 ? "" : url.slice(start);
    const cached = cache.get(search);
    if (cached !== undefined) return cached;
    const unwrap = (values: string[]) => (values.length === 1 ? values[0] : values);
    const parameters = Object.entries(c.req.queries()).map(([name, values]) => [name, unwrap(values)]);
    const query = schema.safeParse(Object.fromEntries(parameters));
    if (query.success && search.length <= MAX_CACHED_CHARACTERS) cache.set(search, query);
    return query;
  };
}

/** Makes the query available as `c.req.valid("query")`. Throws `invalid_request`. */
export function validQuery<Schema extends z.ZodMiniType>(schema: Schema, read = queryReader(schema)) {
  const validate = zValidator("query", schema, (result) => {
    if (!result.success) throw invalidRequest(result.error.issues);
  });
  const validQuery: typeof validate = (c, next) => {
    const query = read(c);
    if (!query.success) return validate(c, next);
    c.req.addValidatedData("query", query.data as object);
    return next();
  };
  return validQuery;
}

/** The error for what a schema reports: `name: is required; status: must be one of …`. */
export function invalidRequest(issues: readonly z.core.$ZodIssue[]): ApiError {
  const { field } = MESSAGES.invalid_request;
  const problems = issues.map(({ path, message }) => field(path.join(".") || "body", message));
  return new ApiError("invalid_request", problems.join("; "));
}
