// A Vite plugin that loads sources with all their mutants, and repeats the body of a test file for each mutant of a job, so that
// many mutants share one start of workerd.

import { relative } from "node:path";
import ts from "typescript";
import { ROOT } from "./root.ts";

/** `mutated`: the text of each source file with its mutants, by its path from the root of the project. */
export function loadMutants(mutated: Record<string, string>) {
  return {
    name: "mutants",
    enforce: "pre" as const,
    transform(code: string, id: string): string | undefined {
      const file = relative(ROOT, id.split("?")[0] ?? id);
      return (
        mutated[file] ??
        (/^test\/(simulation|unit|worker)\/[^/]+\.test\.ts$/.test(file) ? onceForEach(file, code) : undefined)
      );
    },
  };
}

function onceForEach(file: string, code: string): string {
  const source = ts.createSourceFile(file, code, ts.ScriptTarget.Latest);
  const imports = source.statements.filter(ts.isImportDeclaration).map((each) => each.getText(source));
  const body = source.statements
    .filter((each) => !ts.isImportDeclaration(each))
    .map((each) => each.getFullText(source));
  const head = imports.join("\n");
  return `${head}\nfor (const mutant of $mutants()) $describe(mutant, async () => {${body.join("")}\n});\n`;
}
