// A request is put together from parts: one for each parameter, one for the body, one for the key. Here is what a part is,
// how parts become a request, and what such a request is sent for.

import fc from "fast-check";
import type { Operation } from "./document.ts";
import type { Header, Request } from "./http.ts";

/** Whether a request fits the document or breaks it. */
export type Kind = "valid" | "broken";

/** What is sent, and what may be answered. */
export interface Case {
  kind: Kind;
  /** The operation it is for, or what else. */
  operation: string;
  /** What is broken, or what is special. */
  what: string;
  request: Request;
  statuses: number[];
  /** The value of the body, if it fits the document. */
  value?: unknown;
  /** What the list operation was asked for. */
  query?: Record<string, string>;
  /** The key, if it has a limit. */
  limited?: string;
  /** The methods that a 405 has to name. */
  allowed?: string[];
  /** The id that is asked for, and is there. */
  knownId?: string;
}

/** What only the service can give: values of parameters that no schema describes, by the name of the parameter. */
export type Given = Record<string, string[]>;

/** What one part adds to a request. */
export interface Part {
  method?: string;
  path?: Record<string, string>;
  /** What stands between the ampersands. */
  query?: string[];
  headers?: Header[];
  body?: Uint8Array;
  chunkBytes?: number | undefined;
  /** What the body says. */
  value?: unknown;
  /** What the query says, by parameter. */
  asked?: Record<string, string>;
  /** The id that the path names, if it is there. */
  knownId?: string;
}

/** The parts of a request, by slot. */
export type Parts = Record<string, fc.Arbitrary<Part>>;

/** A way to break one part of a request. */
export interface BrokenPart {
  slot: string;
  what: string;
  part: fc.Arbitrary<Part>;
  statuses: number[];
}

/** What is left out. */
export const NO_PART: Part = {};

/** A request to an operation as a case, with what its parts know of it. */
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

/** Requests made of parts. */
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
