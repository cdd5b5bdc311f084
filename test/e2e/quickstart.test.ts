// A new user's first steps in a copy of the project: npm start, requests with the printed key, a second key, a second start. Also
// what only wrangler's local server does.

import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { json } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { registryPath } from "../../scripts/cloudflare/database.ts";
import startCommand from "../../scripts/start.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { runProcess, type Service, start } from "../support/e2e/petstore.ts";

const SECRET = /pet_[0-9A-Za-z]{38}/g;

const CONFIGURATION = ["package.json", "package-lock.json", ".npmrc", "wrangler.toml"];

let folder: string;
let state: string;
let service: Service;
let origin: string;
let printed: string;
let key: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  for (const name of ["src", "scripts", "migrations", ...CONFIGURATION])
    await cp(name, join(folder, name), { recursive: true });
  await symlink(resolve("node_modules"), join(folder, "node_modules"));
  state = join(folder, "state");
  service = await start(state, { cwd: folder });
  ({ origin } = service);
  printed = service.printed();
  key = printed.match(SECRET)?.[0] ?? "";
});

afterAll(async () => {
  await service?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Sends a request with the printed key. */
function call(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(origin + path, { ...init, headers: { Authorization: `Bearer ${key}`, ...init.headers } });
}

function addPet(body: string): Promise<Response> {
  return call("/v1/pets", { method: "POST", headers: { "Content-Type": "application/json" }, body });
}

/** The remaining requests of the day, and the seconds until it ends. */
function dayWindow({ headers }: Response): number[] {
  const [, ...numbers] = headers.get("RateLimit")?.match(/"day";r=(\d+);t=(\d+)/) ?? [];
  return numbers.map(Number);
}

describe("npm start", () => {
  it("lists, adds and gets pets", async () => {
    const list = await call("/v1/pets?limit=3");
    expect([list.status, list.headers.get("X-RateLimit-Limit")]).toEqual([200, "60"]);
    expect((await list.json()) as unknown[]).toHaveLength(3);
    const added = await addPet(`{"name":"Zoë 🦜","categoryId":9223372036854775807,"status":"available"}`);
    const text = await added.text();
    expect(text).toContain(`"categoryId":9223372036854775807`);
    const found = await call(added.headers.get("Location") ?? "");
    expect([added.status, await found.text()]).toEqual([201, text]);
  });

  it("limits bodies over a real socket, chunked ones too", async () => {
    const send = (bytes: number, header: string, value: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const outgoing = request(`${origin}/v1/pets`, { method: "POST" });
        outgoing.setHeader("Authorization", `Bearer ${key}`);
        outgoing.setHeader("Content-Type", "application/json");
        outgoing.setHeader(header, value);
        outgoing.once("error", reject).once("response", (response) => resolve(response.resume().statusCode));
        outgoing.end(`{"name":"Rex","categoryId":1}`.padEnd(bytes));
      });
    const sendChunked = (bytes: number) => send(bytes, "Transfer-Encoding", "chunked");
    expect(await sendChunked(65_536)).toBe(201);
    expect(await sendChunked(65_537)).toBe(413);
    expect(await send(65_537, "Content-Length", "65537")).toBe(413);
    // If the Worker stops reading in the middle, the local server fails another request.
    for (let round = 0; round < 5; round += 1) {
      expect(await sendChunked(3_000_000)).toBe(413);
      expect(await send(100, "Content-Length", "100")).toBe(201);
    }
  });

  it("accepts a key that was created while it runs", async () => {
    const options = ["--name", "second", "--plan", "pro", "--json", "--persist-to", state];
    const words = ["run", "--silent", "keys", "--", "create", ...options];
    const created = JSON.parse((await runProcess("npm", words, {}, folder)).stdout);
    const headers = { Authorization: `Bearer ${created.key}` };
    const response = await fetch(`${origin}/v1/pets`, { headers });
    expect([response.status, response.headers.get("X-RateLimit-Remaining")]).toEqual([200, "299"]);
  });

  it("adds a pet after another process has released its lock on the database", async () => {
    const databases = join(state, "v3", "d1", "miniflare-D1DatabaseObject");
    const file = (await readdir(databases)).find((name) => /^[0-9a-f]+\.sqlite$/.test(name)) ?? "";
    const other = new DatabaseSync(join(databases, file));
    // From here on the key is cached, and only pets need the database.
    expect((await call("/v1/nowhere")).status).toBe(404);
    other.exec("BEGIN IMMEDIATE");
    const adding = addPet(`{"name":"Patience","categoryId":1}`);
    // By the time of this response, the other request has met the lock.
    const unhindered = await call("/v1/nowhere");
    other.close();
    expect([unhindered.status, (await adding).status]).toEqual([404, 201]);
  });

  it("reports a port in use", async () => {
    const { port } = new URL(origin);
    const { exitCode, stderr } = await runCommandInProcess(startCommand, ["--port", port]);
    const problem = `can't listen on port ${port} (EADDRINUSE): choose another with npm start -- --port PORT`;
    expect([exitCode, stderr]).toEqual([1, `error: ${problem}\n`]);
  });

  // One test, because others may follow in any order: without a route before the restart, with one after it.
  it("prints what a new user needs; ends with npm, and keeps pets, keys and counts for the next start", async () => {
    const url = `${origin}/v1`;
    expect(printed).toBe(`
Service:      ${url}
Reference:    ${origin}/
API key:      ${key}
              (shown only once; Free plan: 60 requests per minute, 1,000 per day)

  curl -i ${url}/pets -H "Authorization: Bearer ${key}"

`);
    // The port comes from --port: wrangler's default is 8787.
    expect(origin).not.toBe("http://localhost:8787");
    const refused = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { Host: "petstore.example", Authorization: `Bearer ${key}` };
      request(`${origin}/v1/pets`, { headers }, resolve).once("error", reject).end();
    });
    const message = MESSAGES.invalid_request.plainHttp;
    expect(await json(refused)).toEqual({ code: "invalid_request", message, status: 400 });

    const before = await call("/v1/pets?limit=100");
    const petsBefore = await before.text();
    const registered = () => readdir(registryPath(state));
    expect(await service.runtimes()).toHaveLength(2);
    // Commands find the running service by this entry. It can come after the first response.
    await expect.poll(registered, { timeout: 30_000 }).toEqual(["petstore"]);
    const { runtimes } = service;
    await service.stopNpmOnly();
    expect([await runtimes(), await registered()]).toEqual([[], []]);

    const configuration = join(folder, "wrangler.toml");
    const route = 'routes = [{ pattern = "petstore.example", custom_domain = true }]\n';
    await writeFile(configuration, route + (await readFile(configuration, "utf8")));
    service = await start(state, { cwd: folder });
    ({ origin } = service);
    expect(service.printed()).toContain(
      `Another key:  npm run keys -- create --name demo --plan free --persist-to ${state}\n`,
    );
    expect(service.printed().match(SECRET)).toBeNull();
    const after = await call("/v1/pets?limit=100");
    expect(await after.text()).toBe(petsBefore);
    const [leftBefore = 0, secondsBefore = 0] = dayWindow(before);
    const [leftAfter = 0, secondsAfter = 0] = dayWindow(after);
    // Leases lost with the isolate stay charged.
    const lost = (secondsAfter > secondsBefore ? 999 : leftBefore - 1) - leftAfter;
    expect(lost).toBeGreaterThanOrEqual(0);
    expect(lost).toBeLessThanOrEqual(2 * Math.floor(60 / 16));
    // The service is still at localhost.
    const page = await call("/v1/pets?limit=1");
    expect(page.headers.get("Link")).toContain(`<${origin}/v1/pets?limit=1&cursor=`);
  });
});
