// From nothing to production, on a stand-in for Cloudflare's API that runs what is deployed: set-up, previews, deployments that
// pass their smoke test, and ones that do not. What is not proven here is how Cloudflare itself answers.

import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { startCloudflareApi } from "./cloudflare-api.ts";
import { type Outcome, runScript } from "./petstore.ts";

// A deployment takes ten seconds, and machines that run tests can be slow.
vi.setConfig({ testTimeout: 300_000 });

let api: Awaited<ReturnType<typeof startCloudflareApi>>;

beforeEach(async () => {
  api = await startCloudflareApi();
});

afterEach(() => api?.stop());

/** The project in a folder of its own, as another version of it, whose code may be changed: one text for another. */
async function otherVersion(version: string, file?: string, from = "", to = ""): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const name of ["src", "scripts", "migrations", "wrangler.toml", "package-lock.json"]) {
    await cp(name, join(folder, name), { recursive: true });
  }
  const manifest = JSON.parse(await readFile("package.json", "utf8"));
  await writeFile(join(folder, "package.json"), JSON.stringify({ ...manifest, version }));
  await symlink(resolve("node_modules"), join(folder, "node_modules"));
  if (file !== undefined) {
    const text = await readFile(file, "utf8");
    expect(text).toContain(from);
    await writeFile(join(folder, file), text.replace(from, to));
  }
  return folder;
}

/** Runs `npm run COMMAND -- WORDS` in such a folder. */
function run(folder: string, command: string, ...words: string[]): Promise<Outcome> {
  return runScript(join(folder, "scripts", `${command}.ts`), words, api.environment, folder);
}

const setup = (folder = ".") => run(folder, "setup", "--location", "weur");

async function buildAt(url: string): Promise<string> {
  const { build } = (await (await fetch(`${url}/version`)).json()) as { build: string };
  return build;
}

/** What makes every list fail, put before the first line of its handler. */
const BROKEN = `if (c.env.DB) throw new Error("broken"); const query =`;

const SMOKE_STEPS = [
  "says which build it is",
  "publishes its document and its pages",
  "refuses who has no key",
  "lists pets, page by page",
  "tells what is wrong with a request",
  "counts what it admits, and tells how the key stands",
];

describe("npm run setup", () => {
  it("makes both databases where it is told, reads them from replicas, and changes nothing the second time", async () => {
    const first = await setup();
    expect([first.exitCode, first.stderr]).toEqual([0, ""]);
    for (const name of ["petstore", "petstore-previews"]) {
      expect(first.stdout).toContain(`Database ${name}: makes it in weur, where it will stay\n`);
      expect(api.databases.get(name)).toMatchObject({ location: "weur", read_replication: { mode: "auto" } });
      const tables = api.database(name)?.prepare("SELECT name FROM sqlite_schema WHERE name = 'pets'");
      expect(await tables?.first()).toEqual({ name: "pets" });
    }
    const changes = [...api.changes];
    const second = await run(".", "setup");
    expect(second.exitCode).toBe(0);
    expect(second.stdout).toContain("Database petstore: is there, and stays where it is\n");
    expect(api.changes).toEqual(changes);
  });

  it("does the rest if a part was there, or it was interrupted", async () => {
    await setup();
    api.databases.delete("petstore-previews");
    Object.assign(api.databases.get("petstore") ?? {}, { read_replication: { mode: "disabled" } });
    expect((await setup()).exitCode).toBe(0);
    expect(api.databases.get("petstore")).toMatchObject({ read_replication: { mode: "auto" } });
    expect(api.databases.has("petstore-previews")).toBe(true);
  });

  it("makes no database without being told where, because it can't be moved", async () => {
    const { exitCode, stderr } = await run(".", "setup");
    expect([exitCode, stderr]).toEqual([
      1,
      "petstore has to be made: say where, with --location weur|eeur|apac|oc|wnam|enam\n",
    ]);
    expect(api.changes).toEqual([]);
  });
});

describe("npm run deploy", () => {
  it("says what it does, and ends when production is what was deployed and passes the smoke test", async () => {
    await setup();
    const url = api.production;
    const { exitCode, stdout, stderr } = await run(await otherVersion("7.0.0"), "deploy", "--url", url);
    expect([exitCode, stderr]).toEqual([0, ""]);
    expect(stdout.split("\n")).toEqual([
      "Deploys 7.0.0 to production.",
      "Database petstore: applies what it has not seen of migrations/",
      "  it was up to date",
      "Worker petstore: uploads it",
      `Smoke test of ${url}`,
      ...SMOKE_STEPS.map((step) => `  it ${step}`),
      `Production is 7.0.0, at ${url}`,
      "",
    ]);
    expect(await buildAt(url)).toBe("7.0.0");
    // The smoke test adds no pet in production.
    expect(await api.database("petstore")?.prepare("SELECT count(*) AS pets FROM pets").first()).toEqual({
      pets: 0,
    });
  });

  it("puts the version before back if the smoke test fails, and says so", async () => {
    await setup();
    const url = api.production;
    await run(await otherVersion("7.0.0"), "deploy", "--url", url);
    const broken = await otherVersion("7.1.0", "src/pets/routes.ts", "const query =", BROKEN);
    const { exitCode, stdout, stderr } = await run(broken, "deploy", "--url", url);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /^deploy failed: the smoke test failed at the step "it lists pets, page by page": .* 500 .*; production is 7\.0\.0 again, which passes it\n$/,
    );
    expect(stdout).toContain("Worker: puts 7.0.0 back\n");
    expect(await buildAt(url)).toBe("7.0.0");
    // One key, which has had a new secret each time.
    const keys = await api.database("petstore")?.prepare("SELECT name FROM keys").all();
    expect(keys?.results).toEqual([{ name: "smoke test of deployments" }]);
  });
});
