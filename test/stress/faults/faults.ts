// The faults of faults.txt.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** `find` occurs once in the file, whatever its line breaks. `tests` are arguments of the test runner. */
export interface Fault {
  area: string;
  rule: string;
  file: string;
  tests: string[];
  find: RegExp;
  replacement: string;
}

/** Reads the faults. Throws if one does not fit the code in the current folder. */
export function readFaults(): Fault[] {
  const [_format, ...areas] = readFileSync(join(import.meta.dirname, "faults.txt"), "utf8").split(/^\[/m);
  const faults = areas.flatMap((text) => {
    const [heading = "", ...entries] = text.trimEnd().split(/\n(?=\w)/);
    const area = heading.replace("]", "");
    return entries.map((entry) => {
      const parts = entry.match(/^(.+)\n {2}(\S+) \| (.+)\n- (.+)\n\+ ?(.*)$/);
      if (parts === null) throw new Error(`faults.txt has an entry without its four lines: ${entry}`);
      const [, rule = "", file = "", tests = "", find = "", replacement = ""] = parts;
      return { area, rule, file, tests: tests.split(" "), find: patternOf(find), replacement };
    });
  });
  const misfits = faults.flatMap((fault) =>
    misfit(fault).map((why) => `${fault.file}: ${fault.rule}: ${why}`),
  );
  if (misfits.length > 0) throw new Error(`faults don't fit the code:\n${misfits.join("\n")}`);
  return faults;
}

/** A pattern for a text that the formatter may break into lines, with a comma after the last item. */
function patternOf(text: string): RegExp {
  const parts = text.match(/\w+|\S/g) ?? [];
  const patterns = parts.map((part) => part.replace(/^\W/, /[)\]}]/.test(part) ? ",?\\s*\\$&" : "\\$&"));
  return new RegExp(patterns.join("\\s*"), "g");
}

/** Why a fault can't be planted or noticed. */
function misfit({ file, tests, find, replacement }: Fault): string[] {
  const missing = [file, ...tests].filter((path) => !existsSync(path));
  if (missing.length > 0) return [`${missing} does not exist`];
  const text = readFileSync(file, "utf8");
  const times = text.match(find)?.length ?? 0;
  if (times !== 1) return [`its text occurs ${times} times`];
  return text.replace(find, () => replacement) === text ? ["it changes nothing"] : [];
}
