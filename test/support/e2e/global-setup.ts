// The service that all test files share. It runs in vitest's own process, which loads wrangler for other tests too, and starts
// when the first file asks for it. Files run in processes of their own and ask over HTTP: shared-petstore.ts.

import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import type { TestProject } from "vitest/node";
import { migrate } from "../../../scripts/cloudflare/database.ts";
import { QUIET } from "../../../scripts/cloudflare/wrangler.ts";
import { createKey } from "../../../src/operators/admin.ts";
import type { NewKey } from "../../../src/operators/changes.ts";
import { emptyState } from "./petstore.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Where files ask for the service. */
    petstoreUrl: string;
  }
}

/** What a file wants of a new key. */
export type KeyRequest = Pick<NewKey, "plan" | "limits">;

export default async function setup(project: TestProject) {
  let starting: ReturnType<typeof startPetstore> | undefined;
  const server = createServer(async (request, response) => {
    starting ??= startPetstore();
    const answer = await starting
      .then(({ answer }) => answer(request))
      .catch(({ message }: Error) => ({ problem: message }));
    response.end(JSON.stringify(answer));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  project.provide("petstoreUrl", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return async () => {
    server.close();
    const petstore = await starting?.catch(() => undefined);
    await petstore?.stop();
  };
}

/** Serves with empty databases, as `npm start` does, but in this process. */
async function startPetstore() {
  const { state, remove } = await emptyState();
  Object.assign(process.env, QUIET, { WRANGLER_LOG: "error" });
  const { unstable_startWorker } = await import("wrangler");
  const worker = await unstable_startWorker({
    config: "wrangler.toml",
    dev: {
      server: { hostname: "127.0.0.1", port: 0 },
      inspector: false,
      watch: false,
      persist: state,
      registry: join(state, "registry"),
      structuredLogsHandler: () => {},
    },
  });
  const { origin } = await worker.url;
  // Without a runtime yet, this waits for it.
  await worker.fetch(origin);
  const miniflare = worker.raw.runtimes[0]?.mf;
  if (miniflare === undefined) throw new Error("the service has no runtime");
  const keys: D1Database = await miniflare.getD1Database("KEYS_DB", "petstore");
  await migrate(keys, "keys");
  await migrate(await miniflare.getD1Database("PETS_DB", "petstore"), "pets");

  async function answer(request: IncomingMessage) {
    if (request.url === "/") return { origin, state };
    const newKey = { name: "a test", expiresAtMs: null, ...((await json(request)) as KeyRequest) };
    const { key, secret } = await createKey(keys, newKey, { by: "a test", nowMs: Date.now() });
    return { id: key.id, key: secret };
  }

  async function stop(): Promise<void> {
    await worker.dispose();
    await remove();
  }

  return { answer, stop };
}
