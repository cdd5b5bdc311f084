// From nothing to production, on a stand-in for Cloudflare's API that runs what is deployed: set-up, previews, deployments that
// pass their smoke test, and ones that do not. What is not proven here is how Cloudflare itself answers.

import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, expect, it, onTestFinished, vi } from "vitest";
import { startCloudflareApi } from "./cloudflare-api.ts";
import { type Outcome, runScript } from "./petstore.ts";

// A deployment takes ten seconds, and machines that run tests can be slow.
vi.setConfig({ testTimeout: 300_000 });

let api: Awaited<ReturnType<typeof startCloudflareApi>>;

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

async function buildAt(url: string): Promise<string> {
  const { build } = (await (await fetch(`${url}/version`)).json()) as { build: string };
  return build;
}

/** How many rows a table of a database has. */
async function rows(database: string, table: string): Promise<number> {
  const counted = api.database(database)?.prepare(`SELECT count(*) AS n FROM ${table}`);
  return (await counted?.first<number>("n")) ?? Number.NaN;
}

/** What makes every list fail, put before the first line of its handler. */
const BROKEN = [
  "src/pets/routes.ts",
  "const query =",
  `if (c.env.DB) throw new Error("broken"); const query =`,
] as const;

const SMOKE_STEPS = `  it says which build it is
  it publishes its document and its pages
  it refuses who has no key
  it lists pets, page by page
  it tells what is wrong with a request
  it counts what it admits, and tells how the key stands
`;

it("npm run setup makes what is missing, where it is told, and nothing twice", async () => {
  api = await startCloudflareApi();
  const { stderr } = await run(".", "setup");
  expect(stderr).toBe("petstore has to be made: say where, with --location weur|eeur|apac|oc|wnam|enam\n");
  expect(api.changes()).toEqual([]);

  const setup = () => run(".", "setup", "--location", "weur");
  expect((await setup()).stdout).toBe(
    ["petstore", "petstore-previews"]
      .map(
        (name) => `Database ${name}: makes it in weur, where it will stay
Database ${name}: has it read from replicas
Database ${name}: applies what it has not seen of migrations/
  applied 0001_pets.sql, 0002_keys.sql, 0003_revocation_and_rotation.sql, 0004_creations.sql
`,
      )
      .join("")
      .concat("All is there. Next: npm run preview -- staging, and then npm run deploy\n"),
  );
  const ready = { location: "weur", read_replication: { mode: "auto" } };
  expect([...api.databases.values()]).toMatchObject([ready, ready]);
  expect([await rows("petstore", "pets"), await rows("petstore-previews", "pets")]).toEqual([0, 0]);

  // As if it had been interrupted: only what is missing is done again.
  const [made] = api.databases.values();
  Object.assign(made ?? {}, { read_replication: { mode: "disabled" } });
  api.requests.length = 0;
  expect((await setup()).stdout).toContain("Database petstore: is there, and stays where it is\n");
  expect(api.changes()).toEqual(["PUT /d1/database/id-of-petstore"]);
  expect([...api.databases.values()]).toMatchObject([ready, ready]);
});

it("npm run deploy ends with a version that passes the smoke test, or goes back to the one before", async () => {
  api = await startCloudflareApi(["petstore"]);
  const url = api.production;
  const deploy = async (...version: Parameters<typeof otherVersion>) =>
    run(await otherVersion(...version), "deploy", "--url", url);
  const failed = (rest: string) =>
    new RegExp(
      `^deploy failed: the smoke test failed at the step "it lists pets, page by page": .* 500 .*; ${rest}\\n$`,
    );

  const first = await deploy("7.0.0", ...BROKEN);
  expect(first.stderr).toMatch(failed("there is no version before, so production stays 7\\.0\\.0"));
  expect(first.exitCode).toBe(1);

  const second = await deploy("7.1.0");
  expect([second.exitCode, second.stderr]).toEqual([0, ""]);
  expect(second.stdout).toBe(`Deploys 7.1.0 to production.
Database petstore: applies what it has not seen of migrations/
  it was up to date
Worker petstore: uploads it
Smoke test of ${url}
${SMOKE_STEPS}Production is 7.1.0, at ${url}
`);
  expect(await buildAt(url)).toBe("7.1.0");

  const third = await deploy("7.2.0", ...BROKEN);
  expect(third.stderr).toMatch(failed("production is 7\\.1\\.0 again, which passes it"));
  expect(third.exitCode).toBe(1);
  expect(await buildAt(url)).toBe("7.1.0");

  // Nothing is left of all this but one key, which had a new secret each time.
  expect([await rows("petstore", "pets"), await rows("petstore", "keys")]).toEqual([0, 1]);
});

it("npm run preview deploys beside production, with a database of the previews, until it is deleted", async () => {
  api = await startCloudflareApi(["petstore", "petstore-previews"]);
  const folder = await otherVersion("7.0.0");
  const { exitCode, stdout, stderr } = await run(folder, "preview", "staging", "--json");
  expect([exitCode, stderr]).toEqual([0, expect.any(String)]);
  const { url, ...rest } = JSON.parse(stdout);
  expect(rest).toEqual({ name: "staging", build: "7.0.0" });
  expect(await buildAt(url)).toBe("7.0.0");
  expect(stderr).toContain(
    `${SMOKE_STEPS}  it adds a pet once, to the last digit\nPreview staging is 7.0.0, at ${url}\n`,
  );
  expect([await rows("petstore-previews", "pets"), await rows("petstore-previews", "keys")]).toEqual([1, 1]);
  expect(api.changes().filter((change) => change.includes("/workers/scripts/petstore?"))).toEqual([]);

  const removed = await run(folder, "preview", "staging", "--delete");
  expect([removed.exitCode, removed.stderr]).toEqual([0, ""]);
  await expect(buildAt(url)).rejects.toThrow("fetch failed");
  // A pull request that closes may have none.
  const again = await run(folder, "preview", "staging", "--delete");
  expect([again.exitCode, again.stdout.split("\n").at(-2)]).toEqual([0, "There is none."]);
});

it.each(["deploy", "preview staging"])("npm run %s says what is missing in the account", async (words) => {
  api = await startCloudflareApi();
  const [command = "", ...more] = words.split(" ");
  const { exitCode, stderr } = await run(".", command, ...more);
  expect([exitCode, stderr]).toEqual([
    1,
    expect.stringMatching(
      /^(deploy|preview) failed: there is no database petstore\S* in this account yet: run npm run setup, .*\n$/,
    ),
  ]);
  expect(api.changes()).toEqual([]);
});

it.each(["setup", "deploy", "preview staging", "preview staging --delete"])(
  "npm run %s --dry-run says what it would do, without an account",
  async (words) => {
    api = await startCloudflareApi();
    const [command = "", ...more] = words.split(" ");
    const { exitCode, stdout, stderr } = await runScript(`scripts/${command}.ts`, [...more, "--dry-run"], {
      CLOUDFLARE_API_TOKEN: "",
      CLOUDFLARE_API_BASE_URL: "http://127.0.0.1:9",
    });
    expect([exitCode, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/Nothing was done\.\n$/);
  },
);
