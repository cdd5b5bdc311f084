// HTTP requests: those that the document allows, and those that violate it in exactly one slot.

import fc from "fast-check";
import type { Operation } from "./document.ts";
import type { Header, Request } from "./http.ts";
import type { Service } from "./service.ts";
import { methodsOf, type Part, type Samples, type Slot, slotsOf } from "./slots.ts";

/** A request and its expected statuses. */
export interface Case {
  /** The id of the operation, or "preflight". */
  group: string;
  /** `valid`, or which slot is invalid. */
  kind: string;
  /** Undefined if the path is of no operation. */
  operation: Operation | undefined;
  request: Request;
  statuses: number[];
  /** The methods that the path has. */
  allowed: string[];
}

/** How often slots are invalid. Any address and any framing is valid. */
const WEIGHTS: Record<string, number> = { method: 1, path: 1, coding: 1, body: 12, address: 0, framing: 0 };

/** All requests. */
export function cases(operations: Operation[], service: Service, samples: Samples): fc.Arbitrary<Case> {
  const all = operations.map((operation) => ({
    operation,
    slots: slotsOf(operation, operations, service, samples),
  }));
  const valid = all.map(({ operation, slots }) => ({
    weight: operation.body ? 3 : 1,
    arbitrary: casesOf(operation, slots, operations),
  }));
  const invalid = all.flatMap(({ operation, slots }) =>
    Object.keys(slots).map((name) => ({
      weight: WEIGHTS[name] ?? 3,
      arbitrary: casesOf(operation, slots, operations, name),
    })),
  );
  return fc.oneof(
    { weight: 36, arbitrary: fc.oneof(...valid) },
    { weight: 60, arbitrary: fc.oneof(...invalid) },
    { weight: 1, arbitrary: fc.constantFrom(...operations).map(preflight) },
  );
}

/** Requests with valid texts in all slots, except for `invalid`. */
function casesOf(
  operation: Operation,
  slots: Record<string, Slot>,
  operations: Operation[],
  invalid?: string,
): fc.Arbitrary<Case> {
  const choices = Object.entries(slots).map(([name, { texts, refusals, part }]) =>
    texts
      .map((text) => ({ name, refusals: refusals(text), part: text === undefined ? {} : part(text) }))
      .filter((each) => (name === invalid ? isRefused(each.refusals) : each.refusals?.length === 0)),
  );
  return fc.tuple(...choices).map((chosen) => ({
    group: operation.operationId,
    kind: invalid === undefined ? "valid" : `invalid ${invalid}`,
    operation: invalid === "path" ? undefined : operation,
    request: requestOf(chosen.map(({ part }) => part)),
    statuses: chosen.find(({ name }) => name === invalid)?.refusals ?? operation.successes,
    allowed: methodsOf(operation, operations),
  }));
}

function isRefused(statuses: number[] = []): boolean {
  return statuses.length > 0;
}

function requestOf(parts: Part[]): Request {
  const { method = "", target = "", id = "", body, chunks }: Part = Object.assign({}, ...parts);
  const query = parts.flatMap((part) => part.query ?? []).join("&");
  const path = target.replace(/\{[^}]+\}/, () => id);
  const headers = parts.flatMap((part) => part.headers ?? []);
  return { method, target: query ? `${path}?${query}` : path, headers, body, chunks };
}

/** A CORS preflight (Fetch standard, section 3.3). */
function preflight({ path }: Operation): Case {
  const asked: Header = ["Access-Control-Request-Method", "POST"];
  const target = path.replace(/\{[^}]+\}/, "1");
  const request: Request = { method: "OPTIONS", target, headers: [["Origin", "null"], asked] };
  return { group: "preflight", kind: "valid", operation: undefined, request, statuses: [204], allowed: [] };
}
