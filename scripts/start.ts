// npm start: brings the local database up to date, serves with `wrangler dev`, and on the first run makes a demo key
// and a few pets, so that there is something to paste and something to see. Its arguments go on to `wrangler dev`.

import { type ChildProcess, spawn } from "node:child_process";
import { parseArgs } from "node:util";
import { createKey } from "../src/keys/create.ts";
import { listKeys } from "../src/keys/store.ts";
import { insertPet } from "../src/pets/store.ts";
import { applyMigrations, DEFAULT_STATE, openDatabase, pendingMigrations, QUIET } from "./database.ts";

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
  },
  strict: false,
});
const state = `${values["persist-to"]}`;

const { db, close } = await openDatabase(state);
if ((await pendingMigrations(db)).length > 0) await applyMigrations(state);
const server = serve();
const url = await ready(server);
// Not before the service runs: a key is shown only once, and nobody would see it if the port were taken.
const demoKey = (await listKeys(db)).length === 0 ? await makeDemo() : undefined;
await close();
announce();

/** Starts `wrangler dev`. This process lives as long as that one, and ends with its exit code. */
function serve(): ChildProcess {
  const child = spawn("wrangler", ["dev", "--show-interactive-dev-session=false", ...forwarded], {
    env: { WRANGLER_LOG: "warn", ...process.env, ...QUIET },
    shell: process.platform === "win32",
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
      if (event === "DEV_SERVER_READY") resolve(`${values["local-protocol"]}://${host}:${port}/v1`);
    });
  });
}

async function makeDemo(): Promise<string> {
  for (const pet of DEMO_PETS) await insertPet(db, pet);
  const { secret } = await createKey(db, { name: "demo", plan: "free", expiresAtMs: null }, Date.now());
  return secret;
}

function announce(): void {
  const key = demoKey ?? "<API key>";
  process.stdout.write(`
The pet store is open:  ${url}
${
  demoKey === undefined
    ? "The demo key was shown at the first start. Another:  npm run keys -- create --name demo --plan free"
    : `A key to try it with:   ${demoKey}\n                        (Free plan: 60 requests a minute, 1,000 a day; shown this once)`
}

  curl -i ${url}/pets -H "Authorization: Bearer ${key}"

`);
}
