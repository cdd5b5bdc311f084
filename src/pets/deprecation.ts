// The deprecation of `getPet`: "Deprecation" in the guide (src/openapi/guide.md). The operation ends on the day of its sunset, without a
// deployment.

import type { MiddlewareHandler } from "hono";
import { errorResponse } from "../http/errors.ts";
import { HEADER } from "../http/header-names.ts";
import { MESSAGES } from "../http/messages.ts";
import type { HttpEnv } from "../http/request-context.ts";

export const DEPRECATED_AT = new Date("2026-11-19T00:00:00Z");
export const REMOVED_AT = new Date("2030-12-05T00:00:00Z");

/** Deprecation is a structured-field date (RFC 9745), Sunset an HTTP date (RFC 8594). */
export const DEPRECATION = `@${DEPRECATED_AT.getTime() / 1000}`;
export const SUNSET = REMOVED_AT.toUTCString();

/** Links to the replacement and to its documentation (RFC 8288). `url` is that of the request. */
export function deprecationLink(url: string): string {
  const { origin } = new URL(url);
  return `<${origin}/v1/pets>; rel="successor-version", <${origin}/>; rel="deprecation"; type="text/html"`;
}

/** Announces the removal. Answers `operation_removed` after it. */
export const deprecated: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const headers = c.get("headers");
  headers[HEADER.deprecation] = DEPRECATION;
  headers[HEADER.sunset] = SUNSET;
  headers.Link = deprecationLink(c.req.url);
  if (c.get("nowMs") < REMOVED_AT.getTime()) return next();
  return errorResponse(c, { code: "operation_removed", message: MESSAGES.operation_removed.getPet(SUNSET) });
};
