// Runs Workers in workerd. Each Worker has a socket of its own: the proxy that wrangler and miniflare put in front of a Worker
// would be slower than the Worker.
//
// Miniflare sets up the real D1 and Durable Objects in a folder of state. Its options are those of the version that wrangler
// pins; they are undocumented.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { build, type Plugin, type PluginBuild } from "esbuild";
import { Miniflare, NoOpLog } from "miniflare";
import { parse } from "smol-toml";
import { onExit, temporaryFolder } from "./cleanup.ts";

const root = join(import.meta.dirname, "../..");

const require = createRequire(import.meta.url);

/** The path of the runtime's executable. */
const { default: workerd } = require("workerd") as { default: string };

/** wrangler would read it too, but takes seconds to load. */
const config = parse(readFileSync(join(root, "wrangler.toml"), "utf8")) as {
  compatibility_date: string;
  keep_names?: boolean;
};

type Json = string | number | Json[] | { [name: string]: Json };

/** A replacement in a source file, relative to the root of the project. */
export type Change = readonly [file: string, from: string, to: string];

/** What is bundled: a source file, relative to the root of the project, after these changes. */
interface Source {
  file: string;
  changes?: readonly Change[];
}

/** A Worker: its source and its bindings. */
export interface WorkerSource extends Source {
  /** Other bundles, by the name under which the source imports them. */
  modules?: Record<string, Source>;
  /** The bindings of its databases: that of pets, and that of keys if it is another one. No other Worker has them, unless shared. */
  databases?: readonly string[];
  /** The binding and the class of a Durable Object. `livesIn`: the index of the source that runs it, if not this one. */
  object?: { binding: string; className: string; livesIn?: number };
  /** Shared databases: their names by binding. */
  sharedDatabases?: Record<string, string>;
  /** Bindings that are JSON values. */
  values?: Record<string, Json>;
}

export interface RunningWorker {
  url: URL;
  /** Its databases. Fails if it has none. */
  databases(): Promise<Databases>;
  /** The database of a binding. Fails if there is no such binding. */
  database(binding: string): Promise<D1Database>;
}

/** The same one twice if a Worker has one. */
export interface Databases {
  pets: D1Database;
  keys: D1Database;
}

export interface RunningWorkers<Sources extends readonly WorkerSource[]> {
  /** One for each source, in the same order. */
  workers: { [Index in keyof Sources]: RunningWorker };
  /** The process that all of them run in. */
  processId(): number;
  stop(): Promise<void>;
}

/**
 * Starts Workers in one process. The caller stops them. `isInMemory`: with the state in memory, for Workers that would wait for each
 * other's writes to the disk.
 */
export async function startWorkers<const Sources extends readonly WorkerSource[]>(
  sources: Sources,
  isInMemory = false,
): Promise<RunningWorkers<Sources>> {
  const { folder, remove } = temporaryFolder(isInMemory);
  const { errorLog, processId, kill } = writeLauncher(folder);
  const cancelKill = onExit(kill);
  const bundles = new Map<string, Promise<string>>();
  const bundleOnce = ({ file, changes = [] }: Source, modules: string[] = []) => {
    const id = JSON.stringify([file, changes, modules]);
    const code = bundles.get(id) ?? bundle(join(root, file), changes, modules);
    bundles.set(id, code);
    return code;
  };
  const workersOf = sources.map(async (source: WorkerSource, index) => {
    const { modules = {} } = source;
    const main = await bundleOnce(source, Object.keys(modules));
    const others = Object.entries(modules).map(
      async ([name, each]) => [name, await bundleOnce(each)] as const,
    );
    return worker(source, index, Object.fromEntries([["index.js", main], ...(await Promise.all(others))]));
  });
  const miniflare = new Miniflare({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    log: new NoOpLog(),
    logRequests: false,
    resourcePersistencePath: join(folder, "state"),
    workers: await Promise.all(workersOf),
  });
  await miniflare.ready.catch((error) => {
    throw new Error(`the Workers did not start: ${error.message}\n${readFileSync(errorLog, "utf8")}`);
  });
  const workers = sources.map(async ({ databases = [] }: WorkerSource, index) => {
    const database = async (binding = "") =>
      (await miniflare.getD1Database(binding, nameOf(index))) as unknown as D1Database;
    return {
      url: await miniflare.unsafeGetDirectURL(nameOf(index)),
      databases: async () => {
        const pets = await database(databases[0]);
        return { pets, keys: databases[1] === undefined ? pets : await database(databases[1]) };
      },
      database,
    };
  });
  const stop = async () => {
    await miniflare.dispose();
    cancelKill();
    remove();
  };
  return { workers: (await Promise.all(workers)) as RunningWorkers<Sources>["workers"], processId, stop };
}

/**
 * Makes miniflare start workerd by a script that discards the log, at the cost of a system call per line for all Workers.
 * Otherwise miniflare would parse every line in this process and take processor time from the measured one. Workers on
 * Cloudflare have no such pipe. Errors of workerd itself go to the file `errorLog`.
 */
function writeLauncher(folder: string): { errorLog: string; processId: () => number; kill: () => void } {
  const [launcher, errorLog, pid] = [join(folder, "launch.sh"), join(folder, "errors"), join(folder, "pid")];
  const lines = [
    "#!/bin/sh",
    // Ctrl+C signals all processes of the terminal. If workerd ended, miniflare would start another one.
    "trap '' INT",
    `echo $$ > '${pid}'`,
    `exec '${workerd}' "$@" > /dev/null 2> '${errorLog}'`,
  ];
  writeFileSync(launcher, `${lines.join("\n")}\n`, { mode: 0o755 });
  process.env.MINIFLARE_WORKERD_PATH = launcher;
  const processId = () => Number(readFileSync(pid, "utf8"));
  const kill = () => {
    try {
      process.kill(processId(), "SIGKILL");
    } catch {
      // It has not started, or it has ended.
    }
  };
  return { errorLog, processId, kill };
}

function worker(
  { databases = [], object, sharedDatabases = {}, values = {} }: Omit<WorkerSource, "file">,
  index: number,
  modules: Record<string, string>,
) {
  const name = nameOf(index);
  const host = nameOf(object?.livesIn ?? index);
  const own = Object.fromEntries(databases.map((binding) => [binding, `${name}-${binding}`]));
  const objects = object && {
    [object.binding]: { type: "durable-object" as const, worker: host, exportName: object.className },
  };
  return {
    config: {
      name,
      compatibilityDate: config.compatibility_date,
      manifest: {
        mainModule: "index.js",
        modulesRoot: root,
        modules: mapValues(modules, (contents) => ({ type: "esm" as const, contents })),
      },
      env: {
        ...mapValues({ ...own, ...sharedDatabases }, (id) => ({ type: "d1" as const, id })),
        ...mapValues(values, (value) => ({ type: "json" as const, value })),
        ...objects,
      },
      exports:
        object && host === name
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

/** Bundles a Worker as wrangler does for a deployment. All Workers are bundled by the service's configuration. */
async function bundle(file: string, changes: readonly Change[], modules: string[]): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [file],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*", ...modules],
    plugins: [replacements(changes)],
    keepNames: config.keep_names ?? true,
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const [output] = outputFiles;
  if (output === undefined) throw new Error(`esbuild has no output for ${file}`);
  return output.text;
}

/** Makes changes while files are read: by one plugin, because esbuild asks no further one. Fails if a file does not have its text. */
function replacements(changes: readonly Change[]): Plugin {
  const setup = ({ onLoad }: PluginBuild) =>
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const own = changes.filter(([file]) => path === join(root, file));
      if (own.length === 0) return undefined;
      const change = (text: string, [file, from, to]: Change) => {
        if (!text.includes(from)) throw new Error(`${file} does not have: ${from}`);
        return text.replace(from, () => to);
      };
      return { contents: own.reduce(change, readFileSync(path, "utf8")), loader: "ts" };
    });
  return { name: "changes", setup };
}
