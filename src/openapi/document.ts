// The published document, GET /openapi.json: OpenAPI 3.1, generated from the schemas that validate and the constants that the
// service uses. `npm run build` generates it; the Worker never does. Tests send each example, and validate each response.

import { OPERATION_IDS, OPERATIONS, type OperationId } from "../http/operations.ts";
import { INTERFACE_VERSION } from "../http/version.ts";
import { SECRET_LENGTH, SECRET_PREFIX } from "../keys/secret-format.ts";
import { ERROR_MESSAGES } from "./error-examples.ts";
import { ALLOW, HEADERS } from "./headers.ts";
import { codeSamples, type Sample } from "./inputs.ts";
import { DESCRIPTIONS, type Description } from "./operations.ts";
import { ALWAYS_POSSIBLE, errorExample, failure, responseRef, SHARED_RESPONSES } from "./responses.ts";
import { componentSchemas } from "./schemas.ts";

const wrongMethod = failure({
  method: errorExample("method_not_allowed", ERROR_MESSAGES.method_not_allowed.method),
});

/** The document. `guide` is Markdown, for topics that span operations. */
export function openApiDocument(guide: string) {
  return {
    openapi: "3.1.0",
    info: {
      title: "Petstore",
      version: INTERFACE_VERSION,
      summary: "List pets for sale, add one, get one.",
      description: guide,
      contact: { name: "The operator of this service" },
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [
      {
        url: "/v1",
        description:
          "The service that publishes this document. The URL is relative to the document; generated clients need the absolute base URL.",
      },
    ],
    security: [{ apiKey: [] }],
    tags: [
      { name: "Pets", description: "List, add and get pets." },
      { name: "Usage", description: "Limits and requests of the API key." },
    ],
    paths: paths(),
    "x-other-requests": {
      description: "Responses to requests under /v1 that match no operation.",
      responses: {
        ...ALWAYS_POSSIBLE,
        403: responseRef("Forbidden"),
        404: failure({ path: errorExample("not_found", ERROR_MESSAGES.not_found.path) }),
        405: { ...wrongMethod, headers: { ...wrongMethod.headers, Allow: ALLOW } },
      },
    },
    components: {
      securitySchemes: {
        apiKey: {
          type: "http",
          scheme: "bearer",
          bearerFormat: `${SECRET_PREFIX} followed by ${SECRET_LENGTH} letters and digits`,
          description: "An API key, issued by the operator of the service.",
        },
      },
      schemas: componentSchemas(),
      headers: Object.fromEntries(
        Object.entries(HEADERS).map(([name, header]) => [name, { required: true, ...header }]),
      ),
      responses: SHARED_RESPONSES,
    },
  };
}

/** An operation in the document. */
type DocumentedOperation = { operationId: OperationId; "x-codeSamples": Sample[] } & Description;

/** The operations by path and method. */
function paths() {
  const paths: Record<string, Record<string, DocumentedOperation>> = {};
  for (const id of OPERATION_IDS) {
    const { method, path } = OPERATIONS[id];
    const description: Description = DESCRIPTIONS[id];
    const operation = { operationId: id, "x-codeSamples": codeSamples(id, description), ...description };
    paths[path] = { ...paths[path], [method]: operation };
  }
  return paths;
}

export type OpenApiDocument = ReturnType<typeof openApiDocument>;
