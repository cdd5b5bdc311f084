// An HTTP/1.1 client that sends requests as they are, whatever method, target or headers they have.

import http from "node:http";
import https from "node:https";
import { text as readText } from "node:stream/consumers";

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
  /** By name in lower case. */
  headers: Record<string, string>;
  body: string;
}

export type Send = (request: Request) => Promise<Answer>;

const TIMEOUT_MS = 30_000;

/** A client with a persistent connection. `send` fails if a response is missing or incomplete. */
export function client({ href, protocol }: URL): { send: Send; close: () => void } {
  const { Agent, request } = protocol === "https:" ? https : http;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send = async (each: Request): Promise<Answer> => {
    const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage | undefined>();
    const { method, target: path, body = Buffer.alloc(0), chunks = 1 } = each;
    const options = { agent, method, path, headers: headersOf(each).flat(), timeout: TIMEOUT_MS };
    const sent = request(href, options, resolve);
    sent.on("timeout", () => sent.destroy(new Error("no response in time")));
    sent.on("error", (error) => {
      // The server may just have closed the persistent connection.
      if (sent.reusedSocket && "code" in error && error.code === "ECONNRESET") resolve(undefined);
      else reject(error);
    });
    const length = Math.ceil(body.length / chunks);
    for (let at = 0; at < body.length; at += length) sent.write(body.subarray(at, at + length));
    sent.end();
    const response = await promise;
    if (response === undefined) return send(each);
    const headers = response.headers as Record<string, string>;
    return { status: response.statusCode ?? 0, headers, body: await readText(response) };
  };
  return { send, close: () => agent.destroy() };
}

function headersOf({ method, headers, body, chunks }: Request): Header[] {
  const all: Header[] = [["Host", "localhost"], ...headers];
  if (chunks !== undefined) return [...all, ["Transfer-Encoding", "chunked"]];
  if (body === undefined && /^(GET|HEAD)$/.test(method)) return all;
  return [...all, ["Content-Length", `${body?.length ?? 0}`]];
}
