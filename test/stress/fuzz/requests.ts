// A request consists of parts: one for each parameter, the body and the key. This file combines parts into requests and cases.

import fc from "fast-check";
import type { Operation } from "./document.ts";
import type { Header, Request } from "./http.ts";

/** Whether a request fits the document or violates it. */
export type Kind = "valid" | "invalid";

/** A request and its expected statuses. */
export interface Case {
  kind: Kind;
  /** The operation, or another group. */
  operation: string;
  /** What is invalid or special. */
  what: string;
  request: Request;
  statuses: number[];
  /** The value of the body, if it fits the document. */
  value?: unknown;
  /** The query of a list. */
  query?: Record<string, string>;
  /** The key, if it is exhausted or banned. */
  limited?: string;
  /** The methods that Allow must have. */
  allowed?: string[];
  /** The requested id, if the pet exists. */
  knownId?: string;
}

/** Values of parameters that only the service has, by parameter. */
export type Samples = Record<string, string[]>;

/** What one part adds to a request. */
export interface Part {
  method?: string;
  path?: Record<string, string>;
  /** The fields of the query, encoded. */
  query?: string[];
  headers?: Header[];
  body?: Uint8Array;
  chunkBytes?: number | undefined;
  /** The value of the body. */
  value?: unknown;
  /** The values of the query, by parameter. */
  asked?: Record<string, string>;
  /** The id in the path, if the pet exists. */
  knownId?: string;
}

/** The parts of a request, by slot. */
export type Parts = Record<string, fc.Arbitrary<Part>>;

/** A way to make one part of a request invalid. */
export interface InvalidPart {
  slot: string;
  what: string;
  part: fc.Arbitrary<Part>;
  statuses: number[];
}

/** An omitted part. */
export const NO_PART: Part = {};

/** Makes a case of a request. */
export function caseOf(
  { operationId }: Operation,
  kind: Kind,
  what: string,
  request: Request,
  { value, asked, knownId }: Part,
  statuses: number[],
): Case {
  return {
    kind,
    operation: operationId,
    what,
    request,
    statuses,
    ...(value !== undefined && { value }),
    ...(asked !== undefined && { query: asked }),
    ...(knownId !== undefined && { knownId }),
  };
}

/** Combines parts into requests. */
export function requests(operation: Operation, parts: Parts): fc.Arbitrary<{ request: Request; part: Part }> {
  return fc.tuple(...Object.values(parts)).map((all) => {
    const {
      method = operation.method,
      path = {},
      query = [],
      headers = [],
      body,
      chunkBytes,
      ...rest
    } = merged(all);
    const target = operation.path.replace(/\{([^}]+)\}/g, (_, name: string) => path[name] ?? "");
    const search = query.length > 0 ? `?${query.join("&")}` : "";
    return { request: { method, target: target + search, headers, body, chunkBytes }, part: rest };
  });
}

function merged(parts: Part[]): Part {
  const whole: Part = Object.assign({}, ...parts);
  return {
    ...whole,
    path: Object.assign({}, ...parts.map(({ path }) => path)),
    query: parts.flatMap(({ query = [] }) => query),
    headers: parts.flatMap(({ headers = [] }) => headers),
    asked: Object.assign({}, ...parts.map(({ asked }) => asked)),
  };
}
