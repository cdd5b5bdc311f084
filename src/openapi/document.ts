// The published description of the interface, GET /openapi.json: OpenAPI 3.1, made from the schemas that validate and the
// constants that the service goes by. It is made when the site is built, never in the Worker. Each example is sent by a
// test, and each answer that a test gets is held to it.

import { MESSAGES } from "../http/messages.ts";
import { INTERFACE_VERSION } from "../http/version.ts";
import { ALLOW, HEADERS } from "./headers.ts";
import { createPet, getPet, getUsage, listPets } from "./operations.ts";
import { ALWAYS_POSSIBLE, errorExample, failure, SHARED_RESPONSES } from "./responses.ts";
import { componentSchemas } from "./schemas.ts";

const wrongMethod = failure({
  method: errorExample(
    "method_not_allowed",
    "DELETE of the list.",
    MESSAGES.method_not_allowed.method("DELETE", ["GET", "HEAD", "POST"]),
  ),
});

/** The document. `guide` is what operations have no place for, in Markdown. */
export function openApiDocument(guide: string) {
  return {
    openapi: "3.1.0",
    info: {
      title: "Petstore",
      version: INTERFACE_VERSION,
      summary: "Pets for sale: list them, add one, get one.",
      description: guide,
      contact: { name: "The operator of this service" },
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [
      {
        url: "/v1",
        description:
          "The service that this document comes from. The URL is relative to the document: give generated clients the full base URL.",
      },
    ],
    security: [{ apiKey: [] }],
    tags: [
      { name: "Pets", description: "List pets, add one, get one." },
      { name: "Usage", description: "See how a key stands." },
    ],
    paths: {
      "/pets": { get: listPets, post: createPet },
      "/pets/{petId}": { get: getPet },
      "/usage": { get: getUsage },
    },
    "x-other-requests": {
      description: "What a request under /v1 is answered that is for none of these operations.",
      responses: {
        ...ALWAYS_POSSIBLE,
        404: failure({
          path: errorExample("not_found", "A path that does not exist.", MESSAGES.not_found.path),
        }),
        405: { ...wrongMethod, headers: { ...wrongMethod.headers, Allow: ALLOW } },
      },
    },
    components: {
      securitySchemes: {
        apiKey: {
          type: "http",
          scheme: "bearer",
          bearerFormat: "pet_ and 38 letters and digits",
          description: "The API key. Whoever runs the service hands keys out.",
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

export type OpenApiDocument = ReturnType<typeof openApiDocument>;
