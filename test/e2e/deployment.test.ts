// From nothing to production, on a stand-in for Cloudflare's API that runs what is deployed: set-up, previews, deployments that
// pass their smoke test, and ones that do not. What is not proven here is how Cloudflare itself answers.

import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished, vi } from "vitest";
import { ApiError } from "../support/e2e/api-error.ts";
import { type LOGINS, startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { type Outcome, runScript } from "../support/e2e/petstore.ts";

// A deployment takes ten seconds, and machines that run tests can be slow.
vi.setConfig({ testTimeout: 300_000 });

let api: Awaited<ReturnType<typeof startCloudflareApi>>;
let operator: Awaited<ReturnType<typeof api.operator>>;

/** An account of the test's own, and somebody who is logged in in this way. */
async function openAccount(login: keyof typeof LOGINS, ...databases: string[]): Promise<void> {
  api = await startCloudflareApi(databases);
  onTestFinished(api.stop);
  operator = await api.operator(login);
}

/** Another version of the project in a repository of its own, with one text of its code put for another. */
async function otherVersion(version: string, file?: string, from = "", to = "") {
  const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const name of ["src", "scripts", "migrations", "wrangler.toml", "package-lock.json", ".gitignore"]) {
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
  const git = async (...words: string[]) => {
    const author = ["-c", "user.name=somebody", "-c", "user.email=somebody@petstore.example"];
    const { stdout } = await promisify(execFile)("git", [...author, ...words], { cwd: folder });
    return stdout.trim();
  };
  await git("init", "--quiet");
  await git("add", "--all");
  await git("commit", "--quiet", "--message", version);
  return { folder, build: `${version}+${await git("rev-parse", "--short=7", "HEAD")}` };
}

/** Runs `npm run COMMAND -- WORDS` in such a folder. */
function run(folder: string, command: string, ...words: string[]): Promise<Outcome> {
  return runScript(join(folder, "scripts", `${command}.ts`), words, operator.environment, folder);
}

async function buildAt(url: string): Promise<string> {
  const { build } = (await (await fetch(`${url}/version`)).json()) as { build: string };
  return build;
}

/** How many rows a table of a database has. */
async function rows(database: string, table: string): Promise<number> {
  const counted = api.database(database)?.prepare(`SELECT count(*) AS n FROM ${table}`);
  return (await counted?.first<{ n: number }>())?.n ?? Number.NaN;
}

/** What makes every list fail, put before the first line of its handler. */
const BROKEN = [
  "src/pets/routes.ts",
  "const query =",
  `if (c.env.DB) throw new Error("broken"); const query =`,
] as const;

/** What gives the Worker a domain of its own, written into wrangler.toml. */
const ROUTES = `routes = [{ pattern = "petstore.example", custom_domain = true }]`;
const WITH_ROUTES = ["wrangler.toml", "preview_urls = true", `preview_urls = true\n${ROUTES}`] as const;

const SMOKE_STEPS = `  it says which build it is
  it publishes its document and its pages
  it refuses who has no key
  it lists pets, page by page
  it tells what is wrong with a request
  it counts what it admits, and tells how the key stands
`;
const LAST_STEP = "  it is still that build\n";

it("npm run setup makes what is missing, where it is told, and nothing twice", async () => {
  await openAccount("oauth");
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
  applied 0001_pets.sql, 0002_keys.sql, 0003_revocation_and_rotation.sql, 0004_creations.sql, 0005_plan_changes.sql
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
  expect(await operator.leaks()).toEqual([]);
});

/** Deploys a version to production, and says as what build. */
async function deploy(...version: Parameters<typeof otherVersion>) {
  const { folder, build } = await otherVersion(...version);
  return { build, ...(await run(folder, "deploy", "--url", api.production)) };
}

/** The line of a deployment whose lists fail. */
const failed = (rest: string) =>
  new RegExp(
    `^deploy failed: the smoke test failed at the step "it lists pets, page by page": .* 500 .*; ${rest}\\n$`,
  );

const literally = (text: string) => text.replace(/[+.]/g, "\\$&");

it("npm run deploy says what it does, and whether what it has deployed passes the smoke test", async () => {
  await openAccount("key", "petstore");
  const url = api.production;

  const first = await deploy("7.0.0", ...BROKEN);
  expect(first.stderr).toMatch(
    failed(`there is no version before, so production stays ${literally(first.build)}`),
  );
  expect(first.exitCode).toBe(1);

  expect(api.subdomain).toEqual({ enabled: true, previews_enabled: true });

  const good = await deploy("7.1.0", ...WITH_ROUTES);
  expect([good.exitCode, good.stderr]).toEqual([0, ""]);
  expect(api.subdomain).toEqual({ enabled: false, previews_enabled: true });
  expect(good.stdout).toBe(`Deploys ${good.build} to production.
Database petstore: applies what it has not seen of migrations/
  it was up to date
Worker petstore: uploads it
Smoke test of ${url}
${SMOKE_STEPS}${LAST_STEP}Production is ${good.build}, at ${url}
`);
  expect(await buildAt(url)).toBe(good.build);

  // Nothing is left of all this but one key, which had a new secret each time.
  expect([await rows("petstore", "pets"), await rows("petstore", "keys")]).toEqual([0, 1]);
  expect(await operator.leaks()).toEqual([]);
});

it("npm run deploy goes back to the one before if it fails, and says how things stand whatever breaks", async () => {
  await openAccount("token", "petstore");
  const good = await deploy("7.1.0");

  // Before the Worker is live.
  api.meet((request) => {
    if (request === "PUT /workers/scripts/petstore")
      throw new ApiError(400, 10_021, "the script is too large");
  });
  const tooLarge = await deploy("7.2.0", ...BROKEN);
  expect([tooLarge.exitCode, tooLarge.stderr]).toEqual([
    1,
    expect.stringMatching(/^deploy failed: .*the script is too large.*; production is as it was\n$/),
  ]);
  expect(await buildAt(api.production)).toBe(good.build);

  // After it.
  api.meet((request) => {
    if (request.endsWith("/schedules")) throw new ApiError(400, 10_072, "too many cron triggers");
  });
  const noCron = await deploy("7.2.0", ...BROKEN);
  expect([noCron.exitCode, noCron.stderr]).toEqual([
    1,
    expect.stringMatching(
      new RegExp(
        `^deploy failed: .*too many cron triggers.*; production is ${literally(good.build)} again, which passes it\\n$`,
      ),
    ),
  ]);
  expect(await buildAt(api.production)).toBe(good.build);

  // While it goes back; the next deployment knows that what is live is no version to go back to.
  api.meet((request) => {
    if (request === "POST /workers/scripts/petstore/deployments")
      throw new ApiError(500, 10_013, "try again later");
  });
  const { folder, build } = await otherVersion("7.3.0", ...BROKEN);
  const again = () => run(folder, "deploy", "--url", api.production);
  expect((await again()).stderr).toMatch(
    failed(`production is still ${literally(build)}, because going back failed: .*try again later.*`),
  );
  api.meet(undefined);
  expect((await again()).stderr).toMatch(
    failed(`production is ${literally(good.build)} again, which passes it`),
  );

  // Somebody else deploys at the same time.
  const [{ versions: [version] = [] } = {}, ...earlier] = api.deployments;
  const other = earlier.find(({ versions: [each] }) => each?.version_id !== version?.version_id);
  api.meet((request) => {
    if (request.endsWith("/schedules") && other !== undefined) api.deployments.unshift(other);
  });
  expect((await deploy("7.4.0", ...BROKEN)).stderr).toMatch(
    failed("production is 7\\.[23]\\.0\\S*, which somebody else has deployed meanwhile"),
  );
  api.meet(undefined);

  // Somebody is trying out two versions.
  if (version === undefined) throw new Error("production has a version");
  const parts = [90, 10].map((percentage) => ({ ...version, percentage }));
  api.deployments.unshift({ versions: parts });
  api.requests.length = 0;
  expect((await again()).stderr).toBe(
    "deploy failed: requests go to several versions at present: end that first, with npx wrangler versions deploy\n",
  );
  expect(api.changes()).toEqual([]);
});

it("npm run preview deploys beside production, with a database of the previews, until it is deleted", async () => {
  await openAccount("oauth", "petstore", "petstore-previews");
  const { folder, build } = await otherVersion("7.0.0", ...WITH_ROUTES);
  // What wrangler would take for another Worker.
  const elsewhere = { CLOUDFLARE_ENV: "elsewhere", WRANGLER_CI_OVERRIDE_NAME: "elsewhere" };
  const preview = (...words: string[]) =>
    runScript(
      join(folder, "scripts/preview.ts"),
      ["staging", ...words],
      { ...operator.environment, ...elsewhere },
      folder,
    );
  const { exitCode, stdout, stderr } = await preview("--json");
  expect([exitCode, stderr]).toEqual([0, expect.any(String)]);
  const { url, ...rest } = JSON.parse(stdout);
  expect(rest).toEqual({ name: "staging", build });
  expect(await buildAt(url)).toBe(build);
  expect(stderr).toContain(
    `${SMOKE_STEPS}  it adds a pet once, to the last digit\n${LAST_STEP}Preview staging is ${build}, at ${url}\n`,
  );
  expect([await rows("petstore-previews", "pets"), await rows("petstore-previews", "keys")]).toEqual([1, 1]);
  expect(api.changes()).not.toContain("PUT /workers/scripts/petstore");
  expect(api.requests.join("\n")).not.toContain("elsewhere");

  const removed = await preview("--delete");
  expect([removed.exitCode, removed.stderr]).toEqual([0, ""]);
  await expect(buildAt(url)).rejects.toThrow("fetch failed");
  // A pull request that closes may have none.
  const again = await preview("--delete");
  expect([again.exitCode, again.stdout.split("\n").at(-2)]).toEqual([0, "There is none."]);
  expect(await operator.leaks()).toEqual([]);
});

it.each(["deploy", "preview staging"])("npm run %s says what is missing in the account", async (words) => {
  await openAccount("token");
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

it.each([
  ["deploy", "workers_dev = true beside routes", `workers_dev = true\n${ROUTES}`],
  ["preview staging", "workers_dev = true beside routes", `workers_dev = true\nroute = "petstore.example/*"`],
  ["deploy", "the service is not on workers.dev, so say where it is", ROUTES],
])("npm run %s refuses a wrangler.toml before it does anything: %s", async (words, problem, settings) => {
  await openAccount("token", "petstore", "petstore-previews");
  const { folder } = await otherVersion("7.0.0", "wrangler.toml", "preview_urls = true", settings);
  const [command = "", ...more] = words.split(" ");
  const { exitCode, stdout, stderr } = await run(folder, command, ...more);
  expect([exitCode, stdout, stderr]).toEqual([1, "", expect.stringContaining(problem)]);
  expect(api.requests).toEqual([]);
});

it.each(["setup", "deploy", "preview staging", "preview staging --delete"])(
  "npm run %s --dry-run says what it would do, without an account",
  async (words) => {
    const [command = "", ...more] = words.split(" ");
    const { exitCode, stdout, stderr } = await runScript(`scripts/${command}.ts`, [...more, "--dry-run"], {
      CLOUDFLARE_API_TOKEN: "",
      CLOUDFLARE_API_BASE_URL: "http://127.0.0.1:9",
    });
    expect([exitCode, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/Nothing was done\.\n$/);
  },
);

it("goes on though nobody reads what it says any more", async () => {
  const command = `"${process.execPath}" scripts/deploy.ts --dry-run | head -n 1`;
  const { stdout, stderr } = await promisify(execFile)("bash", ["-o", "pipefail", "-c", command]);
  expect([stdout.split("\n").length, stderr]).toEqual([2, ""]);
});
