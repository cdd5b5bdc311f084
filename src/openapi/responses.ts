// The responses of the published document: body, headers and examples. Responses that operations share are defined once.

import { ERROR_STATUS, type ErrorCode } from "../http/errors.ts";
import { HEADER } from "../http/header-names.ts";
import { ERROR_MESSAGES, type ErrorMessage } from "./error-examples.ts";
import { meaning } from "./errors.ts";
import { COMMON, HEADERS, type HeaderName, REAL_NAMES } from "./headers.ts";
import { type JsonSchema, schemaRef } from "./schemas.ts";

export interface Example {
  summary: string;
  value: unknown;
}

interface ErrorExample extends Example {
  value: { code: ErrorCode; message: string; status: number };
}

export interface Response {
  description: string;
  headers: Record<string, object>;
  content: { "application/json": { schema: JsonSchema; examples: Record<string, Example> } };
}

export function errorExample(code: ErrorCode, { request, message }: ErrorMessage): ErrorExample {
  return { summary: request, value: { code, message, status: ERROR_STATUS[code] } };
}

/** A successful response. */
export function success(
  description: string,
  schema: JsonSchema,
  headers: readonly HeaderName[],
  examples: Record<string, Example>,
): Response {
  return {
    description,
    headers: headerRefs([...COMMON, ...headers]),
    content: { "application/json": { schema, examples } },
  };
}

/** An error response of one status, with the codes of its examples. `causes`: fewer than a code can have. */
export function failure(
  examples: Record<string, ErrorExample>,
  headers: readonly HeaderName[] = [],
  causes?: string,
): Response {
  const values = Object.values(examples).map(({ value }) => value);
  const codes = [...new Set(values.map(({ code }) => code))];
  const schema = {
    allOf: [
      schemaRef("Error"),
      {
        properties: {
          code: { type: "string", enum: codes },
          status: { type: "integer", const: values[0]?.status },
        },
        required: ["code", "status"],
      },
    ],
  };
  const description = codes.map((code) => `\`${code}\`: ${causes ?? meaning(code)}`).join("\n\n");
  return success(description, schema, headers, examples);
}

/** References to headers, by name. */
function headerRefs(names: readonly HeaderName[]): Record<string, object> {
  return Object.fromEntries(
    names.map((name) => [REAL_NAMES[name] ?? name, { $ref: `#/components/headers/${name}` }]),
  );
}

const ANNOUNCEMENT = [HEADER.deprecation, HEADER.sunset, "DeprecationLink"] as const;

/** A response that announces the removal of the operation. */
export function announced(response: Response): Response {
  return { ...response, headers: { ...response.headers, ...headerRefs(ANNOUNCEMENT) } };
}

/** A response that announces it if the request reached the operation. */
export function maybeAnnounced(response: Response): Response {
  const headers = ANNOUNCEMENT.map((name) => [
    REAL_NAMES[name] ?? name,
    { ...HEADERS[name], required: false },
  ]);
  return { ...response, headers: { ...response.headers, ...Object.fromEntries(headers) } };
}

const { unauthorized, forbidden, rate_limit_exceeded, service_unavailable } = ERROR_MESSAGES;

const WITHOUT_KEY = {
  withoutKey: errorExample("rate_limit_exceeded", rate_limit_exceeded.withoutKey),
  unknownKeys: errorExample("rate_limit_exceeded", rate_limit_exceeded.unknownKeys),
};

/** For every operation, also for those with other 400s. */
export const OVER_PLAIN_HTTP = {
  plainHttp: errorExample("invalid_request", ERROR_MESSAGES.invalid_request.plainHttp),
};

/** Responses that operations share, by name. */
export const SHARED_RESPONSES = {
  PlainHttp: failure(OVER_PLAIN_HTTP, [], "The request used plain HTTP. Send it over HTTPS."),
  Unauthorized: failure(
    {
      missing: errorExample("unauthorized", unauthorized.missing),
      unknown: errorExample("unauthorized", unauthorized.unknown),
    },
    ["WWW-Authenticate"],
  ),
  Forbidden: failure({ readOnly: errorExample("forbidden", forbidden.readOnly) }),
  TooManyRequests: failure(
    {
      minute: errorExample("rate_limit_exceeded", rate_limit_exceeded.key),
      banned: errorExample("key_banned", ERROR_MESSAGES.key_banned.ban),
      ...WITHOUT_KEY,
    },
    [HEADER.retryAfter, "Cache-Control"],
  ),
  TooManyRequestsWithoutKey: failure(
    WITHOUT_KEY,
    [HEADER.retryAfter, "Cache-Control"],
    `The address has sent too many requests without a valid key. Wait \`${HEADER.retryAfter}\` seconds before the next request.`,
  ),
  InternalError: failure({ fault: errorExample("internal_error", ERROR_MESSAGES.internal_error.fault) }),
  ServiceUnavailable: failure(
    {
      database: errorExample("service_unavailable", service_unavailable.database),
      lookups: errorExample("service_unavailable", service_unavailable.lookups),
    },
    ["OutageRetryAfter"],
  ),
} satisfies Record<string, Response>;

/** A reference to a shared response. */
export function responseRef(name: keyof typeof SHARED_RESPONSES) {
  return { $ref: `#/components/responses/${name}` };
}

/** The responses of every rate-limited operation. */
export const ALWAYS_POSSIBLE = {
  400: responseRef("PlainHttp"),
  401: responseRef("Unauthorized"),
  429: responseRef("TooManyRequests"),
  500: responseRef("InternalError"),
  503: responseRef("ServiceUnavailable"),
};
