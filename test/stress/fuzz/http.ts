// Requests as the bytes that are sent, and a client on a bare socket that reads what comes back. A library of HTTP would
// refuse to send most of what a fuzzer is for, and would mend what is wrong with an answer. It reads what servers send
// with HTTP/1.1: a length, chunks, or all until the end.

import { connect, type Socket } from "node:net";
import { connect as connectWithTls } from "node:tls";

export type Header = [name: string, value: string];

export interface Request {
  method: string;
  /** As it stands in the request line. */
  target: string;
  headers: Header[];
  body?: Uint8Array | undefined;
  /** Whether the body comes in chunks of this many bytes, and not with its length. */
  chunkBytes?: number | undefined;
}

export interface Answer {
  status: number;
  /** By name in lower case. Those of the same name are joined, and named in `repeated`. */
  headers: Record<string, string>;
  repeated: string[];
  body: Uint8Array;
}

/** How long nothing may happen before a server counts as hanging. */
const PATIENCE_MS = 30_000;

/** Bytes as text: UTF-8, or one character for each byte. */
export function textOf(bytes: Uint8Array, encoding: "utf8" | "latin1" = "utf8"): string {
  return bufferOf(bytes).toString(encoding);
}

/** The same bytes as Node's own kind. */
function bufferOf({ buffer, byteOffset, length }: Uint8Array) {
  return Buffer.from(buffer, byteOffset, length);
}

/** The bytes of a request. Names and values of headers are one byte a character. */
export function bytesOf({ method, target, headers, body, chunkBytes }: Request): Uint8Array {
  const framing: Header[] =
    body === undefined
      ? []
      : [chunkBytes === undefined ? ["Content-Length", `${body.length}`] : ["Transfer-Encoding", "chunked"]];
  const lines = [["Host", "localhost"] as Header, ...headers, ...framing].map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const head = Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n`, "latin1");
  if (body === undefined) return head;
  return Buffer.concat([head, chunkBytes === undefined ? body : chunked(body, chunkBytes)]);
}

/** Text for a header, whose characters are the bytes of its UTF-8. */
export function headerText(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

function chunked(body: Uint8Array, chunkBytes: number): Uint8Array {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < body.length; at += chunkBytes) {
    const chunk = body.subarray(at, at + chunkBytes);
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n"));
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}

/** Something is wrong with an answer as HTTP, or there is none. */
export class BadAnswer extends Error {}

/**
 * Reads the first answer in `bytes`: the answer and how many bytes it has, or undefined if it is not complete. `isEnd`:
 * nothing will follow. Throws BadAnswer.
 */
export function readAnswer(
  bytes: Uint8Array,
  method: string,
  isEnd: boolean,
): { answer: Answer; length: number } | undefined {
  const headEnd = bufferOf(bytes).indexOf("\r\n\r\n");
  if (headEnd === -1) {
    if (isEnd && bytes.length > 0)
      throw new BadAnswer(
        `the answer ends in its head: ${JSON.stringify(textOf(bytes.subarray(0, 200), "latin1"))}`,
      );
    return undefined;
  }
  const [statusLine = "", ...lines] = textOf(bytes.subarray(0, headEnd), "latin1").split("\r\n");
  const status = Number(statusLine.match(/^HTTP\/1\.1 ([1-5]\d\d) /)?.[1]);
  if (Number.isNaN(status))
    throw new BadAnswer(`the status line is ${JSON.stringify(statusLine.slice(0, 200))}`);
  const { headers, repeated } = headersOf(lines);
  const start = headEnd + 4;
  if (status < 200) {
    const next = readAnswer(bytes.subarray(start), method, isEnd);
    return next && { answer: next.answer, length: start + next.length };
  }
  const found = bodyOf(bytes, start, headers, method === "HEAD" || status === 204 || status === 304, isEnd);
  return found && { answer: { status, headers, repeated, body: found.body }, length: found.end };
}

function headersOf(lines: string[]): { headers: Record<string, string>; repeated: string[] } {
  const headers: Record<string, string> = {};
  const repeated: string[] = [];
  for (const line of lines) {
    const [, name, value] = line.match(/^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$/) ?? [];
    if (name === undefined || value === undefined)
      throw new BadAnswer(`a header is ${JSON.stringify(line.slice(0, 200))}`);
    const key = name.toLowerCase();
    if (headers[key] !== undefined) repeated.push(name);
    headers[key] = headers[key] === undefined ? value : `${headers[key]}, ${value}`;
  }
  return { headers, repeated };
}

function bodyOf(
  bytes: Uint8Array,
  start: number,
  headers: Record<string, string>,
  isEmpty: boolean,
  isEnd: boolean,
): { body: Uint8Array; end: number } | undefined {
  const incomplete = () => {
    if (isEnd) throw new BadAnswer("the answer ends in its body");
    return undefined;
  };
  if (isEmpty) return { body: Buffer.alloc(0), end: start };
  const length = headers["content-length"];
  if (length !== undefined) {
    if (!/^\d+$/.test(length)) throw new BadAnswer(`Content-Length is ${length}`);
    const end = start + Number(length);
    return bytes.length < end ? incomplete() : { body: bytes.subarray(start, end), end };
  }
  if (headers["transfer-encoding"] !== "chunked") {
    return isEnd ? { body: bytes.subarray(start), end: bytes.length } : undefined;
  }
  const chunks: Uint8Array[] = [];
  for (let at = start; ; ) {
    const lineEnd = bufferOf(bytes).indexOf("\r\n", at);
    if (lineEnd === -1) return incomplete();
    const line = textOf(bytes.subarray(at, lineEnd), "latin1");
    if (!/^[0-9a-f]+$/i.test(line))
      throw new BadAnswer(`a chunk begins with ${JSON.stringify(line.slice(0, 50))}`);
    const size = Number.parseInt(line, 16);
    const next = lineEnd + 2 + size + 2;
    if (bytes.length < next) return incomplete();
    if (size === 0) return { body: Buffer.concat(chunks), end: next };
    chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = next;
  }
}

/** A connection that is kept for one request after the other. */
export class Connection {
  readonly #url: URL;
  #socket: Socket | undefined;
  #received: Uint8Array = Buffer.alloc(0);
  #method = "";
  #settle: ((outcome: Answer | BadAnswer | undefined) => void) | undefined;

  constructor(url: URL) {
    this.#url = url;
  }

  /** Sends a request and gives its answer. Throws BadAnswer. */
  async exchange(bytes: Uint8Array, method: string): Promise<Answer> {
    const isKept = this.#socket !== undefined;
    // A kept connection may have been closed by the server just now.
    const answer =
      (await this.#once(bytes, method)) ?? (isKept ? await this.#once(bytes, method) : undefined);
    if (answer === undefined) throw new BadAnswer("the connection was closed without an answer");
    return answer;
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  async #once(bytes: Uint8Array, method: string): Promise<Answer | undefined> {
    const socket = this.#socket ?? this.#open();
    this.#method = method;
    const outcome = await new Promise<Answer | BadAnswer | undefined>((resolve) => {
      this.#settle = resolve;
      socket.write(bytes);
    });
    this.#settle = undefined;
    if (!(outcome instanceof BadAnswer)) return outcome;
    this.close();
    throw outcome;
  }

  #open(): Socket {
    const socket = connectTo(this.#url);
    this.#socket = socket;
    this.#received = Buffer.alloc(0);
    socket.setTimeout(PATIENCE_MS);
    socket.on("data", (chunk) => {
      this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
      this.#read(socket, false);
    });
    socket.on("timeout", () => {
      this.#settle?.(new BadAnswer(`there was no answer for ${PATIENCE_MS / 1000} s`));
      socket.destroy();
    });
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      if (this.#socket !== socket) return;
      this.#socket = undefined;
      this.#read(socket, true);
      this.#settle?.(undefined);
    });
    return socket;
  }

  #read(socket: Socket, isEnd: boolean): void {
    if (this.#settle === undefined) return;
    try {
      const found = readAnswer(this.#received, this.#method, isEnd);
      if (found === undefined) return;
      this.#received = this.#received.subarray(found.length);
      if (found.answer.headers.connection === "close") {
        this.#socket = undefined;
        socket.end();
      }
      const settle = this.#settle;
      this.#settle = undefined;
      settle(this.#received.length > 0 ? new BadAnswer("more was answered than was asked") : found.answer);
    } catch (error) {
      if (!(error instanceof BadAnswer)) throw error;
      this.#settle?.(error);
    }
  }
}

/** A connection to a service that may be anywhere, so with TLS too. */
function connectTo({ protocol, hostname: host, port }: URL): Socket {
  return protocol === "https:"
    ? connectWithTls({ host, servername: host, port: Number(port || 443) })
    : connect({ host, port: Number(port || 80), noDelay: true });
}

/** How a client of no manners ends: it says that nothing more comes, or it is gone. */
export type Ending = "half-close" | "reset";

/**
 * Sends bytes on a connection of their own, and ends it. Gives whatever came back until the server closed it, or nothing
 * if the client was gone. Throws BadAnswer if the server does not close it.
 */
export function sendAndEnd(url: URL, bytes: Uint8Array, ending: Ending): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const received: Uint8Array[] = [];
    const socket = connect({
      host: url.hostname,
      port: Number(url.port),
      allowHalfOpen: true,
      noDelay: true,
    });
    socket.setTimeout(PATIENCE_MS);
    socket.on("data", (chunk) => received.push(chunk));
    socket.on("timeout", () => {
      reject(
        new BadAnswer(`the server neither answered nor closed the connection for ${PATIENCE_MS / 1000} s`),
      );
      socket.destroy();
    });
    socket.on("end", () => socket.destroy());
    socket.on("error", () => socket.destroy());
    socket.on("close", () => resolve(Buffer.concat(received)));
    if (ending === "half-close") socket.end(bytes);
    else socket.write(bytes, () => socket.resetAndDestroy());
  });
}
