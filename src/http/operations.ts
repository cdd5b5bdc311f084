// The operations of the API: method, and path under /v1. A new operation begins here: "Adding an operation" in CONTRIBUTING.md.

interface Operation {
  method: "get" | "post" | "put" | "patch" | "delete";
  /** With `{name}` for each path parameter. */
  path: `/${string}`;
}

export const OPERATIONS = {
  listPets: { method: "get", path: "/pets" },
  createPet: { method: "post", path: "/pets" },
  getPet: { method: "get", path: "/pets/{petId}" },
  getUsage: { method: "get", path: "/usage" },
} as const satisfies Record<string, Operation>;

export type OperationId = keyof typeof OPERATIONS;

export type OperationPath = (typeof OPERATIONS)[OperationId]["path"];

export const OPERATION_IDS = Object.keys(OPERATIONS) as OperationId[];

/** The methods of a path, or of all paths, in upper case. HEAD is GET without the body (RFC 9110, section 9.3.2). */
export function methodsOf(path?: OperationPath): string[] {
  const operations: Operation[] = Object.values(OPERATIONS);
  const methods = operations
    .filter((each) => path === undefined || each.path === path)
    .flatMap(({ method }) => (method === "get" ? ["GET", "HEAD"] : method.toUpperCase()));
  return [...new Set(methods)].sort();
}
