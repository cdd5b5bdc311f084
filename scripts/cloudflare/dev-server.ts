// Notices that `wrangler dev` does not answer any more. It runs two processes of workerd: one has the port and passes requests on to the
// other, which runs the Worker. If the first one dies, wrangler starts another, but does not tell it where the Worker is, so that requests
// wait for good: https://github.com/cloudflare/workers-sdk/issues/14926. (Wrangler notices the death of the second one itself.)
//
// A slow request shows nothing: a debugger may hold the Worker at a breakpoint for minutes. So this keeps a connection to the first process
// open, by which wrangler's pages learn of a new build. It never reaches the Worker, stays open during builds and while a laptop sleeps,
// and closes only when the process ends.

import { once } from "node:events";
import { request as overHttp } from "node:http";
import { request as overHttps } from "node:https";
import { setTimeout as wait } from "node:timers/promises";

/** Longer: patience with a first process that wrangler has replaced on purpose; shorter: less time without an answer. */
const ANSWER_MS = 5_000;
const RETRY_MS = 200;

/** Resolves when the service at this origin does not answer any more. */
export async function untilGone(origin: string): Promise<void> {
  do await connectionEnd(origin);
  while (await answers(origin));
}

/** Resolves when the first process has closed a connection, or takes none. Never if it has no such connections, as of another wrangler. */
function connectionEnd(origin: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const request = send(origin, "/cdn-cgi/live-reload", {
    Connection: "Upgrade",
    Upgrade: "websocket",
    "Sec-WebSocket-Key": Buffer.alloc(16).toString("base64"),
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "WRANGLER_PROXYWORKER_LIVE_RELOAD_PROTOCOL",
  });
  request.on("error", () => resolve());
  request.on("response", (response) => response.resume());
  // What it sends is the news of builds.
  request.on("upgrade", (_, socket) =>
    socket
      .on("error", () => {})
      .on("close", resolve)
      .resume(),
  );
  return promise;
}

/** Whether there is an answer in time: a new process may not listen yet, and wrangler may have to tell it where the Worker is. */
async function answers(origin: string): Promise<boolean> {
  const signal = AbortSignal.timeout(ANSWER_MS);
  for (; !signal.aborted; await wait(RETRY_MS)) {
    const request = send(origin, "/version");
    const answered = await once(request, "response", { signal }).catch(() => undefined);
    request.destroy();
    if (answered !== undefined) return true;
  }
  return false;
}

/** Sends a request. The certificate of `wrangler dev` is signed by itself. */
function send(origin: string, path: string, headers = {}) {
  const request: typeof overHttps = origin.startsWith("https:") ? overHttps : overHttp;
  const options = { headers, agent: false, rejectUnauthorized: false };
  return request(origin + path, options)
    .on("error", () => {})
    .end();
}
