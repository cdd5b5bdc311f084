// npm run deploy: production. Migrations, the Worker, the smoke test; if that fails, back to the version before. The first step
// that fails ends it, with a line that says in which state things are.

import { parseArgs } from "node:util";
import { CloudflareApiError, openAccount } from "./cloudflare/account.ts";
import { runWrangler } from "./cloudflare/wrangler.ts";
import { buildName, definition, prepareDatabase, readWorker, smokeKey } from "./deploy/deployment.ts";
import { readOrigin, type SmokeOptions, smokeTest } from "./deploy/smoke-test.ts";
import { print, runCommand, UsageError } from "./lib/command.ts";

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
  if (help) return print(USAGE);
  const origin = url === undefined ? undefined : readOrigin(url);
  const { name, isOnWorkersDev } = await readWorker();
  const build = await buildName();
  if (dryRun) return rehearse(name, build);
  if (origin === undefined && !isOnWorkersDev) {
    throw new UsageError(
      "by wrangler.toml the service is not on workers.dev, so say where it is: npm run deploy -- --url URL",
    );
  }

  print(`Deploys ${build} to production.`);
  const standing = await standingOf(name, build);
  await prepareDatabase(PRODUCTION, print);
  // Before anything is deployed that could not be tested without it.
  const key = await smokeKey(PRODUCTION);
  const test = { key, create: false, say: print };
  print(`Worker ${name}: uploads it`);
  const uploaded = await upload(build).catch(async (error) => {
    throw new Error(`${messageOf(error)}; ${await afterFailure(name, build, standing, test, origin)}`);
  });
  const tested = origin ?? uploaded;
  if (tested === undefined) {
    throw new Error(
      "the Worker is deployed but has no address, so it is not tested: npm run deploy -- --url URL",
    );
  }
  print(`Smoke test of ${tested}`);
  await smokeTest({ ...test, origin: tested, build }).catch(async (error) => {
    throw new Error(
      `the smoke test failed ${messageOf(error)}; ${await afterFailure(name, build, standing, test, tested)}`,
    );
  });
  print(`Production is ${build}, at ${tested}`);
});

/** Says what a deployment would do, and does as much of it as needs no account. */
async function rehearse(name: string, build: string): Promise<void> {
  print(`Would deploy ${build} to production:`);
  print("1. apply the migrations that the database has not seen");
  print(`2. upload the Worker ${name}, which wrangler describes as follows`);
  const { output } = await runWrangler(["deploy", "--dry-run", "--define", defined(build)]);
  print(output.replaceAll(/^/gm, "   "));
  print("3. run the smoke test, without adding a pet");
  print("4. put the version before back, if that fails");
  print("Nothing was done.");
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

/** As Cloudflare's API describes it: which versions requests go to. */
interface Deployment {
  versions: { version_id: string; percentage: number }[];
}

/** The latest deployments, the newest first; none if there is no such Worker. */
async function latestDeployments(name: string): Promise<Deployment[]> {
  const ask = await openAccount();
  try {
    return (await ask<{ deployments: Deployment[] }>(`/workers/scripts/${name}/deployments`)).deployments;
  } catch (error) {
    if (error instanceof CloudflareApiError && error.code === NO_SUCH_WORKER) return [];
    throw error;
  }
}

async function describe(name: string, id: string): Promise<Version> {
  const ask = await openAccount();
  const { annotations } = await ask<{ annotations?: Record<string, string> }>(
    `/workers/scripts/${name}/versions/${id}`,
  );
  return { id, build: annotations?.["workers/tag"] };
}

/** How production stands before a deployment: the version that all requests go to, and the one to go back to. */
interface Standing {
  currentId: string | undefined;
  before: Version | undefined;
}

/**
 * To go back to is the latest version that all requests went to and that is not this build, which may be deployed already,
 * untested. Throws if requests go to several versions now, because that is somebody's business.
 */
async function standingOf(name: string, build: string): Promise<Standing> {
  const deployments = await latestDeployments(name);
  const [current] = deployments;
  if (current !== undefined && current.versions.length > 1) {
    throw new Error(
      "requests go to several versions at present: end that first, with npx wrangler versions deploy",
    );
  }
  const currentId = current?.versions[0]?.version_id;
  for (const { versions } of deployments) {
    const [only, another] = versions;
    if (only === undefined || another !== undefined) continue;
    const version = await describe(name, only.version_id);
    if (version.build !== build) return { currentId, before: version };
  }
  return { currentId, before: undefined };
}

/** Goes back if production is what this command has deployed. Returns how things stand now. */
async function afterFailure(
  name: string,
  build: string,
  { currentId, before }: Standing,
  test: Omit<SmokeOptions, "origin">,
  origin: string | undefined,
): Promise<string> {
  try {
    const id = (await latestDeployments(name))[0]?.versions[0]?.version_id;
    if (id === undefined || id === currentId) return "production is as it was";
    const now = await describe(name, id);
    if (now.build !== build)
      return `production is ${now.build ?? id}, which somebody else has deployed meanwhile`;
  } catch (error) {
    return `what production is now is unknown (${messageOf(error)}): GET /version tells`;
  }
  return before === undefined
    ? `there is no version before, so production stays ${build}`
    : goBack(before, build, test, origin);
}

/** Puts the version before back, and looks whether that helps. Returns how things stand now. */
async function goBack(
  before: Version,
  build: string,
  test: Omit<SmokeOptions, "origin">,
  origin: string | undefined,
): Promise<string> {
  const name = before.build ?? before.id;
  print(`Worker: puts ${name} back`);
  try {
    await runWrangler(["rollback", before.id, "--yes", "--message", `${build} failed`]);
  } catch (error) {
    return `production is still ${build}, because going back failed: ${messageOf(error)}`;
  }
  if (origin === undefined) return `production is ${name} again, which was not tested`;
  print(`Smoke test of ${name}`);
  try {
    // By its tag it may be called otherwise than it calls itself.
    await smokeTest({ ...test, origin, otherThan: build });
  } catch (error) {
    return `production is ${name} again, which fails as well, ${messageOf(error)}`;
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
