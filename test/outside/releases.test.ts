// The command that records a release: what it refuses. That it records rightly is shown by test/releases.test.ts, which
// repeats what it wrote.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runScript } from "./petstore.ts";

const record = (...words: string[]) => runScript("test/releases/record.ts", words);

it.each(["", "1.0", "1.0.0 1.0.1", "--force"])("wants one version, not '%s'", async (words) => {
  expect(await record(...words.split(" "))).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: "npm run release:record takes a version, such as -- 1.0.0, and nothing else\n",
  });
});

it("writes no recording over another", async () => {
  const file = join(import.meta.dirname, "../releases/1.0.0.json");
  const before = readFileSync(file);
  const { exitCode, stderr } = await record("1.0.0");
  expect({ exitCode, stderr }).toEqual({
    exitCode: 1,
    stderr: "test/releases/1.0.0.json is there already: delete it first, if 1.0.0 is not released yet\n",
  });
  expect(readFileSync(file)).toEqual(before);
});
