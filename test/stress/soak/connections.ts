// Sends requests over persistent connections and measures their latencies. It does not wait for earlier responses, so a slow
// server gets the same load.

import { Agent, type IncomingHttpHeaders, request } from "node:http";

/** Closes idle connections before the server does after five seconds, so that no request meets a closing connection. */
const IDLE_MS = 2_000;

export interface Outgoing {
  method: string;
  /** From the root of the server. */
  path: string;
  headers: Record<string, string>;
  body?: string;
}

export interface Answer {
  status: number;
  /** By name in lower case. */
  headers: Record<string, string>;
  body: string;
  /** Unix time. */
  sentAtMs: number;
  cameAtMs: number;
  /** From sending to the last byte received. */
  tookMs: number;
}

export class Connections {
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MS });
  readonly #url: URL;

  constructor(url: URL) {
    this.#url = url;
  }

  /** Throws Node's error if the response is incomplete. */
  send({ method, path, headers, body }: Outgoing): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const sentAtMs = Date.now();
    const startedMs = performance.now();
    const isChunked = body === undefined || headers["Transfer-Encoding"] !== undefined;
    const length = isChunked ? {} : { "Content-Length": `${Buffer.byteLength(body)}` };
    const { hostname, port } = this.#url;
    const options = { hostname, port, method, path, agent: this.#agent, headers: { ...headers, ...length } };
    const outgoing = request(options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => (text += chunk));
      response.on("error", reject);
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: flat(response.headers),
          body: text,
          sentAtMs,
          cameAtMs: Date.now(),
          tookMs: performance.now() - startedMs,
        }),
      );
    });
    outgoing.on("error", reject);
    outgoing.end(body);
    return promise;
  }

  close(): void {
    this.#agent.destroy();
  }
}

function flat(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : `${value}`,
    ]),
  );
}
