// Requests that no HTTP client sends: white space around values, line breaks in every value that a response repeats, and ambiguous
// lengths. They go directly to the Workers runtime; Cloudflare's proxy would refuse some of them. A response without X-Request-Id
// comes from the runtime: the request did not reach the service.

import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { IMPLEMENTATIONS, type Implementation } from "../../bench/measure/implementations.ts";
import { HEADER } from "../../src/http/header-names.ts";

let service: Implementation;

beforeAll(async () => {
  service = await IMPLEMENTATIONS.petstore();
});

afterAll(() => service.stop());

/** Sends lines, and returns all responses until the server closes the connection. @key is a valid key. */
async function send(lines: string[]): Promise<string[]> {
  const socket = connect(Number(service.url.port), "127.0.0.1");
  let received = "";
  socket.setEncoding("latin1").on("data", (chunk) => (received += chunk));
  socket.on("error", () => {});
  const secret = service.authorization.Authorization.replace("Bearer ", "");
  socket.end(lines.join("\r\n").replaceAll("@key", secret), "latin1");
  await once(socket, "close");
  return received.split(/(?=^HTTP\/1\.1 )/m).filter((response) => response !== "");
}

const isFromService = (response: string) =>
  response.toLowerCase().includes(`\n${HEADER.requestId.toLowerCase()}: `);
const statusOf = (response: string) => Number(response.split(" ")[1]);

const PET = `{"name":"Rex","categoryId":1}`;
const KEY = "Authorization: Bearer @key";

const LAST = ["Host: localhost", "Connection: close", "", ""];
const requestOf = (first: string, ...headers: string[]) => [`${first} HTTP/1.1`, ...headers, KEY, ...LAST];
/** A POST without a key and a type. */
const postOf = (...headers: string[]) => [
  ...["POST /v1/pets HTTP/1.1", `Content-Length: ${PET.length}`],
  ...[...headers, ...LAST.slice(0, -1), PET],
];

const PREFLIGHT = ["Origin: https://shop.example", "Access-Control-Request-Method: POST"];

/** Requests with a value before ›, and where the response repeats the value. */
const REPEATED: [what: string, request: string[], shown: string][] = [
  [
    HEADER.requestId,
    requestOf("GET /v1/nowhere", `${HEADER.requestId}: 12345678›`),
    `${HEADER.requestId.toLowerCase()}: 12345678\r\n`,
  ],
  [
    "Access-Control-Request-Headers",
    requestOf("OPTIONS /v1/pets", ...PREFLIGHT, "Access-Control-Request-Headers: x›"),
    "access-control-allow-headers: x\r\n",
  ],
  [
    "Host",
    ["GET /v1/pets?limit=1 HTTP/1.1", "Host: localhost›", KEY, ...LAST.slice(1)],
    "link: <http://localhost/v1/pets?limit=1&cursor=",
  ],
  ["the method", requestOf("PUT› /v1/pets"), "put is not allowed"],
];

it.each(REPEATED)("a valid %s is repeated", async (_, request, shown) => {
  const [response] = await send(request.map((line) => line.replace("›", "")));
  expect(response?.toLowerCase()).toContain(shown);
});

// White space: RFC 9110, section 5.5. The runtime keeps it.
it.each(["", " ", "\t "])("white space around the values of headers is ignored: %j", async (blank) => {
  const padded = (name: string, value: string) => `${name}:${blank}${value}${blank}`;
  const creation = postOf(
    padded(HEADER.requestId, "12345678"),
    padded("Authorization", "Bearer @key"),
    padded("Content-Type", "application/json"),
    padded("Content-Encoding", "identity"),
    padded(HEADER.idempotencyKey, "padded"),
  );
  expect(await send(creation)).toEqual([
    expect.stringMatching(new RegExp(`^HTTP/1.1 201 .*\n${HEADER.requestId}: 12345678\r\n`, "is")),
  ]);
});

// In UTF-8, as the runtime decodes it. To String.prototype.trim it is white space.
it("a byte order mark before an Idempotency-Key makes it invalid", async () => {
  const creation = postOf(KEY, "Content-Type: application/json", "Idempotency-Key: \xef\xbb\xbfkey");
  const [response = ""] = await send(creation);
  expect(statusOf(response)).toBe(400);
});

/** Requests with a value that no response repeats. */
const NOT_REPEATED: [what: string, request: string[]][] = [
  ["the path", requestOf("GET /v1/pets/›")],
  ["an unknown parameter", requestOf("GET /v1/pets?limit=1&x=›")],
  ["an invalid parameter", requestOf("GET /v1/pets?status=›")],
  [HEADER.idempotencyKey, postOf(KEY, "Content-Type: application/json", "Idempotency-Key: x›")],
];

/** Texts that HTTP, a lenient parser, a decoder or a truncating conversion to bytes may take for a line break. */
const LINE_BREAKS = {
  "CR LF": "\r\n",
  "CR LF, space": "\r\n ",
  LF: "\n",
  CR: "\r",
  "%0D%0A": "%0D%0A",
  "U+560D U+560A in UTF-8": "\xe5\x98\x8d\xe5\x98\x8a",
  "U+0085 in UTF-8": "\xc2\x85",
  NUL: "\0",
};

describe.each<[string, string[], shown?: string]>([...REPEATED, ...NOT_REPEATED])("%s", (_, request) => {
  it.each(Object.entries(LINE_BREAKS))(
    "with %s injects no header into the response",
    async (_name, lineBreak) => {
      for (const injected of ["Injected: 1", "Injected"]) {
        const lines = request.map((line) => line.replace("›", lineBreak + injected));
        const responses = await send(lines);
        expect(responses).toHaveLength(1);
        const [response = ""] = responses;
        const [, ...headers] = response.replace(/\r\n\r\n.*/s, "").split("\r\n");
        for (const header of headers) {
          expect(header).toMatch(/^[\w-]+: [\x20-\x7e]*$/);
          expect(header).not.toMatch(/injected/i);
        }
        if (isFromService(response)) expect(statusOf(response)).toBeLessThan(500);
      }
    },
  );
});

// Two servers may read these lengths differently. The request after the body has no key; a 201 would have stored a pet.
it.each([
  [[`Content-Length: ${PET.length}`, "Content-Length: 0"], PET],
  [["Content-Length: 0", "Transfer-Encoding: chunked"], "0\r\n\r\n"],
  [["Transfer-Encoding: chunked", "Content-Length: 5"], "0\r\n\r\n"],
  [["Content-Length: 0", "Transfer-Encoding: xchunked"], "0\r\n\r\n"],
  [["Content-Length: 0", "X: x\nTransfer-Encoding: chunked"], "0\r\n\r\n"],
  [["Content-Length: 18446744073709551645"], PET],
  [["Transfer-Encoding: chunked"], `ff\r\n${PET}\r\n0\r\n\r\n`],
  [["Content-Length: 1"], PET],
])("a body with an ambiguous length lends its key to no smuggled request: %j", async (lengths, body) => {
  const json = "Content-Type: application/json";
  const head = ["POST /v1/pets HTTP/1.1", "Host: localhost", KEY, json, ...lengths, ""];
  const responses = await send([...head, body + postOf(json).join("\r\n")]);
  expect(responses.length).toBeGreaterThan(0);
  for (const each of responses.filter(isFromService)) expect([400, 401, 413]).toContain(statusOf(each));
});
