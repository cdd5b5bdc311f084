// Serves the dashboard on the loopback address. Another program of this machine, and a page in the user's browser, can reach that address
// too. The first has no token. The second could have a name of its site resolve to this machine (DNS rebinding), and then has another Host.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { messageOf, UsageError } from "../lib/io.ts";

const HOST = "127.0.0.1";

/** A function from requests to responses. */
interface App {
  fetch(request: Request): Response | Promise<Response>;
}

/** Serves until `close` is called. `port` 0: one that is free. Throws UsageError if the port can't be used. */
export async function serve(app: App, port: number): Promise<{ origin: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    answer(app, request, response).catch(() => response.destroy());
  });
  server.listen(port, HOST);
  await once(server, "listening").catch((error: NodeJS.ErrnoException) => {
    const reason = error.code === "EADDRINUSE" ? "another program uses it" : messageOf(error);
    throw new UsageError(`port ${port} can't be used (${reason}): choose another with --port, or none`);
  });
  const close = async () => {
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  };
  return { origin: `http://${HOST}:${(server.address() as AddressInfo).port}`, close };
}

async function answer(app: App, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = "", url = "", headers, socket } = request;
  const refuse = (status: number, text: string) => {
    response.writeHead(status, { "Content-Type": "text/plain; charset=utf-8" }).end(`${text}\n`);
  };
  // Without the port that is HTTP's own.
  const port = socket.localPort === 80 ? "" : `:${socket.localPort}`;
  const hosts = [HOST, "localhost"].map((host) => host + port);
  if (!hosts.includes(headers.host ?? "")) return refuse(403, "This server answers only by a loopback host.");
  if (method !== "GET" && method !== "HEAD") {
    response.setHeader("Allow", "GET, HEAD");
    return refuse(405, "Nothing can be changed here.");
  }
  // An absolute URL is for proxies.
  if (!url.startsWith("/")) return refuse(400, "The path is wrong.");
  const answered = await app.fetch(
    new Request(`http://${headers.host}${url}`, {
      method,
      headers: [["Cache-Control", headers["cache-control"] ?? ""]],
    }),
  );
  response.writeHead(answered.status, Object.fromEntries(answered.headers));
  // As bytes: `text` would remove a byte order mark.
  response.end(await answered.bytes());
}
