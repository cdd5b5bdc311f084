// npm run deploy: migrations, the Worker, the smoke test; rolls back if the smoke test fails. The first failing step ends the
// command with a line that says what production runs now.

import { ifFound, openAccount } from "./cloudflare/account.ts";
import { runWrangler } from "./cloudflare/wrangler.ts";
import {
  announce,
  buildDefinition,
  buildName,
  prepareDatabase,
  printDryRun,
  readWorker,
  smokeKey,
} from "./deploy/deployment.ts";
import { readOrigin, smokeTest } from "./deploy/smoke-test.ts";
import { type Define, type Io, messageOf, newCommand, UsageError } from "./lib/command.ts";

const PRODUCTION = { kind: "production" } as const;

const define: Define = (io) =>
  newCommand(
    "npm run deploy",
    "Deploys to production: applies migrations, uploads the Worker, and runs the smoke test without creating a pet. If that fails, it rolls the Worker back to the previous version. The database keeps its new schema, on which the previous version also runs.",
    "--dry-run",
    "--url https://petstore.example",
  )
    .option("--url <url>", "the service's URL, if it is not the first that wrangler prints", readOrigin)
    .option("--dry-run", "print the steps and build the Worker; needs no account")
    .action(async ({ url, dryRun }) => {
      const { name, isOnWorkersDev } = await readWorker();
      const build = await buildName();
      const define = ["--define", `BUILD:${buildDefinition(build).BUILD}`];
      if (dryRun) {
        const buildWorker = () => runWrangler(["deploy", "--dry-run", ...define]);
        return printDryRun(io, `${build} to production`, buildWorker);
      }
      if (url === undefined && !isOnWorkersDev) {
        throw new UsageError("the Worker is not on workers.dev: say where, npm run deploy -- --url URL");
      }
      await announce(io, `${build} to production${url ? `, ${url}` : ""}`, name, PRODUCTION);
      const before = await io.step("Reading what production runs", () => readProduction(name, build));
      await prepareDatabase(io, PRODUCTION);
      // Before the upload: without a key the new version could not be tested.
      const run: Run = { ...before, io, worker: name, build, key: await smokeKey(io, PRODUCTION) };
      const upload = () => runWrangler(["deploy", "--tag", build, ...define]);
      const uploading = io.step(`Uploading the Worker ${name}`, upload);
      const { entries } = await uploading.catch((error) => recover(run, error, url));
      const { targets = [] } = entries.find(({ type }) => type === "deploy") ?? {};
      const origin = url ?? targets.find((target) => target.startsWith("https://"));
      if (origin === undefined) {
        throw new Error("the Worker is deployed, but not tested: it has no URL; npm run deploy -- --url URL");
      }
      const testing = smokeTest(io, { origin, key: run.key, build, create: false });
      await testing.catch((error) => recover(run, error, origin));
      io.print(`Production is ${build} at ${origin}`);
      const { previous } = before;
      if (previous === undefined) io.note("Next: npm run keys -- create --name NAME --plan pro --remote");
      else io.note(`To go back to ${previous.name}: npx wrangler rollback ${previous.id}`);
    });

export default define;

/** A version of the Worker. Its name is its tag, which is the build if this command deployed it, or its id. */
interface Version {
  id: string;
  name: string;
}

/** Production before a deployment: the version that serves all requests, and the one to roll back to. */
interface Production {
  currentId: string | undefined;
  previous: Version | undefined;
}

/** A deployment that is under way. */
interface Run extends Production {
  io: Io;
  worker: string;
  build: string;
  key: string;
}

/** The ids of the versions that serve requests, for each of the latest deployments, newest first; none without a Worker. */
async function latestDeployments(worker: string): Promise<string[][]> {
  type Found = { deployments: { versions: { version_id: string }[] }[] };
  const callApi = await openAccount();
  const found = await ifFound(callApi<Found>(`/workers/scripts/${worker}/deployments`));
  return found?.deployments.map(({ versions }) => versions.map((each) => each.version_id)) ?? [];
}

async function readVersion(worker: string, id: string): Promise<Version> {
  const callApi = await openAccount();
  const path = `/workers/scripts/${worker}/versions/${id}`;
  const { annotations } = await callApi<{ annotations?: Record<string, string> }>(path);
  return { id, name: annotations?.["workers/tag"] ?? id };
}

/**
 * The previous version is the latest one that served all requests and is not this build: this build may be live already,
 * untested. Throws if several versions share the requests, because a gradual deployment is under way.
 */
async function readProduction(worker: string, build: string): Promise<Production> {
  const deployments = await latestDeployments(worker);
  const [[currentId, another] = []] = deployments;
  if (another !== undefined) {
    throw new Error("a gradual deployment is under way: finish it first, with npx wrangler versions deploy");
  }
  for (const [id, ...others] of deployments) {
    if (id === undefined || others.length > 0) continue;
    const version = await readVersion(worker, id);
    if (version.name !== build) return { currentId, previous: version };
  }
  return { currentId, previous: undefined };
}

/** Rolls back if production runs the failed build. Throws the error, and what production runs now. */
async function recover(run: Run, error: unknown, origin: string | undefined): Promise<never> {
  throw new Error(`${messageOf(error)}; ${await stateAfter(run, origin)}`);
}

async function stateAfter(run: Run, origin: string | undefined): Promise<string> {
  const { worker, build, currentId, previous } = run;
  // Cloudflare knows: wrangler can fail after the Worker is live, and another deployment may have followed.
  try {
    const [[id] = []] = await latestDeployments(worker);
    if (id === undefined || id === currentId) return "production is unchanged";
    const { name } = await readVersion(worker, id);
    if (name !== build) return `production is ${name}, from another deployment; nothing was rolled back`;
  } catch (error) {
    return `what production runs is unknown (${messageOf(error)}): check GET /version`;
  }
  if (previous === undefined) return `there is no previous version, so production stays ${build}`;
  return rollBack(run, previous, origin);
}

/** Rolls back to the previous version and tests it. Returns what production runs now. */
async function rollBack({ io, build, key }: Run, { id, name }: Version, origin: string | undefined) {
  try {
    const words = ["rollback", id, "--yes", "--message", `${build} failed`];
    await io.step(`Rolling back to ${name}`, () => runWrangler(words));
  } catch (error) {
    return `production is still ${build}, because the rollback failed: ${messageOf(error)}`;
  }
  if (origin === undefined) return `rolled back to ${name}, which was not tested`;
  // The previous version may report another build than its tag says, so only the failed build is ruled out.
  const testing = smokeTest(io, { origin, key, create: false, notBuild: build });
  return testing.then(
    () => `rolled back to ${name}, which passes`,
    (error) => `rolled back to ${name}, which also fails: ${messageOf(error)}`,
  );
}
