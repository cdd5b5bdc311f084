// npm start: brings the local database up to date, serves with `wrangler dev`, and on the first run makes a demo key
// and a few pets, so that there is something to paste and something to see. Its arguments go on to `wrangler dev`.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { parseArgs } from "node:util";
import { createKey } from "../src/keys/admin.ts";
import { listKeys } from "../src/keys/store.ts";
import { findPage, insertPet } from "../src/pets/store.ts";
import {
  applyMigrations,
  DEFAULT_STATE,
  type OpenDatabase,
  openDatabase,
  pendingMigrations,
  type Target,
} from "./cloudflare/database.ts";
import { persistTo } from "./cloudflare/target.ts";
import { QUIET, readConfig, WRANGLER } from "./cloudflare/wrangler.ts";

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

try {
  await main();
} catch (error) {
  process.stderr.write(`npm start failed: ${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}

async function main(): Promise<void> {
  const state = values["persist-to"];
  if (typeof state !== "string" || state === "") throw new Error("--persist-to must name a folder");
  await requireFreePort();

  const target = { kind: "local", state } as const;
  const { database, close } = await openUpToDate(target);
  const server = serve(await upstream());
  try {
    const url = await ready(server);
    // Not before the service runs: a key is shown only once, and nobody would see it if the service did not start.
    const isFirstRun = (await listKeys(database)).length === 0;
    announce(url, state, isFirstRun ? await makeDemo(database) : undefined);
    await close();
  } catch (error) {
    server.kill();
    throw error;
  }
}

/** Opens the local database, after it was brought up to date. */
async function openUpToDate(target: Target): Promise<OpenDatabase> {
  const opened = await openDatabase(target);
  if ((await pendingMigrations(opened.database)).length === 0) return opened;
  // wrangler opens the file by itself, and would now and then find it locked.
  await opened.close();
  await applyMigrations(target);
  return openDatabase(target);
}

/** Says that a port is taken, if one was asked for: workerd would say so in a stack trace. */
async function requireFreePort(): Promise<void> {
  if (values.port === undefined) return;
  const port = /^[0-9]{1,5}$/.test(`${values.port}`) ? Number(values.port) : Number.NaN;
  if (!(port <= 65_535)) throw new Error("--port must be a number from 0 to 65535");
  const probe = createServer().listen(port, "localhost");
  try {
    await once(probe, "listening");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    throw new Error(`port ${port} is taken: name another with npm start -- --port PORT`);
  }
  probe.close();
  await once(probe, "close");
}

/** With a route wrangler has the Worker see the route's host, where the Worker refuses plain HTTP (src/http/require-https.ts). */
async function upstream(): Promise<string[]> {
  const { route, routes = [] } = await readConfig();
  const hasRoute = route !== undefined || routes.length > 0;
  return hasRoute && values["upstream-protocol"] === undefined ? ["--upstream-protocol", "https"] : [];
}

/** Starts `wrangler dev`. This process lives as long as that one. */
function serve(more: string[]): ChildProcess {
  const words = [WRANGLER, "dev", "--show-interactive-dev-session=false", ...more, ...forwarded];
  const child = spawn(process.execPath, words, {
    // At the next level wrangler warns that cron triggers do not run here, before anything else is said.
    env: { WRANGLER_LOG: "error", ...process.env, ...QUIET },
    stdio: ["inherit", "inherit", "inherit", "ipc"],
  });
  child.once("exit", (code) => process.exit(code ?? 1));
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
  return child;
}

/** The address of the service, once it answers there. */
function ready(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.on("message", (message) => {
      const { event, ip, port } = JSON.parse(`${message}`);
      const host = ip === "127.0.0.1" || ip === "[::1]" ? "localhost" : ip;
      // wrangler names no port if it is the one that the protocol has by itself.
      const authority = port === null ? host : `${host}:${port}`;
      if (event === "DEV_SERVER_READY") resolve(`${values["local-protocol"]}://${authority}/v1`);
    });
  });
}

/** Makes a key, and pets if there are none. Returns the key. */
async function makeDemo(database: D1Database): Promise<string> {
  const { petsJson } = await findPage(database, { limit: 1 });
  for (const pet of petsJson === "[]" ? DEMO_PETS : []) await insertPet(database, pet);
  const { secret } = await createKey(database, { name: "demo", plan: "free", expiresAtMs: null }, Date.now());
  return secret;
}

function announce(url: string, state: string, demoKey: string | undefined): void {
  const aboutKey =
    demoKey === undefined
      ? `A key is shown only when it is made. Another:  npm run keys -- create --name demo --plan free${persistTo(state)}`
      : `A key to try it with:   ${demoKey}
                        (Free plan: 60 requests a minute, 1,000 a day; shown this once)`;
  process.stdout.write(`
The pet store is open:  ${url}
Read about it, try it:  ${new URL("/", url).href}
${aboutKey}

  curl -i ${url}/pets -H "Authorization: Bearer ${demoKey ?? "<API key>"}"

`);
}
