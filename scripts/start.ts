// npm start: migrates the local databases, serves with `wrangler dev`, and on the first run creates a demo key and a few
// pets. Other arguments are forwarded to `wrangler dev`.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { limitsText, PLAN_LIMITS } from "../src/keys/plans.ts";
import { createKey } from "../src/operators/admin.ts";
import { listKeys } from "../src/operators/records.ts";
import { findPage, insertPet } from "../src/pets/store.ts";
import {
  CONTENTS,
  createDatabases,
  migrate,
  migrationFiles,
  type OpenDatabases,
  registryPath,
  setAsideOther,
  type Target,
  targetOptions,
} from "./cloudflare/database.ts";
import { untilGone } from "./cloudflare/dev-server.ts";
import { folder, localState } from "./cloudflare/target.ts";
import { requireNoRestore } from "./cloudflare/time-travel.ts";
import { QUIET, WRANGLER } from "./cloudflare/wrangler.ts";
import { defineCommand, integer, main } from "./lib/command.ts";
import { type Io, ReportedError, UsageError } from "./lib/io.ts";
import { petstoreLine } from "./lib/line.ts";
import { withSeparators } from "./lib/report.ts";

const DEMO_PETS = [
  { name: "Rex", categoryId: 1n, status: "available" },
  { name: "Mimi", categoryId: 2n, status: "pending" },
  { name: "Goldie", categoryId: 3n },
] as const;

/** What the caller's environment may set otherwise. */
const WRANGLER_ENV = {
  // At the level "warn", wrangler's first output is that cron triggers do not run locally.
  WRANGLER_LOG: "error",
  // Wrangler's traces of local requests are files with whole URLs, in which a client may have put its key. They also cost a third of a
  // request's processor time.
  X_LOCAL_OBSERVABILITY: "false",
};

/**
 * Wrangler tells the Worker that requests came over HTTPS. The Worker refuses plain HTTP except to loopback hosts
 * (src/http/require-https.ts), and containers call the service by other names. A switch in the Worker could get into a deployment.
 */
const ANY_HOST = ["--upstream-protocol", "https"];

const start = defineCommand({
  description:
    "Migrates the local databases, creates a demo key and a few pets on the first run, and serves.",
  arguments: [
    {
      name: "arguments",
      description: "for wrangler dev, as npx wrangler dev --help lists them",
      isRest: true,
    },
  ],
  options: {
    port: {
      placeholder: "port",
      description: "the port, by default 8787 or a free one; 0 is a free one",
      parse: integer(0, 65_535),
    },
    persistTo: { placeholder: "dir", description: "the local state", parse: folder },
    localProtocol: { placeholder: "protocol", description: "http or https", default: "http" },
  },
  isForwarding: true,
  examples: ["", "--port 9000 --persist-to /tmp/petstore"],
  async handler(io, { port, persistTo, localProtocol }, forwarded) {
    const state = localState(io.env, persistTo);
    if (forwarded.includes("--remote"))
      throw new UsageError("npm start serves the local databases: leave out --remote");
    if (port !== undefined) await requireFreePort(port);
    const target = { kind: "local", state } as const;
    for (const contents of CONTENTS) {
      const path = await setAsideOther(state, contents);
      if (path !== undefined)
        io.note(
          `The ${contents} begin anew, because another version has made their database. It stays in ${path}`,
        );
    }
    // Before wrangler starts, which says less about a folder that can't be used.
    const databases = await createDatabases(target, ...CONTENTS);
    const args = [...ANY_HOST, "--persist-to", state, "--local-protocol", localProtocol, ...forwarded];
    if (port !== undefined) args.push("--port", `${port}`);
    const env = { ...WRANGLER_ENV, WRANGLER_REGISTRY_PATH: registryPath(state), ...io.env, ...QUIET };
    const server = startWrangler(args, env);
    const exited = once(server, "exit");
    try {
      const started = Promise.race([ready(server, localProtocol), exited.then(() => undefined)]);
      // Wrangler opens no database before the first request.
      const [origin] = await Promise.all([started, migrateAll(io, databases)]);
      await requireNoRestore(databases.keys, targetOptions(target));
      // A key is shown only once, so create it only after the server has started.
      if (origin !== undefined) io.print(await announcement(origin, target, databases));
      await databases.close();
      await Promise.race([exited, ...(origin === undefined ? [] : [untilGone(origin).then(gone)])]);
    } catch (error) {
      server.kill();
      await exited;
      throw error;
    }
    const [code] = await exited;
    if (code !== 0) throw new ReportedError("wrangler dev failed");
  },
});

function gone(): never {
  throw new Error(
    "the service does not answer any more, because a process of wrangler dev has died: start it again",
  );
}

/** Starts `wrangler dev`, which sends messages to this process. */
function startWrangler(args: string[], env: NodeJS.ProcessEnv): ChildProcess {
  const words = [WRANGLER, "dev", "--show-interactive-dev-session=false", ...args];
  const server = spawn(process.execPath, words, { env, stdio: ["inherit", "inherit", "inherit", "ipc"] });
  // Ctrl+C reaches the whole process group: this process waits for wrangler to end. Other signals may reach only this process.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => server.kill(signal));
  return server;
}

async function migrateAll(io: Io, databases: OpenDatabases): Promise<void> {
  for (const contents of CONTENTS) {
    const applied = await migrate(databases[contents], contents);
    const isNew = applied.length === (await migrationFiles(contents)).length;
    if (applied.length > 0 && !isNew) io.note(`Applied ${applied.join(", ")}: what was stored stays.`);
  }
}

/** workerd would report a port in use with a stack trace. */
async function requireFreePort(port: number): Promise<void> {
  const probe = createServer().listen(port, "localhost");
  await once(probe, "listening").catch(({ code }) => {
    throw new Error(`can't listen on port ${port} (${code}): choose another with npm start -- --port PORT`);
  });
  probe.close();
  await once(probe, "close");
}

/** Resolves with the service's origin once it is ready. */
function ready(server: ChildProcess, protocol: string): Promise<string> {
  return new Promise((resolve) => {
    server.on("message", (message) => {
      const { event, ip, port } = JSON.parse(`${message}`);
      const host = ip === "127.0.0.1" || ip === "[::1]" ? "localhost" : ip;
      // The protocol's default port is null.
      if (event === "DEV_SERVER_READY") resolve(`${protocol}://${host}${port === null ? "" : `:${port}`}`);
    });
  });
}

/** What to do next. On the first run this creates a key, and pets if there are none. */
async function announcement(origin: string, target: Target, databases: OpenDatabases): Promise<string> {
  const isFirstRun = (await listKeys(databases.keys, Date.now(), { limit: 1 })).total === 0;
  const demoKey = isFirstRun ? await createDemo(databases) : undefined;
  const aboutKey =
    demoKey === undefined
      ? `Another key:  ${petstoreLine("keys create --name demo --plan free", ...targetOptions(target))}`
      : `API key:      ${demoKey}
              (shown only once; Free plan: ${limitsText(PLAN_LIMITS.free, withSeparators)})`;
  return `
Service:      ${origin}/v1
Reference:    ${origin}/
${aboutKey}

  curl -i ${origin}/v1/pets -H "Authorization: Bearer ${demoKey ?? "<API key>"}"
`;
}

async function createDemo({ keys, pets }: OpenDatabases): Promise<string> {
  const { page } = await findPage(pets, { limit: 1 });
  for (const pet of page.petsJson === "[]" ? DEMO_PETS : []) await insertPet(pets, pet);
  const operator = { by: "npm start", nowMs: Date.now() };
  const { secret } = await createKey(keys, { name: "demo", plan: "free", expiresAtMs: null }, operator);
  return secret;
}

await main(start, "npm start --");
