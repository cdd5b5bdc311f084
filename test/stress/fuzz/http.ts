// HTTP/1.1 clients: Node's for well-formed requests, and a bare socket for bytes that no HTTP library sends.

import { isUtf8 } from "node:buffer";
import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";

export type Header = [name: string, value: string];

export interface Request {
  method: string;
  /** The target in the request line. */
  target: string;
  headers: Header[];
  body?: Buffer | undefined;
  /** Sends the body in this many chunks, instead of with a length. */
  chunks?: number | undefined;
}

export interface Answer {
  status: number;
  /** By name in lower case. Repeated headers are joined. */
  headers: Record<string, string>;
  body: string;
}

export type Send = (request: Request) => Promise<Answer>;

/** A response is missing or malformed. */
export class BadAnswer extends Error {}

/** The longest time without a response. */
const TIMEOUT_MS = 30_000;

/** A client with a persistent connection. */
export function client({ href, protocol }: URL): { send: Send; close: () => void } {
  const { Agent, request } = protocol === "https:" ? https : http;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send = (each: Request) =>
    new Promise<Answer>((resolve, reject) => {
      const { method, target: path, body = Buffer.alloc(0), chunks = 1 } = each;
      const options = { agent, method, path, headers: headersOf(each).flat(), timeout: TIMEOUT_MS };
      const sent = request(href, options, (response) => answerOf(response).then(resolve, reject));
      sent.on("timeout", () => sent.destroy(new Error(`no response for ${TIMEOUT_MS / 1000} s`)));
      sent.on("error", (error) => {
        // The server may just have closed the persistent connection.
        if (sent.reusedSocket && "code" in error && error.code === "ECONNRESET") resolve(send(each));
        else reject(new BadAnswer(`${error}`));
      });
      const length = Math.ceil(body.length / chunks);
      for (let at = 0; at < body.length; at += length) sent.write(body.subarray(at, at + length));
      sent.end();
    });
  return { send, close: () => agent.destroy() };
}

async function answerOf(response: IncomingMessage): Promise<Answer> {
  const { statusCode: status = 0, rawHeaders } = response;
  const body = await buffer(response).catch((error) => Promise.reject(new BadAnswer(`${error}`)));
  const lines = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${rawHeaders[at + 1]}`] : []));
  return answer(status, lines, body);
}

function answer(status: number, lines: string[], body: Buffer): Answer {
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const [, name = "", value = ""] = line.match(/^([^:]+):\s*(.*)$/) ?? [];
    const key = name.toLowerCase();
    headers[key] = key in headers ? `${headers[key]}, ${value}` : value;
  }
  if (!isUtf8(body)) throw new BadAnswer("the body is not UTF-8");
  return { status, headers, body: body.toString() };
}

function headersOf({ method, headers, body, chunks }: Request): Header[] {
  const all: Header[] = [["Host", "localhost"], ...headers];
  if (chunks !== undefined) return [...all, ["Transfer-Encoding", "chunked"]];
  if (body === undefined && /^(GET|HEAD)$/.test(method)) return all;
  return [...all, ["Content-Length", `${body?.length ?? 0}`]];
}

/** A request as text, one character per byte, without the framing of chunks. */
export function requestText(request: Request): string {
  const lines = headersOf(request).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${request.method} ${request.target} HTTP/1.1\r\n${lines.join("")}\r\n${Buffer.from(request.body ?? []).toString("latin1")}`;
}

/** Sends bytes, one per character, on a new connection, and closes its side. Returns the responses. */
export async function sendBytes({ hostname: host, port }: URL, bytes: string): Promise<Answer[]> {
  const socket = connect({ host, port: Number(port), allowHalfOpen: true });
  const late = new Error(`the server did not close the connection for ${TIMEOUT_MS / 1000} s`);
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy(late));
  socket.end(bytes, "latin1");
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of socket) chunks.push(chunk);
  } catch (error) {
    if (error === late) throw new BadAnswer(late.message);
  }
  return answersIn(Buffer.concat(chunks).toString("latin1"));
}

/** The responses in the bytes of a connection. No body of the service has a status line. */
function answersIn(received: string): Answer[] {
  return received.split(/(?=HTTP\/1\.1 \d{3} )/).flatMap((text) => {
    const [, status, head, body] = text.match(/^HTTP\/1\.1 (\d{3}) .*?\r\n(.*?)\r\n\r\n(.*)$/s) ?? [];
    if (text !== "" && head === undefined)
      throw new BadAnswer(`the response is ${JSON.stringify(text.slice(0, 200))}`);
    if (head === undefined || Number(status) < 200) return [];
    return [answer(Number(status), head.split("\r\n"), Buffer.from(body ?? "", "latin1"))];
  });
}
