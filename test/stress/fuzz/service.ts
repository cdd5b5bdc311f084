// The service under test: in workerd, with real databases, real Durable Objects and a socket; or one that is running.

import { once } from "node:events";
import http from "node:http";
import https from "node:https";
import { text } from "node:stream/consumers";
import { addTablesAndPets, NO_LIMIT, newKey } from "../../../bench/cases/pets.ts";
import { PETSTORE } from "../../../bench/measure/implementations.ts";
import { startWorkers } from "../../../bench/measure/workerd.ts";
import { WAIT_MS } from "../../support/hang.ts";
import type { Exchange } from "../../support/openapi-validator.ts";

const PETS = 250;

/** Makes new ids exceed 2^53, to find code that reads an id as a double. */
const NEXT_ID = `UPDATE sqlite_sequence SET seq = ${2n ** 53n} WHERE name = 'pets'`;

/** On an overloaded machine, a part of the service can exceed its deadline. A read that gets a 503 so late is repeated. */
const STALL_MS = 2_000;

/** A request as it is sent: any method, any target in the request line, and a body with one character per byte. */
export interface Request {
  method: string;
  target: string;
  headers: Record<string, string>;
  body?: string | undefined;
}

export type Answer = Omit<Exchange, "method" | "path">;

export interface Service {
  /** Fails if the response is missing or incomplete. */
  send(request: Request): Promise<Answer>;
  /** A key that never reaches its limits. */
  secret: string;
  stop(): Promise<void>;
}

/** Starts a service with pets. The caller must stop it. */
export async function startService(): Promise<Service> {
  const { workers, stop } = await startWorkers([PETSTORE]);
  const databases = await workers[0].databases();
  await addTablesAndPets(databases, PETS);
  await databases.pets.prepare(NEXT_ID).run();
  const running = runningService(workers[0].url, await newKey(databases.keys, NO_LIMIT));
  let sent = 0;
  const send = ({ headers, ...request }: Request) => {
    // Requests without a key are limited by their address.
    sent += 1;
    const address = `10.${sent >>> 16}.${(sent >>> 8) & 255}.${sent & 255}`;
    return running.send({ ...request, headers: { ...headers, "CF-Connecting-IP": address } });
  };
  return { ...running, send, stop };
}

export function runningService({ href, protocol }: URL, secret: string): Service {
  const { Agent, request } = protocol === "https:" ? https : http;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send = async (each: Request): Promise<Answer> => {
    const { method, target: path, body = "" } = each;
    const headers = { ...each.headers, "Content-Length": body.length };
    const startMs = performance.now();
    const sent = request(href, { agent, method, path, headers, signal: AbortSignal.timeout(WAIT_MS) });
    sent.on("error", () => {}).end(body, "latin1");
    try {
      const [response] = (await once(sent, "response")) as [http.IncomingMessage];
      const { statusCode: status = 0, headers } = response;
      const hasStalled = status === 503 && performance.now() - startMs >= STALL_MS;
      const answer = { status, headers: headers as Answer["headers"], body: await text(response) };
      return hasStalled && method === "GET" ? send(each) : answer;
    } catch (error) {
      // The server may just have closed the persistent connection.
      if (sent.reusedSocket && (error as NodeJS.ErrnoException).code === "ECONNRESET") return send(each);
      throw error;
    }
  };
  return { send, secret, stop: async () => agent.destroy() };
}
