// Requests outside the operations of the document: other methods, other paths, and preflights.

import fc from "fast-check";
import type { Operation } from "./document.ts";
import { invalidKeys } from "./keys.ts";
import { validParts } from "./parts.ts";
import { type Case, type Part, requests, type Samples } from "./requests.ts";
import type { Service } from "./service.ts";

/** Methods that servers may know. Those of a path's operations are filtered out. */
const METHODS = [
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "TRACE",
  "PURGE",
  "PROPFIND",
  "COPY",
  "LOCK",
  "REPORT",
  "SEARCH",
];

/** Methods that a path does not have, with and without a key. */
export function otherMethods(
  operations: Operation[],
  service: Service,
  samples: Samples,
): fc.Arbitrary<Case>[] {
  return operations.map((operation) => {
    const here = operations.filter(({ path }) => path === operation.path).map(({ method }) => method);
    const allowed = here.includes("GET") ? [...here, "HEAD"] : here;
    const { method: _, ...parts } = validParts(operation, service, samples);
    const method = fc.constantFrom(...METHODS.filter((each) => !allowed.includes(each)));
    const withKey = requests(operation, { ...parts, method: method.map((each) => ({ method: each })) }).map(
      ({ request }): Case => ({
        kind: "invalid",
        operation: "other",
        what: "method",
        request,
        statuses: [405],
        allowed,
      }),
    );
    const invalidKeyParts = invalidKeys(service).map(({ part }) => part);
    const withoutKey = requests(operation, {
      ...parts,
      key: fc.oneof(...invalidKeyParts),
      method: method.map((each) => ({ method: each })),
    }).map(
      ({ request }): Case => ({
        kind: "invalid",
        operation: "other",
        what: "method, without a key",
        request,
        statuses: [401],
      }),
    );
    return fc.oneof(withKey, withKey, withoutKey);
  });
}

/** Paths under the root of the API that no operation has, with and without a key. */
export function otherPaths(operations: Operation[], service: Service): fc.Arbitrary<Case>[] {
  const paths = operations.map(({ path }) => path.replace(/\{[^}]+\}/g, "1"));
  const near = paths.flatMap((path) => [
    `${path}/`,
    `${path}//`,
    `${path}/x/y`,
    path.toUpperCase().replace(/^\/V1/, "/v1"),
    `${path}s`,
    path.replace(/(.)\//, "$1//"),
    `${path};a=b`,
    `${path}%2f1`,
  ]);
  const root = paths[0]?.split("/")[1] ?? "";
  const odd = [
    "",
    "/",
    "/store",
    "/store/orders",
    "/__proto__",
    "/constructor",
    "/pets.json",
    "/%00",
    "/%ff",
    "/%",
    "/*",
    "/:petId",
    "/pets%20",
    `/${"a".repeat(8000)}`,
    `${"/a".repeat(2000)}`,
  ].map((each) => `/${root}${each}`);
  const free = fc.webPath().map((path) => `/${root}/x${path}`);
  const target = fc.oneof(
    fc.constantFrom(...near, ...odd).filter((path) => !operations.some((each) => fits(each.path, path))),
    free,
  );
  const method = fc.constantFrom("GET", "GET", "HEAD", "POST", "DELETE", "PUT");
  const make = (what: string, key: fc.Arbitrary<Part>, statuses: number[]) =>
    fc.tuple(target, method, key).map(
      ([path, each, { headers = [], query = [] }]): Case => ({
        kind: "invalid",
        operation: "other",
        what,
        request: { method: each, target: query.length > 0 ? `${path}?${query.join("&")}` : path, headers },
        statuses,
      }),
    );
  const good = fc.constant<Part>({ headers: [["Authorization", `Bearer ${service.secret}`]] });
  const invalidKeyParts = fc.oneof(...invalidKeys(service).map(({ part }) => part));
  return [make("path", good, [404]), make("path, without a key", invalidKeyParts, [401])];
}

/** Whether a path matches a template. A trailing slash adds a segment. */
function fits(template: string, path: string): boolean {
  const expression = template
    .split("/")
    .map((each) => (each.startsWith("{") ? "[^/]+" : each))
    .join("/");
  return new RegExp(`^${expression}$`).test(path);
}

/** CORS preflights (Fetch standard, section 3.3), without a key. */
export function preflights(operations: Operation[]): fc.Arbitrary<Case>[] {
  const paths = operations.map(({ path }) => path.replace(/\{[^}]+\}/g, "1"));
  return [
    fc
      .tuple(
        fc.constantFrom(...paths),
        fc.constantFrom("GET", "POST", "DELETE"),
        fc.constantFrom("null", "https://pets.example", "http://localhost:3000"),
      )
      .map(
        ([target, method, origin]): Case => ({
          kind: "valid",
          operation: "preflight",
          what: "",
          request: {
            method: "OPTIONS",
            target,
            headers: [
              ["Origin", origin],
              ["Access-Control-Request-Method", method],
              ["Access-Control-Request-Headers", "authorization,content-type"],
            ],
          },
          statuses: [204],
        }),
      ),
  ];
}
