// scripts/run.mjs, which starts every program, in a small project with packages of its own. Tested only with the npm and the Node that
// run the tests.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { runProcess } from "../support/e2e/petstore.ts";

/** Requirements of wrangler: one that the Node of the tests meets, and one that no Node meets. */
const MET = ">=22.0.0";
const UNMET = ">=999.0.0";

const NODE_PACKAGE = `node-${process.platform}-${process.arch}`;

/** Writes the arguments and credentials of a process. */
const PROGRAM = `const { CLOUDFLARE_API_TOKEN: token, CF_API_KEY: key, PETSTORE_PACKAGED_NODE: reason, RUNS_ON } = process.env;
console.log(JSON.stringify({ args: process.argv.slice(2), credentials: [token, key], reason, runsOn: RUNS_ON }));
`;

const CREDENTIALS = { CLOUDFLARE_API_TOKEN: "token", CF_API_KEY: "key" };

let folder: string;

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "petstore-test-")));
  const sprung = { postinstall: `node --eval "fs.writeFileSync('sprung', '')"` };
  await write("package.json", {
    name: "small-project",
    dependencies: { wrangler: "file:wrangler-1.0.0.tgz" },
    devDependencies: { tool: "file:tool-1.0.0.tgz" },
  });
  await write("wrangler/package.json", {
    ...{ name: "wrangler", version: "1.0.0", engines: { node: MET }, scripts: sprung },
  });
  await write("tool/package.json", { name: "tool", version: "1.0.0", bin: { tool: "tool.cjs" } });
  await write("tool/tool.cjs", PROGRAM);
  await write("main.mjs", PROGRAM);
  await write("node/package.json", {
    ...{ name: NODE_PACKAGE, version: "1.0.0", bin: { node: "bin/node" } },
    ...{ os: [process.platform], cpu: [process.arch] },
  });
  await write("node/bin/node", `#!/bin/sh\nRUNS_ON=npm exec '${process.execPath}' "$@"\n`);
  await write("scripts/node/package.json", {
    optionalDependencies: { [NODE_PACKAGE]: `file:../../${NODE_PACKAGE}-1.0.0.tgz` },
  });
  for (const name of [".npmrc", "petstore", "scripts/run.mjs"]) await cp(name, join(folder, name));
  await write(
    "scripts/petstore.ts",
    "console.log(JSON.stringify([process.env.INIT_CWD, process.argv[2]]));\n",
  );
  await npm(".", "pack", "./wrangler", "./tool", "./node");
  for (const name of [".", "scripts/node"]) await npm(name, "install", "--package-lock-only");
  expect(await lock()).toContain('"hasInstallScript": true');
});

afterAll(() => rm(folder, { recursive: true }));

beforeEach(async () => {
  for (const name of ["node_modules", "scripts/node/node_modules", ".wrangler"])
    await rm(join(folder, name), { recursive: true, force: true });
});

async function write(name: string, content: object | string): Promise<void> {
  await mkdir(dirname(join(folder, name)), { recursive: true });
  await writeFile(join(folder, name), typeof content === "string" ? content : JSON.stringify(content));
}

const lock = () => readFile(join(folder, "package-lock.json"), "utf8");

async function npm(where: string, ...args: string[]): Promise<void> {
  const { exitCode, stderr } = await runProcess("npm", [...args, "--offline"], {}, join(folder, where));
  expect([exitCode, stderr]).toEqual([0, expect.any(String)]);
}

const isInstalled = (name: string) => existsSync(join(folder, "node_modules", name));

/** Runs `node scripts/run.mjs WORDS`. */
function run(words: string, environment: NodeJS.ProcessEnv = {}) {
  const env = { npm_config_offline: "true", ...environment };
  return runProcess(process.execPath, ["scripts/run.mjs", ...words.split(" ")], env, folder);
}

it("npm ci runs no install scripts", async () => {
  await npm(".", "ci");
  expect([isInstalled("wrangler"), isInstalled("wrangler/sprung")]).toEqual([true, false]);
});

it("a program gets the packages that it needs, once, without install scripts, and its own exit code", async () => {
  // A user may have this in an environment variable or in ~/.npmrc.
  const scripts = { npm_config_ignore_scripts: "false", NODE_ENV: "production" };
  const light = await run("--omit=dev ./main.mjs a --omit=dev", scripts);
  expect(JSON.parse(light.stdout).args).toEqual(["a", "--omit=dev"]);
  expect(light.stderr).toMatch(/^Installing the packages\n\nadded 1 package /);
  expect([isInstalled("wrangler"), isInstalled("tool")]).toEqual([true, false]);
  // What is installed stays in place: a service may be running from it.
  await writeFile(join(folder, "node_modules/wrangler/kept"), "");
  const complete = await run("tool b c", scripts);
  expect([JSON.parse(complete.stdout).args, isInstalled("wrangler/kept")]).toEqual([["b", "c"], true]);
  expect(await run("--omit=dev ./main.mjs")).toMatchObject({ exitCode: 0, stderr: "" });
  expect([isInstalled("tool"), isInstalled("wrangler/sprung")]).toEqual([true, false]);
  expect((await run("./missing.mjs")).exitCode).toBe(1);
  expect(await run("mistyped")).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: "error: no package has the tool mistyped\n",
  });
});

it("petstore runs from any folder, through a link, and without Node in PATH", async () => {
  await run("--omit=dev ./main.mjs");
  // One of those where the script looks.
  const home = join(folder, "a home");
  await mkdir(join(home, ".nvm/versions/node/v1/bin"), { recursive: true });
  await symlink(process.execPath, join(home, ".nvm/versions/node/v1/bin/node"));
  await symlink(join(folder, "petstore"), join(home, "linked"));
  const cron = { HOME: home, PATH: "/nonexistent", INIT_CWD: "/nonexistent" };
  const { stdout } = await runProcess("./linked", ["Jo's shop"], cron, home);
  expect(JSON.parse(stdout)).toEqual([home, "Jo's shop"]);
});

it("two programs at once install one after the other, also after one that was killed", async () => {
  await write(".wrangler/installing-7", "999999999");
  const [light, complete] = await Promise.all([run("--omit=dev ./main.mjs a"), run("tool b")]);
  expect([light.exitCode, JSON.parse(complete.stdout).args]).toEqual([0, ["b"]]);
  expect([isInstalled("wrangler"), isInstalled("tool")]).toEqual([true, true]);
});

it("a program waits until another one has installed, and says so", async () => {
  // The other one is this process.
  await write(".wrangler/installing-7", `${process.pid}`);
  const child = spawn(process.execPath, ["scripts/run.mjs", "--omit=dev", "./main.mjs"], {
    cwd: folder,
    env: { ...process.env, npm_config_offline: "true" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const [said] = await once(child.stderr, "data");
  const wasInstalled = isInstalled("wrangler");
  await rm(join(folder, ".wrangler/installing-7"));
  const [exitCode] = await once(child, "close");
  expect(`${said}`).toMatch(/^Waiting for another installation: /);
  expect([wasInstalled, exitCode, isInstalled("wrangler")]).toEqual([false, 0, true]);
});

it("npm gets no credentials, the program does", async () => {
  const spy = `require("node:fs").appendFileSync(${JSON.stringify(join(folder, "spied"))}, process.argv[2] + process.env.CLOUDFLARE_API_TOKEN + process.env.CF_API_KEY + "\\n")`;
  await write("spy.cjs", spy);
  const NODE_OPTIONS = `--require=${join(folder, "spy.cjs")}`;
  const { stdout } = await run("--omit=dev ./main.mjs a", { ...CREDENTIALS, NODE_OPTIONS });
  expect(JSON.parse(stdout).credentials).toEqual(["token", "key"]);
  const spied = await readFile(join(folder, "spied"), "utf8");
  expect(spied).toMatch(/^ciundefinedundefined$/m);
});

it.skipIf(process.platform === "win32")(
  "on a Node that is too old, a program runs on the packaged one, which gets credentials only if it is allowed to",
  async () => {
    const text = await lock();
    await writeFile(join(folder, "package-lock.json"), text.replace(MET, UNMET));
    const first = await run("--omit=dev ./main.mjs", CREDENTIALS);
    const allowed = await run("--omit=dev ./main.mjs --allow-packaged-node", CREDENTIALS);
    const wrangler = await run("--omit=dev wrangler login", CREDENTIALS);
    // It is optional for npm, because it fits one platform.
    await rm(join(folder, "scripts/node/node_modules", NODE_PACKAGE), { recursive: true });
    const repaired = await run("--omit=dev ./main.mjs");
    await writeFile(join(folder, "package-lock.json"), text);
    const reason = expect.stringContaining("is too old");
    const refused = { args: [], credentials: [null, null], reason, runsOn: "npm" };
    expect(JSON.parse(first.stdout)).toEqual(refused);
    expect(first.stderr).toMatch(/^Installing Node 1\.0\.0 for this project, because v\S+ is too old$/m);
    expect([JSON.parse(allowed.stdout).credentials, allowed.stderr]).toEqual([["token", "key"], ""]);
    expect([wrangler.exitCode, wrangler.stderr]).toEqual([1, expect.stringMatching(/^error: on Node .*\n$/)]);
    expect(JSON.parse(repaired.stdout)).toMatchObject({ runsOn: "npm" });
    // npm puts these folders first in PATH.
    for (const bin of ["node_modules/.bin/node", "scripts/node/node_modules/.bin"])
      expect(existsSync(join(folder, bin))).toBe(false);
  },
);
