// Serves as `npm start` does, in this process and without migrating the databases.

import { join } from "node:path";
import { QUIET } from "../../../scripts/cloudflare/wrangler.ts";

/** Serves from a folder of state. The caller stops it. */
export async function serve(state: string) {
  Object.assign(process.env, QUIET, { WRANGLER_LOG: "error" });
  const { unstable_startWorker } = await import("wrangler");
  const log: string[] = [];
  const worker = await unstable_startWorker({
    config: "wrangler.toml",
    dev: {
      server: { hostname: "127.0.0.1", port: 0 },
      inspector: false,
      watch: false,
      persist: state,
      registry: join(state, "registry"),
      structuredLogsHandler: ({ message }: { message: string }) => void log.push(message),
    },
  });
  const { origin } = await worker.url;
  // Without a runtime yet, this waits for it.
  await worker.fetch(origin);
  const miniflare = worker.raw.runtimes[0]?.mf;
  if (miniflare === undefined) throw new Error("the service has no runtime");
  /** The database of a binding. */
  const database = async (binding: string) =>
    (await miniflare.getD1Database(binding, "petstore")) as unknown as D1Database;
  return { origin, log, database, stop: () => worker.dispose() };
}
