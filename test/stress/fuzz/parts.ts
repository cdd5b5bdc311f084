// The parts of a request to an operation: valid ones, and the ways to violate the document in one of them.

import fc from "fast-check";
import { invalidBody, validBody } from "./bodies.ts";
import type { Operation } from "./document.ts";
import { invalidKeys } from "./keys.ts";
import { ignoredQuery, invalidParameter, slotOf, validParameter } from "./parameters.ts";
import { type InvalidPart, NO_PART, type Parts, type Samples } from "./requests.ts";
import type { Service } from "./service.ts";

/** The parts of a valid request, by slot. */
export function validParts(operation: Operation, service: Service, samples: Samples): Parts {
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
    ...Object.fromEntries(parameters.map((each) => [slotOf(each), validParameter(each, samples)])),
    ignored: method === "GET" ? ignoredQuery(parameters) : fc.constant(NO_PART),
    ...(body && { body: validBody(body) }),
  };
}

/** The ways to make a request to an operation invalid in one place. */
export function invalidParts(operation: Operation, service: Service, samples: Samples): InvalidPart[] {
  const { parameters, body } = operation;
  return [
    ...parameters.flatMap((each) => invalidParameter(each, samples)),
    ...(body === undefined ? [] : invalidBody(body)),
    ...invalidKeys(service),
  ];
}
