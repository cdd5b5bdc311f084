// A new user's first steps: npm start in an empty folder, requests with the printed key, a second key, a second start. Also
// what only a real HTTP server does.

import { cp, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { dirname, join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { json } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { registryPath } from "../../scripts/cloudflare/database.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { emptyState, keys, type Service, start } from "../support/e2e/petstore.ts";
import { expectNoSecret } from "../support/worker/log-lines.ts";

const SECRET = /pet_[0-9A-Za-z]{38}/g;

let state: string;
let remove: () => Promise<void>;
let service: Service | undefined;
let origin: string;
let firstOrigin: string;
let printedFirst: string;
let key: string;

beforeAll(async () => {
  ({ state, remove } = await emptyState());
  service = await start(state);
  origin = service.origin;
  firstOrigin = origin;
  printedFirst = service.printed();
  key = printedFirst.match(SECRET)?.[0] ?? "";
});

afterAll(async () => {
  await service?.stop();
  await remove();
  // At the default level the log has failures only. They must not contain a secret either.
  const lines = service?.printed().split("\n") ?? [];
  for (const line of lines.filter((each) => each.startsWith("{"))) expectNoSecret(line);
});

/** Sends a request with the printed key. */
function call(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("Authorization", `Bearer ${key}`);
  return fetch(origin + path, { ...init, headers });
}

/** The remaining requests of the day, and the seconds until it ends. */
function dayWindow({ headers }: Response): number[] {
  const [, ...numbers] = headers.get("RateLimit")?.match(/"day";r=(\d+);t=(\d+)/) ?? [];
  return numbers.map(Number);
}

describe("npm start", () => {
  it("prints the URL, the demo key and a curl command, and nothing else", () => {
    const url = `${firstOrigin}/v1`;
    expect(printedFirst).toBe(`
Service:      ${url}
Reference:    ${firstOrigin}/
API key:      ${key}
              (shown only once; Free plan: 60 requests per minute, 1,000 per day)

  curl -i ${url}/pets -H "Authorization: Bearer ${key}"

`);
    // The port comes from --port: wrangler's default is 8787.
    expect(firstOrigin).not.toBe("http://localhost:8787");
  });

  it("lists, adds and gets pets", async () => {
    const list = await call("/v1/pets?limit=3");
    expect(list.status).toBe(200);
    expect(list.headers.get("X-RateLimit-Limit")).toBe("60");
    expect((await list.json()) as unknown[]).toHaveLength(3);

    const body = `{"name":"Zoë 🦜","categoryId":9223372036854775807,"status":"available"}`;
    const added = await call("/v1/pets", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body,
    });
    expect(added.status).toBe(201);
    const text = await added.text();
    expect(text).toContain(`"categoryId":9223372036854775807`);
    const found = await call(added.headers.get("Location") ?? "");
    expect(await found.text()).toBe(text);
  });

  it("supports HEAD, chunked bodies and the limit on bodies over a real socket", async () => {
    const head = await call("/v1/pets", { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);

    const send = (bytes: number, headers: Record<string, string>) =>
      new Promise<number | undefined>((resolve, reject) => {
        const outgoing = request(`${origin}/v1/pets`, { method: "POST" });
        outgoing.setHeader("Authorization", `Bearer ${key}`);
        outgoing.setHeader("Content-Type", "application/json");
        for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value);
        outgoing.once("error", reject).once("response", (response) => resolve(response.resume().statusCode));
        outgoing.end(`{"name":"Rex","categoryId":1}`.padEnd(bytes));
      });
    expect(await send(65_536, { "Transfer-Encoding": "chunked" })).toBe(201);
    expect(await send(65_537, { "Transfer-Encoding": "chunked" })).toBe(413);
    expect(await send(65_537, { "Content-Length": "65537" })).toBe(413);
    // If the Worker stops reading in the middle, the local server fails another request.
    for (let round = 0; round < 5; round += 1) {
      expect(await send(3_000_000, { "Transfer-Encoding": "chunked" })).toBe(413);
      expect(await send(100, { "Content-Length": "100" })).toBe(201);
    }
  });

  it("answers concurrent requests for the usage of a key", async () => {
    const responses = await Promise.all(Array.from({ length: 20 }, () => call("/v1/usage")));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
    const bodies = new Set(await Promise.all(responses.map((response) => response.text())));
    // Nothing is counted meanwhile, but a new minute may begin.
    expect(bodies.size).toBeLessThanOrEqual(2);
    for (const body of bodies) expect(JSON.parse(body)).toMatchObject({ plan: "free", bannedUntil: null });
  });

  it("accepts a key that was created while it runs", async () => {
    const { stdout } = await keys(
      "create",
      "--name",
      "second",
      "--plan",
      "pro",
      "--json",
      "--persist-to",
      state,
    );
    const created = JSON.parse(stdout);
    expect(created).toEqual({
      id: expect.stringMatching(/^key_[0-9A-Za-z]{12}$/),
      key: expect.stringMatching(/^pet_[0-9A-Za-z]{38}$/),
      name: "second",
      plan: "pro",
      perMinute: 300,
      perDay: 10_000,
    });
    const headers = { Authorization: `Bearer ${created.key}` };
    const response = await fetch(`${origin}/v1/pets`, { headers });
    expect([response.status, response.headers.get("X-RateLimit-Remaining")]).toEqual([200, "299"]);
  });

  it("adds a pet after another process has released its lock on the database", async () => {
    const folder = join(state, "v3", "d1", "miniflare-D1DatabaseObject");
    const file = (await readdir(folder)).find((name) => /^[0-9a-f]+\.sqlite$/.test(name)) ?? "";
    const other = new DatabaseSync(join(folder, file));
    // From here on the key is cached, and only pets need the database.
    expect((await call("/v1/nowhere")).status).toBe(404);
    other.exec("BEGIN IMMEDIATE");
    const body = `{"name":"Patience","categoryId":1}`;
    const adding = call("/v1/pets", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body,
    });
    // By the time of this response, the other request has met the lock.
    const unhindered = await call("/v1/nowhere");
    other.close();
    expect([unhindered.status, (await adding).status]).toEqual([404, 201]);
  });

  it("reports a port in use", async () => {
    const other = await emptyState();
    onTestFinished(() => other.remove());
    const port = Number(new URL(origin).port);
    await expect(start(other.state, { port })).rejects.toThrow(
      `error: can't listen on port ${port} (EADDRINUSE): choose another with npm start -- --port PORT\n`,
    );
  });

  it("refuses plain HTTP at hosts other than loopback", async () => {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { Host: "petstore.example", Authorization: `Bearer ${key}` };
      request(`${origin}/v1/pets`, { headers }, resolve).once("error", reject).end();
    });
    expect([answer.statusCode, await json(answer)]).toEqual([
      400,
      { code: "invalid_request", message: MESSAGES.invalid_request.plainHttp, status: 400 },
    ]);
  });

  it("serves at localhost if wrangler.toml has a route", async () => {
    const routed = await emptyState();
    onTestFinished(() => routed.remove());
    const cwd = dirname(routed.state);
    for (const name of ["src", "scripts", "migrations", "package.json", "package-lock.json"]) {
      await cp(name, join(cwd, name), { recursive: true });
    }
    await symlink(resolve("node_modules"), join(cwd, "node_modules"));
    const config = await readFile("wrangler.toml", "utf8");
    const route = 'routes = [{ pattern = "petstore.example", custom_domain = true }]\n';
    await writeFile(join(cwd, "wrangler.toml"), route + config.replace(/^workers_dev = .*\n/m, ""));
    const other = await start(routed.state, { cwd });
    onTestFinished(other.stop);
    const Authorization = `Bearer ${other.printed().match(SECRET)?.[0]}`;
    const page = await fetch(`${other.origin}/v1/pets?limit=1`, { headers: { Authorization } });
    expect([page.status, page.headers.get("Link")]).toEqual([
      200,
      expect.stringContaining(`<${other.origin}/v1/pets?limit=1&cursor=`),
    ]);
  });

  it("keeps pets, keys and counts across restarts, and prints no key again", async () => {
    const before = await call("/v1/pets?limit=100");
    const petsBefore = await before.text();
    await service?.stop();
    service = await start(state);
    origin = service.origin;
    expect(service.printed()).toContain(
      `Another key:  npm run keys -- create --name demo --plan free --persist-to ${state}\n`,
    );
    expect(service.printed().match(SECRET)).toBeNull();

    const after = await call("/v1/pets?limit=100");
    expect(await after.text()).toBe(petsBefore);
    const [leftBefore = 0, secondsBefore = 0] = dayWindow(before);
    const [leftAfter = 0, secondsAfter = 0] = dayWindow(after);
    const isNewDay = secondsAfter > secondsBefore;
    // Leases lost with the isolate stay charged.
    const lost = (isNewDay ? 999 : leftBefore - 1) - leftAfter;
    expect(lost).toBeGreaterThanOrEqual(0);
    expect(lost).toBeLessThanOrEqual(2 * Math.floor(60 / 16));
  });

  it("ends if only npm is terminated, and leaves no entry in the registry of its state folder", async () => {
    const other = await emptyState();
    onTestFinished(() => other.remove());
    const { runtimes, stop, stopNpmOnly } = await start(other.state);
    onTestFinished(stop);
    // wrangler reports that it is ready when its proxy is, and starts the Worker's runtime after that.
    await expect.poll(runtimes, { timeout: 30_000 }).toHaveLength(2);
    // Commands find the running service by its entry in the registry.
    const registered = () => readdir(registryPath(other.state));
    await expect.poll(registered, { timeout: 30_000 }).toEqual(["petstore"]);
    await stopNpmOnly();
    expect([await runtimes(), await registered()]).toEqual([[], []]);
  });
});
