// ./petstore preview: deploys beside production, under a name: one preview for each branch or pull request, and a permanent one,
// staging. Each has its own counters; all share two databases.

import { resolve } from "node:path";
import { ifFound, openAccount } from "../cloudflare/account.ts";
import { CONTENTS, type Contents, deployedDatabase, type Target } from "../cloudflare/database.ts";
import { ALLOW_PACKAGED_NODE } from "../cloudflare/target.ts";
import { type D1Binding, readConfig, runWrangler, withConfigFile } from "../cloudflare/wrangler.ts";
import { announce, buildName, git, prepare, printDryRun } from "../deploy/deployment.ts";
import { smokeTest } from "../deploy/smoke-test.ts";
import { defineCommand, matching } from "../lib/command.ts";
import { type Io, messageOf, UsageError } from "../lib/io.ts";
import { petstoreLine } from "../lib/line.ts";

/** What a host name allows; Cloudflare changes other names to this. 40 characters leave room for the Worker's name. */
const NAME = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/;
const NAME_HINT = 'Use up to 40 of a-z, 0-9 and inner "-", such as pr-12.';

export default defineCommand({
  description:
    'Creates or updates a preview: applies migrations to the databases that all previews share, uploads the Worker, and runs the smoke test, which creates a pet. If that fails, the preview stays, so that you can inspect it. The preview named "staging" is the staging environment.',
  arguments: [
    {
      name: "name",
      description: "the preview's name; by default made from the branch",
      parse: matching(NAME, NAME_HINT),
      isOptional: true,
    },
  ],
  options: {
    delete: {
      description: "delete the preview and the counters of its keys; other previews share pets and keys",
      conflicts: ["dryRun"],
    },
    yes: { description: "with --delete: don't ask" },
    json: { description: 'print {"name", "url", "build"}', conflicts: ["delete", "dryRun"] },
    dryRun: { description: "print the steps and build the Worker; needs no account" },
    ...ALLOW_PACKAGED_NODE,
  },
  examples: ["staging", "pr-12 --delete"],
  async handler(io, options, givenName) {
    const name = givenName ?? (await nameOfBranch());
    if (options.delete) return deletePreview(io, name, options.yes);
    const build = await buildName();
    const deployment = `${build} to the preview ${name}`;
    const target = { kind: "preview", name } as const;
    if (options.dryRun) {
      // wrangler has no dry run for previews; it builds them like production.
      const { previews, ...top } = await previewConfig(build);
      const print = (path: string) => printDryRun(io, deployment, target, "--config", path);
      return withConfigFile({ ...top, ...previews }, print);
    }
    await announce(io, deployment, target);
    const key = await prepare(io, target);
    const config = await previewConfig(build, await databaseIds(target));
    const words = ["preview", "--name", name, "--tag", build, "--json"];
    const upload = (path: string) => runWrangler([...words, "--config", path]);
    const { urls } = await io.step(`Uploading the preview ${name}`, () => withConfigFile(config, upload));
    if (urls[0] === undefined)
      throw new Error(
        "the preview has no URL: check the workers.dev subdomain, and deploy to production once",
      );
    const { origin } = new URL(urls[0]);
    const isExpected = (found: string) => found === build;
    await smokeTest(io, { origin, key, create: true, isExpected }).catch((error) => {
      throw new Error(`${messageOf(error)}; the preview stays at ${origin}`);
    });
    if (options.json) io.printJson({ name, url: origin, build });
    else io.print(`Preview ${name} is ${build} at ${origin}`);
    io.note(`Next: ${petstoreLine("keys create --name NAME --plan pro --preview", name)}`);
  },
});

/** The ids of the databases, by their bindings. */
async function databaseIds(target: Target): Promise<Record<string, string | undefined>> {
  const idOf = async (contents: Contents) => {
    const { binding, find } = await deployedDatabase(target, contents);
    return [binding, (await find())?.uuid];
  };
  return Object.fromEntries(await Promise.all(CONTENTS.map(idOf)));
}

/**
 * wrangler.toml for a build on databases with these ids: wrangler can't find the databases of a preview by their names. Paths are
 * absolute, so that the file can be anywhere.
 */
async function previewConfig(build: string, ids: Record<string, string | undefined> = {}) {
  const config = await readConfig();
  const { main, assets, previews } = config;
  const withId = (each: D1Binding) => ({ ...each, database_id: ids[each.binding] });
  return {
    ...config,
    main: resolve(main),
    assets: { ...assets, directory: resolve(assets.directory) },
    previews: {
      ...previews,
      define: { BUILD: JSON.stringify(build) },
      d1_databases: previews.d1_databases.map(withId),
    },
  };
}

async function deletePreview(io: Io, name: string, yes?: true): Promise<void> {
  const { name: worker } = await readConfig();
  const callApi = await io.step("Finding the account", openAccount);
  const place = `the preview ${name} of the Worker ${worker}, in account ${callApi.label}`;
  const found = await ifFound(callApi(`/workers/workers/${worker}/previews/${name}`));
  if (found === undefined) return io.print(`Not found: ${place}.`);
  await io.confirm(`This deletes ${place}, with the counters of its keys. Pets and keys stay.`, yes);
  const words = ["preview", "delete", "--name", name, "--skip-confirmation"];
  await io.step(`Deleting the preview ${name}`, () => runWrangler(words));
  io.print(`Deleted the preview ${name}.`);
}

/** The branch as a preview's name. */
async function nameOfBranch(): Promise<string> {
  const branch = await git("branch", "--show-current").catch(() => "");
  const words = branch.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  const name = words.join("-").slice(0, 40).replace(/-$/, "");
  if (name !== "" && name !== "staging") return name;
  throw new UsageError(
    `add a name, ${petstoreLine("preview NAME")}: the branch is staging, or none is checked out`,
  );
}
