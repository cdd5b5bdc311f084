// The parts of a request to an operation of the document: those that fit, and for each the ways to break it.

import fc from "fast-check";
import { brokenBody, validBody } from "./bodies.ts";
import type { Operation } from "./document.ts";
import { brokenKeys } from "./keys.ts";
import { brokenParameter, ignoredQuery, slotOf, validParameter } from "./parameters.ts";
import { type BrokenPart, type Given, NO_PART, type Parts } from "./requests.ts";
import type { Service } from "./service.ts";

/** The parts of a request that fits, by slot. */
export function validParts(operation: Operation, service: Service, given: Given): Parts {
  const { method, parameters, body } = operation;
  return {
    // RFC 9110, section 9.3.2: HEAD is GET without the body.
    method:
      method === "GET"
        ? fc.constantFrom(NO_PART, NO_PART, NO_PART, { method: "HEAD" })
        : fc.constant(NO_PART),
    key: fc
      .constantFrom("Bearer", "Bearer", "bearer", "BEARER", "Bearer  ")
      .map((scheme) => ({ headers: [["Authorization", `${scheme} ${service.secret}`]] })),
    ...Object.fromEntries(parameters.map((each) => [slotOf(each), validParameter(each, given)])),
    ignored: method === "GET" ? ignoredQuery(parameters) : fc.constant(NO_PART),
    ...(body && { body: validBody(body) }),
  };
}

/** The ways to break a request to an operation in one place. */
export function brokenParts(operation: Operation, service: Service, given: Given): BrokenPart[] {
  const { parameters, body } = operation;
  return [
    ...parameters.flatMap((each) => brokenParameter(each, given)),
    ...(body === undefined ? [] : brokenBody(body)),
    ...brokenKeys(service),
  ];
}
