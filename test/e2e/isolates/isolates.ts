// Runs the service in three isolates, where Cloudflare runs it in hundreds: each has a memory of its own, all share the
// database and the counters of the keys. Their clocks stand still, and go on together when a test says so.

import { createTestHarness, unstable_readConfig } from "wrangler";
import { QUIET } from "../../../scripts/cloudflare/wrangler.ts";

/** Starts the isolates, with an empty database in memory; the first listens at `url`. Whoever started them stops them. */
export async function startIsolates() {
  Object.assign(process.env, QUIET);
  const { compatibility_date, d1_databases, durable_objects, exports } = unstable_readConfig({
    config: "wrangler.toml",
  });
  const shared = { main: "test/e2e/isolates/worker.ts", compatibility_date, d1_databases };
  // The objects live in the first isolate. It must not call them by its own name: they would have no storage in SQLite.
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
  /** Lets time pass in all isolates, and returns what it is then. */
  const pass = async (ms: number): Promise<number> => {
    nowMs += ms;
    for (const each of isolates) await (await each.getExport()).setClock(nowMs);
    return nowMs;
  };
  await pass(0);
  /** What has been logged until now. */
  const logLines = () => harness.getLogs().map(({ message }) => message);
  return { url, isolates, database, pass, logLines, stop: () => harness.close() };
}
