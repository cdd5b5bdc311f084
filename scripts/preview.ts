// npm run preview: a deployment beside production, under a name of its own: one for each branch or pull request, and a lasting
// one, staging. It has counters of its own, and shares a database with the other previews.

import { createHash } from "node:crypto";
import { parseArgs } from "node:util";
import { CloudflareApiError, openAccount } from "./cloudflare/account.ts";
import { deployedDatabase } from "./cloudflare/database.ts";
import {
  type D1Binding,
  readConfig,
  readRawConfig,
  runWrangler,
  withConfigFile,
} from "./cloudflare/wrangler.ts";
import { buildName, definition, git, prepareDatabase, readWorker, smokeKey } from "./deploy/deployment.ts";
import { readOrigin, smokeTest } from "./deploy/smoke-test.ts";
import { runCommand, UsageError } from "./lib/command.ts";

const USAGE = `npm run preview [-- NAME] [--json] [--dry-run]
npm run preview -- NAME --delete

Creates or updates the preview NAME: applies migrations to the database that all previews share, uploads the Worker, runs
the smoke test, in which a pet is added, and prints the address. Without NAME it is that of the branch. Staging is the
preview "staging". A preview whose smoke test fails stays, to be looked at.
--delete removes it with the counters of its keys; pets and keys stay, because other previews have the same.
--json: standard output is {"name", "url", "build"}, and nothing else.
--dry-run says what would be done, and builds the Worker, without an account.`;

/** What a host name can have, and Cloudflare makes of other names. A name as long as this leaves room for the Worker's. */
const NAME = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/;

/** The API's codes for a Worker and for a preview that is not there. */
const NOT_THERE = [10_007, 10_025];

type Say = (line: string) => void;

await runCommand("preview", async () => {
  const { values, given } = readArguments();
  // News goes elsewhere if standard output belongs to the JSON value.
  const say: Say = (line) => void (values.json ? process.stderr : process.stdout).write(`${line}\n`);
  if (values.help) return say(USAGE);
  if (values.delete && given === undefined)
    throw new UsageError("say which preview: npm run preview -- NAME --delete");
  const name = given ?? (await branchName());
  if (!NAME.test(name)) {
    throw new UsageError(
      `a preview can't be called ${JSON.stringify(name)}: up to 40 of a-z, 0-9 and - inside, such as pr-12`,
    );
  }
  if (values.json && (values.delete || values["dry-run"])) {
    throw new UsageError("--json is for a deployment: it goes with neither --delete nor --dry-run");
  }
  if (values.delete) return remove(name, values["dry-run"], say);
  await readWorker();
  const build = await buildName();
  if (values["dry-run"]) return rehearse(name, build, say);

  const target = { kind: "preview", name } as const;
  say(`Deploys ${build} to the preview ${name}.`);
  await prepareDatabase(target, say);
  const key = await smokeKey(target);
  say(`Preview ${name}: uploads it`);
  const address = await upload(name, build);
  if (address === undefined) {
    throw new Error(
      "the preview has no address: does the account have a workers.dev subdomain? Else a deployment of production switches them on",
    );
  }
  const url = readOrigin(address);
  say(`Smoke test of ${url}`);
  await smokeTest({ origin: url, key, build, create: true, say }).catch((error: Error) => {
    throw new Error(`the smoke test failed ${error.message}; the preview stays, at ${url}`);
  });
  say(`Preview ${name} is ${build}, at ${url}`);
  if (values.json) process.stdout.write(`${JSON.stringify({ name, url, build })}\n`);
});

/** Uploads the Worker by a copy of wrangler.toml that has what only the account knows: the id of the database. */
async function upload(name: string, build: string): Promise<string | undefined> {
  const { find } = await deployedDatabase({ kind: "preview", name });
  const database = await find();
  if (database === undefined) throw new Error("the database of the previews has gone: run npm run setup");
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
  return { ...config, previews: { ...previews, define: definition(build), d1_databases: databases } };
}

async function remove(name: string, dryRun: boolean, say: Say): Promise<void> {
  const { name: worker } = await readConfig();
  say(`Removes the preview ${name} of ${worker}, with its counters.`);
  if (dryRun) return say("Nothing was done.");
  const ask = await openAccount();
  try {
    await ask(`/workers/workers/${worker}/previews/${name}`);
  } catch (error) {
    if (!(error instanceof CloudflareApiError && NOT_THERE.includes(error.code))) throw error;
    return say("There is none.");
  }
  await runWrangler(["preview", "delete", "--name", name, "--skip-confirmation"]);
  say("It is gone.");
}

/** Says what would be done, and does as much of it as needs no account: wrangler builds a preview as it does production. */
async function rehearse(name: string, build: string, say: Say): Promise<void> {
  say(`Would deploy ${build} to the preview ${name}:`);
  say("1. apply the migrations that the database of the previews has not seen");
  say("2. upload the Worker, which wrangler describes as follows");
  const { previews, ...top } = await previewConfig(build, "the id of the account");
  const { output } = await withConfigFile({ ...top, ...previews }, (path) =>
    runWrangler(["deploy", "--dry-run", "--config", path]),
  );
  say(output.replaceAll(/^/gm, "   "));
  say("3. run the smoke test, in which a pet is added");
  say("Nothing was done.");
}

/** The branch as the name of a preview; with a part of its hash if it had to be changed, because others may become the same. */
async function branchName(): Promise<string> {
  const branch = await git("branch", "--show-current").catch(() => "");
  if (branch === "")
    throw new UsageError("there is no branch here to name the preview after: npm run preview -- NAME");
  if (branch === "staging")
    throw new UsageError("the branch is called staging: if you mean that, npm run preview -- staging");
  if (NAME.test(branch)) return branch;
  const hash = createHash("sha256").update(branch).digest("hex").slice(0, 6);
  return `${branch
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, 33)}-${hash}`.replace("--", "-");
}

function readArguments() {
  const flag = { type: "boolean", default: false } as const;
  const options = { delete: flag, json: flag, "dry-run": flag, help: { ...flag, short: "h" } } as const;
  try {
    const { values, positionals } = parseArgs({ allowPositionals: true, options });
    const [given, ...extra] = positionals;
    if (extra.length === 0) return { values, given };
  } catch {
    // Said below.
  }
  throw new UsageError("npm run preview takes -- NAME, --delete, --json and --dry-run, and nothing else");
}
