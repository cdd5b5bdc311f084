// Static checks of the GitHub workflows, which run on GitHub only: GitHub's own parser accepts them, and they keep our rules. Also
// checks of the lock files, which Dependabot changes. documents.test.ts checks that scripts and files exist.

import { readdirSync, readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { expect, it } from "vitest";

// The parser imports JSON without the attribute that Node requires.
registerHooks({
  load: (url, context, next) =>
    next(url, url.endsWith(".json") ? { ...context, importAttributes: { type: "json" } } : context),
});
const parser = await import("@actions/workflow-parser");

const FOLDER = ".github/workflows/";
const read = (file: string) => readFileSync(file, "utf8");

type Job = { steps?: { uses?: string; run?: string; with?: object }[]; [key: string]: unknown };
type Token = NonNullable<ReturnType<typeof parser.parseWorkflow>["value"]>;

/** The parsed values, with expressions as in the file. */
function plain(token: Token): unknown {
  if (parser.isSequence(token)) return [...token].map(plain);
  if (parser.isMapping(token))
    return Object.fromEntries([...token].map(({ key, value }) => [`${key}`, plain(value)]));
  return parser.isBasicExpression(token) ? (token.source ?? `${token}`) : token.toJSON();
}

/** A workflow as GitHub's parser reads it. Fails if the parser finds an error. */
async function parse(name: string) {
  const file = { name, content: read(FOLDER + name) };
  const { context, value } = parser.parseWorkflow(file, new parser.NoOperationTraceWriter());
  if (value !== undefined) await parser.convertWorkflowTemplate(context, value);
  expect(context.errors.getErrors()).toEqual([]);
  return plain(value as Token) as { jobs: Record<string, Job>; [key: string]: unknown };
}

const CHECKOUT = { uses: expect.stringContaining("/checkout@") };
// Without packages' scripts, and without a cache, which other jobs can write.
const NODE = { with: { "package-manager-cache": "false" } };
const INSTALLATION = { run: "npm ci --omit=dev --ignore-scripts --no-bin-links --loglevel=error" };

/** The permissions of jobs that do not read the code. */
const PERMISSIONS: Record<string, object> = {
  comment: { "pull-requests": "write" },
  "no-preview": {},
  publish: { "id-token": "write" },
};

it.each(readdirSync(FOLDER))("%s passes GitHub's parser, and every job keeps the rules", async (file) => {
  const { jobs, ...workflow } = await parse(file);
  expect(workflow.permissions).toEqual({});
  expect(JSON.stringify(workflow.on)).not.toMatch(/_target|workflow_run/);
  for (const [name, { steps = [], ...job }] of Object.entries(jobs)) {
    expect(job.permissions).toEqual(PERMISSIONS[name] ?? { contents: "read" });
    // Only the last step of a job with an environment has secrets, in any form, such as `secrets: inherit`.
    const withoutSecrets = job.environment === undefined ? steps : steps.slice(0, -1);
    expect(JSON.stringify([workflow, job, withoutSecrets])).not.toMatch(/\bsecrets(\.\w|[[)":])/i);
    if (job.environment !== undefined && !PERMISSIONS[name])
      expect(withoutSecrets).toMatchObject([CHECKOUT, NODE, INSTALLATION]);
    for (const { uses, with: inputs, run = "" } of steps) {
      if (uses !== undefined) expect(uses).toMatch(/^actions\/[\w-]+@[0-9a-f]{40}$/);
      if (uses?.includes("/checkout@")) expect(inputs).toMatchObject({ "persist-credentials": "false" });
      // An expression in a script could contain a command. "env" passes values to it.
      expect(run).not.toContain("${{");
    }
  }
});

it("deploy.yml checks main, then deploys to staging, then to production, one run at a time to its end", async () => {
  expect(await parse("deploy.yml")).toMatchObject({
    on: { push: { branches: ["main"] } },
    concurrency: { group: "deploy", "cancel-in-progress": false },
    jobs: {
      check: { uses: "./.github/workflows/check.yml" },
      staging: { needs: "check", environment: "staging" },
      production: { needs: "staging", environment: "production" },
    },
  });
  expect(await parse("check.yml")).toHaveProperty("on.workflow_call");
});

it("preview.yml has secrets after the checks, only for branches of this repository, and not for Dependabot", async () => {
  const isOwn = "github.event.pull_request.head.repo.full_name == github.repository";
  const condition = `${isOwn} && github.event.pull_request.user.login != 'dependabot[bot]'`;
  const environment = "preview";
  expect((await parse("preview.yml")).jobs).toMatchObject({
    check: { uses: "./.github/workflows/check.yml" },
    preview: { needs: "check", environment, if: `github.event.action != 'closed' && ${condition}` },
    delete: {
      environment,
      if: `github.event.action == 'closed' && ${condition}`,
      steps: [{ with: { ref: "main" } }, {}, {}, {}],
    },
  });
});

it("publish-client.yml, started by hand, publishes after the checks, with no secret and none of our code beside the token", async () => {
  const workflow = await parse("publish-client.yml");
  expect(Object.keys(workflow.on as object)).toEqual(["workflow_dispatch"]);
  expect(read(`${FOLDER}publish-client.yml`)).not.toContain("secrets.");
  expect(workflow.jobs).toMatchObject({
    check: { uses: "./.github/workflows/check.yml" },
    build: { needs: "check" },
    publish: {
      needs: "build",
      environment: "npm",
      steps: [
        { uses: expect.stringContaining("actions/setup-node@"), with: { "package-manager-cache": "false" } },
        { uses: expect.stringContaining("actions/download-artifact@"), with: { name: "package" } },
        { run: expect.stringMatching(/^npm publish \S+\.tgz --provenance --ignore-scripts$/) },
      ],
    },
  });
});

it("the lock files name no registry, one wrangler, and one version of Node for every platform", () => {
  for (const folder of ["", "bench/baselines/", "scripts/node/", "test/support/e2e/runtimes/"])
    expect(read(`${folder}package-lock.json`)).not.toContain(`"resolved"`);
  const { packages } = JSON.parse(read("package-lock.json"));
  const tools = Object.keys(packages).filter((folder) => /\/(wrangler|miniflare|workerd)$/.test(folder));
  expect(tools).toEqual(["node_modules/miniflare", "node_modules/workerd", "node_modules/wrangler"]);
  const { optionalDependencies } = JSON.parse(read("scripts/node/package.json"));
  expect(new Set(Object.values(optionalDependencies)).size).toBe(1);
});
