// npm start: migrates the local database, serves with `wrangler dev`, and on the first run creates a demo key and a few
// pets. Its arguments are forwarded to `wrangler dev`.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { parseArgs } from "node:util";
import { createKey } from "../src/keys/admin.ts";
import { listKeys } from "../src/keys/records.ts";
import { findPage, insertPet } from "../src/pets/store.ts";
import { DEFAULT_STATE, migrate, openDatabase, type Target } from "./cloudflare/database.ts";
import { targetOptions } from "./cloudflare/target.ts";
import { QUIET, readConfig, WRANGLER } from "./cloudflare/wrangler.ts";
import { print, runCommand } from "./lib/command.ts";

const DEMO_PETS = [
  { name: "Rex", categoryId: 1n, status: "available" },
  { name: "Mimi", categoryId: 2n, status: "pending" },
  { name: "Goldie", categoryId: 3n },
] as const;

const forwarded = process.argv.slice(2);
const { values } = parseArgs({
  args: forwarded,
  options: {
    "persist-to": { type: "string", default: DEFAULT_STATE },
    "local-protocol": { type: "string", default: "http" },
    port: { type: "string" },
  },
  strict: false,
});

await runCommand("npm start", async () => {
  const state = values["persist-to"];
  if (typeof state !== "string" || state === "") throw new Error("--persist-to must name a folder");
  await requireFreePort();

  const target = { kind: "local", state } as const;
  await migrate(target);
  const { database, close } = await openDatabase(target);
  const server = serve(await upstreamOptions());
  try {
    const url = await ready(server);
    // A key is shown only once, so create it only after the server has started.
    const isFirstRun = (await listKeys(database, Date.now(), { limit: 1 })).total === 0;
    announce(url, target, isFirstRun ? await createDemo(database) : undefined);
    await close();
  } catch (error) {
    server.kill();
    throw error;
  }
});

/** Checks the port that was asked for. workerd would report a port in use with a stack trace. */
async function requireFreePort(): Promise<void> {
  if (values.port === undefined) return;
  const port = /^[0-9]{1,5}$/.test(`${values.port}`) ? Number(values.port) : Number.NaN;
  if (!(port <= 65_535)) throw new Error("--port must be a number from 0 to 65535");
  const probe = createServer().listen(port, "localhost");
  try {
    await once(probe, "listening");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    throw new Error(`port ${port} is in use: choose another with npm start -- --port PORT`);
  }
  probe.close();
  await once(probe, "close");
}

/** With a route, wrangler sends the Worker the route's host, for which it refuses plain HTTP (src/http/require-https.ts). */
async function upstreamOptions(): Promise<string[]> {
  const { route, routes = [] } = await readConfig();
  const hasRoute = route !== undefined || routes.length > 0;
  return hasRoute && values["upstream-protocol"] === undefined ? ["--upstream-protocol", "https"] : [];
}

/** Starts `wrangler dev`. This process ends with it. */
function serve(options: string[]): ChildProcess {
  const args = [WRANGLER, "dev", "--show-interactive-dev-session=false", ...options, ...forwarded];
  const child = spawn(process.execPath, args, {
    // At the level "warn", wrangler's first output is that cron triggers do not run locally.
    env: { WRANGLER_LOG: "error", ...process.env, ...QUIET },
    stdio: ["inherit", "inherit", "inherit", "ipc"],
  });
  child.once("exit", (code) => process.exit(code ?? 1));
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
  return child;
}

/** Resolves with the base URL once the service is ready. */
function ready(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.on("message", (message) => {
      const { event, ip, port } = JSON.parse(`${message}`);
      const host = ip === "127.0.0.1" || ip === "[::1]" ? "localhost" : ip;
      // The protocol's default port is null.
      const authority = port === null ? host : `${host}:${port}`;
      if (event === "DEV_SERVER_READY") resolve(`${values["local-protocol"]}://${authority}/v1`);
    });
  });
}

/** Creates a key, and pets if there are none. Returns the key. */
async function createDemo(database: D1Database): Promise<string> {
  const { petsJson } = await findPage(database, { limit: 1 });
  for (const pet of petsJson === "[]" ? DEMO_PETS : []) await insertPet(database, pet);
  const operator = { by: "npm start", nowMs: Date.now() };
  const { secret } = await createKey(database, { name: "demo", plan: "free", expiresAtMs: null }, operator);
  return secret;
}

function announce(url: string, target: Target, demoKey: string | undefined): void {
  const aboutKey =
    demoKey === undefined
      ? `Another key:  npm run keys -- create --name demo --plan free${targetOptions(target)}`
      : `API key:      ${demoKey}
              (shown only once; Free plan: 60 requests per minute, 1,000 per day)`;
  print(`
Service:      ${url}
Reference:    ${new URL("/", url).href}
${aboutKey}

  curl -i ${url}/pets -H "Authorization: Bearer ${demoKey ?? "<API key>"}"
`);
}
