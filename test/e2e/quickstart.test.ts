// A new user's first steps in a copy of the project: npm start, requests with the printed key, a second start.

import { once } from "node:events";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { registryPath } from "../../scripts/cloudflare/database.ts";
import { WRANGLER } from "../../scripts/cloudflare/wrangler.ts";
import { failure } from "../support/e2e/in-process.ts";
import { copyProject, runScript, type Service, start } from "../support/e2e/petstore.ts";

const SECRET = /pet_[0-9A-Za-z]{50}/g;

let folder: string;
let state: string;
let service: Service;
let origin: string;
let printed: string;
let key: string;

beforeAll(async () => {
  folder = await copyProject();
  state = join(folder, "state");
  service = await start(state, { cwd: folder });
  ({ origin } = service);
  printed = service.printed();
  key = printed.match(SECRET)?.[0] ?? "";
});

afterAll(async () => {
  // The last test has ended it.
  await service?.stop().catch(() => {});
  await rm(folder, { recursive: true, force: true });
});

/** Sends a request with the printed key. */
function call(path: string): Promise<Response> {
  return fetch(origin + path, { headers: { Authorization: `Bearer ${key}` } });
}

// In this order: one test starts the service again, and the last one ends it.
describe("npm start", { shuffle: false }, () => {
  it("refuses to serve the databases of an account", async () => {
    expect(await runScript("scripts/start.ts", ["--remote"])).toMatchObject(
      failure(2, /^error: npm start serves the local .*\n$/),
    );
  });

  it("records migrations as wrangler does", async () => {
    const words = ["d1", "migrations", "list", "KEYS_DB", "--local", "--persist-to", state];
    const { stdout } = await runScript(WRANGLER, words);
    expect(stdout).toContain("No migrations to apply!");
  });

  it("accepts plain HTTP by any host name, as containers call it, and links pages by that name", async () => {
    // fetch does not send another Host.
    const headers = { Authorization: `Bearer ${key}`, Host: "api:8787" };
    const [response] = await once(request(`${origin}/v1/pets?limit=1`, { headers }).end(), "response");
    expect(await json(response)).toMatchObject([{ name: "Rex" }]);
    expect(response.headers.link).toMatch(/^<http:\/\/api:8787\/v1\/pets\?limit=1&cursor=/);
  });

  it("reports a port in use", async () => {
    const { port } = new URL(origin);
    const { exitCode, stderr } = await runScript("scripts/start.ts", ["--port", port]);
    const problem = `can't listen on port ${port} (EADDRINUSE): choose another with npm start -- --port PORT`;
    expect([exitCode, stderr]).toEqual([1, `error: ${problem}\n`]);
  });

  it("prints what a new user needs; ends with npm, and keeps pets and keys for the next start", async () => {
    expect(printed).toContain(`\n  curl -i ${origin}/v1/pets -H "Authorization: Bearer ${key}"\n`);
    // The port comes from --port: wrangler's default is 8787.
    expect(origin).not.toBe("http://localhost:8787");
    const pets = await (await call("/v1/pets?limit=100")).text();
    expect(pets).toContain('"name":"Goldie"');
    // A mistake that the state must not keep.
    await call(`/v1/pets?key=${key}`);
    const registered = () => readdir(registryPath(state));
    expect(await service.runtimes()).toHaveLength(2);
    // It can come after the first response.
    await expect.poll(registered).toEqual(["petstore"]);
    const { runtimes } = service;
    await service.stopNpmOnly();
    expect([await runtimes(), await registered()]).toEqual([[], []]);
    const files = await readdir(state, { recursive: true, withFileTypes: true });
    const keeping: string[] = [];
    for (const { name, parentPath } of files.filter((each) => each.isFile()))
      if ((await readFile(join(parentPath, name), "latin1")).includes(key)) keeping.push(name);
    expect(keeping).toEqual([]);

    const configuration = join(folder, "wrangler.toml");
    const route = 'routes = [{ pattern = "petstore.example", custom_domain = true }]\n';
    await writeFile(configuration, route + (await readFile(configuration, "utf8")));
    service = await start(state, { cwd: folder });
    ({ origin } = service);
    expect(service.printed()).toContain(
      `Another key:  ./petstore keys create --name demo --plan free --persist-to ${state}\n`,
    );
    expect(service.printed().match(SECRET)).toBeNull();
    expect(service.printed()).not.toContain("begin anew");
    expect(await (await call("/v1/pets?limit=100")).text()).toBe(pets);
    // The service is still at localhost.
    const page = await call("/v1/pets?limit=1");
    expect(page.headers.get("Link")).toContain(`<${origin}/v1/pets?limit=1&cursor=`);
  });

  it("says so and ends when it does not answer any more, and leaves no process", async () => {
    const { closed, printed, runtimes } = service;
    // While wrangler still starts, it repairs this itself.
    await fetch(`${origin}/version`);
    // The one that has the port: wrangler starts another, which lets requests wait for good.
    const [first = Number.NaN] = await runtimes();
    process.kill(first, "SIGKILL");
    const [exitCode] = await closed;
    expect([exitCode, await runtimes()]).toEqual([1, []]);
    expect(printed()).toMatch(/\nerror: the service does not answer any more, .*\n$/);
  });
});
