// HTTP requests: those that the document allows, and those that violate it in exactly one slot.

import fc from "fast-check";
import type { Operation } from "./document.ts";
import type { Header, Request } from "./http.ts";
import type { Service } from "./service.ts";
import { methodsOf, type Part, type Samples, type Slot, slotsOf, type Text } from "./slots.ts";

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

/** How often slots are invalid. */
const WEIGHTS: Record<string, number> = { method: 1, path: 1, coding: 1, body: 12 };

/** All requests except malformed HTTP. */
export function cases(operations: Operation[], service: Service, samples: Samples): fc.Arbitrary<Case> {
  const all = operations.map((operation) => ({
    operation,
    slots: slotsOf(operation, operations, service, samples),
  }));
  const valid = all.map((each) => ({
    weight: each.operation.body ? 3 : 1,
    arbitrary: casesOf(each, operations),
  }));
  const invalid = all.flatMap((each) =>
    Object.entries(each.slots)
      .filter(([, slot]) => canBeRefused(slot))
      .map(([name]) => ({ weight: WEIGHTS[name] ?? 3, arbitrary: casesOf(each, operations, name) })),
  );
  // An exhausted key is as good as any other for operations that consume nothing.
  const free = operations.filter(({ isFree }) => isFree);
  const [secret] = service.exhausted;
  const exhausted = secret ? free.map((operation) => validCases(operation, { ...service, secret })) : [];
  return fc.oneof(
    { weight: 36, arbitrary: fc.oneof(...valid) },
    { weight: 60, arbitrary: fc.oneof(...invalid) },
    { weight: 2, arbitrary: fc.oneof(fc.constantFrom(...operations).map(preflight), ...exhausted) },
  );
}

/** Requests that an operation must accept. */
export function validCases(operation: Operation, service: Service): fc.Arbitrary<Case> {
  return casesOf({ operation, slots: slotsOf(operation, [operation], service, {}) }, [operation]);
}

function isRefused({ refusals }: Slot, text: Text): boolean {
  return (refusals(text) ?? []).length > 0;
}

/** Any text of a slot without bounds is valid. */
function canBeRefused(slot: Slot): boolean {
  return fc.sample(slot.texts, { numRuns: 100, seed: 1 }).some((text) => isRefused(slot, text));
}

interface Slots {
  operation: Operation;
  slots: Record<string, Slot>;
}

/** Requests with valid texts in all slots, except for `invalid`. */
function casesOf({ operation, slots }: Slots, operations: Operation[], invalid?: string): fc.Arbitrary<Case> {
  const names = Object.keys(slots);
  const texts = Object.entries(slots).map(([name, slot]) =>
    slot.texts.filter((text) =>
      name === invalid ? isRefused(slot, text) : slot.refusals(text)?.length === 0,
    ),
  );
  const allowed = methodsOf(operation, operations);
  return fc.tuple(...texts).map((chosen) => {
    const parts = Object.values(slots).map(({ part }, index) => partOf(part, chosen[index]));
    return {
      group: operation.operationId,
      kind: invalid === undefined ? "valid" : `invalid ${invalid}`,
      operation: invalid === "path" ? undefined : operation,
      request: requestOf(parts),
      statuses: slots[invalid ?? ""]?.refusals(chosen[names.indexOf(invalid ?? "")]) ?? operation.successes,
      allowed,
    };
  });
}

function partOf(part: Slot["part"], text: Text): Part {
  return text === undefined ? {} : part(text);
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
