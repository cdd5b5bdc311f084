// The commands that work in a Cloudflare account, against a fake of its API that runs what is deployed: ./petstore setup, preview and
// deploy, with smoke tests that pass and that fail. Cloudflare's own responses are not tested.

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { CONTENTS, pendingMigrations } from "../../scripts/cloudflare/database.ts";
import { createKey } from "../../src/operators/admin.ts";
import {
  apiError,
  CREDENTIAL,
  DATABASES,
  databaseOf,
  startCloudflareApi,
} from "../support/e2e/cloudflare-api.ts";
import { failure } from "../support/e2e/in-process.ts";
import { copyProject, type Outcome, runScript } from "../support/e2e/petstore.ts";
import { startWorkersAccount } from "../support/e2e/workers-account.ts";

// A deployment takes ten seconds, and machines that run tests can be slow.

// smoke.test.ts tests the waits of the smoke test.
vi.mock(import("node:timers/promises"), async (original) => {
  const { setTimeout: wait, ...others } = await original();
  return { ...others, setTimeout: ((ms: number) => wait(ms / 10)) as typeof wait };
});

const project = resolve(import.meta.dirname, "../..");
const [PRODUCTION, PREVIEWS] = [DATABASES.slice(0, 2), DATABASES.slice(2)];

/** A copy of the project in a repository of its own, in which the commands run. */
let copy: string;
/** The operator's folder: no file in it may have the credential, but wrangler's own after a login with OAuth. */
let home: string;
let account: Awaited<ReturnType<typeof startWorkersAccount>>;
let api: Awaited<ReturnType<typeof startCloudflareApi>>;

/** What two commands say before the first setup, and what that prints. The databases of the previews do not exist before. */
let early: Outcome[];
let setup: Outcome;
/** The first deployments to production: one that fails, and one with routes that succeeds. */
let first: Awaited<ReturnType<typeof deploy>>;
let good: Awaited<ReturnType<typeof deploy>>;
let deployments: typeof account.deployments;
/** Whether production was on workers.dev after each of the two. */
const onWorkersDev: boolean[] = [];

beforeAll(async () => {
  copy = await copyProject();
  process.chdir(copy);
  // Deployments skip the build of the assets.
  await replace("wrangler.toml", BUILD_STEP, "");
  for (const words of [["init"], ["add", "--all"], ["commit", "--message=copy"], ["tag", "copy"]])
    await git(...words);
  await runScript("scripts/build.ts", []);
  account = await startWorkersAccount();
  api = await startCloudflareApi(account, PRODUCTION);
  home = await mkdtemp(join(tmpdir(), "petstore-test-"));
  await mkdir(join(home, "tmp"));

  logIn(TOKEN);
  early = [await run("keys list --remote"), await run("keys list --preview staging")];
  logIn({ CLOUDFLARE_API_KEY: CREDENTIAL, CLOUDFLARE_EMAIL: "operator@petstore.example" });
  setup = await run("setup --location weur");

  logIn(TOKEN);
  for (const contents of CONTENTS)
    await writeFile(`migrations/${contents}/9999_${contents}.sql`, "CREATE TABLE new (id INTEGER);");
  first = await deploy("7.0.0", BROKEN);
  for (const contents of CONTENTS) await rm(`migrations/${contents}/9999_${contents}.sql`);
  onWorkersDev.push(account.subdomain.enabled);
  const customer = { name: "smoke test of deployments, Inc.", plan: "free", expiresAtMs: null } as const;
  await createKey(databaseOf(account, "petstore-keys"), customer, { by: "a test", nowMs: Date.now() });
  good = await deploy("7.1.0", WITH_ROUTES);
  onWorkersDev.push(account.subdomain.enabled);
  deployments = [...account.deployments];
});

beforeEach(() => logIn(TOKEN));

afterEach(async () => {
  vi.unstubAllEnvs();
  api.intercept();
  // Whatever a test has deployed.
  account.deployments.splice(0, Number.POSITIVE_INFINITY, ...deployments);
  expect(await leaks()).toEqual([]);
});

afterAll(async () => {
  process.chdir(project);
  api?.stop();
  await account?.stop();
  for (const folder of [copy, home]) await rm(folder, { recursive: true });
});

const TOKEN = { CLOUDFLARE_API_TOKEN: CREDENTIAL };

/** Makes commands run as an operator who has logged in with these variables only. wrangler writes its most verbose log. */
function logIn(login: NodeJS.ProcessEnv): void {
  const variables = ["CLOUDFLARE_API_TOKEN", "CF_API_TOKEN", "CLOUDFLARE_API_KEY", "CLOUDFLARE_EMAIL"];
  const environment = {
    ...api.environment,
    ...Object.fromEntries(variables.map((name) => [name, undefined])),
    ...login,
    ...{ HOME: home, TMPDIR: join(home, "tmp"), XDG_CONFIG_HOME: join(home, ".config") },
    ...{ WRANGLER_LOG: "debug", WRANGLER_LOG_SANITIZE: "false" },
    // wrangler starts faster from a cache of its compiled code, and would build for tests with the runner's NODE_ENV.
    ...{ NODE_COMPILE_CACHE: join(copy, ".wrangler/compiled"), NODE_ENV: undefined },
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
}

/** The operator's files that contain the credential. */
async function leaks(): Promise<string[]> {
  const entries = await readdir(home, { recursive: true, withFileTypes: true });
  const files = entries.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
  const texts = await Promise.all(files.map((file) => readFile(file, "latin1")));
  return files.filter((_, index) => texts[index]?.includes(CREDENTIAL));
}

/** Runs "COMMAND WORDS" in the copy. Modules are loaded anew, as by a process: they keep the account that they opened. */
async function run(line: string): Promise<Outcome> {
  vi.resetModules();
  const { runPetstore } = await import("../support/e2e/in-process.ts");
  const outcome = await runPetstore(line);
  expect(outcome.stdout + outcome.stderr).not.toContain(CREDENTIAL);
  return outcome;
}

async function git(...words: string[]): Promise<string> {
  const author = ["-c", "user.name=test", "-c", "user.email=test@petstore.example"];
  const { stdout } = await promisify(execFile)("git", [...author, ...words]);
  return stdout.trim();
}

async function replace(file: string, from: string | RegExp, to: string): Promise<void> {
  const text = await readFile(file, "utf8");
  const changed = text.replace(from, to);
  expect(changed).not.toBe(text);
  await writeFile(file, changed);
}

/** A replacement in a file of the copy. */
type Change = readonly [file: string, from: string | RegExp, to: string];

/** Commits a version of the copy with these changes. Returns the name of its build. */
async function commit(version: string, ...changes: Change[]): Promise<string> {
  await git("checkout", "--quiet", "--force", "copy");
  await replace("package.json", /"version": ".*"/, `"version": "${version}"`);
  for (const change of changes) await replace(...change);
  await git("commit", "--quiet", "--all", "--message", version);
  return `${version}+${await git("rev-parse", "--short=7", "HEAD")}`;
}

/** Deploys a version to production. */
async function deploy(...version: Parameters<typeof commit>) {
  const build = await commit(...version);
  return { build, ...(await run(`deploy --url ${account.production}`)) };
}

async function buildAt(url: string): Promise<string> {
  const { build } = (await (await fetch(`${url}/version`)).json()) as { build: string };
  return build;
}

async function countPets(name: string): Promise<number> {
  return (await databaseOf(account, name).prepare("SELECT id FROM pets").all()).results.length;
}

const BUILD_STEP = `[build]\ncommand = "npm run --silent build"\n`;

/** Makes every list fail, in the first line of its handler. */
const BROKEN: Change = [
  "src/pets/routes.ts",
  "const query =",
  `if (c.env.PETS_DB) throw new Error("broken"); const query =`,
];

/** A custom domain for the Worker. */
const ROUTES = `routes = [{ pattern = "petstore.example", custom_domain = true }]`;
const WITH_ROUTES: Change = ["wrangler.toml", "preview_urls = true", `preview_urls = true\n${ROUTES}`];
const WITH_WORKERS_DEV: Change = [
  "wrangler.toml",
  "preview_urls",
  `workers_dev = true\n${ROUTES}\npreview_urls`,
];

it("./petstore setup creates what is missing, in --location", async () => {
  expect(early.map(({ stderr }) => stderr.split("error: ")[1])).toEqual([
    expect.stringMatching(
      /^migrations are pending: run \.\/petstore migrate --remote \(0001_keys.sql, .*\)\n$/,
    ),
    expect.stringMatching(
      /^there is no database petstore-previews-keys in this account yet: run \.\/petstore setup, /,
    ),
  ]);
  expect([setup.exitCode, setup.stdout]).toEqual([0, "All databases are ready.\n"]);
  expect([...api.databases.keys()]).toEqual(DATABASES);
  for (const name of PREVIEWS) expect(api.databases.get(name)?.location).toBe("weur");
  for (const contents of CONTENTS) {
    for (const name of ["petstore", "petstore-previews"])
      expect(await pendingMigrations(databaseOf(account, `${name}-${contents}`), contents)).toEqual([]);
  }
});

it("./petstore setup creates nothing twice", async () => {
  const REPLICATED = Array(4).fill({ read_replication: { mode: "auto" } });
  expect([...api.databases.values()]).toMatchObject(REPLICATED);
  // As if it had been interrupted.
  Object.assign(api.databases.get("petstore-pets") ?? {}, { read_replication: { mode: "disabled" } });
  // Only wrangler knows this older name.
  logIn({ CF_API_TOKEN: CREDENTIAL });
  api.requests.length = 0;
  expect((await run("setup --location weur")).stdout).toBe("All databases are ready.\n");
  const writes = api.requests.filter((request) => !/^GET |\/query$/.test(request));
  expect(writes).toEqual(["PUT /d1/database/id-of-petstore-pets"]);
  expect([...api.databases.values()]).toMatchObject(REPLICATED);
});

const escaped = (text: string) => text.replace(/[+.]/g, "\\$&");

/** The error of a deployment. */
const failed = (problem: string, state: string) => ({
  exitCode: 1,
  stdout: "",
  stderr: expect.stringMatching(new RegExp(`\nerror: .*${problem}.*; ${state}\n$`)),
});

/** The problem of a Worker whose lists fail. */
const LISTS_FAIL = `step "lists pets in pages": .* 500, `;

it("./petstore deploy applies migrations before the upload; a first version that fails stays", () => {
  const order =
    /\n {2}applied keys\/9999_keys.sql\n.*\n {2}applied pets\/9999_pets.sql\nRotating the smoke test's key\nUploading the Worker petstore\nSmoke test of /;
  expect(first.stderr).toMatch(order);
  const state = `there is no previous version, so production stays ${escaped(first.build)}`;
  expect(first).toMatchObject(failed(LISTS_FAIL, state));
});

it("./petstore deploy says how to go back, and takes production off workers.dev if it has routes", () => {
  expect([good.exitCode, good.stdout]).toEqual([0, `Production is ${good.build} at ${account.production}\n`]);
  const previous = deployments[1]?.versions[0]?.version_id;
  const back = `npx wrangler rollback ${previous} --durable-objects-code-update-mode immediate`;
  expect(good.stderr).toContain(
    `Objects of keys in use keep the code of ${first.build} for up to 5 minutes\nTo go back to ${first.build}: ${back}\n`,
  );
  expect(deployments[0]?.strategy).toEqual({ mode: "deferred", max_delay: 300 });
  expect(onWorkersDev).toEqual([true, false]);
});

it("./petstore deploy rotates the smoke test's key, no customer's, and creates no pet", async () => {
  const sql = "SELECT DISTINCT name FROM keys JOIN key_changes ON key_id = keys.id WHERE change = 'rotated'";
  const { results } = await databaseOf(account, "petstore-keys").prepare(sql).all();
  expect(results).toEqual([{ name: "smoke test of deployments" }]);
  expect(await countPets("petstore-pets")).toBe(0);
});

it("./petstore deploy says that production is unchanged if the upload fails", async () => {
  api.intercept(async (request, _, send) => {
    if (request === "PUT /workers/scripts/petstore") throw apiError(400, 10_021, "too large");
    return send();
  });
  expect(await deploy("7.2.0")).toMatchObject(failed("too large", "production is unchanged"));
  expect(account.deployments).toEqual(deployments);
});

it("./petstore deploy rolls back to the previous version, not to a failed one", async () => {
  // The Worker is live when this fails.
  api.intercept(async (request, _, send) => {
    if (request.endsWith("/schedules")) throw apiError(400, 10_072, "too many cron triggers");
    if (request !== "POST /workers/scripts/petstore/deployments") return send();
    throw apiError(500, 10_013, "try again later");
  });
  const { build, ...outcome } = await deploy("7.3.0", BROKEN);
  const state = `production is still ${escaped(build)}, because the rollback failed: .*try again later.*`;
  expect(outcome).toMatchObject(failed("too many cron triggers", state));
  expect(await buildAt(account.production)).toBe(build);

  api.intercept();
  const again = await run(`deploy --url ${account.production}`);
  expect(again).toMatchObject(failed(LISTS_FAIL, `rolled back to ${escaped(good.build)}, which passes`));
  expect(await buildAt(account.production)).toBe(good.build);
  // Objects may be what is broken.
  expect(account.deployments[0]?.strategy).toEqual({ mode: "immediate" });
});

it("./petstore deploy rolls nothing back after another deployment at the same time", async () => {
  const [current, other] = deployments;
  api.intercept(async (request, _, send) => {
    if (!request.endsWith("/schedules") || other === undefined) return send();
    account.deployments.unshift(other);
    throw apiError(400, 10_072, "too many cron triggers");
  });
  const state = `production is ${escaped(first.build)}, from another deployment; nothing was rolled back`;
  expect(await deploy("7.4.0")).toMatchObject(failed("too many cron triggers", state));
  expect([account.deployments.length, account.deployments[2]]).toEqual([4, current]);
});

it("./petstore deploy changes nothing while a gradual deployment is under way", async () => {
  account.deployments.unshift({ versions: deployments.flatMap(({ versions }) => versions) });
  api.requests.length = 0;
  expect((await deploy("7.5.0")).stderr).toContain(
    "\nerror: a gradual deployment is under way: finish it first, with npx wrangler versions deploy\n",
  );
  expect(api.requests.join()).not.toMatch(/POST|PUT/);
});

it("./petstore preview deploys beside production, on the databases of the previews, until it is deleted", async () => {
  const build = await commit("7.0.0", WITH_ROUTES, ["wrangler.toml", "[assets]", `${BUILD_STEP}\n[assets]`]);
  await rm("dist", { recursive: true });
  // wrangler would deploy another Worker with these.
  vi.stubEnv("CLOUDFLARE_ENV", "elsewhere");
  vi.stubEnv("WRANGLER_CI_OVERRIDE_NAME", "elsewhere");
  const login = join(home, ".config/.wrangler/config/default.toml");
  await mkdir(dirname(login), { recursive: true });
  const tokens = `oauth_token = "${CREDENTIAL}"\nrefresh_token = "${CREDENTIAL}"\n`;
  await writeFile(login, `${tokens}expiration_time = "2099-01-01T00:00:00Z"\n`);
  logIn({});
  api.requests.length = 0;
  const pets = await countPets("petstore-previews-pets");
  const { stdout, stderr } = await run("preview staging --json");
  expect(stderr).toMatch(
    /\n {2}creates a pet once, .*\n {2}still reports that build\nNext: \.\/petstore keys create /,
  );
  const { url, ...rest } = JSON.parse(stdout);
  expect(rest).toEqual({ name: "staging", build });
  expect(await buildAt(url)).toBe(build);
  expect(await countPets("petstore-previews-pets")).toBe(pets + 1);
  expect(await leaks()).toEqual([login]);
  await rm(login);

  logIn(TOKEN);
  const question =
    /\nThis deletes the preview staging of .*\nerror: no terminal to ask in: add --yes to do it\n$/;
  expect(await run("preview staging --delete")).toMatchObject(failure(2, question));
  expect(await buildAt(url)).toBe(build);

  expect((await run("preview staging --delete --yes")).stdout).toBe("Deleted the preview staging.\n");
  expect((await fetch(url)).status).toBe(404);
  // A closed pull request may have no preview.
  const again = { exitCode: 0, stdout: expect.stringMatching(/^Not found: the preview staging /) };
  expect(await run("preview staging --delete")).toMatchObject(again);
  expect(api.requests.join("\n")).not.toMatch(/elsewhere|PUT .*scripts/);
});

it.each([
  ["no login", { CLOUDFLARE_API_TOKEN: "" }, "not logged in to Cloudflare: run npx wrangler login"],
  ["no network", { CLOUDFLARE_API_BASE_URL: "http://127.0.0.1:9" }, "Cloudflare's API can't be reached: "],
])("%s is reported in one line", async (_, environment, problem) => {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  const { exitCode, stdout, stderr } = await run("migrate --remote");
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/^[^\n]+\nerror: [^\n]+\n$/);
  expect(stderr).toContain(problem);
});

it("a mistake in wrangler.toml is named, with its line if it is one of TOML", async () => {
  const migrate = async (from: string, to: string) => {
    await commit("7.0.0", ["wrangler.toml", from, to]);
    return run("migrate --remote");
  };
  const wrong = await migrate("\n[assets]\n", "\n[assets\n");
  const line = (await readFile("wrangler.toml", "utf8")).split("\n").indexOf("[assets") + 1;
  expect(wrong).toMatchObject(failure(1, `error: wrangler.toml is wrong in line ${line}: `));
  const NAME = 'name = "petstore"';
  expect(await migrate(NAME, "name = 7")).toMatchObject(
    failure(1, "error: wrangler.toml has a wrong name\n"),
  );
  // As for wrangler, an empty account is none.
  expect(await migrate(NAME, `${NAME}\naccount_id = ""`)).toMatchObject({ exitCode: 0 });
});

it.each([
  ["setup --location weur", `Would create the databases ${DATABASES.join(", ")} in weur, unless`],
  ["deploy", `Would apply pending migrations to ${PRODUCTION.join(" and ")}, deploy 7.0.0+`],
  ["preview staging", `Would apply pending migrations to ${PREVIEWS.join(" and ")}, deploy 7.0.0+`],
])("./petstore %s --dry-run works without an account", async (words, plan) => {
  await commit("7.0.0");
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
  api.requests.length = 0;
  const { exitCode, stdout } = await run(`${words} --dry-run`);
  expect([exitCode, api.requests]).toEqual([0, []]);
  expect(stdout).toContain(plan);
  expect(stdout).toMatch(/\nNothing was changed\.\n$/);
});

it.each([
  ["deploy", "say where, ./petstore deploy --url URL", WITH_ROUTES],
  ["deploy", "delete workers_dev from wrangler.toml", WITH_WORKERS_DEV],
  ["preview staging", "delete workers_dev from wrangler.toml", WITH_WORKERS_DEV],
])("./petstore %s is refused: %s", async (words, problem, change) => {
  await commit("7.0.0", change);
  api.requests.length = 0;
  expect(await run(words)).toMatchObject(failure(2, new RegExp(`^error: [^\n]*${problem}[^\n]*\n$`)));
  expect(api.requests).toEqual([]);
});
