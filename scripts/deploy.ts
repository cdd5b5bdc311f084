// npm run deploy: production. Migrations, the Worker, the smoke test; if that fails, back to the version before. The first step
// that fails ends it, with a line that says in which state things are.

import { parseArgs } from "node:util";
import { ApiRefusal, openAccount } from "./d1-api.ts";
import { buildName, definition, prepareDatabase, smokeKey } from "./deployment.ts";
import { readOrigin, type SmokeOptions, smokeTest } from "./smoke-test.ts";
import { runCommand, UsageError } from "./target.ts";
import { readConfig, runWrangler } from "./wrangler.ts";

const USAGE = `npm run deploy [-- --url URL] [--dry-run]

Deploys to production: applies migrations, uploads the Worker, and runs the smoke test, without adding a pet. If that fails,
the version before is put back; the database stays as it is, because every version runs on the schema of the next.
--url is where the service is asked, if not at the address that wrangler names first.
--dry-run says what would be done, and builds the Worker, without an account.`;

const PRODUCTION = { kind: "production" } as const;

/** The API's code for a Worker that is not there. */
const NO_SUCH_WORKER = 10_007;

await runCommand("deploy", async () => {
  const { help, url, "dry-run": dryRun } = readOptions();
  if (help) return say(USAGE);
  const origin = url === undefined ? undefined : readOrigin(url);
  const { name } = await readConfig();
  const build = await buildName();
  if (dryRun) return rehearse(name, build);

  say(`Deploys ${build} to production.`);
  await prepareDatabase(PRODUCTION, say);
  const before = await currentVersion(name);
  // Before anything is deployed that could not be tested without it.
  const key = await smokeKey(PRODUCTION);
  say(`Worker ${name}: uploads it`);
  const address = await upload(build);
  const tested = origin ?? address;
  if (tested === undefined) {
    throw new Error(
      "the Worker is deployed but has no address, so it is not tested: npm run deploy -- --url URL",
    );
  }
  say(`Smoke test of ${tested}`);
  const test = { origin: tested, key, create: false, say };
  try {
    await smokeTest({ ...test, build });
  } catch (error) {
    throw new Error(`the smoke test failed ${messageOf(error)}; ${await goBack(before, build, test)}`);
  }
  say(`Production is ${build}, at ${tested}`);
});

/** Says what a deployment would do, and does as much of it as needs no account. */
async function rehearse(name: string, build: string): Promise<void> {
  say(`Would deploy ${build} to production:`);
  say("1. apply the migrations that the database has not seen");
  say(`2. upload the Worker ${name}, which wrangler describes as follows`);
  const { said } = await runWrangler(["deploy", "--dry-run", "--define", defined(build)]);
  say(said.replaceAll(/^/gm, "   "));
  say("3. run the smoke test, without adding a pet");
  say("4. put the version before back, if that fails");
  say("Nothing was done.");
}

/** Uploads the Worker, to which all requests go from then on. Returns where that is, if it has an address. */
async function upload(build: string): Promise<string | undefined> {
  const { entries } = await runWrangler(["deploy", "--tag", build, "--define", defined(build)]);
  const { targets = [] } = entries.find(({ type }) => type === "deploy") ?? {};
  return targets.find((target) => target.startsWith("https://"));
}

function defined(build: string): string {
  return `BUILD:${definition(build).BUILD}`;
}

/** A version of the Worker, and the build that its tag names, if it was deployed by this command. */
interface Version {
  id: string;
  build: string | undefined;
}

/** The version that all requests go to, or undefined if there is none. */
async function currentVersion(name: string): Promise<Version | undefined> {
  const ask = await openAccount();
  const worker = `/workers/scripts/${name}`;
  try {
    const { deployments } = await ask<{ deployments: Deployment[] }>(`${worker}/deployments`);
    const id = deployments[0]?.versions.find(({ percentage }) => percentage === 100)?.version_id;
    if (id === undefined) return undefined;
    const { annotations } = await ask<{ annotations?: Record<string, string> }>(`${worker}/versions/${id}`);
    return { id, build: annotations?.["workers/tag"] };
  } catch (error) {
    if (error instanceof ApiRefusal && error.code === NO_SUCH_WORKER) return undefined;
    throw error;
  }
}

interface Deployment {
  versions: { version_id: string; percentage: number }[];
}

/** Puts the version before back, and looks whether that helps. Returns how things stand now. */
async function goBack(before: Version | undefined, build: string, test: SmokeOptions): Promise<string> {
  if (before === undefined) return `there is no version before, so production stays ${build}`;
  const name = before.build ?? before.id;
  say(`Worker: puts ${name} back`);
  try {
    await runWrangler(["rollback", before.id, "--yes", "--message", `The smoke test of ${build} failed`]);
  } catch (error) {
    return `production is still ${build}, because going back failed: ${messageOf(error)}`;
  }
  say(`Smoke test of ${name}`);
  try {
    await smokeTest({ ...test, build: before.build });
  } catch (error) {
    return `production is ${name} again, which fails as well, ${messageOf(error)}: it may not be the Worker`;
  }
  return `production is ${name} again, which passes it`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : `${error}`;
}

function readOptions() {
  try {
    const flag = { type: "boolean", default: false } as const;
    return parseArgs({ options: { url: { type: "string" }, "dry-run": flag, help: { ...flag, short: "h" } } })
      .values;
  } catch {
    throw new UsageError("npm run deploy takes -- --url URL and --dry-run, and nothing else");
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
