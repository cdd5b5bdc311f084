// The faults of faults.txt.

import { existsSync, readFileSync } from "node:fs";
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

/** Reads the faults. Throws if one does not fit the code in the current folder. */
export function readFaults(): Fault[] {
  const [_format, ...areas] = readFileSync(join(import.meta.dirname, "faults.txt"), "utf8").split(/^\[/m);
  const faults = areas.flatMap((text) => {
    const [area = "", ...entries] = text.trimEnd().split(/\]?\n(?=\w)/);
    return entries.map((entry) => {
      const parts = entry.match(/^(.+)\n {2}(\S+) \| (.+)\n- (.+)\n\+ ?(.*)$/);
      if (parts === null) throw new Error(`faults.txt has an entry without its four lines: ${entry}`);
      const [, rule = "", file = "", tests = "", find = "", replacement = ""] = parts;
      return { area, rule, file, tests: tests.split(" "), find, replacement };
    });
  });
  const misfits = faults.flatMap((fault) =>
    misfit(fault).map((why) => `${fault.file}: ${fault.rule}: ${why}`),
  );
  if (misfits.length > 0) throw new Error(`faults don't fit the code:\n${misfits.join("\n")}`);
  return faults;
}

/** Why a fault can't be planted or noticed. */
function misfit({ file, tests, find, replacement }: Fault): string[] {
  const missing = [file, ...tests].filter((path) => !existsSync(path));
  if (missing.length > 0) return [`${missing} does not exist`];
  const times = readFileSync(file, "utf8").split(find).length - 1;
  if (times !== 1) return [`"${find}" occurs ${times} times`];
  return find === replacement ? ["it changes nothing"] : [];
}
