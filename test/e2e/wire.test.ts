// Requests that no HTTP client sends: line breaks in every value that a response repeats, and ambiguous lengths. They go
// directly to the Workers runtime; Cloudflare's proxy would refuse some of them. A response without X-Request-Id comes from the
// runtime: the request did not reach the service.

import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { IMPLEMENTATIONS, type Implementation } from "../../bench/measure/implementations.ts";

let service: Implementation;
let database: D1Database;
let authorization: string;

beforeAll(async () => {
  service = await IMPLEMENTATIONS.petstore();
  if (service.database === undefined) throw new Error("the service has no database");
  database = service.database;
  authorization = `Authorization: ${service.authorization.Authorization}`;
});

afterAll(() => service.stop());

interface RawResponse {
  status: number;
  headers: [name: string, value: string][];
  body: string;
  isFromService: boolean;
}

/** Sends raw bytes, and returns all responses until the server closes the connection. */
async function send(...lines: string[]): Promise<RawResponse[]> {
  const socket = connect(Number(service.url.port), "127.0.0.1");
  let received = "";
  socket.setEncoding("latin1").on("data", (chunk) => (received += chunk));
  socket.on("error", () => {});
  socket.end(lines.join("\r\n"), "latin1");
  await once(socket, "close");
  return received
    .split(/(?=^HTTP\/1\.1 )/m)
    .filter((text) => text !== "")
    .map(parseResponse);
}

function parseResponse(text: string): RawResponse {
  const [head = "", body = ""] = text.split("\r\n\r\n");
  const [statusLine = "", ...lines] = head.split("\r\n");
  const headers = lines.map((line): [string, string] => {
    const [, name = "", value = ""] = /^([^:]*): (.*)$/s.exec(line) ?? [];
    return [name.toLowerCase(), value];
  });
  return {
    status: Number(statusLine.split(" ")[1]),
    headers,
    body,
    isFromService: headers.some(([name]) => name === "x-request-id"),
  };
}

async function countPets(): Promise<number> {
  return (await database.prepare("SELECT count(*) AS pets FROM pets").first<number>("pets")) ?? 0;
}

const PET = `{"name":"Rex","categoryId":1}`;

/** Texts that HTTP, a lenient parser, a decoder or a truncating conversion to bytes may take for a line break. */
const LINE_BREAKS: [name: string, text: string][] = [
  ["CR LF", "\r\n"],
  ["CR LF, space", "\r\n "],
  ["LF", "\n"],
  ["CR", "\r"],
  ["%0D%0A", "%0D%0A"],
  ["U+560D U+560A in UTF-8", "\xe5\x98\x8d\xe5\x98\x8a"],
  ["U+0085 in UTF-8", "\xc2\x85"],
  ["U+2028 in UTF-8", "\xe2\x80\xa8"],
  ["NUL", "\0"],
];

/** A request with one editable value, and whether a response shows that the service read the value correctly. */
interface EditableRequest {
  request(edit: (value: string) => string): string[];
  isUnderstood(response: RawResponse): boolean;
}

/** Headers that responses repeat. */
const ECHOED_HEADERS: Record<string, EditableRequest> = {
  "X-Request-Id": {
    request: (edit) => ["GET /v1/nowhere HTTP/1.1", "Host: localhost", edit("X-Request-Id: 12345678")],
    isUnderstood: (response) => headerOf(response, "x-request-id") === "12345678",
  },
  "Access-Control-Request-Headers": {
    request: (edit) => [
      "OPTIONS /v1/pets HTTP/1.1",
      "Host: localhost",
      "Origin: https://shop.example",
      "Access-Control-Request-Method: POST",
      edit("Access-Control-Request-Headers: x"),
    ],
    isUnderstood: (response) => headerOf(response, "access-control-allow-headers") === "x",
  },
};

/** Everything that responses repeat. */
const ECHOED: Record<string, EditableRequest> = {
  ...ECHOED_HEADERS,
  Host: {
    request: (edit) => ["GET /v1/pets?limit=1 HTTP/1.1", edit("Host: localhost")],
    isUnderstood: (response) =>
      headerOf(response, "link").startsWith("<http://localhost/v1/pets?limit=1&cursor="),
  },
  "the method": {
    request: (edit) => [`${edit("PUT")} /v1/pets HTTP/1.1`, "Host: localhost"],
    isUnderstood: ({ body }) => body.includes("PUT "),
  },
};

/** Values that responses must not repeat. */
const NOT_ECHOED: Record<string, (text: string) => string[]> = {
  "the path": (text) => [`GET /v1/pets/${text} HTTP/1.1`, "Host: localhost"],
  "an unknown parameter": (text) => [`GET /v1/pets?limit=1&x=${text} HTTP/1.1`, "Host: localhost"],
  "an invalid parameter": (text) => [`GET /v1/pets?status=${text} HTTP/1.1`, "Host: localhost"],
  "Idempotency-Key": (text) => [
    "POST /v1/pets HTTP/1.1",
    "Host: localhost",
    "Content-Type: application/json",
    `Idempotency-Key: x${text}`,
    `Content-Length: ${PET.length}`,
    "",
    PET,
  ],
};

function headerOf({ headers }: RawResponse, name: string): string {
  return headers.find(([each]) => each === name)?.[1] ?? "";
}

/** Sends a request with a key, and returns its only response. */
async function sendOne(request: string[]): Promise<RawResponse> {
  const [line = "", ...rest] = request;
  const ending = rest.includes("") ? [] : ["", ""];
  const [response, ...others] = await send(line, authorization, "Connection: close", ...rest, ...ending);
  if (response === undefined || others.length > 0) throw new Error(`not exactly one response to ${line}`);
  return response;
}

/** No header comes from the text, not even to a lenient parser. */
function expectNothingInjected({ status, headers, isFromService }: RawResponse): void {
  expect(headers.map(([name]) => name)).not.toContain("injected");
  for (const [, value] of headers) {
    expect(value).toMatch(/^[\x20-\x7e]*$/);
    expect(value).not.toMatch(/injected/i);
  }
  if (isFromService) expect(status).toBeLessThan(500);
}

it.each(Object.entries(ECHOED))("a valid %s is repeated", async (_, { request, isUnderstood }) => {
  expect(isUnderstood(await sendOne(request((value) => value)))).toBe(true);
});

/** A request with `text` in one value, for every value. */
const INJECTIONS: Record<string, (text: string) => string[]> = {
  ...NOT_ECHOED,
  ...Object.fromEntries(
    Object.entries(ECHOED).map(([name, { request }]) => [
      name,
      (text: string) => request((value) => value + text),
    ]),
  ),
};

describe.each(Object.entries(INJECTIONS))("%s", (_, request) => {
  it.each(LINE_BREAKS)("with %s injects no header into the response", async (_name, text) => {
    for (const injected of ["Injected: 1", "Injected"]) {
      expectNothingInjected(await sendOne(request(text + injected)));
    }
  });
});

const SMUGGLED = [
  "POST /v1/pets HTTP/1.1",
  "Host: localhost",
  "Content-Type: application/json",
  `Content-Length: ${PET.length}`,
  "",
  PET,
];

/** Lengths of a body that two servers may read differently. */
const LENGTHS: [name: string, headers: string[], body: string][] = [
  ["two lengths", [`Content-Length: ${PET.length}`, "Content-Length: 0"], PET],
  ["a list of lengths", [`Content-Length: ${PET.length}, 0`], PET],
  ["a length and chunks", ["Content-Length: 0", "Transfer-Encoding: chunked"], "0\r\n\r\n"],
  ["chunks and a length", ["Transfer-Encoding: chunked", "Content-Length: 5"], "0\r\n\r\n"],
  ["an unknown coding", ["Content-Length: 0", "Transfer-Encoding: xchunked"], "0\r\n\r\n"],
  ["chunks twice", ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], "0\r\n\r\n"],
  ["chunks behind a line break", ["Content-Length: 0", "X: x\nTransfer-Encoding: chunked"], "0\r\n\r\n"],
  ["a folded header", ["Content-Length: 0", "Transfer-Encoding:\r\n chunked"], "0\r\n\r\n"],
  ["a space before the colon", [`Content-Length : ${PET.length}`], PET],
  ["a sign", [`Content-Length: +${PET.length}`], PET],
  ["a negative length", ["Content-Length: -1"], PET],
  ["a hexadecimal length", ["Content-Length: 0x1d"], PET],
  ["a length beyond 64 bits", ["Content-Length: 18446744073709551645"], PET],
  ["a chunk with a negative size", ["Transfer-Encoding: chunked"], `-1\r\n${PET}\r\n0\r\n\r\n`],
  ["a chunk beyond 64 bits", ["Transfer-Encoding: chunked"], `1000000000000001d\r\n${PET}\r\n0\r\n\r\n`],
  ["a chunk shorter than its size", ["Transfer-Encoding: chunked"], `ff\r\n${PET}\r\n0\r\n\r\n`],
  ["a body longer than its length", ["Content-Length: 1"], PET],
  ["a body shorter than its length", ["Content-Length: 99"], PET],
];

describe("a body with an ambiguous length", () => {
  it.each(LENGTHS)(
    "(%s) stores nothing, and lends its key to no smuggled request",
    async (_, headers, body) => {
      const before = await countPets();
      const head = [
        "POST /v1/pets HTTP/1.1",
        "Host: localhost",
        authorization,
        "Content-Type: application/json",
      ];
      const responses = await send(...head, ...headers, "", body + SMUGGLED.join("\r\n"));
      expect(responses.length).toBeGreaterThan(0);
      // The smuggled request has no key.
      const statuses = responses.filter(({ isFromService }) => isFromService).map(({ status }) => status);
      for (const status of statuses) expect([400, 401, 413]).toContain(status);
      expect(await countPets()).toBe(before);
    },
  );
});

/** The headers that the service reads. */
const READ_HEADERS: Record<string, EditableRequest> = {
  ...ECHOED_HEADERS,
  Authorization: {
    request: (edit) => ["GET /v1/nowhere HTTP/1.1", "Host: localhost", edit(authorization)],
    isUnderstood: ({ status }) => status === 404,
  },
  "Content-Type": {
    request: (edit) => creation(edit("Content-Type: application/json")),
    isUnderstood: ({ status }) => status === 201,
  },
  "Content-Encoding": {
    request: (edit) => creation("Content-Type: application/json", edit("Content-Encoding: identity")),
    isUnderstood: ({ status }) => status === 201,
  },
  "Idempotency-Key": {
    request: (edit) => creation("Content-Type: application/json", edit("Idempotency-Key: padded")),
    isUnderstood: ({ body }) => body.startsWith(`{"id":`),
  },
};

function creation(...headers: string[]): string[] {
  return [
    "POST /v1/pets HTTP/1.1",
    "Host: localhost",
    authorization,
    ...headers,
    `Content-Length: ${PET.length}`,
    "Connection: close",
    "",
    PET,
  ];
}

describe("whitespace around a header value is ignored (RFC 9110, section 5.5)", () => {
  it.each(Object.entries(READ_HEADERS))("%s", async (_, { request, isUnderstood }) => {
    for (const [before, behind] of [
      [" ", ""],
      ["", " "],
      ["\t", " \t "],
    ]) {
      const [line = "", ...rest] = request((header) => header.replace(": ", `:${before}`) + behind);
      const ending = rest.includes("") ? [] : ["Connection: close", "", ""];
      const [response] = await send(line, ...rest, ...ending);
      expect(response && isUnderstood(response), `${before}|${behind}`).toBe(true);
    }
  });
});

it("the service answers a normal request afterwards", async () => {
  const { status } = await sendOne(["GET /v1/pets?limit=1 HTTP/1.1", "Host: localhost"]);
  expect(status).toBe(200);
});
