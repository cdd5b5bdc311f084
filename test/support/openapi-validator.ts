// Holds what the service answers to its published document: status, headers and body, by a validator that others wrote.
// It runs in Node, because it compiles code, which the Worker's runtime forbids; tests in there reach it as a service.

import { type Document, OpenAPIBackend, SetMatchType } from "openapi-backend";
import { type OpenApiDocument, openApiDocument } from "../../src/openapi/document.ts";

/** A request, and what the service answered. Header names are in lower case. */
export interface Exchange {
  method: string;
  path: string;
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** The content type, which OpenAPI takes from the content, and what HTTP servers do with a body on its way. */
const NOT_DESCRIBED = ["content-type", "content-length", "content-encoding", "transfer-encoding"];

const OTHER_REQUESTS = "otherRequests";

/** How many exchanges were held to the document. */
export const validated = { exchanges: 0 };

const document = openApiDocument("");
const validator = startValidator(document);

/** What of an exchange is not documented: empty if all is as it should be. */
export async function undocumented({ method, path, status, headers, body }: Exchange): Promise<string[]> {
  validated.exchanges += 1;
  const api = await validator;
  const isHead = method === "HEAD";
  const { pathname } = new URL(path, "http://localhost");
  const operation = api.matchOperation({ method: isHead ? "get" : method, path: pathname, headers: {} });
  // To the service, a path that ends with a slash is another one.
  const operationId = pathname.endsWith("/") ? OTHER_REQUESTS : (operation?.operationId ?? OTHER_REQUESTS);

  // The validator lets pass what it has no schema for.
  const response = api.getOperation(operationId)?.responses?.[status];
  if (response === undefined || "$ref" in response) return [`${operationId} does not answer ${status}`];
  const required = Object.entries(response.headers ?? {}).filter(
    ([, header]) => "required" in header && header.required,
  );
  const missing = required.filter(([name]) => headers[name.toLowerCase()] === undefined);
  const [mediaType] = Object.keys(response.content ?? {});
  const described = Object.fromEntries(
    Object.entries(headers).filter(([name]) => !NOT_DESCRIBED.includes(name)),
  );
  const aboutHeaders = api.validateResponseHeaders(described, operationId, {
    statusCode: status,
    setMatchType: SetMatchType.Subset,
  });
  const aboutBody = isHead ? undefined : api.validateResponse(JSON.parse(body), operationId, status);
  return [
    ...missing.map(([name]) => `the header ${name} is missing`),
    ...(headers["content-type"] === mediaType ? [] : [`the content is ${headers["content-type"]}`]),
    ...[...(aboutHeaders.errors ?? []), ...(aboutBody?.errors ?? [])].map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    ),
  ];
}

/** The same as a service: an exchange in JSON in, a JSON array of strings out. */
export async function serveUndocumented(request: { json(): Promise<unknown> }) {
  return Response.json(await undocumented((await request.json()) as Exchange));
}

async function startValidator({ paths, ...rest }: OpenApiDocument): Promise<OpenAPIBackend> {
  // What is answered to a request that is for no operation belongs to an operation for once, for the validator's sake.
  const other = { operationId: OTHER_REQUESTS, responses: rest["x-other-requests"].responses };
  const definition = { ...rest, paths: { ...paths, "/{other}/requests": { get: other } } };
  const api = new OpenAPIBackend({
    definition: dereferenced(definition, definition) as Document,
    apiRoot: "/v1",
    // It would hold the document to OpenAPI 3.0; that it is valid is the linter's business.
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

/** The same value without references: each is replaced by what it refers to in `root`. */
export function dereferenced(value: unknown, root: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => dereferenced(each, root));
  const { $ref, ...rest } = value as { $ref?: string };
  const own = Object.entries(rest).map(([name, each]) => [name, dereferenced(each, root)]);
  const target = $ref
    ?.slice(2)
    .split("/")
    .reduce((parent, name) => (parent as Record<string, unknown>)[name], root);
  return { ...(dereferenced(target, root) as object | undefined), ...Object.fromEntries(own) };
}
