// Responses as they are sent, to check that an implementation that claims to send the service's headers, or its whole response,
// does so.

import { Agent } from "node:http";
import { send } from "./http.ts";

/** The headers are those that say something about the response, not about the connection. */
export interface WireResponse {
  headers: Record<string, string>;
  body: string;
}

/** Headers that belong to the connection or to the encoding of the body. workerd and Node add them without being asked. */
const ADDED_BY_SERVER = new Set(["connection", "content-length", "date", "keep-alive", "transfer-encoding"]);

export async function receive(url: URL, requestHeaders: Record<string, string> = {}): Promise<WireResponse> {
  const { rawHeaders, text } = await send(new Agent(), url, requestHeaders);
  const names = rawHeaders.filter((_, index) => index % 2 === 0);
  const headers = names
    .map((name, index): [string, string] => [name, rawHeaders[2 * index + 1] ?? ""])
    .filter(([name]) => !ADDED_BY_SERVER.has(name.toLowerCase()));
  return { headers: Object.fromEntries(headers), body: text };
}

/** What differs: the names of the headers or, if all of the response has to be the same, the body. */
export function difference(
  response: WireResponse,
  expected: WireResponse,
  extent: "headers" | "response",
): string | undefined {
  const [names, expectedNames] = [response, expected].map(({ headers }) => {
    const lowerCase = Object.keys(headers).map((name) => name.toLowerCase());
    return lowerCase.sort().join(", ");
  });
  if (names !== expectedNames) return `sends the headers ${names}; the service sends ${expectedNames}`;
  if (extent === "response" && response.body !== expected.body) return "sends another body than the service";
  return undefined;
}
