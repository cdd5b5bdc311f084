// The faults of faults.txt, and whether they fit the code.

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** `find` occurs once in the file. `tests` are arguments of the test runner. */
export interface Fault {
  area: string;
  rule: string;
  file: string;
  tests: string[];
  find: string;
  replacement: string;
}

export async function readFaults(): Promise<Fault[]> {
  const [_format, ...areas] = (await readFile(join(import.meta.dirname, "faults.txt"), "utf8")).split(/^\[/m);
  return areas.flatMap((text) => {
    const [area = "", ...entries] = text.trimEnd().split(/\]?\n(?=\w)/);
    return entries.map((entry) => {
      const parts = entry.match(/^(.+)\n {2}(\S+) \| (.+)\n- (.+)\n\+ ?(.*)$/);
      if (parts === null) throw new Error(`faults.txt has an entry without its four lines: ${entry}`);
      const [, rule = "", file = "", tests = "", find = "", replacement = ""] = parts;
      return { area, rule, file, tests: tests.split(" "), find, replacement };
    });
  });
}

/** Why a fault can't be planted or noticed. Undefined if it can. */
export async function misfit({ file, tests, find, replacement }: Fault): Promise<string | undefined> {
  const missing = [file, ...tests].find((path) => !existsSync(path));
  if (missing !== undefined) return `${missing} does not exist`;
  const times = (await readFile(file, "utf8")).split(find).length - 1;
  if (times !== 1) return `"${find}" occurs ${times} times`;
  return find === replacement ? "it changes nothing" : undefined;
}
