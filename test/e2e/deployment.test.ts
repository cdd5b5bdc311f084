// npm run setup, preview and deploy against a fake of Cloudflare's API that runs what is deployed, with smoke tests that pass and
// that fail. Cloudflare's own responses are not tested.

import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished, vi } from "vitest";
import deployCommand from "../../scripts/deploy.ts";
import previewCommand from "../../scripts/preview.ts";
import setupCommand from "../../scripts/setup.ts";
import { createKey } from "../../src/keys/admin.ts";
import { findKeyById } from "../../src/keys/records.ts";
import { ApiError } from "../support/e2e/api-error.ts";
import { type LOGINS, startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { type Outcome, runProcess, runScript } from "../support/e2e/petstore.ts";

// A deployment takes ten seconds, and machines that run tests can be slow.
vi.setConfig({ testTimeout: 300_000 });

let api: Awaited<ReturnType<typeof startCloudflareApi>>;
let operator: Awaited<ReturnType<typeof api.operator>>;

/** Starts an account for one test, with an operator logged in as `login` says. */
async function openAccount(login: keyof typeof LOGINS, ...databases: string[]): Promise<void> {
  api = await startCloudflareApi(databases);
  onTestFinished(api.stop);
  operator = await api.operator(login);
}

/** Copies the project into its own repository, with another version and one replacement in its code. */
async function copyProject(version: string, file?: string, from = "", to = "") {
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
    const author = ["-c", "user.name=test", "-c", "user.email=test@petstore.example"];
    const { stdout } = await promisify(execFile)("git", [...author, ...words], { cwd: folder });
    return stdout.trim();
  };
  await git("init", "--quiet");
  await git("add", "--all");
  await git("commit", "--quiet", "--message", version);
  return { folder, build: `${version}+${await git("rev-parse", "--short=7", "HEAD")}` };
}

/** Runs `npm run COMMAND -- WORDS` in such a copy. */
function run(folder: string, command: string, ...words: string[]): Promise<Outcome> {
  return runScript("scripts/main.ts", [`scripts/${command}.ts`, ...words], operator.environment, folder);
}

async function buildAt(url: string): Promise<string> {
  const { build } = (await (await fetch(`${url}/version`)).json()) as { build: string };
  return build;
}

async function countRows(database: string, table: string): Promise<number> {
  const counted = api.database(database)?.prepare(`SELECT count(*) AS n FROM ${table}`);
  return (await counted?.first<{ n: number }>())?.n ?? Number.NaN;
}

/** Makes every list fail, in the first line of its handler. */
const BROKEN = [
  "src/pets/routes.ts",
  "const query =",
  `if (c.env.DB) throw new Error("broken"); const query =`,
] as const;

/** A custom domain for the Worker, in wrangler.toml. */
const ROUTES = `routes = [{ pattern = "petstore.example", custom_domain = true }]`;
const WITH_ROUTES = ["wrangler.toml", "preview_urls = true", `preview_urls = true\n${ROUTES}`] as const;

const SMOKE_STEPS = `  reports its build
  serves the document and the pages
  rejects a request without a key
  lists pets in pages
  rejects invalid requests
  counts a request in the key's usage
`;
const LAST_STEP = "  still reports that build\n";

it("npm run setup creates what is missing, in --location, and nothing twice", async () => {
  await openAccount("oauth");
  const setup = () => run(".", "setup", "--location", "weur");
  const { exitCode, stdout, stderr } = await setup();
  expect([exitCode, stdout]).toEqual([0, "Both databases are ready.\n"]);
  const migrations = (await readdir("migrations")).sort().join(", ");
  const steps = ["petstore", "petstore-previews"].map(
    (name) => `Looking for database ${name}
Creating it in weur
Enabling read replication
Applying pending migrations to ${name}
  applied ${migrations}
`,
  );
  expect(stderr).toBe(
    `Finding the account\nPreparing the databases petstore and petstore-previews in account an-account\n${steps.join("")}Next: npm run preview -- staging, then npm run deploy\n`,
  );
  const ready = { location: "weur", read_replication: { mode: "auto" } };
  expect([...api.databases.values()]).toMatchObject([ready, ready]);
  expect([await countRows("petstore", "pets"), await countRows("petstore-previews", "pets")]).toEqual([0, 0]);

  // As if it had been interrupted.
  const [made] = api.databases.values();
  Object.assign(made ?? {}, { read_replication: { mode: "disabled" } });
  api.requests.length = 0;
  expect((await setup()).stdout).toBe("Both databases are ready.\n");
  expect(api.writes()).toEqual(["PUT /d1/database/id-of-petstore"]);
  expect([...api.databases.values()]).toMatchObject([ready, ready]);
  expect(await operator.leaks()).toEqual([]);
});

/** Deploys a copy of the project to production. */
async function deploy(...version: Parameters<typeof copyProject>) {
  const { folder, build } = await copyProject(...version);
  return { build, ...(await run(folder, "deploy", "--url", api.production)) };
}

/** The error of a deployment whose lists fail. */
const failed = (state: string) =>
  new RegExp(`\nerror: smoke test failed: step "lists pets in pages": .* 500, .*; ${state}\n$`);

const escaped = (text: string) => text.replace(/[+.]/g, "\\$&");

it("npm run deploy prints its steps, and fails if the smoke test does", async () => {
  await openAccount("key", "petstore");
  const url = api.production;

  const first = await deploy("7.0.0", ...BROKEN);
  expect(first.stderr).toMatch(
    failed(`there is no previous version, so production stays ${escaped(first.build)}`),
  );
  expect(first.exitCode).toBe(1);

  expect(api.subdomain).toEqual({ enabled: true, previews_enabled: true });

  const database = api.database("petstore") as D1Database;
  const customer = { name: "smoke test of deployments, Inc.", plan: "free", expiresAtMs: null } as const;
  const { key: customersKey } = await createKey(database, customer, { by: "a test", nowMs: Date.now() });

  const good = await deploy("7.1.0", ...WITH_ROUTES);
  expect([good.exitCode, good.stdout]).toEqual([0, `Production is ${good.build} at ${url}\n`]);
  expect(api.subdomain).toEqual({ enabled: false, previews_enabled: true });
  const [, { versions: [previous] = [] } = {}] = api.deployments;
  expect(good.stderr).toBe(`Finding the account
Deploying ${good.build} to production: Worker petstore and database petstore of account an-account
Reading what production runs
Applying pending migrations to petstore
  none pending
Rotating the smoke test's key
Uploading the Worker petstore
Smoke test of ${url}
${SMOKE_STEPS}${LAST_STEP}To go back to ${first.build}: npx wrangler rollback ${previous?.version_id}
`);
  expect(await buildAt(url)).toBe(good.build);

  // Two smoke tests leave one key, which was rotated, and no pet. A customer's key with such a name is not touched.
  expect([await countRows("petstore", "pets"), await countRows("petstore", "keys")]).toEqual([0, 2]);
  expect((await findKeyById(database, customersKey.id, Date.now()))?.lastFour).toBe(customersKey.lastFour);
  expect(await operator.leaks()).toEqual([]);
});

it("npm run deploy rolls back if it fails, and says what production runs", async () => {
  await openAccount("token", "petstore");
  const good = await deploy("7.1.0");

  // A failure before the Worker is live.
  api.intercept((request) => {
    if (request === "PUT /workers/scripts/petstore")
      throw new ApiError(400, 10_021, "the script is too large");
  });
  const tooLarge = await deploy("7.2.0", ...BROKEN);
  expect([tooLarge.exitCode, tooLarge.stderr]).toEqual([
    1,
    expect.stringMatching(/\nerror: .*the script is too large.*; production is unchanged\n$/),
  ]);
  expect(await buildAt(api.production)).toBe(good.build);

  // A failure after it is live.
  api.intercept((request) => {
    if (request.endsWith("/schedules")) throw new ApiError(400, 10_072, "too many cron triggers");
  });
  const noCron = await deploy("7.2.0", ...BROKEN);
  expect([noCron.exitCode, noCron.stderr]).toEqual([
    1,
    expect.stringMatching(
      new RegExp(
        `\nerror: .*too many cron triggers.*; rolled back to ${escaped(good.build)}, which passes\n$`,
      ),
    ),
  ]);
  expect(await buildAt(api.production)).toBe(good.build);

  // A failed rollback. The next deployment does not roll back to the live version, which is the failed build.
  api.intercept((request) => {
    if (request === "POST /workers/scripts/petstore/deployments")
      throw new ApiError(500, 10_013, "try again later");
  });
  const { folder, build } = await copyProject("7.3.0", ...BROKEN);
  const again = () => run(folder, "deploy", "--url", api.production);
  expect((await again()).stderr).toMatch(
    failed(`production is still ${escaped(build)}, because the rollback failed: .*try again later.*`),
  );
  api.intercept(undefined);
  expect((await again()).stderr).toMatch(failed(`rolled back to ${escaped(good.build)}, which passes`));

  // Another deployment at the same time.
  const [{ versions: [version] = [] } = {}, ...earlier] = api.deployments;
  const other = earlier.find(({ versions: [each] }) => each?.version_id !== version?.version_id);
  api.intercept((request) => {
    if (request.endsWith("/schedules") && other !== undefined) api.deployments.unshift(other);
  });
  expect((await deploy("7.4.0", ...BROKEN)).stderr).toMatch(
    failed("production is 7\\.[23]\\.0\\S*, from another deployment; nothing was rolled back"),
  );
  api.intercept(undefined);

  // A gradual deployment.
  if (version === undefined) throw new Error("production has a version");
  const parts = [90, 10].map((percentage) => ({ ...version, percentage }));
  api.deployments.unshift({ versions: parts });
  api.requests.length = 0;
  expect((await again()).stderr).toContain(
    "\nerror: a gradual deployment is under way: finish it first, with npx wrangler versions deploy\n",
  );
  expect(api.writes()).toEqual([]);
});

it("npm run preview deploys beside production, on the database of the previews, until it is deleted", async () => {
  await openAccount("oauth", "petstore", "petstore-previews");
  const { folder, build } = await copyProject("7.0.0", ...WITH_ROUTES);
  // wrangler would deploy another Worker with these.
  const elsewhere = { CLOUDFLARE_ENV: "elsewhere", WRANGLER_CI_OVERRIDE_NAME: "elsewhere" };
  const preview = (...words: string[]) =>
    runScript(
      "scripts/main.ts",
      ["scripts/preview.ts", "staging", ...words],
      { ...operator.environment, ...elsewhere },
      folder,
    );
  const { exitCode, stdout, stderr } = await preview("--json");
  expect([exitCode, stderr]).toEqual([
    0,
    expect.stringMatching(
      /\nDeploying .* to the preview staging: Worker petstore and database petstore-previews of account an-account\n/,
    ),
  ]);
  const { url, ...rest } = JSON.parse(stdout);
  expect(rest).toEqual({ name: "staging", build });
  expect(await buildAt(url)).toBe(build);
  expect(stderr).toContain(
    `${SMOKE_STEPS}  creates a pet once, with exact integers\n${LAST_STEP}Next: npm run keys -- create `,
  );
  expect([
    await countRows("petstore-previews", "pets"),
    await countRows("petstore-previews", "keys"),
  ]).toEqual([1, 1]);
  expect(api.writes()).not.toContain("PUT /workers/scripts/petstore");
  expect(api.requests.join("\n")).not.toContain("elsewhere");

  const consequence =
    "This deletes the preview staging of the Worker petstore, in account an-account, with the counters of its keys. Pets and keys stay.\n";
  const unasked = await preview("--delete");
  expect([unasked.exitCode, unasked.stdout]).toEqual([2, ""]);
  expect(unasked.stderr).toContain(`\n${consequence}error: no terminal to ask in: add --yes to do it\n`);
  expect(await buildAt(url)).toBe(build);

  const removed = await preview("--delete", "--yes");
  expect([removed.exitCode, removed.stdout]).toEqual([0, "Deleted the preview staging.\n"]);
  expect(removed.stderr).toContain(consequence);
  await expect(buildAt(url)).rejects.toThrow("fetch failed");
  // A closed pull request may have no preview.
  const again = await preview("--delete");
  expect([again.exitCode, again.stdout]).toEqual([
    0,
    "Not found: the preview staging of the Worker petstore, in account an-account.\n",
  ]);
  expect(await operator.leaks()).toEqual([]);
});

it("npm run deploy reports a missing database", async () => {
  await openAccount("token");
  const { exitCode, stderr } = await run(".", "deploy");
  expect(stderr).toMatch(
    /\nerror: there is no database petstore in this account yet: run npm run setup, .*\n$/,
  );
  expect(exitCode).toBe(1);
  expect(api.writes()).toEqual([]);
});

it.each(["deploy", "preview staging"])(
  "npm run %s rejects workers_dev together with routes",
  async (words) => {
    await openAccount("token", "petstore", "petstore-previews");
    const [command = "", ...more] = words.split(" ");
    const settings = `preview_urls = true\nworkers_dev = true\n${ROUTES}`;
    const { folder } = await copyProject("7.0.0", "wrangler.toml", "preview_urls = true", settings);
    const stderr = expect.stringMatching(/^error: delete workers_dev from wrangler.toml: [^\n]+\n$/);
    expect(await run(folder, command, ...more)).toEqual({ exitCode: 2, stdout: "", stderr });
    expect(api.requests).toEqual([]);
  },
);

it("npm run deploy wants a URL, before it does anything, if wrangler.toml has routes", async () => {
  await openAccount("token", "petstore");
  const { folder } = await copyProject("7.0.0", ...WITH_ROUTES);
  const outcome = await run(folder, "deploy");
  const stderr = "error: the Worker is not on workers.dev: say where, npm run deploy -- --url URL\n";
  expect(outcome).toEqual({ exitCode: 2, stdout: "", stderr });
  expect(api.requests).toEqual([]);
});

const COMMANDS = { setup: setupCommand, deploy: deployCommand, preview: previewCommand };

it.each([
  ["setup --location weur", "", "Would create the databases petstore and petstore-previews in weur, unless"],
  ["deploy", "Building the Worker\n", "Would apply pending migrations, deploy 1.0.0+"],
  ["preview staging", "Building the Worker\n", " to the preview staging, and run the smoke test"],
] as const)("npm run %s --dry-run works without an account", async (words, progress, plan) => {
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
  vi.stubEnv("CLOUDFLARE_API_BASE_URL", "http://127.0.0.1:9");
  onTestFinished(() => void vi.unstubAllEnvs());
  const [command, ...more] = words.split(" ") as [keyof typeof COMMANDS, ...string[]];
  const { exitCode, stdout, stderr } = await runCommandInProcess(COMMANDS[command], [...more, "--dry-run"]);
  expect([exitCode, stderr]).toEqual([0, progress]);
  expect(stdout).toContain(plan);
  expect(stdout).toMatch(/\nNothing was changed\.\n$/);
});

it.each([
  ["setup", "required option '--location <location>' not specified"],
  ["setup --location mars", "Allowed choices are weur, eeur"],
  ["deploy --url localhost:8787", "It must be the URL of a service"],
  ["deploy staging", "too many arguments"],
  ["preview Feature_1", 'Use up to 40 of a-z, 0-9 and inner "-"'],
  ["preview pr-1- --delete --yes", "Use up to 40"],
  ["preview pr-1 --json --delete", "'--json' cannot be used with option '--delete'"],
  ["preview pr-1 --delete --dry-run", "'--delete' cannot be used with option '--dry-run'"],
])("npm run %s is wrong usage", async (words, problem) => {
  const [command, ...more] = words.split(" ") as [keyof typeof COMMANDS, ...string[]];
  const { exitCode, stdout, stderr } = await runCommandInProcess(COMMANDS[command], more);
  expect([exitCode, stdout, stderr]).toEqual([2, "", expect.stringMatching(/^error: [^\n]+\n$/)]);
  expect(stderr).toContain(problem);
});

it("npm run deploy --dry-run without -- is refused", async () => {
  await openAccount("token", "petstore");
  const words = ["run", "--silent", "deploy", "--dry-run"];
  const outcome = await runProcess("npm", words, operator.environment);
  const stderr = expect.stringMatching(/type npm run deploy -- --dry-run\n$/);
  expect(outcome).toEqual({ exitCode: 2, stdout: "", stderr });
  expect(api.requests).toEqual([]);
});

it("npm run deploy continues if the reader of its output stops", async () => {
  const command = `"${process.execPath}" scripts/main.ts scripts/deploy.ts --dry-run | head -n 1`;
  const { stdout, stderr } = await promisify(execFile)("bash", ["-o", "pipefail", "-c", command]);
  expect([stdout.split("\n").length, stderr]).toEqual([2, "Building the Worker\n"]);
});
