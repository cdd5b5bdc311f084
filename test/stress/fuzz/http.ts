// HTTP/1.1 on bare sockets. An HTTP library would refuse to send most of the requests, and would correct faulty responses.

import { connect, type Socket } from "node:net";
import { connect as connectWithTls } from "node:tls";

export type Header = [name: string, value: string];

export interface Request {
  method: string;
  /** The target in the request line. */
  target: string;
  headers: Header[];
  body?: Uint8Array | undefined;
  /** Sends the body in chunks of this many bytes, instead of with a length. */
  chunkBytes?: number | undefined;
}

export interface Answer {
  status: number;
  /** By name in lower case. Headers with the same name are joined and listed in `repeated`. */
  headers: Record<string, string>;
  repeated: string[];
  body: Uint8Array;
}

/** The longest time without a response. */
const TIMEOUT_MS = 30_000;

/** Decodes bytes as UTF-8, or as one character per byte. */
export function textOf(bytes: Uint8Array, encoding: "utf8" | "latin1" = "utf8"): string {
  return bufferOf(bytes).toString(encoding);
}

/** The same bytes as a Buffer. */
function bufferOf({ buffer, byteOffset, length }: Uint8Array) {
  return Buffer.from(buffer, byteOffset, length);
}

/** The bytes of a request. Header names and values are one byte per character. */
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

/** A header value with one character per UTF-8 byte of the text. */
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

/** A response is missing or not valid HTTP. */
export class BadAnswer extends Error {}

/**
 * Reads the first response in `bytes` and its length. Undefined if it is incomplete. `isEnd`: whether the connection has ended.
 * Throws BadAnswer.
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
        `the response ends in its head: ${JSON.stringify(textOf(bytes.subarray(0, 200), "latin1"))}`,
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
    if (isEnd) throw new BadAnswer("the response ends in its body");
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

/** A persistent connection. */
export class Connection {
  readonly #url: URL;
  #socket: Socket | undefined;
  #received: Uint8Array = Buffer.alloc(0);
  #method = "";
  #settle: ((outcome: Answer | BadAnswer | undefined) => void) | undefined;

  constructor(url: URL) {
    this.#url = url;
  }

  /** Sends a request and returns its response. Throws BadAnswer. */
  async exchange(bytes: Uint8Array, method: string): Promise<Answer> {
    const isKept = this.#socket !== undefined;
    // The server may just have closed a persistent connection.
    const answer =
      (await this.#once(bytes, method)) ?? (isKept ? await this.#once(bytes, method) : undefined);
    if (answer === undefined) throw new BadAnswer("the connection was closed without a response");
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
    socket.setTimeout(TIMEOUT_MS);
    socket.on("data", (chunk) => {
      this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
      this.#read(socket, false);
    });
    socket.on("timeout", () => {
      this.#settle?.(new BadAnswer(`there was no response for ${TIMEOUT_MS / 1000} s`));
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
      settle(this.#received.length > 0 ? new BadAnswer("the response has extra bytes") : found.answer);
    } catch (error) {
      if (!(error instanceof BadAnswer)) throw error;
      this.#settle?.(error);
    }
  }
}

function connectTo({ protocol, hostname: host, port }: URL): Socket {
  return protocol === "https:"
    ? connectWithTls({ host, servername: host, port: Number(port || 443) })
    : connect({ host, port: Number(port || 80), noDelay: true });
}

/** How a client ends a connection: it closes its side, or resets the connection. */
export type Ending = "half-close" | "reset";

/**
 * Sends bytes on a new connection, and ends it. Returns all bytes until the server closes it, or none after a reset. Throws
 * BadAnswer if the server does not close it.
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
    socket.setTimeout(TIMEOUT_MS);
    socket.on("data", (chunk) => received.push(chunk));
    socket.on("timeout", () => {
      reject(
        new BadAnswer(`the server neither responded nor closed the connection for ${TIMEOUT_MS / 1000} s`),
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
