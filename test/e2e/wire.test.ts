// Requests that no HTTP client sends: white space around values, line breaks in every value that a response repeats, and ambiguous
// lengths. They go directly to the Workers runtime; Cloudflare's proxy would refuse some of them. A response without X-Request-Id
// comes from the runtime: the request did not reach the service.

import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
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

const isFromService = (response: string) => new RegExp(`^${HEADER.requestId}: `, "im").test(response);
const statusOf = (response = "") => Number(response.split(" ")[1]);

const PET = `{"name":"Rex","categoryId":1}`;
const KEY = "Authorization: Bearer @key";
const JSON_TYPE = "Content-Type: application/json";
const PREFLIGHT = ["Origin: https://shop.example", "Access-Control-Request-Method: POST"];

/** The lines of a request, with a pet if it is a POST. */
function requestOf(first: string, ...headers: string[]): string[] {
  const lines = [`${first} HTTP/1.1`, ...headers, "Connection: close"];
  if (!headers.some((each) => each.startsWith("Host:"))) lines.push("Host: localhost");
  return first.startsWith("POST") ? [...lines, `Content-Length: ${PET.length}`, "", PET] : [...lines, "", ""];
}

/** Requests with a value before ›, and where the response repeats it, if it does. */
const REQUESTS: [first: string, header: string, shown?: RegExp][] = [
  ["GET /v1/nowhere", "X-Request-Id: 12345678›", /^x-request-id: 12345678\r$/im],
  ["OPTIONS /v1/pets", "Access-Control-Request-Headers: x›", /^access-control-allow-headers: x\r$/im],
  ["GET /v1/pets?limit=1", "Host: localhost›", /^link: <http:\/\/localhost\/v1\/pets\?limit=1&cursor=/im],
  ["PUT› /v1/pets", "Accept: */*", /PUT is not allowed/],
  ["GET /v1/pets/›", "Accept: */*"],
  ["GET /v1/pets?limit=1&x=›", "Accept: */*"],
  ["GET /v1/pets?status=›", "Accept: */*"],
  ["POST /v1/pets", "Idempotency-Key: x›"],
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

it.each(REQUESTS)(
  "a value in %s with %s is repeated only if it is valid, and injects no header into the response",
  async (first, header, shown = /^HTTP/) => {
    const request = requestOf(first, header, KEY, JSON_TYPE, ...PREFLIGHT);
    const replace = (text: string) => send(request.map((line) => line.replace("›", text)));
    expect((await replace(""))[0]).toMatch(shown);
    for (const [name, lineBreak] of Object.entries(LINE_BREAKS)) {
      for (const injected of ["Injected: 1", "Injected"]) {
        const responses = await replace(lineBreak + injected);
        expect(responses, name).toHaveLength(1);
        const [response = ""] = responses;
        const [, ...headers] = response.replace(/\r\n\r\n.*/s, "").split("\r\n");
        for (const each of headers) expect(each, name).toMatch(/^(?!.*injected)[\w-]+: [\x20-\x7e]*$/i);
        if (isFromService(response)) expect(statusOf(response), name).toBeLessThan(500);
      }
    }
  },
);

// White space: RFC 9110, section 5.5. The runtime keeps it.
it.each(["", " ", "\t "])("white space around the values of headers is ignored: %j", async (blank) => {
  const padded = (name: string, value: string) => `${name}:${blank}${value}${blank}`;
  const creation = requestOf(
    "POST /v1/pets",
    padded(HEADER.requestId, "12345678"),
    padded("Authorization", "Bearer @key"),
    padded("Content-Type", "application/json"),
    padded("Content-Encoding", "identity"),
    padded(HEADER.idempotencyKey, "padded"),
  );
  expect(await send(creation)).toEqual([
    expect.stringMatching(/^HTTP\/1.1 201 .*\nx-request-id: 12345678\r\n/is),
  ]);
});

// In UTF-8, as the runtime decodes it. To String.prototype.trim it is white space.
it("a byte order mark before an Idempotency-Key makes it invalid", async () => {
  const [response] = await send(
    requestOf("POST /v1/pets", KEY, JSON_TYPE, "Idempotency-Key: \xef\xbb\xbfkey"),
  );
  expect(statusOf(response)).toBe(400);
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
  const head = ["POST /v1/pets HTTP/1.1", "Host: localhost", KEY, JSON_TYPE, ...lengths, ""];
  const responses = await send([...head, body + requestOf("POST /v1/pets", JSON_TYPE).join("\r\n")]);
  expect(responses.length).toBeGreaterThan(0);
  for (const each of responses.filter(isFromService)) expect([400, 401, 413]).toContain(statusOf(each));
});
