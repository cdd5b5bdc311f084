// HTTP requests over kept connections.

import { type Agent, type IncomingHttpHeaders, request } from "node:http";

export interface Response {
  status: number;
  headers: IncomingHttpHeaders;
  /** Names and values in turn, as sent. */
  rawHeaders: string[];
  text: string;
}

/** Sends a request over the agent's connections, and reads the whole response. */
export function send(
  agent: Agent,
  url: URL,
  headers: Record<string, string>,
  body?: string,
): Promise<Response> {
  const method = body === undefined ? "GET" : "POST";
  return new Promise((resolve, reject) => {
    const sent = request(url.href, { agent, method, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          rawHeaders: response.rawHeaders,
          text,
        }),
      );
      response.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
