// Requests that no HTTP client sends: line breaks in every value that a response repeats, and ambiguous lengths. They go
// directly to the Workers runtime; Cloudflare's proxy would refuse some of them. A response without X-Request-Id comes from the
// runtime: the request did not reach the service.

import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { IMPLEMENTATIONS, type Implementation } from "../../bench/measure/implementations.ts";

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

const isFromService = (response: string) => /^x-request-id: /im.test(response);
const statusOf = (response: string) => Number(response.split(" ")[1]);

const PET = `{"name":"Rex","categoryId":1}`;
const LENGTH = `Content-Length: ${PET.length}`;
const JSON_TYPE = "Content-Type: application/json";
const KEY = "Authorization: Bearer @key";
const LAST = [KEY, "Connection: close", "", ""];

/** A POST without a key. */
const postOf = (headers: string[], body = PET) => [
  "POST /v1/pets HTTP/1.1",
  "Host: localhost",
  ...headers,
  "",
  body,
];
/** A POST with a key. */
const creation = (...headers: string[]) => postOf([...headers, LENGTH, ...LAST.slice(0, 2)]);
const requestOf = (target: string, ...headers: string[]) => [
  `${target} HTTP/1.1`,
  "Host: localhost",
  ...headers,
  ...LAST,
];

const PREFLIGHT = [
  ...["Origin: https://shop.example", "Access-Control-Request-Method: POST"],
  "Access-Control-Request-Headers:‹x›",
];

/** Requests with a value before ›, and ‹ before it in a header, and what shows in the response that the value is understood. */
const REPEATED: [what: string, request: string[], shown: string][] = [
  ["X-Request-Id", requestOf("GET /v1/nowhere", "X-Request-Id:‹12345678›"), "x-request-id: 12345678\r\n"],
  [
    "Access-Control-Request-Headers",
    requestOf("OPTIONS /v1/pets", ...PREFLIGHT),
    "access-control-allow-headers: x\r\n",
  ],
  [
    "Host",
    ["GET /v1/pets?limit=1 HTTP/1.1", "Host: localhost›", ...LAST],
    "link: <http://localhost/v1/pets?limit=1&cursor=",
  ],
  ["the method", requestOf("PUT› /v1/pets"), "put is not allowed"],
];

/** The other headers that the service reads. */
const READ: typeof REPEATED = [
  [
    "Authorization",
    ["GET /v1/nowhere HTTP/1.1", "Host: localhost", "Authorization:‹Bearer @key›", ...LAST.slice(1)],
    "http/1.1 404",
  ],
  ["Content-Type", creation("Content-Type:‹application/json›"), "http/1.1 201"],
  ["Content-Encoding", creation(JSON_TYPE, "Content-Encoding:‹identity›"), "http/1.1 201"],
  ["Idempotency-Key", creation(JSON_TYPE, "Idempotency-Key:‹padded›"), "http/1.1 201"],
];

// White space: RFC 9110, section 5.5.
it.each([...REPEATED, ...READ])(
  "a valid %s is repeated or used, without white space around it",
  async (_, request, shown) => {
    for (const blank of ["", " ", "\t "]) {
      const lines = request.map((line) => line.replace(/‹(.*)›/, `${blank}$1${blank}`).replace("›", ""));
      expect((await send(lines)).map((response) => response.toLowerCase())).toEqual([
        expect.stringContaining(shown),
      ]);
    }
  },
);

/** Requests with a value that no response repeats. */
const NOT_REPEATED: [what: string, request: string[]][] = [
  ["the path", requestOf("GET /v1/pets/›")],
  ["an unknown parameter", requestOf("GET /v1/pets?limit=1&x=›")],
  ["an invalid parameter", requestOf("GET /v1/pets?status=›")],
  ["Idempotency-Key", creation(JSON_TYPE, "Idempotency-Key: x›")],
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
        const lines = request.map((line) => line.replace("‹", " ").replace("›", lineBreak + injected));
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

describe("a body with an ambiguous length", () => {
  const CHUNKED = "Transfer-Encoding: chunked";
  const END = "0\r\n\r\n";

  it.each([
    ["two lengths", [LENGTH, "Content-Length: 0"], PET],
    ["a list of lengths", [`${LENGTH}, 0`], PET],
    ["a length and chunks", ["Content-Length: 0", CHUNKED], END],
    ["chunks and a length", [CHUNKED, "Content-Length: 5"], END],
    ["an unknown coding", ["Content-Length: 0", "Transfer-Encoding: xchunked"], END],
    ["chunks behind a line break", ["Content-Length: 0", `X: x\n${CHUNKED}`], END],
    ["a folded header", ["Content-Length: 0", "Transfer-Encoding:\r\n chunked"], END],
    ["a space before the colon", [LENGTH.replace(":", " :")], PET],
    ["a negative length", ["Content-Length: -1"], PET],
    ["a chunk beyond 64 bits", [CHUNKED], `1000000000000001d\r\n${PET}\r\n${END}`],
    ["a chunk shorter than its size", [CHUNKED], `ff\r\n${PET}\r\n${END}`],
    ["a body longer than its length", ["Content-Length: 1"], PET],
    ["a body shorter than its length", ["Content-Length: 99"], PET],
  ])("(%s) stores nothing, and lends its key to no smuggled request", async (_, headers, body) => {
    const countPets = () => service.database?.prepare("SELECT count(*) AS pets FROM pets").first("pets");
    const before = await countPets();
    expect(before).toBeGreaterThan(0);
    const smuggled = postOf([JSON_TYPE, LENGTH]).join("\r\n");
    const responses = await send(postOf([KEY, JSON_TYPE, ...headers], body + smuggled));
    expect(responses.length).toBeGreaterThan(0);
    // The smuggled request has no key.
    for (const response of responses.filter(isFromService))
      expect([400, 401, 413]).toContain(statusOf(response));
    expect(await countPets()).toBe(before);
  });
});
