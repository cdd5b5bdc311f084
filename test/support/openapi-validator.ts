// Validates responses against the OpenAPI document: status, headers and body. The validator compiles code, which workerd forbids,
// so it runs in Node; tests in workerd call it as a service.

import { type Document, OpenAPIBackend, SetMatchType } from "openapi-backend";
import type { OpenApiDocument } from "../../src/openapi/document.ts";
import { DOCUMENT, dereferenced, RESPONSES } from "./openapi-document.ts";

/** A request and its response. Header names are in lower case. */
export interface Exchange {
  method: string;
  path: string;
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** Headers that the document does not describe: OpenAPI takes the type from the content, servers set the others. */
const TRANSPORT_HEADERS = /^(content-(type|length|encoding)|transfer-encoding|connection)$/;

const OTHER_REQUESTS = "otherRequests";

/** The number of validated exchanges. */
export const validated = { exchanges: 0 };

const validator = startValidator(DOCUMENT);

/** Returns how an exchange violates the document: empty if it conforms. */
export async function findViolations({ method, path, status, headers, body }: Exchange): Promise<string[]> {
  validated.exchanges += 1;
  const api = await validator;
  const isHead = method === "HEAD";
  const { pathname } = new URL(path, "http://localhost");
  const operation = api.matchOperation({ method: isHead ? "get" : method, path: pathname, headers: {} });
  const operationId = operation?.operationId ?? OTHER_REQUESTS;

  // The validator accepts statuses without a schema.
  const response = RESPONSES.find((each) => each.id === operationId && each.status === status);
  if (response === undefined) return [`${operationId} does not answer ${status}`];
  const missing = Object.entries(response.headers).filter(
    ([name, { required }]) => required && headers[name.toLowerCase()] === undefined,
  );
  const described = Object.fromEntries(
    Object.entries(headers).filter(([name]) => !TRANSPORT_HEADERS.test(name)),
  );
  const aboutHeaders = api.validateResponseHeaders(described, operationId, {
    statusCode: status,
    setMatchType: SetMatchType.Subset,
  });
  // A response without documented content has no type.
  const [content] = Object.keys(response.content ?? {});
  const found = headers["content-type"];
  const hasBody = response.content !== undefined && !isHead;
  const aboutBody = hasBody ? api.validateResponse(JSON.parse(body), operationId, status) : undefined;
  return [
    ...missing.map(([name]) => `the header ${name} is missing`),
    ...(found === content ? [] : [`the content is ${found} instead of ${content}`]),
    ...(hasBody || body === "" ? [] : [`there is a body: ${body}`]),
    ...[...(aboutHeaders.errors ?? []), ...(aboutBody?.errors ?? [])].map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    ),
  ];
}

/** findViolations as a service: accepts an array of exchanges, returns one text for each that violates the document. */
export async function serveValidator(request: { json(): Promise<unknown> }) {
  const exchanges = (await request.json()) as Exchange[];
  const found = await Promise.all(exchanges.map(findViolations));
  const texts = exchanges.map(({ method, path, status }, index) => {
    const violations = found[index] ?? [];
    return violations.length > 0 ? `${method} ${path} answered ${status}: ${violations.join("; ")}` : [];
  });
  return Response.json(texts.flat());
}

async function startValidator({ paths, ...rest }: OpenApiDocument): Promise<OpenAPIBackend> {
  // The validator knows operations only, so responses to other requests get one.
  const other = { operationId: OTHER_REQUESTS, responses: rest["x-other-requests"].responses };
  const definition = { ...rest, paths: { ...paths, "/{other}/requests": { get: other } } };
  const api = new OpenAPIBackend({
    // The library does not resolve references to references.
    definition: dereferenced(definition, definition) as Document,
    apiRoot: "/v1",
    ignoreTrailingSlashes: false,
    // Skips validating the document as OpenAPI 3.0. The linter does that.
    quick: true,
    ajvOpts: { strict: false, allErrors: true },
    // JSON.parse rounds the largest int64 up by one; other tests compare digits.
    customizeAjv: (ajv) =>
      ajv
        .addFormat("int64", { type: "number", validate: (value) => Math.abs(value) <= 2 ** 63 })
        .addFormat("date", /^\d{4}-\d\d-\d\d$/),
  });
  return api.init();
}
