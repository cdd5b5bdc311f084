// npm run deploy: migrations, the Worker, the smoke test; rolls back if the smoke test fails. The first failing step ends the
// command with a line that says what production runs now.

import { ifFound, openAccount } from "./cloudflare/account.ts";
import { runWrangler } from "./cloudflare/wrangler.ts";
import { buildName, prepare, printDryRun, readWorker } from "./deploy/deployment.ts";
import { readOrigin, smokeTest } from "./deploy/smoke-test.ts";
import { type Define, type Io, messageOf, newCommand, UsageError } from "./lib/command.ts";

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
      const { name: worker, isOnWorkersDev } = await readWorker();
      const build = await buildName();
      const define = ["--define", `BUILD:${JSON.stringify(build)}`];
      if (dryRun) return printDryRun(io, `${build} to production`, ...define);
      if (url === undefined && !isOnWorkersDev)
        throw new UsageError("the Worker is not on workers.dev: say where, npm run deploy -- --url URL");
      const read = () => readProduction(worker, build);
      const production = await io.step("Reading what production runs", read);
      const key = await prepare(io, `${build} to production`, worker, { kind: "production" });
      let origin = url;
      try {
        const upload = () => runWrangler(["deploy", "--tag", build, ...define]);
        const { urls } = await io.step(`Uploading the Worker ${worker}`, upload);
        origin ??= urls[0];
        if (origin === undefined) throw new Error("no URL to test: npm run deploy -- --url URL");
        await smokeTest(io, { origin, key, create: false, isExpected: (found) => found === build });
      } catch (error) {
        throw new Error(`${messageOf(error)}; ${await recover(io, production, key, origin)}`);
      }
      io.print(`Production is ${build} at ${origin}`);
      const { previous } = production;
      if (previous === undefined) io.note("Next: npm run keys -- create --name NAME --plan pro --remote");
      else io.note(`To go back to ${previous.name}: npx wrangler rollback ${previous.id}`);
    });

export default define;

/** The part of Cloudflare's API about a Worker. */
async function readScript<Result>(worker: string, path: string): Promise<Result> {
  const callApi = await openAccount();
  return callApi(`/workers/scripts/${worker}${path}`);
}

/** The ids of the versions that serve requests, for each of the latest deployments, newest first; none without a Worker. */
async function latestDeployments(worker: string): Promise<string[][]> {
  type Found = { deployments: { versions: { version_id: string }[] }[] };
  const found = await ifFound(readScript<Found>(worker, "/deployments"));
  return found?.deployments.map(({ versions }) => versions.map((each) => each.version_id)) ?? [];
}

/** A version of the Worker. Its name is its tag, which is the build if this command deployed it, or its id. */
async function readVersion(worker: string, id: string): Promise<{ id: string; name: string }> {
  type Found = { annotations?: Record<string, string> };
  const { annotations } = await readScript<Found>(worker, `/versions/${id}`);
  return { id, name: annotations?.["workers/tag"] ?? id };
}

/**
 * Production before a deployment. The previous version is the latest one that served all requests and is not this build: this
 * build may be live already, untested. Throws if several versions share the requests, because a gradual deployment is under way.
 */
async function readProduction(worker: string, build: string) {
  const deployments = await latestDeployments(worker);
  const [[currentId, another] = []] = deployments;
  if (another !== undefined)
    throw new Error("a gradual deployment is under way: finish it first, with npx wrangler versions deploy");
  const production = { worker, build, currentId };
  for (const [id, ...others] of deployments) {
    if (id === undefined || others.length > 0) continue;
    const previous = await readVersion(worker, id);
    if (previous.name !== build) return { ...production, previous };
  }
  return { ...production, previous: undefined };
}

/** Rolls back if production runs the failed build, and tests the previous version. Returns what production runs now. */
async function recover(
  io: Io,
  { worker, build, currentId, previous }: Awaited<ReturnType<typeof readProduction>>,
  key: string,
  origin: string | undefined,
): Promise<string> {
  /** What production runs if the next step fails. */
  let state = "what production runs is unknown, check GET /version";
  try {
    // Cloudflare knows: wrangler can fail after the Worker is live, and another deployment may have followed.
    const [[id] = []] = await latestDeployments(worker);
    if (id === undefined || id === currentId) return "production is unchanged";
    const live = await readVersion(worker, id);
    if (live.name !== build)
      return `production is ${live.name}, from another deployment; nothing was rolled back`;
    if (previous === undefined) return `there is no previous version, so production stays ${build}`;
    state = `production is still ${build}, because the rollback failed`;
    const words = ["rollback", previous.id, "--yes", "--message", `${build} failed`];
    await io.step(`Rolling back to ${previous.name}`, () => runWrangler(words));
    if (origin === undefined) return `rolled back to ${previous.name}, which was not tested`;
    state = `rolled back to ${previous.name}, which also fails`;
    // The previous version may report another build than its tag says, so only the failed build is ruled out.
    await smokeTest(io, { origin, key, create: false, isExpected: (found) => found !== build });
    return `rolled back to ${previous.name}, which passes`;
  } catch (error) {
    return `${state}: ${messageOf(error)}`;
  }
}
