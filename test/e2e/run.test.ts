// scripts/run.mjs, which runs every command, in a small project with packages of its own. Tested only with the npm and the Node
// that run the tests.

import { existsSync } from "node:fs";
import { copyFile, cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
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
let isSprungByNpm: boolean;

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "petstore-test-")));
  const files = {
    "package.json": JSON.stringify({
      name: "small-project",
      scripts: { command: "node scripts/run.mjs main.mjs" },
      dependencies: { wrangler: "file:wrangler-1.0.0.tgz" },
    }),
    "wrangler/package.json": JSON.stringify({
      name: "wrangler",
      version: "1.0.0",
      engines: { node: MET },
      scripts: { postinstall: `node --eval "fs.writeFileSync('sprung', '')"` },
    }),
    "spy.cjs": SPY,
    "main.mjs": "console.log(process.execPath);",
  };
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  for (const name of [".npmrc", "scripts/run.mjs"]) await cp(name, join(folder, name));
  await npm("pack", "./wrangler");
  await npm("install", "--package-lock-only");
  const { packages } = JSON.parse(await readFile(join(folder, "package-lock.json"), "utf8"));
  expect(packages["node_modules/wrangler"].hasInstallScript).toBe(true);
  await npm("ci");
  isSprungByNpm = isTrapSprung();
});

afterAll(() => rm(folder, { recursive: true }));

async function npm(...args: string[]): Promise<void> {
  const { exitCode } = await runProcess("npm", [...args, "--offline"], {}, folder);
  expect(exitCode).toBe(0);
}

const isTrapSprung = () => existsSync(join(folder, "node_modules/wrangler/sprung"));

it("npm ci runs no install scripts", () => expect(isSprungByNpm).toBe(false));

it("a command installs the packages without install scripts, and hides credentials from npm", async () => {
  await rm(join(folder, "node_modules"), { recursive: true });
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
  expect([exitCode, stderr, isTrapSprung()]).toEqual([0, expect.stringContaining("added 1 package"), false]);
  const lines = (await readFile(join(folder, "processes"), "utf8")).trimEnd().split("\n");
  const processes = lines.map((line) => JSON.parse(line) as { args: string[]; credentials: unknown[] });
  const credentialsOf = (name: string) =>
    processes.filter(({ args }) => args.some((path) => basename(path) === name)).at(-1)?.credentials;
  expect(credentialsOf("ci")).toEqual([null, null]);
  expect(credentialsOf("main.mjs")).toEqual(["token", "key"]);
});

it.skipIf(process.platform === "win32").each([
  ["the machine's Node if it is new enough for wrangler, and removes the link to the other one", MET],
  ["the Node from the lock file otherwise, and keeps its link for npx", UNMET],
])("a command runs on %s", async (_, engines) => {
  const [link, locked] = [join(folder, "node_modules/.bin/node"), join(folder, "locked-node")];
  await copyFile(process.execPath, locked);
  // As npm ci leaves it: the Node from the lock file is first in PATH for what npm starts.
  const bin = join(folder, "node_modules", `node-${process.platform}-${process.arch}`, "bin");
  for (const path of [join(bin, "node"), link]) {
    await rm(path, { force: true });
    await mkdir(dirname(path), { recursive: true });
    await symlink(locked, path);
  }
  const file = join(folder, "package-lock.json");
  const lock = await readFile(file, "utf8");
  await writeFile(file, lock.replace(MET, engines));
  const PATH = [dirname(process.execPath), process.env.PATH].join(delimiter);
  const { stdout } = await runProcess("npm", ["run", "--silent", "command"], { PATH }, folder);
  await writeFile(file, lock);
  const expected = engines === MET ? [process.execPath, false] : [locked, true];
  expect([stdout.trim(), existsSync(link)]).toEqual(expected);
});
