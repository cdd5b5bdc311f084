// npm run preview: deploys beside production, under a name: one preview for each branch or pull request, and a permanent one,
// staging. Each has its own counters; all share one database.

import { createHash } from "node:crypto";
import { CloudflareApiError, openAccount } from "./cloudflare/account.ts";
import { deployedDatabase } from "./cloudflare/database.ts";
import {
  type D1Binding,
  readConfig,
  readRawConfig,
  runWrangler,
  withConfigFile,
} from "./cloudflare/wrangler.ts";
import {
  buildDefinition,
  buildName,
  git,
  type Log,
  prepareDatabase,
  printDryRun,
  readWorker,
  smokeKey,
} from "./deploy/deployment.ts";
import { readOrigin, smokeTest } from "./deploy/smoke-test.ts";
import { readArguments, runCommand, UsageError } from "./lib/command.ts";

const USAGE = `npm run preview [-- NAME] [--json] [--dry-run]
npm run preview -- NAME --delete

Creates or updates the preview NAME: applies migrations to the database that all previews share, uploads the Worker, runs
the smoke test, which creates a pet, and prints the URL. NAME defaults to the branch; the preview named staging is the staging
environment. If the smoke test fails, the preview stays, so that you can inspect it.
--delete deletes the preview and the counters of its keys. Pets and keys stay: other previews share them.
--json prints only {"name", "url", "build"} to standard output.
--dry-run prints the steps and builds the Worker; it needs no account.`;

/** What a host name allows; Cloudflare changes other names to this. 40 characters leave room for the Worker's name. */
const NAME = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/;

/** The API's error codes for a Worker and for a preview that do not exist. */
const NOT_FOUND = [10_007, 10_025];

await runCommand("preview", async () => {
  const flag = { type: "boolean", default: false } as const;
  const { values, positionals } = readArguments("preview", {
    allowPositionals: true,
    options: { delete: flag, json: flag, "dry-run": flag, help: { ...flag, short: "h" } },
  });
  const [givenName, ...extra] = positionals;
  if (extra.length > 0) throw new UsageError("expected one NAME: see npm run preview -- --help");
  const log: Log = (line) => void (values.json ? process.stderr : process.stdout).write(`${line}\n`);
  if (values.help) return log(USAGE);
  if (values.delete && givenName === undefined) {
    throw new UsageError("--delete needs a name: npm run preview -- NAME --delete");
  }
  const name = givenName ?? (await nameOfBranch());
  if (!NAME.test(name)) {
    throw new UsageError(
      `invalid preview name ${JSON.stringify(name)}: use up to 40 of a-z, 0-9 and inner "-", such as pr-12`,
    );
  }
  if (values.json && (values.delete || values["dry-run"])) {
    throw new UsageError("--json can't be combined with --delete or --dry-run");
  }
  if (values.delete) return deletePreview(name, values["dry-run"], log);
  await readWorker();
  const build = await buildName();
  if (values["dry-run"]) {
    const { previews, ...top } = await previewConfig(build, "the id of the account");
    // wrangler has no dry run for previews; it builds them like production.
    const dryRun = (path: string) => runWrangler(["deploy", "--dry-run", "--config", path]);
    return printDryRun(
      log,
      `${build} to the preview ${name}`,
      () => withConfigFile({ ...top, ...previews }, dryRun),
      "run the smoke test, which creates a pet",
    );
  }

  const target = { kind: "preview", name } as const;
  log(`Deploying ${build} to the preview ${name}`);
  await prepareDatabase(target, log);
  const key = await smokeKey(target);
  log(`Preview ${name}: uploading`);
  const url = await upload(name, build);
  if (url === undefined) {
    throw new Error(
      "the preview has no URL: the account needs a workers.dev subdomain, and production one deployment, which enables preview URLs",
    );
  }
  const origin = readOrigin(url);
  log(`Smoke test of ${origin}`);
  await smokeTest({ origin, key, build, create: true, log }).catch((error: Error) => {
    throw new Error(`smoke test failed: ${error.message}; the preview stays at ${origin}`);
  });
  log(`Preview ${name} is ${build} at ${origin}`);
  if (values.json) process.stdout.write(`${JSON.stringify({ name, url: origin, build })}\n`);
});

/** Uploads the Worker, by a copy of wrangler.toml that also has the database's id. Returns the preview's URL, if it has any. */
async function upload(name: string, build: string): Promise<string | undefined> {
  const { find } = await deployedDatabase({ kind: "preview", name });
  const database = await find();
  if (database === undefined) {
    throw new Error("the database of the previews no longer exists: run npm run setup");
  }
  const config = await previewConfig(build, database.uuid);
  const { entries } = await withConfigFile(config, (path) =>
    runWrangler(["preview", "--name", name, "--tag", build, "--json", "--config", path]),
  );
  return entries.find(({ type }) => type === "preview")?.preview_urls?.[0];
}

async function previewConfig(build: string, databaseId: string) {
  const config = await readRawConfig();
  const { previews } = config;
  const databases = previews?.d1_databases?.map((each: D1Binding) => ({ ...each, database_id: databaseId }));
  return { ...config, previews: { ...previews, define: buildDefinition(build), d1_databases: databases } };
}

async function deletePreview(name: string, dryRun: boolean, log: Log): Promise<void> {
  const { name: worker } = await readConfig();
  log(`Deleting the preview ${name} of ${worker}, with its counters`);
  if (dryRun) return log("Nothing was changed.");
  const ask = await openAccount();
  try {
    await ask(`/workers/workers/${worker}/previews/${name}`);
  } catch (error) {
    if (!(error instanceof CloudflareApiError && NOT_FOUND.includes(error.code))) throw error;
    return log("There is no such preview.");
  }
  await runWrangler(["preview", "delete", "--name", name, "--skip-confirmation"]);
  log("Deleted.");
}

/** The branch as a preview's name. A changed name gets a part of the branch's hash, because two branches could share it. */
async function nameOfBranch(): Promise<string> {
  const branch = await git("branch", "--show-current").catch(() => "");
  if (branch === "") throw new UsageError("no branch is checked out: add a name, npm run preview -- NAME");
  if (branch === "staging") {
    throw new UsageError("the branch is called staging: to deploy to staging, npm run preview -- staging");
  }
  if (NAME.test(branch)) return branch;
  const hash = createHash("sha256").update(branch).digest("hex").slice(0, 6);
  return `${branch
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, 33)}-${hash}`.replace("--", "-");
}
