// npm run preview: deploys beside production, under a name: one preview for each branch or pull request, and a permanent one,
// staging. Each has its own counters; all share one database.

import { createHash } from "node:crypto";
import { InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { ifFound, openAccount } from "./cloudflare/account.ts";
import { deployedDatabase } from "./cloudflare/database.ts";
import {
  type D1Binding,
  readConfig,
  readRawConfig,
  runWrangler,
  withConfigFile,
} from "./cloudflare/wrangler.ts";
import {
  announce,
  buildDefinition,
  buildName,
  git,
  prepareDatabase,
  printDryRun,
  readWorker,
  smokeKey,
} from "./deploy/deployment.ts";
import { smokeTest } from "./deploy/smoke-test.ts";
import { type Define, type Io, messageOf, newCommand, UsageError } from "./lib/command.ts";

/** What a host name allows; Cloudflare changes other names to this. 40 characters leave room for the Worker's name. */
const NAME = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/;

const define: Define = (io) =>
  newCommand(
    "npm run preview",
    'Creates or updates a preview: applies migrations to the database that all previews share, uploads the Worker, and runs the smoke test, which creates a pet. If that fails, the preview stays, so that you can inspect it. The preview named "staging" is the staging environment.',
    "staging",
    "pr-12 --delete",
  )
    .argument("[name]", "the preview's name; by default made from the branch", readName)
    .option("--delete", "delete the preview and the counters of its keys; other previews share pets and keys")
    .option("--yes", "with --delete: don't ask")
    .addOption(new Option("--json", 'print {"name", "url", "build"}').conflicts(["delete", "dryRun"]))
    .option("--dry-run", "print the steps and build the Worker; needs no account")
    .action(async (givenName, options) => {
      if (options.delete) return deletePreview(io, givenName, options.yes, options.dryRun);
      const name = givenName ?? (await nameOfBranch());
      const { name: worker } = await readWorker();
      const build = await buildName();
      if (options.dryRun) {
        const { previews, ...top } = await previewConfig(build, "the id of the account");
        // wrangler has no dry run for previews; it builds them like production.
        const dryRun = (path: string) => runWrangler(["deploy", "--dry-run", "--config", path]);
        const buildWorker = () => withConfigFile({ ...top, ...previews }, dryRun);
        return printDryRun(io, `${build} to the preview ${name}`, buildWorker);
      }
      const target = { kind: "preview", name } as const;
      await announce(io, `${build} to the preview ${name}`, worker, target);
      await prepareDatabase(io, target);
      const key = await smokeKey(io, target);
      const url = await io.step(`Uploading the preview ${name}`, () => upload(name, build));
      if (url === undefined) {
        throw new Error(
          "the preview has no URL: the account needs a workers.dev subdomain, and production one deployment, which enables preview URLs",
        );
      }
      const { origin } = new URL(url);
      await smokeTest(io, { origin, key, build, create: true }).catch((error) => {
        throw new Error(`${messageOf(error)}; the preview stays at ${origin}`);
      });
      if (options.json) io.printJson({ name, url: origin, build });
      else io.print(`Preview ${name} is ${build} at ${origin}`);
      io.note(
        `Next: npm run keys -- create --name NAME --plan pro --preview ${name}${name === "staging" ? ", then npm run deploy" : ""}`,
      );
    });

export default define;

function readName(text: string): string {
  if (NAME.test(text)) return text;
  throw new InvalidArgumentError('Use up to 40 of a-z, 0-9 and inner "-", such as pr-12.');
}

/** Uploads the Worker, by a copy of wrangler.toml that also has the database's id. Returns the preview's URL, if it has any. */
async function upload(name: string, build: string): Promise<string | undefined> {
  const database = await (await deployedDatabase({ kind: "preview", name })).find();
  if (database === undefined) throw new Error("the previews' database no longer exists: run npm run setup");
  const config = await previewConfig(build, database.uuid);
  const { entries } = await withConfigFile(config, (path) =>
    runWrangler(["preview", "--name", name, "--tag", build, "--json", "--config", path]),
  );
  return entries.find(({ type }) => type === "preview")?.preview_urls?.[0];
}

async function previewConfig(build: string, database_id: string) {
  const { previews, ...config } = await readRawConfig();
  const d1_databases = previews?.d1_databases?.map((each: D1Binding) => ({ ...each, database_id }));
  return { ...config, previews: { ...previews, define: buildDefinition(build), d1_databases } };
}

async function deletePreview(io: Io, name: string | undefined, yes?: true, dryRun?: true): Promise<void> {
  if (name === undefined) throw new UsageError("--delete needs a name: npm run preview -- NAME --delete");
  const { name: worker } = await readConfig();
  const deleted = `the preview ${name} of the Worker ${worker}, with the counters of its keys`;
  if (dryRun) return io.print(`Would delete ${deleted}.\nNothing was changed.`);
  const callApi = await io.step("Finding the account", openAccount);
  if ((await ifFound(callApi(`/workers/workers/${worker}/previews/${name}`))) === undefined) {
    return io.print(`There is no preview ${name} of the Worker ${worker} in account ${callApi.label}.`);
  }
  await io.confirm(`This deletes ${deleted}, in account ${callApi.label}. Pets and keys stay.`, yes);
  const words = ["preview", "delete", "--name", name, "--skip-confirmation"];
  await io.step(`Deleting the preview ${name}`, () => runWrangler(words));
  io.print(`Deleted the preview ${name}.`);
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
  const words = branch.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  return [...words.join("-").slice(0, 33).split("-"), hash].filter((word) => word !== "").join("-");
}
