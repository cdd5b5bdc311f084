// ./petstore deploy: migrations, the Worker, the smoke test; rolls back if the smoke test fails. The first failing step ends the
// command with a line that says what production runs now.

import { ifFound, openAccount } from "../cloudflare/account.ts";
import { ALLOW_PACKAGED_NODE } from "../cloudflare/target.ts";
import { runWrangler } from "../cloudflare/wrangler.ts";
import {
  announce,
  buildName,
  minutesOfOldObjects,
  prepare,
  printDryRun,
  readWorker,
} from "../deploy/deployment.ts";
import { readOrigin, smokeTest } from "../deploy/smoke-test.ts";
import { defineCommand } from "../lib/command.ts";
import { type Io, messageOf, UsageError } from "../lib/io.ts";
import { petstoreLine, projectLine } from "../lib/line.ts";

const PRODUCTION = { kind: "production" } as const;

/** For a rollback: objects may be what is broken, so they start again with the code of the version before, instead of when they sleep. */
const AT_ONCE = ["--durable-objects-code-update-mode", "immediate"];

export default defineCommand({
  description:
    "Deploys to production: applies migrations, uploads the Worker, and runs the smoke test without creating a pet. If that fails, it rolls the Worker back to the previous version. The databases keep their new schema, on which the previous version also runs.",
  options: {
    url: {
      placeholder: "url",
      description: "the service's URL, if it is not the first that wrangler prints",
      parse: readOrigin,
    },
    dryRun: { description: "print the steps and build the Worker; needs no account" },
    ...ALLOW_PACKAGED_NODE,
  },
  examples: ["--dry-run", "--url https://petstore.example"],
  async handler(io, { url, dryRun }) {
    const { worker, hasRoutes } = await readWorker();
    const build = await buildName();
    const define = ["--define", `BUILD:${JSON.stringify(build)}`];
    if (dryRun) return printDryRun(io, `${build} to production`, PRODUCTION, ...define);
    if (url === undefined && hasRoutes)
      throw new UsageError(
        `the Worker is not on workers.dev: say where, ${petstoreLine("deploy --url URL")}`,
      );
    await announce(io, `${build} to production`, PRODUCTION);
    const read = () => readProduction(worker, build);
    const production = await io.step("Reading what production runs", read);
    const key = await prepare(io, PRODUCTION);
    let origin = url;
    try {
      const upload = () => runWrangler(["deploy", "--tag", build, ...define]);
      const { urls } = await io.step(`Uploading the Worker ${worker}`, upload);
      origin ??= urls[0];
      if (origin === undefined) throw new Error(`no URL to test: ${petstoreLine("deploy --url URL")}`);
      await smokeTest(io, { origin, key, create: false, isExpected: (found) => found === build });
    } catch (error) {
      throw new Error(`${messageOf(error)}; ${await recover(io, production, key, origin)}`);
    }
    io.print(`Production is ${build} at ${origin}`);
    const { previous } = production;
    if (previous === undefined) {
      io.note(`Next: ${petstoreLine("keys create --name NAME --plan pro --remote")}`);
      return;
    }
    const minutes = await minutesOfOldObjects();
    io.note(`Objects of keys in use keep the code of ${previous.name} for up to ${minutes} minutes`);
    io.note(
      `To go back to ${previous.name}: ${projectLine("npx wrangler rollback", previous.id, ...AT_ONCE)}`,
    );
  },
});

/** The latest deployments of a Worker, newest first: the versions that serve its requests. Empty without such a Worker. */
async function latestDeployments(worker: string) {
  type Deployments = { deployments: { versions: { version_id: string }[] }[] };
  type Version = { annotations?: Record<string, string> };
  const callApi = await openAccount();
  const path = `/workers/scripts/${worker}`;
  const readVersion = async ({ version_id: id }: { version_id: string }) => {
    const { annotations } = await callApi<Version>(`${path}/versions/${id}`);
    // The tag is the build if this command deployed the version.
    return { id, name: annotations?.["workers/tag"] ?? id };
  };
  const found = await ifFound(callApi<Deployments>(`${path}/deployments`));
  const deployments = found?.deployments ?? [];
  return Promise.all(deployments.map(({ versions }) => Promise.all(versions.map(readVersion))));
}

/**
 * Production before a deployment. The previous version is the latest one that served all requests and is not this build: this
 * build may be live already, untested. Throws if several versions share the requests, because a gradual deployment is under way.
 */
async function readProduction(worker: string, build: string) {
  const deployments = await latestDeployments(worker);
  const [[live, another] = []] = deployments;
  if (another !== undefined)
    throw new Error(
      `a gradual deployment is under way: finish it first, with ${projectLine("npx wrangler versions deploy")}`,
    );
  const previous = deployments.find(([first, second]) => first?.name !== build && second === undefined)?.[0];
  return { worker, build, live, previous };
}

/** Rolls back if production runs the failed build, and tests the previous version. Returns what production runs now. */
async function recover(
  io: Io,
  { worker, build, live, previous }: Awaited<ReturnType<typeof readProduction>>,
  key: string,
  origin: string | undefined,
): Promise<string> {
  /** What production runs if the next step fails. */
  let state = "what production runs is unknown, check GET /version";
  try {
    // Cloudflare knows: wrangler can fail after the Worker is live, and another deployment may have followed.
    const [[now] = []] = await latestDeployments(worker);
    if (now?.id === live?.id) return "production is unchanged";
    if (now?.name !== build)
      return `production is ${now?.name}, from another deployment; nothing was rolled back`;
    if (previous === undefined) return `there is no previous version, so production stays ${build}`;
    state = `production is still ${build}, because the rollback failed`;
    const words = ["rollback", previous.id, "--yes", "--message", `${build} failed`, ...AT_ONCE];
    await io.step(`Rolling back to ${previous.name}, objects of keys at once`, () => runWrangler(words));
    if (origin === undefined) return `rolled back to ${previous.name}, which was not tested`;
    state = `rolled back to ${previous.name}, which also fails`;
    // The previous version may report another build than its tag says, so only the failed build is ruled out.
    await smokeTest(io, { origin, key, create: false, isExpected: (found) => found !== build });
    return `rolled back to ${previous.name}, which passes`;
  } catch (error) {
    return `${state}: ${messageOf(error)}`;
  }
}
