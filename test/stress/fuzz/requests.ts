// HTTP requests: those that the document allows, and those that violate it in exactly one slot.

import fc from "fast-check";
import { methodsOf, OPERATIONS, type Operation } from "./document.ts";
import type { Request } from "./http.ts";
import type { Service } from "./service.ts";
import { type Part, type Samples, type Slot, slotsOf } from "./slots.ts";
import { mostly } from "./values.ts";

/** A request and its expected statuses. */
export interface Case {
  /** The operation, and `valid` or which slot is invalid. */
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
export function cases(service: Service, samples: Samples): fc.Arbitrary<Case> {
  const all = OPERATIONS.map((operation) => ({ operation, slots: slotsOf(operation, service, samples) }));
  const valid = all.map(({ operation, slots }) => ({
    weight: operation.body ? 3 : 1,
    arbitrary: casesOf(operation, slots),
  }));
  const invalid = all.flatMap(({ operation, slots }) =>
    Object.keys(slots).map((name) => ({
      weight: WEIGHTS[name] ?? 3,
      arbitrary: casesOf(operation, slots, name),
    })),
  );
  const any = mostly(2, fc.oneof(...invalid), fc.oneof(...valid));
  const text = ({ kind, request }: Case) => {
    const readable = JSON.stringify({ ...request, body: Buffer.from(request.body ?? []).toString("latin1") });
    return `${kind}: ${readable.replaceAll(service.secret, "$KEY").slice(0, 4_000)}`;
  };
  return any.map((each) => Object.assign(each, { [fc.toStringMethod]: () => text(each) }));
}

/** Requests with valid texts in all slots, except for `invalid`. */
function casesOf(operation: Operation, slots: Record<string, Slot>, invalid?: string): fc.Arbitrary<Case> {
  const choices = Object.entries(slots).map(([name, { texts, refusals, part }]) =>
    texts
      .map((text) => ({ name, refusals: refusals(text), part: text === undefined ? {} : part(text) }))
      .filter(({ refusals }) => refusals !== undefined && refusals.length > 0 === (name === invalid)),
  );
  return fc.tuple(...choices).map((chosen) => ({
    kind: `${operation.operationId}, ${invalid === undefined ? "valid" : `invalid ${invalid}`}`,
    operation: invalid === "path" ? undefined : operation,
    request: requestOf(chosen.map(({ part }) => part)),
    statuses: chosen.find(({ name }) => name === invalid)?.refusals ?? operation.successes,
    allowed: methodsOf(operation),
  }));
}

function requestOf(parts: Part[]): Request {
  const { method = "", target = "", id = "", body, chunks }: Part = Object.assign({}, ...parts);
  const query = parts.flatMap((part) => part.query ?? []).join("&");
  const path = target.replace(/\{[^}]+\}/, () => id);
  const headers = parts.flatMap((part) => part.headers ?? []);
  return { method, target: query ? `${path}?${query}` : path, headers, body, chunks };
}
