// npm run deploy: migrations, the Worker, the smoke test; rolls back if the smoke test fails. The first failing step ends the
// command with a line that says what production runs now.

import { CloudflareApiError, openAccount } from "./cloudflare/account.ts";
import { runWrangler } from "./cloudflare/wrangler.ts";
import {
  buildDefinition,
  buildName,
  prepareDatabase,
  printDryRun,
  readWorker,
  smokeKey,
} from "./deploy/deployment.ts";
import { readOrigin, type SmokeOptions, smokeTest } from "./deploy/smoke-test.ts";
import { messageOf, print, readArguments, runCommand, UsageError } from "./lib/command.ts";

const USAGE = `npm run deploy [-- --url URL] [--dry-run]

Deploys to production: applies migrations, uploads the Worker, and runs the smoke test without creating a pet. If that
fails, it rolls the Worker back to the previous version. The database keeps its new schema, on which the previous version
also runs.
--url is the service's URL, if it is not the first one that wrangler prints.
--dry-run prints the steps and builds the Worker; it needs no account.`;

const PRODUCTION = { kind: "production" } as const;

/** The API's error code for a Worker that does not exist. */
const NO_SUCH_WORKER = 10_007;

await runCommand("deploy", async () => {
  const flag = { type: "boolean", default: false } as const;
  const { values } = readArguments("deploy", {
    options: { url: { type: "string" }, "dry-run": flag, help: { ...flag, short: "h" } },
  });
  if (values.help) return print(USAGE);
  const givenOrigin = values.url === undefined ? undefined : readOrigin(values.url);
  const { name, isOnWorkersDev } = await readWorker();
  const build = await buildName();
  if (values["dry-run"]) {
    return printDryRun(
      print,
      `${build} to production`,
      () => runWrangler(["deploy", "--dry-run", "--define", define(build)]),
      "run the smoke test without creating a pet",
      "if it fails, roll back to the previous version",
    );
  }
  if (givenOrigin === undefined && !isOnWorkersDev) {
    throw new UsageError(
      "by wrangler.toml the Worker is not on workers.dev: add its URL, npm run deploy -- --url URL",
    );
  }

  print(`Deploying ${build} to production`);
  const before = await readProduction(name, build);
  await prepareDatabase(PRODUCTION, print);
  // Before the upload: without a key the new version could not be tested.
  const key = await smokeKey(PRODUCTION);
  const test = { key, create: false, log: print };
  print(`Worker ${name}: uploading`);
  const uploadedOrigin = await upload(build).catch(async (error) => {
    throw new Error(`${messageOf(error)}; ${await recover(name, build, before, test, givenOrigin)}`);
  });
  const origin = givenOrigin ?? uploadedOrigin;
  if (origin === undefined) {
    throw new Error(
      "the Worker is deployed, but has no URL and was not tested: run npm run deploy -- --url URL",
    );
  }
  print(`Smoke test of ${origin}`);
  await smokeTest({ ...test, origin, build }).catch(async (error) => {
    const state = await recover(name, build, before, test, origin);
    throw new Error(`smoke test failed: ${messageOf(error)}; ${state}`);
  });
  print(`Production is ${build} at ${origin}`);
});

/** Uploads the Worker, which then serves all requests. Returns its first URL, if it has any. */
async function upload(build: string): Promise<string | undefined> {
  const { entries } = await runWrangler(["deploy", "--tag", build, "--define", define(build)]);
  const { targets = [] } = entries.find(({ type }) => type === "deploy") ?? {};
  return targets.find((target) => target.startsWith("https://"));
}

function define(build: string): string {
  return `BUILD:${buildDefinition(build).BUILD}`;
}

/** A version of the Worker, with its tag, which is the build if this command deployed it. */
interface Version {
  id: string;
  build: string | undefined;
}

/** From Cloudflare's API: the versions that serve requests. */
interface Deployment {
  versions: { version_id: string; percentage: number }[];
}

/** The latest deployments, newest first; none if the Worker does not exist. */
async function latestDeployments(name: string): Promise<Deployment[]> {
  const ask = await openAccount();
  try {
    return (await ask<{ deployments: Deployment[] }>(`/workers/scripts/${name}/deployments`)).deployments;
  } catch (error) {
    if (error instanceof CloudflareApiError && error.code === NO_SUCH_WORKER) return [];
    throw error;
  }
}

async function readVersion(name: string, id: string): Promise<Version> {
  const ask = await openAccount();
  const { annotations } = await ask<{ annotations?: Record<string, string> }>(
    `/workers/scripts/${name}/versions/${id}`,
  );
  return { id, build: annotations?.["workers/tag"] };
}

/** Production before a deployment: the version that serves all requests, and the one to roll back to. */
interface Production {
  currentId: string | undefined;
  previous: Version | undefined;
}

/**
 * The previous version is the latest one that served all requests and is not this build: this build may be live already,
 * untested. Throws if several versions share the requests, because a gradual deployment is under way.
 */
async function readProduction(name: string, build: string): Promise<Production> {
  const deployments = await latestDeployments(name);
  const [current] = deployments;
  if (current !== undefined && current.versions.length > 1) {
    throw new Error("a gradual deployment is under way: finish it first, with npx wrangler versions deploy");
  }
  const currentId = current?.versions[0]?.version_id;
  for (const { versions } of deployments) {
    const [only, another] = versions;
    if (only === undefined || another !== undefined) continue;
    const version = await readVersion(name, only.version_id);
    if (version.build !== build) return { currentId, previous: version };
  }
  return { currentId, previous: undefined };
}

/** Rolls back if production runs the failed build. Returns what production runs now. */
async function recover(
  name: string,
  build: string,
  { currentId, previous }: Production,
  test: Omit<SmokeOptions, "origin">,
  origin: string | undefined,
): Promise<string> {
  // Cloudflare knows: wrangler can fail after the Worker is live, and another deployment may have followed.
  try {
    const id = (await latestDeployments(name))[0]?.versions[0]?.version_id;
    if (id === undefined || id === currentId) return "production is unchanged";
    const now = await readVersion(name, id);
    if (now.build !== build) {
      return `production is ${now.build ?? id}, from another deployment; nothing was rolled back`;
    }
  } catch (error) {
    return `what production runs is unknown (${messageOf(error)}): check GET /version`;
  }
  return previous === undefined
    ? `there is no previous version, so production stays ${build}`
    : rollBack(name, previous, build, test, origin);
}

/** Rolls back to the previous version and tests it. Returns what production runs now. */
async function rollBack(
  worker: string,
  previous: Version,
  build: string,
  test: Omit<SmokeOptions, "origin">,
  origin: string | undefined,
): Promise<string> {
  const name = previous.build ?? previous.id;
  print(`Worker ${worker}: rolling back to ${name}`);
  try {
    await runWrangler(["rollback", previous.id, "--yes", "--message", `${build} failed`]);
  } catch (error) {
    return `production is still ${build}, because the rollback failed: ${messageOf(error)}`;
  }
  if (origin === undefined) return `rolled back to ${name}, which was not tested`;
  print(`Smoke test of ${name}`);
  try {
    // The previous version may report another build than its tag says, so only the failed build is ruled out.
    await smokeTest({ ...test, origin, notBuild: build });
  } catch (error) {
    return `rolled back to ${name}, which also fails: ${messageOf(error)}`;
  }
  return `rolled back to ${name}, which passes`;
}
