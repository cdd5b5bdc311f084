// npm run faults: plants the faults of faults.txt one by one, in a clone, and checks that the tests notice each.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { type Define, newCommand } from "../../../scripts/lib/command.ts";

/** `find` occurs once in the file. `tests` are arguments of the test runner. */
interface Fault {
  rule: string;
  file: string;
  tests: string[];
  find: string;
  replacement: string;
}

const define: Define = (io) =>
  newCommand(
    "npm run faults",
    "Plants faults in a clone of the last commit, one by one, and runs the tests that must notice each. Fails if one is not noticed. First, the same tests must pass without a fault.",
    "",
    "limits keys",
  )
    .argument("[areas...]", "limits, keys, …; by default all")
    .action(async (areas) => {
      const faults = await readFaults(areas);
      const tests = [...new Set(faults.flatMap((fault) => fault.tests))];
      const missing = tests.filter((path) => !existsSync(path));
      if (missing.length > 0) throw new Error(`these tests don't exist: ${missing.join(", ")}`);
      const folder = await mkdtemp(join(tmpdir(), "petstore-faults-"));
      let missed = 0;
      try {
        await promisify(execFile)("git", ["clone", "--quiet", ".", folder]);
        await symlink(resolve("node_modules"), join(folder, "node_modules"));
        const isSound = await io.step("Running the tests without a fault", () => pass(folder, tests));
        if (!isSound) throw new Error("the tests fail without a fault");
        for (const fault of faults) {
          const isNoticed = await notices(folder, fault);
          if (!isNoticed) missed += 1;
          io.print(`${isNoticed ? "noticed" : "MISSED "}  ${fault.rule}`);
        }
      } finally {
        await rm(folder, { recursive: true });
      }
      io.print(`${faults.length - missed} of ${faults.length} planted faults were noticed`);
      if (missed > 0) throw new Error(`${missed} faults were not noticed`);
    });

export default define;

/** The faults of some areas, by default of all. */
export async function readFaults(areas: string[] = []): Promise<Fault[]> {
  const text = await readFile(join(import.meta.dirname, "faults.txt"), "utf8");
  return text.split(/^\[/m).flatMap((part) => {
    const [, area = "", list = ""] = part.match(/^(\w+)\]\n([\s\S]*)/) ?? [];
    if (areas.length > 0 && !areas.includes(area)) return [];
    const faults = list.matchAll(/^(\w.*)\n {2}(\S+) \| (.+)\n- (.+)\n\+ ?(.*)$/gm);
    return [...faults].map(([, rule = "", file = "", tests = "", find = "", replacement = ""]) => {
      return { rule, file, tests: tests.split(" "), find, replacement };
    });
  });
}

/** The text of a file, and the same with the fault. Throws if the fault does not fit. */
export async function plant(folder: string, { rule, file, find, replacement }: Fault) {
  const text = await readFile(join(folder, file), "utf8");
  if (text.split(find).length !== 2) throw new Error(`${rule}: "${find}" does not occur once in ${file}`);
  return { text, faulty: text.replace(find, () => replacement) };
}

/** Whether the tests notice a fault. */
async function notices(folder: string, fault: Fault): Promise<boolean> {
  const path = join(folder, fault.file);
  const { text, faulty } = await plant(folder, fault);
  await writeFile(path, faulty);
  const isNoticed = !(await pass(folder, fault.tests));
  await writeFile(path, text);
  return isNoticed;
}

/** A fault can make a test loop for ever, which no test runner ends. */
const MAX_RUN_MS = 10 * 60_000;

/** Whether tests pass. */
async function pass(folder: string, tests: string[]): Promise<boolean> {
  const args = ["node_modules/vitest/vitest.mjs", "run", "--bail=1", ...tests];
  // A process group, because the test that loops is in a child of the runner.
  const runner = spawn(process.execPath, args, { cwd: folder, stdio: "ignore", detached: true });
  const kill = () => runner.pid !== undefined && process.kill(-runner.pid, "SIGKILL");
  const timer = setTimeout(kill, MAX_RUN_MS);
  const interrupt = () => {
    kill();
    process.exit(130);
  };
  process.once("SIGINT", interrupt);
  const [code] = await once(runner, "exit");
  clearTimeout(timer);
  process.off("SIGINT", interrupt);
  return code === 0;
}
