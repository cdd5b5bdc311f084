// Runs the service in three isolates with separate memories, one database and the same Durable Objects. Their clocks stand still
// until a test advances them.

import { createTestHarness, unstable_readConfig } from "wrangler";
import { QUIET } from "../../../scripts/cloudflare/wrangler.ts";

/** Starts the isolates, with an empty database in memory; the first listens at `url`. The caller must stop them. */
export async function startIsolates() {
  Object.assign(process.env, QUIET);
  const { compatibility_date, d1_databases, durable_objects, exports } = unstable_readConfig({
    config: "wrangler.toml",
  });
  const shared = { main: "test/e2e/isolates/worker.ts", compatibility_date, d1_databases };
  // The objects run in the first isolate. Its own binding has no `script_name`: with one, they would have no SQLite storage.
  const first = { ...shared, name: "first", durable_objects, exports };
  const bindings = durable_objects.bindings.map((each: object) => ({ ...each, script_name: first.name }));
  const others = ["second", "third"].map((name) => ({ ...shared, name, durable_objects: { bindings } }));
  const harness = createTestHarness({ workers: [first, ...others].map((config) => ({ config })) });
  const { url } = await harness.listen();

  const isolate = (name: string) => harness.getWorker<Env, typeof import("./worker.ts")>(name);
  const isolates = [isolate("first"), isolate("second"), isolate("third")] as const;
  await isolates[0].applyD1Migrations("DB");
  const { DB: database } = await isolates[0].getEnv();

  let nowMs = Date.parse("2026-11-20T12:34:20.500Z");
  /** Advances the clocks of all isolates, and returns the new time (Unix time). */
  const advance = async (ms: number): Promise<number> => {
    nowMs += ms;
    for (const each of isolates) await (await each.getExport()).setClock(nowMs);
    return nowMs;
  };
  await advance(0);
  /** The log lines so far. */
  const logLines = () => harness.getLogs().map(({ message }) => message);
  return { url, isolates, database, advance, logLines, stop: () => harness.close() };
}
