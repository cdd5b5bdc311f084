// Plants the faults of faults.txt one by one, in a clone of the last commit, and runs the tests that must notice each. First, the same
// tests must pass without a fault. Arguments are areas, by default all.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { readFaults } from "./faults.ts";

/** A fault can make a test loop for ever, which no test runner ends. */
const MAX_RUN_MS = 10 * 60_000;

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(1));
const folder = mkdtempSync(join(tmpdir(), "petstore-faults-"));
process.on("exit", () => rmSync(folder, { recursive: true, maxRetries: 5 }));
execFileSync("git", ["clone", "--quiet", ".", folder]);
for (const name of ["node_modules", "scripts/node/node_modules"])
  if (existsSync(name)) symlinkSync(resolve(name), join(folder, name));
process.chdir(folder);
// npm has set it, and commands take paths as relative to it.
process.env.INIT_CWD = folder;

const byArea = Map.groupBy(readFaults(), ({ area }) => area);
const areas = process.argv.length > 2 ? process.argv.slice(2) : [...byArea.keys()];
const faults = areas.flatMap((area) => {
  const found = byArea.get(area);
  if (found === undefined)
    throw new Error(`There is no area "${area}", but ${[...byArea.keys()].join(", ")}.`);
  return found;
});
console.error("Running the tests without a fault");
if (!(await pass(faults.flatMap(({ tests }) => tests)))) throw new Error("the tests fail without a fault");
let noticed = 0;
for (const { rule, file, tests, find, replacement } of faults) {
  const text = readFileSync(file, "utf8");
  const changed = text.replace(find, () => replacement);
  writeFileSync(file, changed);
  const isNoticed = !(await pass(tests));
  writeFileSync(file, text);
  if (isNoticed) noticed += 1;
  console.log(`${isNoticed ? "noticed" : "MISSED "}  ${rule}`);
}
console.log(`${noticed} of ${faults.length} planted faults were noticed`);
process.exit(noticed === faults.length ? 0 : 1);

/** Whether tests pass. */
async function pass(tests: string[]): Promise<boolean> {
  // A fault that makes a test wait is noticed sooner than a slow machine would need.
  const options = ["--bail=1", "--testTimeout=90000"];
  const args = ["node_modules/vitest/vitest.mjs", "run", ...options, ...new Set(tests)];
  // A process group, because the test that loops is in a child of the runner.
  const runner = spawn(process.execPath, args, { stdio: "ignore", detached: true });
  const kill = () => runner.pid !== undefined && process.kill(-runner.pid, "SIGKILL");
  const timer = setTimeout(kill, MAX_RUN_MS);
  process.prependListener("exit", kill);
  const [code] = await once(runner, "exit");
  clearTimeout(timer);
  process.off("exit", kill);
  return code === 0;
}
