// Malformed HTTP: requests with unusual elements, with changed bytes, or without an end.

import fc from "fast-check";
import type { Operation } from "./document.ts";
import { requestText } from "./http.ts";
import { mutated, words } from "./mutations.ts";
import { validCases } from "./requests.ts";
import type { Service } from "./service.ts";

/** The bytes of a connection, one per character. */
export interface Malformed {
  group: "malformed";
  kind: string;
  bytes: string;
}

const TARGETS = [
  ...words(`* // /// //evil.example http://localhost/v1/pets http://evil.example/v1/pets https://localhost:443/v1/usage http:// localhost:80
    javascript:alert(1) file:///etc/passwd /../../v1/pets /v1/pets/.. /v1/%2e%2e/v1/pets /v1/pets/..;/ /./v1/pets /v1/pets%00 /%ff/v1/pets
    /v1/pets/%u0031 /v1/pets/\xe9 /v1/pets?limit=\xc3\xa9 /v1/pets#fragment /[::1]/v1/pets /v1%2fpets /%76%31/pets /__scheduled
    /cdn-cgi/handler/scheduled /cdn-cgi/trace /favicon.ico`),
  ...["/v1/pets/", "/v1/pets?"].flatMap((path) =>
    ["a", "/a", "%41", "../", "a=1&"].map((each) => path + each.repeat(20_000)),
  ),
];

const HEADERS = `X-Odd: a\x01b|X-Odd: a\0b|X-Odd: a\rb|X-Odd: a\nb|X-Odd: a\r\n b| X-Odd: a|X-Odd : a|X Odd: a|X-Odd|: a|:||X-\0: a|X-\xe9: a|
  __proto__: a|Host: evil.example|Host: a b/c|Host:|Connection: close, keep-alive|Connection: Upgrade\r\nUpgrade: websocket|
  Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__|Connection: Authorization|Expect: 100-continue|
  Expect: nonsense|Range: bytes=0-1|If-None-Match: *|Accept: nonsense|Accept-Encoding: gzip;q=2, *;q=0|TE: trailers, deflate;q=0.5|
  Cookie: a=b; \xff|X-HTTP-Method-Override: DELETE|X-Original-URL: /v1/usage|X-Request-Id: \xe9\xe9\xe9\xe9\xe9\xe9\xe9\xe9|
  X-Request-Id: a\r\nX-Request-Id: bbbbbbbbbbbb|CF-Connecting-IP: nonsense|CF-Connecting-IP: ::::|Content-Type: \xff|
  Origin: null\r\nAccess-Control-Request-Method: \xff|Authorization: Bearer\t|Idempotency-Key: a\x01|X-Odd: ${"a".repeat(500_000)}`;

const FRAMINGS = `Content-Length: -1|Content-Length: 0x2|Content-Length: 2, 2|Content-Length: 2\r\nContent-Length: 3|Content-Length: 1|
  Content-Length: 99999999999999999999999999|Transfer-Encoding: gzip|Transfer-Encoding: \x0bchunked|Transfer-Encoding: chunked\r\n|
  Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n|Transfer-Encoding: chunked, chunked|Transfer-Encoding: chunked\r\nContent-Length: 2|
  Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n|Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Trailer: a\r\n`;

/** Malformed requests to each operation. */
export function malformed(operations: Operation[], service: Service): fc.Arbitrary<Malformed> {
  const good = operations.map((operation) => {
    // Without parameters in headers, because the use of an Idempotency-Key would be unknown.
    const parameters = operation.parameters.filter((parameter) => parameter.in !== "header");
    return validCases({ ...operation, parameters }, service).map(({ request }) =>
      requestText({ ...request, chunks: undefined }),
    );
  });
  const text = fc.oneof(...good);
  /** Requests with one of these values at a place. */
  const put = (values: string[], place: RegExp) =>
    fc.tuple(text, fc.constantFrom(...values)).map(([request, value]) => request.replace(place, () => value));
  const headers = split(HEADERS).map((each) => `\r\n${each}`);
  const framings = split(FRAMINGS).map((each) => `\r\n${each}\r\n\r\n`);
  const kinds = {
    "changed bytes": mutated(text),
    truncated: fc.tuple(text, fc.nat()).map(([request, end]) => request.slice(0, end % request.length)),
    target: put(TARGETS, /(?<= )\S+/),
    "first header": put(headers, /(?=\r\n)/),
    "last header": put(headers, /(?=\r\n\r\n)/),
    framing: put(framings, /(\r\nContent-Length: \d+)?\r\n\r\n/),
  };
  const all = Object.entries(kinds).map(([kind, texts]) =>
    texts.map((bytes): Malformed => ({ group: "malformed", kind, bytes })),
  );
  return fc.oneof(...all);
}

/** The values of a list, which may have a line break after a separator. */
function split(list: string): string[] {
  return list.split(/\|(?:\n {2})?/);
}
