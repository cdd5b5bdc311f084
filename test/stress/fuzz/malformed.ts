// Malformed HTTP: raw bytes, valid requests with changed bytes, truncated requests, and requests with one unusual element, from
// the request line to the framing of the body.

import fc from "fast-check";
import { validCases } from "./cases.ts";
import type { Operation } from "./document.ts";
import { bytesOf, type Ending, type Header } from "./http.ts";
import type { Service } from "./service.ts";

/** The bytes of a connection, and how it ends. */
export interface Malformed {
  kind: "malformed";
  what: string;
  bytes: Uint8Array;
  ending: Ending;
}

/** All malformed requests, derived from the operations. */
export function malformed(operations: Operation[], service: Service): fc.Arbitrary<Malformed> {
  // Without header parameters, because the use of an Idempotency-Key would be unknown.
  const named = operations.map((each) => ({
    ...each,
    parameters: each.parameters.filter((parameter) => parameter.in !== "header"),
  }));
  const good = fc
    .oneof(...named.map((each) => validCases(each, service, {})))
    .map(({ request }) => bytesOf(request));
  const key: Header = ["Authorization", `Bearer ${service.secret}`];
  return fc.oneof(
    { weight: 1, arbitrary: rawBytes() },
    { weight: 4, arbitrary: mutated(good) },
    { weight: 2, arbitrary: interrupted(good) },
    { weight: 8, arbitrary: crafted(operations, key) },
  );
}

function make(what: string, bytes: Uint8Array, ending: Ending = "half-close"): Malformed {
  return { kind: "malformed", what, bytes, ending };
}

function rawBytes(): fc.Arbitrary<Malformed> {
  const known = [
    "",
    "\r\n",
    "\r\n\r\n",
    "\n\n",
    "\0",
    "GET",
    "GET ",
    "GET /",
    "GET /v1/pets\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "SSH-2.0-x\r\n",
    "\x05\x01\x00",
    "0\r\n\r\n",
    "{}",
  ];
  const anything = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));
  return fc
    .oneof(
      fc.constantFrom(...known).map((text) => Buffer.from(text, "latin1")),
      anything,
    )
    .map((bytes) => make("bytes that are not HTTP", bytes));
}

interface Mutation {
  at: number;
  action: "change" | "insert" | "remove" | "repeat";
  byte: number;
  length: number;
}

function mutated(good: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Malformed> {
  const odd = fc.constantFrom(0, 1, 9, 10, 13, 32, 34, 37, 44, 47, 48, 57, 58, 59, 63, 127, 128, 192, 255);
  const mutations: fc.Arbitrary<Mutation[]> = fc.array(
    fc.record({
      at: fc.nat(2_000),
      action: fc.constantFrom("change", "insert", "remove", "repeat"),
      byte: fc.oneof(odd, fc.nat(255)),
      length: fc.integer({ min: 1, max: 20 }),
    }),
    { minLength: 1, maxLength: 4 },
  );
  return fc
    .tuple(good, mutations)
    .map(([bytes, all]) => make("a request with changed bytes", all.reduce(mutate, bytes)));
}

function mutate(bytes: Uint8Array, { at, action, byte, length }: Mutation): Uint8Array {
  const place = at % (bytes.length + 1);
  const before = bytes.subarray(0, place);
  const after = bytes.subarray(place);
  const one = Buffer.from([byte]);
  if (action === "change") return Buffer.concat([before, one, after.subarray(1)]);
  if (action === "insert") return Buffer.concat([before, one, after]);
  if (action === "remove") return Buffer.concat([before, after.subarray(length)]);
  return Buffer.concat([before, after.subarray(0, length), after]);
}

/** Truncated requests, from a client that closes its side or resets the connection. */
function interrupted(good: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Malformed> {
  const ending = fc.constantFrom<Ending[]>("half-close", "reset");
  return fc
    .tuple(good, fc.nat(5_000), ending)
    .map(([bytes, length, how]) =>
      make("a truncated request", bytes.subarray(0, length % bytes.length), how),
    );
}

const METHODS = [
  "TRACE",
  "CONNECT",
  "get",
  "Get",
  "FOO",
  "GET\t",
  "",
  " ",
  "GET GET",
  "G\0T",
  "GÉT",
  "M-SEARCH",
  "PROPFIND",
  "A".repeat(5000),
  "GET,POST",
  "*",
  "PRI",
  "SUBSCRIBE",
  "QUERY",
];
const VERSIONS = [
  "HTTP/1.0",
  "HTTP/0.9",
  "HTTP/2.0",
  "HTTP/3",
  "HTTP/1.1 ",
  "HTTP/1.",
  "HTTP/11",
  "http/1.1",
  "HTTP/1.1\0",
  "HTTP",
  "ICY/1.1",
  "HTTP/99999999999999999999.1",
  "",
  "HTTP/1.1 HTTP/1.1",
];

/** Unusual targets derived from a path. */
function targets(path: string): string[] {
  return [
    "*",
    "",
    " ",
    "/",
    "//",
    "///",
    `/${path}`,
    `//evil.example${path}`,
    path.slice(1),
    `http://localhost${path}`,
    `http://evil.example${path}`,
    `https://localhost:443${path}`,
    "http://",
    "http:",
    "localhost:80",
    "javascript:alert(1)",
    "file:///etc/passwd",
    "data:,x",
    `/..${path}`,
    `/../..${path}`,
    `${path}/..`,
    `${path}/../..`,
    `${path}/.`,
    `${path}/%2e%2e`,
    `${path}/%2e%2e%2f`,
    `/%2e%2e${path}`,
    `${path}/..;/`,
    `${path}\\..\\`,
    `${path.replace("/", "/./")}`,
    `${path}/%00`,
    `${path}%00`,
    `${path}/%ff`,
    `/%ff${path}`,
    `${path}/%`,
    `${path}/%zz`,
    `${path}/%u0031`,
    `${path}/\xe9`,
    `${path}/\xc3\xa9`,
    `${path}/\xff\xfe`,
    `${path}\x7f`,
    `${path}\0`,
    `${path}\t`,
    `${path}?\0`,
    `${path}?\xff`,
    `${path}?limit=\xc3\xa9`,
    `${path} x`,
    `${path}#fragment`,
    `${path}?#`,
    `${path}??limit=0`,
    `${path}?limit=0?`,
    `${path}?${"a=1&".repeat(5000)}`,
    `${path}?${"a".repeat(60_000)}`,
    `${path}/${"a".repeat(60_000)}`,
    `/${"a/".repeat(20_000)}`,
    `${path}/${"%41".repeat(5000)}`,
    `${path}/${"../".repeat(5000)}`,
    `${path}|`,
    `${path}"`,
    `${path}<script>`,
    `${path}{x}`,
    `${path}^\``,
    `${path}[`,
    `/[::1]${path}`,
    `${path}@evil.example`,
    `${path.toUpperCase()}`,
    `${path}.json`,
    `/v1%2fpets`,
    `/%76%31${path.slice(3)}`,
    "/cdn-cgi/handler/scheduled",
    "/cdn-cgi/trace",
    "/__scheduled",
    "/favicon.ico",
  ];
}

const HEADERS: string[] = [
  "X-Odd: a\x01b",
  "X-Odd: a\0b",
  "X-Odd: a\x7fb",
  "X-Odd: a\rb",
  "X-Odd: a\nb",
  "X-Odd: a\r\n b",
  "X-Odd: a\r\n\tb",
  " X-Odd: a",
  "X-Odd : a",
  "X Odd: a",
  "X-Odd",
  ": a",
  ":",
  "",
  "X-\0: a",
  "X-\xe9: a",
  "X-Odd: \xff\xfe",
  "X-Odd: \xc3\xa9",
  "X-(Odd): a",
  "__proto__: a",
  "constructor: a",
  `X-Odd: ${"a".repeat(20_000)}`,
  `X-Odd: ${"a".repeat(500_000)}`,
  `${"X".repeat(20_000)}: a`,
  "X-Odd: a\r\n".repeat(2_000).trimEnd(),
  Array.from({ length: 2_000 }, (_, index) => `X-Odd-${index}: a`).join("\r\n"),
  "Host: evil.example",
  "Host: a b/c",
  "Host:",
  "Connection: close, keep-alive",
  "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
  "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
  "Connection: Authorization",
  "Connection: X-Request-Id, Content-Type",
  "Expect: 100-continue",
  "Expect: nonsense",
  "Range: bytes=0-1",
  "If-Match: *",
  "If-None-Match: *",
  "If-Modified-Since: yesterday",
  "Accept: text/html",
  "Accept: nonsense",
  "Accept-Encoding: gzip;q=2, *;q=0",
  "Accept-Charset: utf-16",
  "TE: trailers, deflate;q=0.5",
  "Trailer: X-Odd",
  "Cookie: a=b; \xff",
  "X-HTTP-Method-Override: DELETE",
  "X-Forwarded-Host: evil.example",
  "X-Original-URL: /v1/usage",
  "X-Request-Id: \xe9\xe9\xe9\xe9\xe9\xe9\xe9\xe9",
  `X-Request-Id: ${"a".repeat(100_000)}`,
  "X-Request-Id: a\r\nX-Request-Id: bbbbbbbbbbbb",
  "CF-Connecting-IP: nonsense",
  "CF-Connecting-IP:",
  `CF-Connecting-IP: ${":".repeat(1000)}`,
  "CF-Connecting-IP: ::::\r\nCF-Connecting-IP: 1.2.3.4",
  "Origin: \xff",
  "Origin: null\r\nAccess-Control-Request-Method: \xff",
  "Access-Control-Request-Headers: \xff\r\nOrigin: a\r\nAccess-Control-Request-Method: GET",
  "Content-Type: \xff",
  "Authorization: Bearer\t",
  "Proxy-Connection: keep-alive",
  "Sec-Fetch-Mode: navigate",
];

/** Wrong, contradictory or missing framings of a body: headers and body. */
const FRAMINGS: [string, string][] = [
  ["Content-Length: 5", "{}"],
  ["Content-Length: 1", '{"name":"a","categoryId":1}'],
  ["Content-Length: 0", '{"name":"a","categoryId":1}'],
  ["Content-Length: -1", "{}"],
  ["Content-Length: +2", "{}"],
  ["Content-Length: 2 ", "{}"],
  ["Content-Length: 0x2", "{}"],
  ["Content-Length: 2.0", "{}"],
  ["Content-Length: 1e1", "{}"],
  ["Content-Length: two", "{}"],
  ["Content-Length:", "{}"],
  ["Content-Length: 2, 2", "{}"],
  ["Content-Length: 2\r\nContent-Length: 2", "{}"],
  ["Content-Length: 2\r\nContent-Length: 3", "{} "],
  ["Content-Length: 65537", "{}"],
  ["Content-Length: 9223372036854775807", "{}"],
  ["Content-Length: 18446744073709551616", "{}"],
  ["Content-Length: 99999999999999999999999999", "{}"],
  ["Content-Length: 5\r\nTransfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked\r\nContent-Length: 2", "{}"],
  ["Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked", ""],
  ["Transfer-Encoding: chunked", "\r\n"],
  ["Transfer-Encoding: chunked", "0"],
  ["Transfer-Encoding: chunked", "0\r\n"],
  ["Transfer-Encoding: chunked", "zz\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked", "-2\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked", "0x2\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked", "2;a=b\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked", "2\r\n{}0\r\n\r\n"],
  ["Transfer-Encoding: chunked", "2\n{}\n0\n\n"],
  ["Transfer-Encoding: chunked", "1\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked", "5\r\n{}"],
  ["Transfer-Encoding: chunked", "2\r\n{}\r\n"],
  ["Transfer-Encoding: chunked", "ffffffffffffffff\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked", "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked", `${"0".repeat(5000)}2\r\n{}\r\n0\r\n\r\n`],
  ["Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\nX-Trailer: a\r\n\r\n"],
  ["Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\nAuthorization: Bearer x\0\r\n\r\n"],
  ["Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\nGET /v1/pets HTTP/1.1\r\n\r\n"],
  ["Transfer-Encoding: gzip", "{}"],
  ["Transfer-Encoding: gzip, chunked", "2\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked, chunked", "2\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "2\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: identity", "{}"],
  ["Transfer-Encoding: xchunked", "2\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding : chunked", "2\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding:\x0bchunked", "2\r\n{}\r\n0\r\n\r\n"],
  ["Transfer-Encoding: CHUNKED", "2\r\n{}\r\n0\r\n\r\n"],
  ["", "{}"],
  ["Content-Length: 27\r\nContent-Encoding: gzip", '{"name":"a","categoryId":1}'],
];

/** Valid requests except for one element. */
function crafted(operations: Operation[], [name, value]: Header): fc.Arbitrary<Malformed> {
  const paths = [...new Set(operations.map(({ path }) => path.replace(/\{[^}]+\}/g, "1")))];
  const operation = fc.constantFrom(
    ...operations.map((each) => ({ ...each, path: each.path.replace(/\{[^}]+\}/g, "1") })),
  );
  const line = (what: string, text: string, headers: string, body = "") =>
    make(what, Buffer.from(`${text}\r\n${headers}\r\n\r\n${body}`, "latin1"));
  const usual = `Host: localhost\r\n${name}: ${value}`;
  const target = fc.constantFrom(...paths).chain((path) => fc.constantFrom(...targets(path)));
  return fc.oneof(
    fc
      .tuple(operation, fc.constantFrom(...METHODS))
      .map(([{ path }, method]) => line("an unusual method", `${method} ${path} HTTP/1.1`, usual)),
    fc
      .tuple(operation, fc.constantFrom(...VERSIONS))
      .map(([{ method, path }, version]) =>
        line("an unusual version", `${method} ${path} ${version}`, usual),
      ),
    fc
      .tuple(fc.constantFrom("GET", "GET", "HEAD", "POST", "OPTIONS", "CONNECT"), target)
      .map(([method, each]) => line("an unusual target", `${method} ${each} HTTP/1.1`, usual)),
    fc
      .tuple(operation, fc.constantFrom(...HEADERS), fc.boolean())
      .map(([{ method, path }, header, isFirst]) =>
        line(
          "an unusual header",
          `${method} ${path} HTTP/1.1`,
          isFirst ? `${header}\r\n${usual}` : `${usual}\r\n${header}`,
        ),
      ),
    fc
      .tuple(operation, fc.constantFrom(...FRAMINGS))
      .map(([{ method, path, body }, [framing, bytes]]) =>
        line(
          "an unusual framing",
          `${method} ${path} HTTP/1.1`,
          [usual, ...(body ? [`Content-Type: ${body.mediaType}`] : []), ...(framing ? [framing] : [])].join(
            "\r\n",
          ),
          bytes,
        ),
      ),
    operation.map(({ method, path }) =>
      line("a missing host", `${method} ${path} HTTP/1.1`, `${name}: ${value}`),
    ),
    fc
      .tuple(operation, fc.constantFrom("\n", "\r", "\n\r", "\r\r\n"))
      .map(([{ method, path }, end]) =>
        make(
          "unusual line ends",
          Buffer.from(
            [`${method} ${path} HTTP/1.1`, usual, "", ""].join("\r\n").replaceAll("\r\n", end),
            "latin1",
          ),
        ),
      ),
  );
}
