// scripts/run.mjs, which runs every command, in a small project with packages of its own. Tested only with the npm and the Node
// that run the tests.

import { existsSync } from "node:fs";
import { copyFile, cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { runProcess, runScript } from "../support/e2e/petstore.ts";

/** Requirements of wrangler: one that the Node of the tests meets, and one that no Node meets. */
const MET = ">=22.0.0";
const UNMET = ">=999.0.0";

/** Records the arguments and the credentials of each Node process. */
const SPY = `const { CLOUDFLARE_API_TOKEN, CF_API_KEY } = process.env;
const line = JSON.stringify({ args: process.argv.slice(1), credentials: [CLOUDFLARE_API_TOKEN, CF_API_KEY] });
require("node:fs").appendFileSync(__dirname + "/processes", line + "\\n");
`;

let folder: string;

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "petstore-test-")));
  const files = {
    "package.json": {
      name: "small-project",
      scripts: { command: "node scripts/run.mjs main.mjs" },
      dependencies: { trap: "file:trap-1.0.0.tgz", wrangler: "file:wrangler-1.0.0.tgz" },
    },
    "wrangler/package.json": { name: "wrangler", version: "1.0.0", engines: { node: MET } },
    "trap/package.json": {
      name: "trap",
      version: "1.0.0",
      scripts: { postinstall: `node --eval "fs.writeFileSync('sprung', '')"` },
    },
  };
  for (const name of ["trap", "wrangler"]) await mkdir(join(folder, name));
  for (const [name, content] of Object.entries(files))
    await writeFile(join(folder, name), JSON.stringify(content));
  await writeFile(join(folder, "spy.cjs"), SPY);
  await writeFile(join(folder, "main.mjs"), "console.log(process.execPath);");
  await cp(".npmrc", join(folder, ".npmrc"));
  await cp("scripts/run.mjs", join(folder, "scripts/run.mjs"));
  await npm("pack", "./trap", "./wrangler");
  await npm("install", "--package-lock-only");
  const { packages } = JSON.parse(await readFile(join(folder, "package-lock.json"), "utf8"));
  expect(packages["node_modules/trap"].hasInstallScript).toBe(true);
});

afterAll(() => rm(folder, { recursive: true }));

async function npm(...args: string[]): Promise<void> {
  const { exitCode } = await runProcess("npm", [...args, "--offline"], {}, folder);
  expect(exitCode).toBe(0);
}

const isTrapSprung = () => existsSync(join(folder, "node_modules/trap/sprung"));

it("npm ci runs no install scripts", async () => {
  await npm("ci");
  expect([existsSync(join(folder, "node_modules/trap")), isTrapSprung()]).toEqual([true, false]);
});

it("a command installs the packages without install scripts, and hides credentials from npm", async () => {
  await rm(join(folder, "node_modules"), { recursive: true, force: true });
  const { exitCode, stderr } = await runScript(
    join(folder, "scripts/run.mjs"),
    ["main.mjs"],
    {
      NODE_OPTIONS: `--require=${join(folder, "spy.cjs")}`,
      CLOUDFLARE_API_TOKEN: "token",
      CF_API_KEY: "key",
      npm_config_offline: "true",
      // A user may have this in an environment variable or in ~/.npmrc.
      npm_config_ignore_scripts: "false",
    },
    folder,
  );
  expect([exitCode, stderr, isTrapSprung()]).toEqual([0, expect.stringContaining("added 2 packages"), false]);
  const lines = (await readFile(join(folder, "processes"), "utf8")).trimEnd().split("\n");
  const processes = lines.map((line) => JSON.parse(line) as { args: string[]; credentials: unknown[] });
  const credentialsOf = (arg: string) =>
    processes
      .filter(({ args }) => args.some((path) => basename(path) === arg))
      .map(({ credentials }) => credentials);
  expect(credentialsOf("ci")).toEqual([[null, null]]);
  expect(credentialsOf("main.mjs").at(-1)).toEqual(["token", "key"]);
});

describe.skipIf(process.platform === "win32")("a command runs on", () => {
  const link = () => join(folder, "node_modules/.bin/node");
  let locked: string;

  // As npm ci leaves it: the Node from the lock file is first in PATH for what npm starts.
  beforeEach(async () => {
    await npm("ci");
    locked = join(folder, "locked-node");
    if (!existsSync(locked)) await copyFile(process.execPath, locked);
    const bin = join(folder, "node_modules", `node-${process.platform}-${process.arch}`, "bin");
    await mkdir(bin, { recursive: true });
    await mkdir(dirname(link()), { recursive: true });
    for (const path of [join(bin, "node"), link()]) await symlink(locked, path);
  });

  /** The Node that runs a command, on a machine whose Node runs the tests. */
  async function nodeOf(engines: string): Promise<string> {
    const file = join(folder, "package-lock.json");
    const lock = await readFile(file, "utf8");
    await writeFile(file, lock.replace(MET, engines));
    const PATH = [dirname(process.execPath), process.env.PATH].join(delimiter);
    const { stdout } = await runProcess("npm", ["run", "--silent", "command"], { PATH }, folder);
    await writeFile(file, lock);
    return stdout.trim();
  }

  it("the machine's Node if it is new enough for wrangler, and removes the link to the other one", async () => {
    expect(await nodeOf(MET)).toBe(process.execPath);
    expect(existsSync(link())).toBe(false);
    expect(await nodeOf(MET)).toBe(process.execPath);
  });

  it("the Node from the lock file otherwise, and keeps its link for npx", async () => {
    expect(await nodeOf(UNMET)).toBe(locked);
    expect(existsSync(link())).toBe(true);
  });
});
