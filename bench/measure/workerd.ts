// Runs Workers in workerd, the way Cloudflare does and `wrangler dev` does not: requests come in through a socket of the
// Worker's own. The proxy that wrangler and miniflare put before a Worker would be slower than the Worker.
//
// Miniflare's options are those of the version that wrangler pins; nobody documents them. It is used for what is hard to do
// by hand: D1 and Durable Objects as they really are, in a folder of state.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { build } from "esbuild";
import { Miniflare, NoOpLog } from "miniflare";
import { unstable_readConfig } from "wrangler";
import { atEnd, emptyFolder } from "./cleanup.ts";

const root = join(import.meta.dirname, "../..");

const require = createRequire(import.meta.url);

/** The path of the runtime's program, and its version. */
const { default: workerd, version } = require("workerd") as {
  default: string;
  version: string;
};

export const WORKERD_VERSION = version;

/** A Worker: its source file, from the root of the project, and the bindings it has. */
export interface WorkerSource {
  file: string;
  /** The name of the binding for a database of its own. */
  database?: "DB";
  /** The binding and the class of a Durable Object, and at which place among the sources it lives if not in this Worker. */
  object?: { binding: string; className: string; livesIn?: number };
  /** Databases that are shared: the binding of each, and a name that is the same for all who share it. */
  sharedDatabases?: Record<string, string>;
  /** Bindings that are plain values. */
  values?: Record<string, Record<string, number>>;
}

export interface RunningWorker {
  url: URL;
  /** The database behind a binding, DB unless another is named. It fails if there is none. */
  database(binding?: string): Promise<D1Database>;
}

export interface RunningWorkers {
  workers: RunningWorker[];
  /** The process that all of them run in. */
  processId(): number;
  stop(): Promise<void>;
}

/** Starts Workers in one process. Whoever started them stops them. */
export async function startWorkers(sources: WorkerSource[]): Promise<RunningWorkers> {
  const { folder, remove } = emptyFolder();
  const { faults, processId, killNow } = launchFrom(folder);
  const isDone = atEnd(killNow);
  const miniflare = new Miniflare({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    log: new NoOpLog(),
    logRequests: false,
    resourcePersistencePath: join(folder, "state"),
    workers: await Promise.all(sources.map(worker)),
  });
  await miniflare.ready.catch((error) => {
    throw new Error(`the Workers did not start: ${error.message}\n${readFileSync(faults, "utf8")}`);
  });
  const workers = sources.map(async (_source, index) => ({
    url: await miniflare.unsafeGetDirectURL(nameOf(index)),
    database: async (binding = "DB") =>
      (await miniflare.getD1Database(binding, nameOf(index))) as unknown as D1Database,
  }));
  const stop = async () => {
    await miniflare.dispose();
    isDone();
    remove();
  };
  return { workers: await Promise.all(workers), processId, stop };
}

/**
 * Has miniflare start workerd so that its log goes to nowhere, at the cost of a system call a line, for all contestants
 * alike. Otherwise miniflare would parse every line in this process, on the processors that are measured; Workers on
 * Cloudflare have no such pipe. What is wrong with workerd itself goes to the file `faults`. `killNow` kills workerd.
 */
function launchFrom(folder: string): { faults: string; processId: () => number; killNow: () => void } {
  const [launcher, faults, pid] = [join(folder, "launch.sh"), join(folder, "faults"), join(folder, "pid")];
  const lines = [
    "#!/bin/sh",
    // Ctrl+C reaches all processes of the terminal. Miniflare would start another workerd in place of one that it ended.
    "trap '' INT",
    `echo $$ > '${pid}'`,
    `exec '${workerd}' "$@" > /dev/null 2> '${faults}'`,
  ];
  writeFileSync(launcher, `${lines.join("\n")}\n`, { mode: 0o755 });
  process.env.MINIFLARE_WORKERD_PATH = launcher;
  const processId = () => Number(readFileSync(pid, "utf8"));
  const killNow = () => {
    try {
      process.kill(processId(), "SIGKILL");
    } catch {
      // It has not started, or it is gone.
    }
  };
  return { faults, processId, killNow };
}

async function worker(
  { file, database, object, sharedDatabases = {}, values = {} }: WorkerSource,
  index: number,
) {
  const name = nameOf(index);
  const home = nameOf(object?.livesIn ?? index);
  const databases = { ...(database && { [database]: name }), ...sharedDatabases };
  const { compatibility_date: compatibilityDate } = unstable_readConfig({
    config: join(root, "wrangler.toml"),
  });
  const objects = object && {
    [object.binding]: { type: "durable-object" as const, worker: home, exportName: object.className },
  };
  return {
    config: {
      type: "worker" as const,
      name,
      compatibilityDate,
      manifest: {
        mainModule: "index.js",
        modulesRoot: root,
        modules: { "index.js": { type: "esm" as const, contents: await bundle(join(root, file)) } },
      },
      env: {
        ...mapValues(databases, (id) => ({ type: "d1" as const, id })),
        ...mapValues(values, (value) => ({ type: "json" as const, value })),
        ...objects,
      },
      exports:
        object && home === name
          ? { [object.className]: { type: "durable-object" as const, storage: "sqlite" as const } }
          : undefined,
    },
    dev: { unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }] },
  };
}

function mapValues<From, To>(record: Record<string, From>, to: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, to(value)]));
}

function nameOf(index: number): string {
  return `worker-${index}`;
}

/** Bundles a Worker as wrangler does for a deployment. */
async function bundle(file: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [file],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    keepNames: true,
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const [output] = outputFiles;
  if (output === undefined) throw new Error(`esbuild made nothing of ${file}`);
  return output.text;
}
