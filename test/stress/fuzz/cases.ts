// The requests that are HTTP: those that fit the document, and those that break it in exactly one place.

import fc from "fast-check";
import { type Operation, operationsOf } from "./document.ts";
import { otherMethods, otherPaths, preflights } from "./others.ts";
import { brokenParts, validParts } from "./parts.ts";
import { type Case, caseOf, type Given, type Part, requests } from "./requests.ts";
import type { Service } from "./service.ts";

/** Everything that can be sent but for what is no HTTP. */
export function cases(document: object, service: Service, given: Given): fc.Arbitrary<Case> {
  const operations = operationsOf(document);
  const valid = operations.map((operation) => ({
    weight: operation.body ? 3 : 1,
    arbitrary: validCases(operation, service, given),
  }));
  const broken = operations.flatMap((operation) => brokenCases(operation, service, given));
  const others = [
    ...otherMethods(operations, service, given),
    ...otherPaths(operations, service),
    ...preflights(operations),
  ];
  const limited = operations.flatMap((operation) => limitedCases(operation, service, given));
  return fc.oneof(
    { weight: 33, arbitrary: fc.oneof(...valid) },
    { weight: 51, arbitrary: fc.oneof(...broken) },
    { weight: 9, arbitrary: fc.oneof(...others) },
    ...(limited.length > 0 ? [{ weight: 2, arbitrary: fc.oneof(...limited) }] : []),
  );
}

/** Requests that an operation has to accept. */
export function validCases(operation: Operation, service: Service, given: Given): fc.Arbitrary<Case> {
  return requests(operation, validParts(operation, service, given)).map(({ request, part }) =>
    caseOf(operation, "valid", "", request, part, acceptedStatuses(operation, part)),
  );
}

/** What is answered to a request that fits. Who asks for one thing may be told that it is not there, or no longer. */
function acceptedStatuses({ statuses, parameters }: Operation, { knownId }: Part): number[] {
  const asksForOne = parameters.some((each) => each.in === "path");
  return statuses.filter(
    (status) => status < 300 || (asksForOne && (status === 410 || (status === 404 && knownId === undefined))),
  );
}

/** For each way to break a request, requests that are broken in this way. */
function brokenCases(operation: Operation, service: Service, given: Given): fc.Arbitrary<Case>[] {
  const parts = validParts(operation, service, given);
  return brokenParts(operation, service, given).map(({ slot, what, part, statuses }) =>
    requests(operation, { ...parts, [slot]: part }).map(({ request, part: { asked: _, ...whole } }) =>
      caseOf(operation, "broken", what, request, whole, statuses),
    ),
  );
}

/** Requests with a key that is at its limit, or banned: refused, unless the operation costs nothing. */
function limitedCases(operation: Operation, service: Service, given: Given): fc.Arbitrary<Case>[] {
  const { limited, banned } = service;
  if (limited.length === 0) return [];
  const { method: isHead, ...parts } = validParts(operation, service, given);
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
              ...caseOf(operation, "broken", what, request, part, [429]),
              limited: secret,
            },
      ),
    ),
  );
}
