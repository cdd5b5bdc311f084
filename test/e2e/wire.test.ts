// What comes over the wire that no HTTP client would send: line breaks in every value that an answer repeats, and requests
// whose length can be read in two ways. To the Workers runtime itself, on a socket, with nothing in front that would refuse
// it first, as Cloudflare does. What the runtime refuses by itself has no X-Request-Id: such a request never reached the service.

import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { IMPLEMENTATIONS, type Implementation } from "../../bench/measure/implementations.ts";
import { MESSAGES } from "../../src/http/messages.ts";

let service: Implementation;
let database: D1Database;
let authorization: string;

beforeAll(async () => {
  service = await IMPLEMENTATIONS.petstore();
  if (service.database === undefined) throw new Error("the service has a database");
  database = service.database;
  authorization = `Authorization: ${service.authorization.Authorization}`;
});

afterAll(() => service.stop());

interface Answer {
  status: number;
  headers: [name: string, value: string][];
  body: string;
  isOurs: boolean;
}

/** Sends bytes as they are, and returns all answers that come before the server closes the connection. */
async function send(...lines: string[]): Promise<Answer[]> {
  const socket = connect(Number(service.url.port), "127.0.0.1");
  let answered = "";
  socket.setEncoding("latin1").on("data", (chunk) => (answered += chunk));
  socket.on("error", () => {});
  socket.end(lines.join("\r\n"), "latin1");
  await once(socket, "close");
  return answered
    .split(/(?=^HTTP\/1\.1 )/m)
    .filter((each) => each !== "")
    .map(readAnswer);
}

function readAnswer(text: string): Answer {
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
    isOurs: headers.some(([name]) => name === "x-request-id"),
  };
}

async function countPets(): Promise<number> {
  return (await database.prepare("SELECT count(*) AS pets FROM pets").first<number>("pets")) ?? 0;
}

const PET = `{"name":"Rex","categoryId":1}`;

/** What begins a new line to somebody: HTTP, a lenient parser, a decoder, a careless cast to bytes. */
const BREAKS: [name: string, text: string][] = [
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

/** A request in which one value can be edited, and whether an answer shows that the service understood the value. */
interface Edited {
  request(edit: (value: string) => string): string[];
  isUnderstood(answer: Answer): boolean;
}

/** Headers that some answer repeats. */
const REPEATED_HEADERS: Record<string, Edited> = {
  "X-Request-Id": {
    request: (edit) => ["GET /v1/nowhere HTTP/1.1", "Host: localhost", edit("X-Request-Id: 12345678")],
    isUnderstood: (answer) => headerOf(answer, "x-request-id") === "12345678",
  },
  "the header names that a preflight asks for": {
    request: (edit) => [
      "OPTIONS /v1/pets HTTP/1.1",
      "Host: localhost",
      "Origin: https://shop.example",
      "Access-Control-Request-Method: POST",
      edit("Access-Control-Request-Headers: x"),
    ],
    isUnderstood: (answer) => headerOf(answer, "access-control-allow-headers") === "x",
  },
};

/** All that some answer repeats. */
const REPEATED: Record<string, Edited> = {
  ...REPEATED_HEADERS,
  Host: {
    request: (edit) => ["GET /v1/pets?limit=1 HTTP/1.1", edit("Host: localhost")],
    isUnderstood: (answer) =>
      headerOf(answer, "link").startsWith("<http://localhost/v1/pets?limit=1&cursor="),
  },
  "the method": {
    request: (edit) => [`${edit("PUT")} /v1/pets HTTP/1.1`, "Host: localhost"],
    isUnderstood: ({ body }) =>
      body.includes(MESSAGES.method_not_allowed.method("PUT", ["GET", "HEAD", "POST"])),
  },
};

/** Values that no answer should repeat. */
const NOT_REPEATED: Record<string, (text: string) => string[]> = {
  "the path": (text) => [`GET /v1/pets/${text} HTTP/1.1`, "Host: localhost"],
  "an unknown parameter": (text) => [`GET /v1/pets?limit=1&x=${text} HTTP/1.1`, "Host: localhost"],
  "a parameter that is wrong": (text) => [`GET /v1/pets?status=${text} HTTP/1.1`, "Host: localhost"],
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

function headerOf({ headers }: Answer, name: string): string {
  return headers.find(([each]) => each === name)?.[1] ?? "";
}

/** Sends a request with a key, and returns its only answer. */
async function sendOne(request: string[]): Promise<Answer> {
  const [line = "", ...rest] = request;
  const ending = rest.includes("") ? [] : ["", ""];
  const [answer, ...others] = await send(line, authorization, "Connection: close", ...rest, ...ending);
  if (answer === undefined || others.length > 0) throw new Error(`${line} had no answer, or more than one`);
  return answer;
}

/** No header may have come from the text, nor anything that a more lenient parser could take for one. */
function expectNothingInjected({ status, headers, isOurs }: Answer): void {
  expect(headers.map(([name]) => name)).not.toContain("injected");
  for (const [, value] of headers) {
    expect(value).toMatch(/^[\x20-\x7e]*$/);
    expect(value).not.toMatch(/injected/i);
  }
  if (isOurs) expect(status).toBeLessThan(500);
}

describe.each(Object.entries(REPEATED))("%s", (_, { request, isUnderstood }) => {
  it("is repeated, if it is as it should be", async () => {
    expect(isUnderstood(await sendOne(request((value) => value)))).toBe(true);
  });

  it.each(BREAKS)("with %s in it puts no header into the answer", async (_name, text) => {
    for (const injected of ["Injected: 1", "Injected"]) {
      expectNothingInjected(await sendOne(request((value) => value + text + injected)));
    }
  });
});

describe.each(Object.entries(NOT_REPEATED))("%s", (_, request) => {
  it.each(BREAKS)("with %s in it puts no header into the answer", async (_name, text) => {
    for (const injected of ["Injected: 1", "Injected"]) {
      expectNothingInjected(await sendOne(request(text + injected)));
    }
  });
});

const HIDDEN = [
  "POST /v1/pets HTTP/1.1",
  "Host: localhost",
  "Content-Type: application/json",
  `Content-Length: ${PET.length}`,
  "",
  PET,
];

/** Lengths of a body that two servers can understand differently. */
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
  ["a chunk that is shorter than it says", ["Transfer-Encoding: chunked"], `ff\r\n${PET}\r\n0\r\n\r\n`],
  ["a body that is longer than it says", ["Content-Length: 1"], PET],
  ["a body that is shorter than it says", ["Content-Length: 99"], PET],
];

describe("a body whose length can be read in two ways", () => {
  it.each(LENGTHS)(
    "%s: stores nothing, and nobody's key is lent to what follows",
    async (_, headers, body) => {
      const before = await countPets();
      const head = [
        "POST /v1/pets HTTP/1.1",
        "Host: localhost",
        authorization,
        "Content-Type: application/json",
      ];
      const answers = await send(...head, ...headers, "", body + HIDDEN.join("\r\n"));
      expect(answers.length).toBeGreaterThan(0);
      // The hidden request, if it is taken for one, has no key.
      const statuses = answers.filter(({ isOurs }) => isOurs).map(({ status }) => status);
      for (const status of statuses) expect([400, 401, 413]).toContain(status);
      expect(await countPets()).toBe(before);
    },
  );
});

/** Each header that the service reads. */
const READ_HEADERS: Record<string, Edited> = {
  ...REPEATED_HEADERS,
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

describe("blanks around a value are no part of it (RFC 9110, section 5.5)", () => {
  it.each(Object.entries(READ_HEADERS))("%s", async (_, { request, isUnderstood }) => {
    for (const [before, behind] of [
      [" ", ""],
      ["", " "],
      ["\t", " \t "],
    ]) {
      const [line = "", ...rest] = request((header) => header.replace(": ", `:${before}`) + behind);
      const ending = rest.includes("") ? [] : ["Connection: close", "", ""];
      const [answer] = await send(line, ...rest, ...ending);
      expect(answer && isUnderstood(answer), `${before}|${behind}`).toBe(true);
    }
  });
});

it("and whoever comes next is served as ever", async () => {
  const { status } = await sendOne(["GET /v1/pets?limit=1 HTTP/1.1", "Host: localhost"]);
  expect(status).toBe(200);
});
