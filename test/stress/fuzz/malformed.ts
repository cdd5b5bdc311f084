// Malformed HTTP: bytes that are not HTTP, and requests with unusual elements, with changed bytes, or without an end.

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

const METHODS = words(`TRACE CONNECT get FOO G\0T G\xc9T GET,POST * PRI QUERY ${"A".repeat(5_000)}`);

const VERSIONS = words(
  "HTTP/1.0 HTTP/0.9 HTTP/2.0 HTTP/1. HTTP/11 HTTP/1.1\0 HTTP ICY/1.1 HTTP/99999999999999999999.1",
);

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
  Origin: null\r\nAccess-Control-Request-Method: \xff|Authorization: Bearer\t|Idempotency-Key: a\x01`;

const FRAMINGS = `Content-Length: -1|Content-Length: 0x2|Content-Length: 2, 2|Content-Length: 2\r\nContent-Length: 3|Content-Length: 1|
  Content-Length: 99999999999999999999999999|Transfer-Encoding: gzip|Transfer-Encoding: \x0bchunked|Transfer-Encoding: chunked\r\n|
  Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n|Transfer-Encoding: chunked, chunked|Transfer-Encoding: chunked\r\nContent-Length: 2|
  Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n|Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Trailer: a\r\n`;

const LONG_HEADERS = [
  `X-Odd: ${"a".repeat(500_000)}`,
  `${"X-Odd: a\r\n".repeat(2_000)}${"a".repeat(60_000)}: a`,
];

const NOT_HTTP = [
  "\r\n",
  "GET /",
  "HTTP/1.1 200 OK\r\n\r\n",
  "PRI * HTTP/2.0\r\n\r\n",
  "\x16\x03\x01\x02\0\x01\0\x01\xfc",
];

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
  const make = (kind: string, bytes: fc.Arbitrary<string>) =>
    bytes.map((each): Malformed => ({ group: "malformed", kind, bytes: each }));
  const put = (kind: string, values: string[], place: RegExp) => {
    const both = fc.tuple(text, fc.constantFrom(...values));
    const changed = both.map(([request, value]) => request.replace(place, () => value));
    return make(kind, changed);
  };
  const headers = [...split(HEADERS), ...LONG_HEADERS].map((each) => `\r\n${each}`);
  const framings = split(FRAMINGS).map((each) => `\r\n${each}\r\n\r\n`);
  const truncated = fc.tuple(text, fc.nat()).map(([request, end]) => request.slice(0, end % request.length));
  return fc.oneof(
    make("not HTTP", mutated(fc.constantFrom(...NOT_HTTP))),
    { weight: 4, arbitrary: make("changed bytes", mutated(text)) },
    { weight: 2, arbitrary: make("truncated", truncated) },
    put("method", METHODS, /^\S+/),
    put("version", VERSIONS, /HTTP\/1.1/),
    { weight: 2, arbitrary: put("target", TARGETS, /(?<= )\S+/) },
    { weight: 2, arbitrary: put("header", headers, /(?=\r\n)/) },
    put("header", headers, /(?=\r\n\r\n)/),
    put("framing", framings, /(\r\nContent-Length: \d+)?\r\n\r\n/),
    put("header", [""], /Host: .*\r\n/),
    put("line ends", ["\n", "\r", "\r\r\n"], /\r\n/g),
  );
}

/** The values of a list, which may have a line break after a separator. */
function split(list: string): string[] {
  return list.split(/\|(?:\n {2})?/);
}
