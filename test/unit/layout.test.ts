// Imports between the folders of src/ point down this list (DESIGN.md, Layout), types included. Circles between files are biome's
// rule `noImportCycles`.

import { globSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import ts from "typescript";
import { expect, it } from "vitest";

const ORDER = [
  "src/*.ts",
  "src/openapi/**",
  "src/site/**",
  "src/samples/**",
  "src/operators/**",
  "src/pets/**",
  "src/keys/usage/usage-route.ts",
  "src/keys/access.ts",
  "src/keys/limiter.ts",
  "src/keys/usage/demand.ts",
  "src/keys/usage/usage-body.ts",
  "src/keys/*.ts",
  "src/http/**",
  "src/d1/**",
  "src/limits/index.ts",
  "src/limits/middleware.ts",
  "src/limits/isolate/**",
  "src/limits/object/**",
  "src/limits/**",
  "src/lib/**",
];

const rankOf = (file: string) => ORDER.findIndex((pattern) => posix.matchesGlob(file, pattern));

/** Each import of these files, with the file that has it. Packages have their names, files of the project their paths. */
const importsOf = (files: string) =>
  globSync(files).flatMap((file) =>
    ts
      .preProcessFile(readFileSync(file, "utf8"))
      .importedFiles.map(({ fileName }) =>
        fileName.startsWith(".") ? posix.join(posix.dirname(file), fileName) : fileName,
      )
      .map((target) => ({ file, target, text: `${file} imports ${target}` })),
  );

it("imports point down the list of folders", () => {
  const wrong = importsOf("src/**/*.ts").filter(
    ({ file, target }) => target.startsWith("src/") && rankOf(target) < rankOf(file),
  );
  expect(wrong.map(({ text }) => text)).toEqual([]);
});

it("src/limits has one door, and knows nothing of the service, its databases or a platform", () => {
  const isInside = (path: string) => path.startsWith("src/limits/");
  const around = importsOf("{src,scripts}/**/*.ts").filter(
    ({ file, target }) => isInside(target) && !isInside(file) && target !== "src/limits/index.ts",
  );
  const needed = importsOf("src/limits/**/*.ts").filter(
    ({ target }) => !isInside(target) && !target.startsWith("src/lib/") && target !== "hono",
  );
  expect([...around, ...needed].map(({ text }) => text)).toEqual([]);
});
