// scripts/run.mjs, through which every command runs, in a folder like the project's with packages of its own. They are installed
// by the npm that runs the tests. What is not proven here is what other versions of npm and Node do.

import { existsSync } from "node:fs";
import { copyFile, cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { outcomeOf, runScript } from "../support/e2e/petstore.ts";

/** What wrangler asks of Node: what the Node that runs the tests is, and what none is. */
const ENOUGH = ">=22.0.0";
const TOO_MUCH = ">=999.0.0";

/** Writes down the words of each process of Node, and the credentials that it has. */
const SPY = `const { CLOUDFLARE_API_TOKEN, CF_API_KEY } = process.env;
const line = JSON.stringify({ words: process.argv.slice(1), credentials: [CLOUDFLARE_API_TOKEN, CF_API_KEY] });
require("node:fs").appendFileSync(__dirname + "/processes", line + "\\n");
`;

let folder: string;

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "petstore-test-")));
  const files = {
    "package.json": {
      name: "like-the-project",
      scripts: { command: "node scripts/run.mjs main.mjs" },
      dependencies: { trap: "file:trap-1.0.0.tgz", wrangler: "file:wrangler-1.0.0.tgz" },
    },
    "wrangler/package.json": { name: "wrangler", version: "1.0.0", engines: { node: ENOUGH } },
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

async function npm(...words: string[]): Promise<void> {
  const { exitCode } = await outcomeOf("npm", [...words, "--offline"], {}, folder);
  expect(exitCode).toBe(0);
}

const sprung = () => existsSync(join(folder, "node_modules/trap/sprung"));

it("npm runs no script of a package that is installed by hand", async () => {
  await npm("ci");
  expect([existsSync(join(folder, "node_modules/trap")), sprung()]).toEqual([true, false]);
});

it("a command installs packages without running their scripts, and without showing npm a credential", async () => {
  await rm(join(folder, "node_modules"), { recursive: true, force: true });
  const { exitCode, stderr } = await runScript(
    join(folder, "scripts/run.mjs"),
    ["main.mjs"],
    {
      NODE_OPTIONS: `--require=${join(folder, "spy.cjs")}`,
      CLOUDFLARE_API_TOKEN: "token",
      CF_API_KEY: "key",
      npm_config_offline: "true",
      // Whoever has this in an environment or a file of their own.
      npm_config_ignore_scripts: "false",
    },
    folder,
  );
  expect([exitCode, stderr, sprung()]).toEqual([0, expect.stringContaining("Installed the packages"), false]);
  const lines = (await readFile(join(folder, "processes"), "utf8")).trimEnd().split("\n");
  const processes = lines.map((line) => JSON.parse(line) as { words: string[]; credentials: unknown[] });
  const credentialsOf = (word: string) =>
    processes
      .filter(({ words }) => words.some((each) => basename(each) === word))
      .map(({ credentials }) => credentials);
  expect(credentialsOf("ci")).toEqual([[null, null]]);
  expect(credentialsOf("main.mjs").at(-1)).toEqual(["token", "key"]);
});

describe.skipIf(process.platform === "win32")("a command runs on", () => {
  const link = () => join(folder, "node_modules/.bin/node");
  let locked: string;

  // As npm ci leaves it: the Node of the lock file is before any other for what npm starts.
  beforeEach(async () => {
    await npm("ci");
    locked = join(folder, "locked-node");
    if (!existsSync(locked)) await copyFile(process.execPath, locked);
    const bin = join(folder, "node_modules", `node-${process.platform}-${process.arch}`, "bin");
    await mkdir(bin, { recursive: true });
    await mkdir(dirname(link()), { recursive: true });
    for (const path of [join(bin, "node"), link()]) await symlink(locked, path);
  });

  /** The Node that a command says it runs on, where the machine's own is the one that runs the tests. */
  async function nodeOf(engines: string): Promise<string> {
    const file = join(folder, "package-lock.json");
    const lock = await readFile(file, "utf8");
    await writeFile(file, lock.replace(ENOUGH, engines));
    const PATH = [dirname(process.execPath), process.env.PATH].join(delimiter);
    const { stdout } = await outcomeOf("npm", ["run", "command"], { PATH }, folder);
    await writeFile(file, lock);
    return stdout.trim();
  }

  it("the machine's own Node if that is new enough for wrangler, and nothing finds the other any more", async () => {
    expect(await nodeOf(ENOUGH)).toBe(process.execPath);
    expect(existsSync(link())).toBe(false);
    expect(await nodeOf(ENOUGH)).toBe(process.execPath);
  });

  it("the Node of the lock file otherwise, where npx finds it too", async () => {
    expect(await nodeOf(TOO_MUCH)).toBe(locked);
    expect(existsSync(link())).toBe(true);
  });
});
