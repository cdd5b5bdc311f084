// HTTP requests: valid ones, and ones that violate the document in exactly one place.

import fc from "fast-check";
import { type Operation, operationsOf } from "./document.ts";
import { otherMethods, otherPaths, preflights } from "./other-requests.ts";
import { invalidParts, validParts } from "./parts.ts";
import { type Case, caseOf, type Part, requests, type Samples } from "./requests.ts";
import type { Service } from "./service.ts";

/** All requests except malformed HTTP. */
export function cases(document: object, service: Service, samples: Samples): fc.Arbitrary<Case> {
  const operations = operationsOf(document);
  const valid = operations.map((operation) => ({
    weight: operation.body ? 3 : 1,
    arbitrary: validCases(operation, service, samples),
  }));
  const invalid = operations.flatMap((operation) => invalidCases(operation, service, samples));
  const others = [
    ...otherMethods(operations, service, samples),
    ...otherPaths(operations, service),
    ...preflights(operations),
  ];
  const limited = operations.flatMap((operation) => limitedCases(operation, service, samples));
  return fc.oneof(
    { weight: 33, arbitrary: fc.oneof(...valid) },
    { weight: 51, arbitrary: fc.oneof(...invalid) },
    { weight: 9, arbitrary: fc.oneof(...others) },
    ...(limited.length > 0 ? [{ weight: 2, arbitrary: fc.oneof(...limited) }] : []),
  );
}

/** Requests that an operation must accept. */
export function validCases(operation: Operation, service: Service, samples: Samples): fc.Arbitrary<Case> {
  return requests(operation, validParts(operation, service, samples)).map(({ request, part }) =>
    caseOf(operation, "valid", "", request, part, acceptedStatuses(operation, part)),
  );
}

/** The statuses of a valid request. A request for one pet may get 404 or 410. */
function acceptedStatuses({ statuses, parameters }: Operation, { knownId }: Part): number[] {
  const isForOnePet = parameters.some((each) => each.in === "path");
  return statuses.filter(
    (status) =>
      status < 300 || (isForOnePet && (status === 410 || (status === 404 && knownId === undefined))),
  );
}

/** Invalid requests, for each way to make one invalid. */
function invalidCases(operation: Operation, service: Service, samples: Samples): fc.Arbitrary<Case>[] {
  const parts = validParts(operation, service, samples);
  return invalidParts(operation, service, samples).map(({ slot, what, part, statuses }) =>
    requests(operation, { ...parts, [slot]: part }).map(({ request, part: { asked: _, ...whole } }) =>
      caseOf(operation, "invalid", what, request, whole, statuses),
    ),
  );
}

/** Requests with an exhausted or banned key: refused, unless the operation consumes nothing. */
function limitedCases(operation: Operation, service: Service, samples: Samples): fc.Arbitrary<Case>[] {
  const { limited, banned } = service;
  if (limited.length === 0) return [];
  const { method: isHead, ...parts } = validParts(operation, service, samples);
  const kinds: [string, string[]][] = [
    ["key: limited", limited],
    ["key: banned", banned],
  ];
  return kinds.map(([what, secrets]) =>
    fc.constantFrom(...secrets).chain((secret) =>
      requests(operation, {
        ...parts,
        ...(isHead && { method: isHead }),
        key: fc.constant({ headers: [["Authorization", `Bearer ${secret}`]] }),
      }).map(({ request, part }) =>
        operation.isFree
          ? caseOf(operation, "valid", what, request, part, [200])
          : {
              ...caseOf(operation, "invalid", what, request, part, [429]),
              limited: secret,
            },
      ),
    ),
  );
}
