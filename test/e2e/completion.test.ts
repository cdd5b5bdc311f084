// The scripts of ./petstore completion, in each shell that this machine has. bash and zsh get what they would have at a TAB.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LIST_STATES } from "../../src/operators/records.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { runProcess } from "../support/e2e/petstore.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  await writeFile(join(folder, "a file"), "");
});
afterAll(() => rm(folder, { recursive: true }));

/** Prints what can follow the words "$@", of which the last is not complete. */
const SHELLS = {
  bash: `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _petstore; printf "%s\\n" "\${COMPREPLY[@]}"
complete -p petstore | grep -q -- "-o default -F _petstore petstore"`,
  zsh: `_describe() { for word in \${(P)2}; do print -r -- "\${word%%:*}"; done }
compadd() { shift; print -rl -- "$@" }; _files() { print -r -- "a file" }; compset() { : }
words=("$@"); CURRENT=$#; _petstore`,
  fish: `complete -C "$argv" | string replace -r "\\t.*" ""; true`,
};
/** Before the script is read. */
const BEFORE = { bash: "", zsh: "compdef() { : }", fish: "" };

const typed: [string, string[]][] = [
  ["./petstore ke", ["keys"]],
  ["/x/petstore keys re", ["ref", "rename", "resume", "revoke"]],
  ["petstore help keys end", ["end-grace"]],
  ["petstore keys create --per-", ["--per-day", "--per-minute"]],
  ["petstore keys create --plan ", ["business", "enterprise", "free", "pro"]],
  ["petstore keys create --quiet --plan e", ["enterprise"]],
  ["petstore keys plan key_0123456789Ab b", ["business"]],
  ["petstore keys list --state ", [...LIST_STATES].sort()],
  // A value is no command.
  ["petstore keys list --search keys --so", ["--sort"]],
  ["petstore completion z", ["zsh"]],
  ["petstore --vers", ["--version"]],
];

describe.each(Object.keys(SHELLS) as (keyof typeof SHELLS)[])("in %s", (shell) => {
  const complete = async (line: string): Promise<string[]> => {
    const { stdout: script } = await runPetstore(`completion ${shell}`);
    const words = shell === "fish" ? [line] : line.split(" ");
    const program = `${BEFORE[shell]}\n${script}\n${SHELLS[shell]}`;
    const named =
      shell === "fish" ? ["--no-config", "-c", program, ...words] : ["-c", program, shell, ...words];
    const { exitCode, stdout, stderr } = await runProcess(shell, named, {}, folder);
    expect([exitCode, stderr]).toEqual([0, ""]);
    const last = line.split(" ").at(-1) ?? "";
    return stdout
      .split("\n")
      .filter((word) => word !== "" && word.startsWith(last))
      .sort();
  };

  it("completes commands, options and their choices, whatever the path", async (context) => {
    if ((await runProcess(shell, ["-c", "true"])).exitCode !== 0) context.skip();
    for (const [line, expected] of typed) expect([line, await complete(line)]).toEqual([line, expected]);
    // bash has no reply of its own.
    const file = shell === "bash" ? [] : ["a file"];
    expect(
      await complete("petstore backup a").then((found) => found.map((each) => each.replace("\\", ""))),
    ).toEqual(file);
    expect(await complete("petstore keys create --from ")).toEqual(file);
  });
});

it("bash splits a word at =", async () => {
  const { stdout: script } = await runPetstore("completion bash");
  const words = ["petstore", "keys", "create", "--plan", "=", "bu"];
  const { stdout } = await runProcess("bash", ["-c", `${script}\n${SHELLS.bash}`, "bash", ...words]);
  expect(stdout).toBe("business\n");
});
